"""Texts as small pieces: by words where there are spaces, by characters where there are none."""

import pytest

from regard.data.text.grams import character_grams, gram_function, has_spaces, word_grams


def test_words_and_their_neighbours() -> None:
    expected = ["a", "dog", ",", "a", "🐕", "a dog", "dog ,", ", a", "a 🐕"]
    assert word_grams("A dog, a 🐕") == expected


def test_runs_of_one_to_three_characters() -> None:
    assert character_grams(" A\tbc ") == ["a", " ", "b", "c", "a ", " b", "bc", "a b", " bc"]


@pytest.mark.parametrize(
    ("texts", "spaced"),
    [
        (["twelve chars"], True),
        (["x" * 12], True),  # twelve between spaces, and no more
        (["x" * 13], False),
        (["x" * 20, "a b c"], True),  # the mean counts
        ([], True),
    ],
)
def test_spaces_are_missed_where_words_are_too_long(texts: list[str], spaced: bool) -> None:
    assert has_spaces(texts) is spaced
    assert gram_function(texts) is (word_grams if spaced else character_grams)


def test_few_words_are_cut_into_characters() -> None:
    assert gram_function(["one two", "three"], fewest_words=1.5) is word_grams
    assert gram_function(["one two", "three"], fewest_words=1.6) is character_grams
