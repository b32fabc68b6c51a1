"""Scores of a vocabulary, ranked: by a faster twin where one stands in, else by the textbook."""

import pytest
import torch
from torch import Tensor

from regard.decoding import stepper

VALUES = torch.tensor([[0.5, 3.0, -1.0, 3.0], [2.0, -4.0, 7.0, 0.0]])


def without(place: str) -> None:
    """No twin stands in."""


def unfit(place: str) -> object:
    """A twin that fits no call."""
    return lambda *_: None


def test_the_textbook_ranks_where_no_twin_does(monkeypatch: pytest.MonkeyPatch) -> None:
    for twins in (without, unfit):
        monkeypatch.setattr(stepper, "twin", twins)
        values, columns = stepper.top_k(VALUES, 2)
        assert values.tolist() == [[3.0, 3.0], [7.0, 2.0]]
        assert columns[1].tolist() == [2, 0]
        assert stepper.top_1(VALUES).tolist() == [1, 2]
        found = stepper.log_probs_of(torch.tensor([[2.0, 2.0, 4.0]]).log(), torch.tensor([[2, 0]]))
        assert found.exp()[0].tolist() == pytest.approx([0.5, 0.25])


def test_a_twin_is_asked_first(monkeypatch: pytest.MonkeyPatch) -> None:
    def ranked(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
        return values[:, :k] * 0 + 9, torch.full((len(values), k), 3)

    twins = {"top_k": ranked, "log_sum_exp": lambda logits: logits[:, 0] * 0 + 1}
    monkeypatch.setattr(stepper, "twin", twins.get)
    assert stepper.top_k(VALUES, 2)[0].tolist() == [[9, 9], [9, 9]]
    assert stepper.top_1(VALUES).tolist() == [3, 3]
    assert stepper.log_probs_of(VALUES, torch.tensor([[1], [2]])).tolist() == [[2.0], [6.0]]
