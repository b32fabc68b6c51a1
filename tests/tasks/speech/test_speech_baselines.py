"""What a transcriber has to beat."""

import pytest

from regard.errors import UsageError
from regard.tasks.speech.baselines import commonest_text, speech_baselines
from regard.tasks.speech.metrics import ErrorCounts

REFERENCES = ["yes", "no no", "yes please"]


def test_the_commonest_text_and_its_error_rate() -> None:
    (found,) = speech_baselines(
        ["No", "Yes.", "yes", "no?", "yes!"], lambda said: ErrorCounts.of(said, REFERENCES).figures(), n=3
    )
    assert found.name == "always saying 'Yes.'"
    # edits: none, two words of two, one of two; five words were said
    assert found.figures["WER"] == pytest.approx(100 * 3 / 5)
    assert found.figures["CER"] == pytest.approx(100 * (0 + 5 + 7) / 18)


def test_texts_are_compared_as_transcripts_are() -> None:
    assert commonest_text(["b", "A, b", "a B!", "b", "a b?"]) == "A, b"
    assert commonest_text(["b", "a"]) == "b"  # equally common: the first
    assert commonest_text([""]) == ""
    assert commonest_text(["🙂", "ja", "Ja"]) == "ja"


def test_a_long_text_is_named_in_short() -> None:
    (found,) = speech_baselines(["word " * 10_000], lambda said: {"n": len(said)}, n=2)
    assert len(found.name) < 80
    assert found.figures == {"n": 2}


def test_no_text() -> None:
    with pytest.raises(UsageError, match="there is no training text"):
        commonest_text([])
