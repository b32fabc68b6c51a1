"""How far forecasts are from what came: scaled as the literature has it, and in the data's own units.

    errors = errors_of(forecasts, windows, quantiles=…)       per window and target, over the whole set
    metrics(errors, space, …)                                 mse, mae (scaled), mase, and mae, rmse of each target

Scaled means: in units of the training part's deviation, column by column. Nothing is dropped: every window counts once.
MASE is the distance in units of that from the value a season before, over the training part (Hyndman and Koehler,
2006): below 1 is better than that. A backtest is the same in successive stretches of the windows, `mae 1/4` to `4/4`,
each forecast from its own past. Neighbouring windows share most of their future, so 95 % intervals come from draws of
as many neighbours at a time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data.series.space import SeriesSpace
from regard.data.series.windows import Rows, Windows
from regard.metrics.bootstrap import bootstrap
from regard.metrics.bootstrap import signature as drawn_by
from regard.metrics.scores import Metric

Forecasts = NDArray[np.float32]  # (n, T, K, Q)
Offsets = NDArray[np.float32]  # (n, T, K)
_STRETCHES = 4  # of a backtest
_CHUNK = 512
_DRAWN = 300  # resamples
_MOST_NAMED = 500  # series below one another that have figures of their own


@dataclass(frozen=True, eq=False)
class Errors:
    """Means over the horizon, for each window and target (n, K): squares, distances, pinball losses, hits of the band.

    Without quantiles there are no pinball losses, and without bounds no hits; a window without bounds has NaN. Of
    several series, one below the other, `owners` (n,) are the names of the windows' own.
    """

    squared: NDArray[np.float64]
    absolute: NDArray[np.float64]
    pinball: NDArray[np.float64] | None = None
    covered: NDArray[np.float64] | None = None
    owners: NDArray[np.str_] | None = None

    def figures(self, drawn: Rows | slice = slice(None)) -> dict[str, float]:
        """The scaled figures of all windows, or of some."""
        found = {"mse": float(self.squared[drawn].mean()), "mae": float(self.absolute[drawn].mean())}
        if self.pinball is not None:
            found["pinball"] = float(self.pinball[drawn].mean())
        if self.covered is not None and np.isfinite(self.covered).any():
            covered = self.covered[drawn]
            bounded = covered[np.isfinite(covered)]
            found["coverage"] = float(bounded.mean()) if len(bounded) else math.nan
        return found


def errors_of(
    forecasts: Forecasts, windows: Windows, *, quantiles: Sequence[float] = (), offsets: Offsets | None = None
) -> Errors:
    """Compare forecasts (n, T, K, Q) with what came; of quantiles, the middle one is the forecast.

    `offsets` (n, T, K) widen the outer ones; NaN stands for no bounds.
    """
    middle = list(quantiles).index(0.5) if quantiles else 0
    parts: list[list[NDArray[np.float64]]] = [[], [], [], []]
    for rows in chunks(len(windows)):
        truth = windows.cut(rows).future.astype(np.float64)  # (B, T, K)
        said = forecasts[rows].astype(np.float64)
        apart = said[..., middle] - truth
        parts[0].append((apart**2).mean(1))
        parts[1].append(np.abs(apart).mean(1))
        if quantiles:
            parts[2].append(pinball(said, truth, quantiles).mean(1))
        if quantiles or offsets is not None:
            wider = np.zeros_like(truth) if offsets is None else offsets[rows].astype(np.float64)
            inside = (said[..., 0] - wider <= truth) & (truth <= said[..., -1] + wider)
            parts[3].append(np.where(np.isnan(wider), np.nan, inside).mean(1))
    whole = [np.concatenate(part) if part else None for part in parts]
    assert whole[0] is not None
    assert whole[1] is not None
    owners = None if windows.owners is None else np.array(windows.series)[windows.owners[windows.places]]
    return Errors(whole[0], whole[1], whole[2], whole[3], owners)


def pinball(said: NDArray[np.float64], truth: NDArray[np.float64], quantiles: Sequence[float]) -> NDArray[np.float64]:
    """The pinball loss of quantiles (…, Q) against what came (…), their mean: max(q·e, (q−1)·e), e = truth − said."""
    below = truth[..., None] - said
    share = np.asarray(quantiles)
    loss: NDArray[np.float64] = np.maximum(share * below, (share - 1) * below).mean(-1)
    return loss


def metrics(errors: Errors, space: SeriesSpace, *, signature: str, horizon: int, prefix: str = "") -> dict[str, Metric]:
    """The scaled figures, and mean distance and root mean square of each target in its own units."""
    if prefix:
        plain = {name: (value, f"{signature}|scaled") for name, value in errors.figures().items()}
        if mase := _mase(errors, space):
            plain["mase"] = (mase, f"{signature}|season:{space.season or 1}")
        return {f"{prefix}{name}": Metric(f"{prefix}{name}", *facts, digits=4) for name, facts in plain.items()}
    block = blocks_of(len(errors.squared), horizon)
    low, high = bootstrap(
        lambda drawn: list(errors.figures(drawn).values()), len(errors.squared), resamples=_DRAWN, block=block
    )
    how = f"{signature}|scaled|{drawn_by(seed=1, resamples=_DRAWN, block=block)}"
    found = {name: Metric(name, value, how, float(low[i]), float(high[i]), digits=4)
             for i, (name, value) in enumerate(errors.figures().items())}  # fmt: skip
    if mase := _mase(errors, space):
        found["mase"] = Metric("mase", mase, f"{signature}|season:{space.season or 1}", digits=4)
    found |= _backtest(errors, signature)
    named = _each(errors, space)
    for name, rows, k in named if errors.owners is None or len(named) <= _MOST_NAMED else ():
        scale = space.scale[name]
        mae, rmse = (
            float(errors.absolute[rows, k].mean()) * scale,
            float(np.sqrt(errors.squared[rows, k].mean())) * scale,
        )
        shown = name.removesuffix(f".{space.targets[k]}") if space.series and len(space.targets) == 1 else name
        found[f"mae {shown}"] = Metric(f"mae {shown}", mae, f"{signature}|own units", digits=4)
        found[f"rmse {shown}"] = Metric(f"rmse {shown}", rmse, f"{signature}|own units", digits=4)
    return found


def _each(errors: Errors, space: SeriesSpace) -> list[tuple[str, Any, int]]:
    """What is forecast, by the name of its scale: the windows it has, and its place among the targets."""
    if errors.owners is None:
        return [(target, slice(None), k) for k, target in enumerate(space.targets)]
    present = [(series, np.flatnonzero(errors.owners == series)) for series in space.series]
    return [(f"{series}.{target}", rows, k) for series, rows in present if len(rows)
            for k, target in enumerate(space.targets)]  # fmt: skip


def _mase(errors: Errors, space: SeriesSpace) -> float | None:
    """The mean over targets of their distance, in units of a season's; None where no target has that."""
    own = [float(errors.absolute[rows, k].mean()) * space.scale[name] / space.naive[name]
           for name, rows, k in _each(errors, space) if name in space.naive]  # fmt: skip
    return float(np.mean(own)) if own else None


def _backtest(errors: Errors, signature: str) -> dict[str, Metric]:
    """The mean distance in successive stretches of the windows, if there are enough of them."""
    n = len(errors.absolute)
    if n < 2 * _STRETCHES:
        return {}
    named = {}
    for i, rows in enumerate(np.array_split(np.arange(n), _STRETCHES), start=1):
        name, how = f"mae {i}/{_STRETCHES}", f"{signature}|scaled|windows {rows[0] + 1}-{rows[-1] + 1}"
        named[name] = Metric(name, float(errors.absolute[rows].mean()), how, digits=4)
    return named


def blocks_of(n: int, horizon: int) -> int:
    """How many of `n` windows, neighbours in time, are drawn together: as many as share a future, not all of them."""
    return max(1, min(horizon, n // 4))


def chunks(n: int, size: int = _CHUNK) -> Iterator[Rows]:
    """The numbers 0 … n − 1, some at a time, all of them."""
    return (np.arange(begin, min(begin + size, n)) for begin in range(0, n, size))
