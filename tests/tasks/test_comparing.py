"""Paired bootstrap over examples: what it finds, and that it draws the same examples for both."""

import numpy as np
import pytest

from regard.metrics.comparing import paired


def mean_of(values):
    return lambda drawn: {"mean": float(values[drawn].mean()), "most": float(values[drawn].max())}


def test_a_constant_difference_has_no_spread_because_draws_are_shared():
    values = np.random.default_rng(0).normal(size=50)
    mean, most = paired((mean_of(values), mean_of(values + 0.5)), 50, resamples=100, seed=1)
    assert mean.name == "mean"
    assert mean.difference == pytest.approx(0.5)
    assert (mean.low, mean.high) == (pytest.approx(0.5), pytest.approx(0.5))
    assert mean.p_value == pytest.approx(1 / 101)
    assert most.score_b - most.score_a == pytest.approx(0.5)
    assert mean.signature == "n:50|ci:95%|bootstrap:100|seed:1"


def test_the_p_value_of_noise_is_not_small_and_that_of_a_gap_is():
    random = np.random.default_rng(3)
    a = random.normal(size=200)
    noise, gap = a + random.normal(size=200) * 0.3, a + 0.2 + random.normal(size=200) * 0.3
    assert paired((mean_of(a), mean_of(noise)), 200, resamples=500, seed=1)[0].p_value > 0.05
    found = paired((mean_of(a), mean_of(gap)), 200, resamples=500, seed=1)[0]
    assert found.p_value < 0.01
    # The standard error of the mean difference is 0.3 / √200, and the interval is about two of them to each side.
    assert found.high - found.low == pytest.approx(4 * 0.3 / np.sqrt(200), rel=0.25)
    assert found.low < 0.2 < found.high


def test_the_seed_decides_the_draws():
    values = np.arange(20.0)
    one, same, other = (
        paired((mean_of(values), mean_of(values**2)), 20, resamples=50, seed=seed)[0] for seed in (1, 1, 2)
    )
    assert one == same
    assert (one.low, one.high) != (other.low, other.high)
