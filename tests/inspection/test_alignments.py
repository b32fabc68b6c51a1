"""Word alignments from attention, on matrices small enough to work out by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.text.vocabulary import learn_tokenizer
from regard.errors import ShapeError, UsageError
from regard.inspection.alignments import align


def test_pieces_become_words_and_the_end_of_the_sentence_goes():
    """Source "ab c" in pieces a b c </s>, target "x yz" in pieces x y z </s>."""
    weights = [
        [0.3, 0.2, 0.1, 0.4],
        [0.0, 0.1, 0.3, 0.6],
        [0.1, 0.0, 0.5, 0.4],
        [0.0, 0.0, 0.0, 1.0],
    ]
    found = align(weights, source_words=[0, 0, 1], target_words=[0, 1, 1])
    # x: (.5, .1) of .6. yz: mean of (.1, .3) and (.1, .5) is (.1, .4), of .5.
    np.testing.assert_allclose(found.matrix, [[5 / 6, 1 / 6], [0.2, 0.8]])
    assert found.pairs == [(0, 0), (1, 1)]
    assert found.pharaoh() == "0-0 1-1"


def test_without_an_end_of_sentence_nothing_is_dropped():
    found = align([[0.9, 0.1], [0.2, 0.8]], source_words=[0, 1], target_words=[0, 1])
    np.testing.assert_allclose(found.matrix, [[0.9, 0.1], [0.2, 0.8]])
    only_source_has_it = align([[0.1, 0.1, 0.8]], source_words=[0, 1], target_words=[0])
    np.testing.assert_allclose(only_source_has_it.matrix, [[0.5, 0.5]])


def test_a_piece_that_rested_on_the_end_has_no_say():
    """Scaled before merging, the second piece's rest (.01 on the second word) would count as much as the first's .9."""
    weights = [[0.9, 0.0, 0.1], [0.0, 0.01, 0.99]]
    found = align(weights, source_words=[0, 1], target_words=[0, 0])
    np.testing.assert_allclose(found.matrix, [[0.9 / 0.91, 0.01 / 0.91]])


def test_words_that_cross():
    """I have it seen → ich habe es gesehen, and back: 0-0 1-1 2-3 3-2."""
    weights = np.array([[0.8, 0.1, 0, 0.1], [0.1, 0.8, 0.1, 0], [0, 0.1, 0.2, 0.7], [0, 0, 0.9, 0.1]])
    for method in ("argmax", "mutual", "threshold"):
        found = align(weights, source_words=range(4), target_words=range(4), method=method)
        assert found.pharaoh() == "0-0 1-1 2-3 3-2", method


def test_methods_differ_where_two_words_want_the_same_one():
    weights = [[0.6, 0.4], [0.9, 0.1]]  # both targets look at source 0, and target 1 more so
    words = {"source_words": [0, 1], "target_words": [0, 1]}
    assert align(weights, **words, method="argmax").pairs == [(0, 0), (0, 1)]
    assert align(weights, **words, method="mutual").pairs == [(0, 1)]
    assert align(weights, **words, method="threshold", threshold=0.4).pairs == [(0, 0), (0, 1), (1, 0)]
    assert align(weights, **words, method="threshold", threshold=0.7).pairs == [(0, 1)]


@pytest.mark.parametrize("method", ["argmax", "mutual", "threshold"])
def test_a_word_that_looked_at_nothing_aligns_to_nothing(method):
    weights = [[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]
    found = align(weights, source_words=[0, 1], target_words=[0, 1, 2], method=method)
    np.testing.assert_array_equal(found.matrix, [[0, 0], [0, 1], [0, 0]])
    assert found.pairs == [(1, 1)]


@pytest.mark.parametrize("method", ["argmax", "mutual", "threshold"])
def test_one_word_and_no_words(method):
    one = align([[0.2, 0.8], [0.0, 1.0]], source_words=[0], target_words=[0], method=method)
    assert (one.matrix.tolist(), one.pairs) == ([[1.0]], [(0, 0)])
    silent = align([[0.2, 0.8]], source_words=[0], target_words=[], method=method)
    assert (silent.matrix.shape, silent.pairs, silent.pharaoh()) == ((0, 1), [], "")
    from_nothing = align([[1.0], [1.0]], source_words=[], target_words=[0], method=method, heads="sharpest")
    assert (from_nothing.matrix.shape, from_nothing.pairs) == ((1, 0), [])


DIAGONAL = np.array([[0.9, 0.1, 0, 0], [0, 0.9, 0.1, 0], [0, 0, 0.9, 0.1]])
STUCK = np.array([[0, 0, 1.0, 0]] * 3)  # every word at the full stop: sharp rows, no alignment
RESTING = np.array([[0, 0, 0.01, 0.99], [0, 0.01, 0, 0.99], [0.01, 0, 0, 0.99]])  # sharp once scaled
VAGUE = np.full((3, 4), 0.25)


def test_the_sharpest_head_is_the_one_that_aligns():
    words = {"source_words": range(3), "target_words": range(3)}
    layers = np.array([[VAGUE, STUCK], [RESTING, VAGUE], [VAGUE, DIAGONAL]])
    found = align(layers, **words, heads="sharpest")
    assert found.head == (2, 1)
    np.testing.assert_allclose(found.matrix, align(DIAGONAL, **words).matrix)
    assert align(layers[2], **words, heads="sharpest").head == (1,)
    assert align(DIAGONAL, **words, heads="sharpest").head is None


def test_a_word_of_many_pieces_counts_once_for_sharpness():
    at_the_long_word, at_the_others = np.zeros((2, 5, 4))
    at_the_long_word[:3, 0] = 1
    at_the_others[3, 1] = at_the_others[4, 2] = 1
    heads = np.array([at_the_long_word, at_the_others])
    assert align(heads, source_words=range(3), target_words=[0, 0, 0, 1, 2], heads="sharpest").head == (1,)


def test_the_mean_is_over_every_head_of_every_layer():
    words = {"source_words": range(3), "target_words": range(3)}
    layers = np.array([[VAGUE, STUCK], [DIAGONAL, DIAGONAL]])
    expected = align(layers.mean((0, 1)), **words).matrix
    np.testing.assert_allclose(align(layers, **words).matrix, expected)
    np.testing.assert_allclose(align(layers.reshape(4, 3, 4), **words).matrix, expected)
    assert align(layers, **words).head is None


@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_rows_sum_to_one_and_mutual_is_part_of_argmax(n_target, n_source, seed):
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.ones(n_source + 1), size=(2, n_target + 1))
    source_words = np.cumsum(rng.integers(2, size=n_source)).tolist()
    target_words = np.cumsum(rng.integers(2, size=n_target)).tolist()
    one, two = (
        align(weights, source_words=source_words, target_words=target_words, method=method)
        for method in ("argmax", "mutual")
    )
    filled = np.isin(np.arange(target_words[-1] + 1), target_words)
    np.testing.assert_allclose(one.matrix.sum(1), filled)
    assert len(one.pairs) == filled.sum()
    assert set() < set(two.pairs) <= set(one.pairs)


def test_word_ids_of_a_tokenizer_fit():
    tokenizer = learn_tokenizer(["ab cde f"], kind="bytes")
    source, target = "ab cde", "cde ab"
    n_source, n_target = len(tokenizer.encode(source)), len(tokenizer.encode(target))
    weights = np.zeros((n_target + 1, n_source + 1))
    weights[:, -1] = 0.5
    for i, char in enumerate(target):
        weights[i, source.index(char)] = 0.5
    words = {"source_words": tokenizer.word_ids(source), "target_words": tokenizer.word_ids(target)}
    assert align(weights, **words).pharaoh() == "0-1 1-0"


def test_what_does_not_fit_is_said():
    words = {"source_words": [0, 1], "target_words": [0, 1]}
    with pytest.raises(ShapeError, match="4 target and 2 source positions do not fit 2 target and 2 source") as caught:
        align(np.ones((4, 2)), **words)
    assert "cut padding off" in caught.value.hint
    with pytest.raises(ShapeError, match=r"\(1, 1, 1, 2, 2\) are no attention"):
        align(np.ones((1, 1, 1, 2, 2)), **words)
    with pytest.raises(ShapeError, match=r"\(0, 2, 2\) are no attention"):
        align(np.ones((0, 2, 2)), **words)
    for bad in (-1.0, np.nan):
        with pytest.raises(UsageError, match="negative or undefined"):
            align([[bad, 1], [0, 1]], **words)
    for bad in ([1, 0], [-1, 0]):
        with pytest.raises(UsageError, match=r"target_words \[.*\] do not count up from 0"):
            align(np.eye(2), source_words=[0, 1], target_words=bad)
    with pytest.raises(UsageError, match="method is 'best'; it may be argmax, mutual, threshold"):
        align(np.eye(2), **words, method="best")
    with pytest.raises(UsageError, match="heads is 'all'; it may be mean, sharpest"):
        align(np.eye(2), **words, heads="all")
    with pytest.raises(UsageError, match=r"threshold of 0\.0 is not a weight"):
        align(np.eye(2), **words, threshold=0.0)
