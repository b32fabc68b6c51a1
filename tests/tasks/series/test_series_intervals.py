"""Bounds of forecasts hold the share that they promise, drift or not, and know nothing of what comes."""

import numpy as np
import pytest

from regard.tasks.series.intervals import FEWEST, Intervals, conformal_quantile, rolling_offsets, scores_of, widened


def residuals(n, *, seed=0, drift=0.0, T=5, K=2):
    chance = np.random.default_rng(seed)
    size = 1 + drift * np.linspace(0, 1, n)[:, None, None]
    return np.abs(chance.standard_normal((n, T, K)) * size).astype(np.float32)


@pytest.mark.parametrize("share", [0.5, 0.8, 0.9, 0.95])
@pytest.mark.parametrize("drift", [0.0, 2.0, -0.7])
def test_what_is_promised_is_held(share, drift):
    scores = residuals(2000, drift=drift)
    offsets, _ = rolling_offsets(scores[500:], horizon=5, share=share, before=scores[:500])
    assert np.mean(scores[500:] <= offsets) == pytest.approx(share, abs=0.02)


def test_bounds_come_from_windows_that_are_over():
    scores = residuals(200)
    later = scores.copy()
    later[100:] = 1e6
    one, other = (rolling_offsets(each, horizon=5, share=0.9)[0] for each in (scores, later))
    np.testing.assert_array_equal(one[:104], other[:104])  # window 100 is over when 105 begins
    assert np.isnan(one[: FEWEST + 4 - 2]).all()
    assert np.isfinite(one[FEWEST + 8 :]).all()


def test_other_files_begin_with_the_bounds_of_the_run(tmp_path):
    first = Intervals(0.9, np.full((5, 2), 7, np.float32))
    offsets, following = rolling_offsets(residuals(10), horizon=5, share=0.9, first=first)
    assert (offsets == 7).all()
    assert following.offsets is first.offsets
    first.save(tmp_path)
    again = Intervals.load(tmp_path)
    assert (again.share, again.quantiles) == (0.9, (0.05, 0.5, 0.95))
    np.testing.assert_array_equal(again.offsets, first.offsets)
    assert Intervals.load(tmp_path / "none") is None


def test_quantiles_are_moved_and_keep_their_order():
    said, truth = np.array([[[[1.0, 2.0, 3.0]]]], np.float32), np.array([[[4.0]]], np.float32)
    assert scores_of(said, truth).item() == 1
    assert scores_of(said[..., 1:2], truth).item() == 2
    assert widened(said, np.float32([[1]]), (0.1, 0.5, 0.9)).tolist() == [[[[0, 2, 4]]]]
    assert widened(said, np.float32([[-5]]), (0.1, 0.5, 0.9)).tolist() == [[[[2, 2, 2]]]]
    assert widened(said[..., 1:2], np.float32([[1]]), ()).tolist() == [[[[1, 2, 3]]]]
    assert conformal_quantile(np.arange(99, dtype=np.float32)[:, None, None], 0.9).item() == 89
