"""Intervals around forecasts that hold what they promise: conformal residuals of the latest windows that are known.

    offsets = rolling_offsets(scores, horizon=T, share=0.9, before=…)       one (T, K) for each window, and what is next
    covered = scores <= offsets                                             nine in ten

A score is how far what came lies outside of what was said: |y − ŷ| of a plain forecast, max(low − y, y − high) of
quantiles, which may be below zero. The interval is widened by the quantile of the scores of the latest windows whose
future is over (split conformal prediction; Vovk et al., 2005), step by step and target by target. Since series drift,
windows that were held out follow one another, and the level is moved by what was covered so far (adaptive conformal
inference; Gibbs and Candès, 2021). Several series that stand one below the other share their scores, which are in units
of each; their windows come in the order of time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from regard.data.io.atomic import read_facts, write_whole

Scores = NDArray[np.float32]  # (n, T, K)
Counts = NDArray[np.int64]
Span = tuple[Counts, Counts]  # when the future of each window begins and ends
LATEST = 500  # windows whose scores count
FEWEST = 20  # below these there is no interval
_TIMES = 64  # that offsets are computed along a test set
_QUICK = 20  # steps ahead up to which the level follows what was covered at once; that is known a horizon late
_FILE = "intervals.json"


@dataclass(frozen=True, eq=False)
class Intervals:
    """What is added to forecasts on both sides, scaled, (T, K), so that a `share` of what comes lies between."""

    share: float
    offsets: NDArray[np.float32]

    @property
    def quantiles(self) -> tuple[float, float, float]:
        """What the bounds and the forecast between them are."""
        low = round((1 - self.share) / 2, 6)
        return low, 0.5, round(1 - low, 6)

    def save(self, folder: Path) -> None:
        """Write it beside the weights of a run."""
        write_whole(folder / _FILE, {"share": self.share, "offsets": self.offsets.tolist()})

    @classmethod
    def load(cls, folder: Path) -> Intervals | None:
        """Read what `save` wrote, if it did."""
        if not (folder / _FILE).exists():
            return None
        what, hint = "not intervals of a forecaster", "remove it, and forecasts have none"
        return read_facts(
            folder / _FILE,
            lambda facts: cls(float(facts["share"]), np.array(facts["offsets"], np.float32)),
            what=what,
            hint=hint,
        )


def windows_over(earlier: Span, own: Span) -> Counts:
    """How many windows, those before first, are over when each of several series' begins, and in the end: (n + 1,)."""
    ends = np.maximum.accumulate(np.concatenate([earlier[1], own[1]]))
    return np.append(np.minimum(np.searchsorted(ends, own[0]), len(earlier[1]) + np.arange(len(own[0]))), len(ends))


def scores_of(said: NDArray[np.float32], truth: NDArray[np.float32]) -> Scores:
    """How far what came (n, T, K) lies outside of what was said (n, T, K, Q): the distance, if that is one number."""
    scores: Scores = np.maximum(said[..., 0] - truth, truth - said[..., -1])
    return scores


def rolling_offsets(
    scores: Scores,
    *,
    horizon: int,
    share: float,
    before: Scores | None = None,
    first: Intervals | None = None,
    over: Counts | None = None,
    n_series: int = 1,
) -> tuple[Scores, Intervals | None]:
    """The offsets that each window, in the order of time, gets from those before it, and those that come next.

    `before` are scores of the windows that precede the first one; `first` is taken where too little is known yet. NaN
    where nothing is. Windows of `n_series` come in one order, and `over` counts those that are over (`windows_over`).
    """
    known = scores[:0] if before is None else before if over is not None else before[-LATEST - horizon :]
    all_scores = np.concatenate([known, scores])
    n, at = len(scores), len(known)
    used = np.full(scores.shape, np.nan, np.float32)
    block, missed = max(1, n // _TIMES), 1 - share
    rate = min(1.0, _QUICK / horizon)  # of what is known late it would swing
    offsets = None if first is None else first.offsets
    judged = 0  # windows whose future is over, and that had an interval
    for begin in range(0, n + block, block):
        past = int(over[min(begin, n)]) if over is not None else max(0, min(begin, n) + at - horizon + 1)
        done = max(0, past - at)
        if done > judged and np.isfinite(used[judged:done]).any():
            outside = float(np.nanmean((scores[judged:done] > used[judged:done])[np.isfinite(used[judged:done])]))
            missed = float(np.clip(missed + rate * (1 - share - outside) * min(1, (done - judged) / 50), 0.001, 0.999))
            judged = done
        latest = all_scores[max(0, past - LATEST * n_series) : past]
        if len(latest) >= FEWEST:
            offsets = conformal_quantile(latest, 1 - missed)
        if offsets is not None and begin < n:
            used[begin : begin + block] = offsets
    return used, None if offsets is None else Intervals(share, offsets)


def conformal_quantile(scores: Scores, share: float) -> NDArray[np.float32]:
    """The score (T, K) that a share of windows stays below, with the correction for their number."""
    n = len(scores)
    rank = min(n - 1, int(np.ceil((n + 1) * share)) - 1)
    quantile: NDArray[np.float32] = np.partition(scores, rank, axis=0)[rank]
    return quantile


def widened(said: NDArray[np.float32], offsets: NDArray[np.float32], quantiles: Sequence[float]) -> NDArray[np.float32]:
    """Forecasts (…, T, K, Q) with their interval: low, point, high; of quantiles, the outer ones moved."""
    low, high = said[..., 0] - offsets, said[..., -1] + offsets
    if not quantiles:
        return np.stack([low, said[..., 0], high], -1)
    inner = said[..., 1:-1]
    low, high = np.minimum(low, inner.min(-1)), np.maximum(high, inner.max(-1))
    return np.concatenate([low[..., None], inner, high[..., None]], -1)
