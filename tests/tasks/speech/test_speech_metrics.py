"""Error rates: worked by hand, against a plain definition, and with intervals that hold them."""

from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as some

from regard.errors import UsageError
from regard.tasks.speech.metrics import ErrorCounts, edit_distance, plain_words, score_transcripts


@given(some.text("abc", max_size=8), some.text("abc", max_size=8))
def test_the_fewest_edits(one, other):
    @cache
    def least(i, j):
        if not i or not j:
            return i + j
        return min(least(i - 1, j) + 1, least(i, j - 1) + 1, least(i - 1, j - 1) + (one[i - 1] != other[j - 1]))

    assert edit_distance(one, other) == least(len(one), len(other)) == edit_distance(other, one)


def test_words_and_characters_are_counted():
    assert edit_distance(["the", "cat", "sat"], ["a", "cat", "sat", "down"]) == 2
    counts = ErrorCounts.of(["one two", "", "four"], ["one too three", "two", "four"])
    assert counts.counts.tolist() == [[2, 3, 7, 13], [1, 1, 3, 3], [0, 1, 0, 4]]
    assert counts.figures() == {"WER": pytest.approx(100 * 3 / 5), "CER": pytest.approx(100 * 10 / 20)}


def test_texts_are_compared_without_case_and_punctuation():
    assert plain_words(" It’s  “One”, two-three; FOUR! ") == "it's one two three four"
    assert plain_words("don't 'stop'") == "don't stop"
    assert score_transcripts(["One, two."], ["one two"])["WER"].value == 0
    assert ErrorCounts.of(["One, two."], ["one two"], plain=False).figures()["WER"] == 100


def test_intervals_hold_the_figure_and_say_how():
    said = ["one two"] * 30 + ["one"] * 10
    found = score_transcripts(said, ["one two"] * 40)
    wer = found["WER"]
    assert wer.value == 12.5
    assert 4 < wer.low < 12.5 < wer.high < 22
    assert wer.signature.startswith("recordings:40|words:80|case:lower|punctuation:no|ci:95%")
    assert found["exact match"].value == 0.75
    with pytest.raises(UsageError, match="1 transcripts and 2 texts"):
        ErrorCounts.of(["a"], ["a", "b"])
