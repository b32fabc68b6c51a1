"""Intervals by resampling: blocks of neighbours for examples that depend on each other."""

import numpy as np
import pytest

from regard.metrics.bootstrap import bootstrap, draws, signature


def test_blocks_are_neighbours_and_every_example_is_as_likely() -> None:
    counts = np.zeros(10)
    for drawn in draws(10, seed=1, resamples=3000, block=4):
        assert len(drawn) == 10
        steps = np.diff(drawn) % 10
        assert (np.delete(steps, [3, 7]) == 1).all()  # within a block the next one follows, the first after the last
        counts += np.bincount(drawn, minlength=10)
    assert counts / counts.sum() == pytest.approx(np.full(10, 0.1), abs=0.005)
    alone = next(draws(10, seed=1, resamples=1))
    assert alone.tolist() == np.random.default_rng(1).integers(10, size=10).tolist()


def test_neighbours_that_share_what_they_measure_make_wide_intervals() -> None:
    noise = np.random.default_rng(0).standard_normal((200, 2000 + 49))
    held = {1: 0, 50: 0}
    for row in noise[:60]:
        values = np.convolve(row, np.ones(50) / 50, "valid")  # each shares 49 of 50 with the next
        for block in held:
            low, high = bootstrap(lambda drawn, v=values: v[drawn].mean(), 2000, resamples=100, block=block)  # type: ignore[misc]
            held[block] += int(low <= 0 <= high)
    assert held[1] < 30  # of 60: as if all were independent, the true mean is missed most of the time
    assert held[50] > 48


def test_a_block_is_named() -> None:
    assert signature(seed=3, resamples=9, block=7) == "ci:95%|bootstrap:9|block:7|seed:3"
    assert signature(seed=3, resamples=9) == "ci:95%|bootstrap:9|seed:3"
