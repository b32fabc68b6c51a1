"""Figures in words: known ones, losses turned around, and names that nobody has heard of."""

import pytest

from regard.metrics.figure_names import Figure, figure, is_mirrored


@pytest.mark.parametrize(
    ("name", "expected", "axis"),
    [
        ("bleu", Figure("BLEU"), "BLEU"),
        ("valid_nll", Figure("validation loss", "nats", True), "validation loss (nats)"),
        ("valid_log_likelihood", Figure("validation loss", "nats", True), "validation loss (nats)"),
        ("minus_wer", Figure("WER", "%", True), "WER (%)"),
        ("valid_bleu", Figure("BLEU"), "BLEU"),
        ("BLEU-4", Figure("BLEU-4"), "BLEU-4"),
        ("my_own_error", Figure("my own error", "", True), "my own error"),
        ("smiles_a_day", Figure("smiles a day"), "smiles a day"),
        ("lossless", Figure("lossless"), "lossless"),
    ],
)
def test_what_a_figure_is_called(name: str, expected: Figure, axis: str) -> None:
    assert figure(name) == expected
    assert figure(name).axis == axis


def test_what_is_turned_around() -> None:
    names = ("minus_wer", "valid_log_likelihood", "wer", "valid_nll", "terminus_wer")
    assert [is_mirrored(name) for name in names] == [True, True, False, False, False]
