"""When words were said: the path through costs, against every path there is and against transformers'."""

import numpy as np
import pytest

from regard.errors import ShapeError
from regard.tasks.speech.timing import median_filter, token_places, warp, word_times


def cheapest(costs):
    """The least cost of any path, by trying them all."""
    n, m = costs.shape

    def least(i, j):
        ways = [least(*step) for step in ((i - 1, j - 1), (i - 1, j), (i, j - 1)) if min(step) >= 0]
        return costs[i, j] + (min(ways) if ways else 0)

    return least(n - 1, m - 1)


@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (4, 1), (3, 5), (5, 4)])
def test_the_cheapest_of_all_paths(shape):
    for seed in range(5):
        costs = np.random.default_rng(seed).standard_normal(shape)
        rows, columns = warp(costs)
        assert (rows[0], columns[0], rows[-1], columns[-1]) == (0, 0, shape[0] - 1, shape[1] - 1)
        steps = {(int(a), int(b)) for a, b in zip(np.diff(rows), np.diff(columns), strict=True)}
        assert steps <= {(0, 1), (1, 0), (1, 1)}
        assert costs[rows, columns].sum() == pytest.approx(cheapest(costs))
    with pytest.raises(ShapeError, match="through a table of costs"):
        warp(np.zeros((0, 3)))


def test_it_is_the_path_of_transformers():
    from transformers.models.whisper.generation_whisper import _dynamic_time_warping

    costs = np.random.default_rng(0).standard_normal((12, 60))
    theirs, ours = _dynamic_time_warping(costs), warp(costs)
    assert all(np.array_equal(one, other) for one, other in zip(theirs, ours, strict=True))


def test_a_median_of_neighbours():
    row = np.array([[0.0, 9, 0, 0, 5, 5, 5, 0, 0, 0]])
    assert median_filter(row, 3).tolist() == [[9, 0, 0, 0, 5, 5, 5, 0, 0, 0]]  # mirrored: 9 0 9 at the beginning
    assert np.array_equal(median_filter(row[:, :3], 7), row[:, :3])


def diagonal(stretches, n_places, blur=0.02):
    """Attention that looks at the stretches (begin, end) of its tokens."""
    weights = np.full((1, len(stretches), n_places), blur)
    for token, (begin, end) in enumerate(stretches):
        weights[0, token, begin:end] = 1.0
    return weights / weights.sum(-1, keepdims=True)


def test_words_last_as_long_as_their_tokens_are_looked_at():
    weights = diagonal([(0, 20), (20, 40), (40, 70), (70, 100)], 100)
    assert np.abs(token_places(weights) - [0, 20, 40, 70, 100]).max() <= 1
    found = word_times(
        weights,
        [("hello", [0, 1]), ("world", [2])],
        probabilities=[0.5, 0.7, 0.9],
        place_seconds=0.02,
        seconds=2.0,
        offset=10.0,
    )
    assert [word.word for word in found] == ["hello", "world"]
    assert found[0].start == pytest.approx(10.0, abs=0.03)
    assert found[0].end == found[1].start == pytest.approx(10.8, abs=0.03)
    assert found[1].end == pytest.approx(11.4, abs=0.03)
    assert found[0].record() == {
        "word": "hello",
        "start": 10.0,
        "end": pytest.approx(10.8, abs=0.03),
        "probability": 0.6,
    }
    assert word_times(weights, [], probabilities=[], place_seconds=1, seconds=1) == []
