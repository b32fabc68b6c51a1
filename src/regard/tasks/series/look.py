"""What a forecaster looked at: the record of its attention over time, with the numbers it saw and said.

seen = model.look("prices.csv")
seen.weights["self"]        (L, H, P, P) between patches, or (L, H, S, S) between steps
seen.plot("seen.png")       history, forecast, quantile band, and how much each step was looked at
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from regard.errors import UsageError
from regard.inspection.forward_case import ForwardCase, Sides
from regard.inspection.record import Look, MapKind

_SIZE, _DPI = (9.6, 4.8), 150
_MOST = 8  # columns that were read
Numbers = NDArray[np.float64]
SERIES_SIDES: Sides = {
    "self": ("self", "past", "past"),
    "masked": ("masked", "future", "future"),
    "cross": ("cross", "future", "past"),
}


@dataclass(frozen=True, eq=False)
class ShownForecast:
    """One target: its past (S,) where it is known, its forecast (T,), the band (T, 2) if any, and the steps' names.

    `spans` (S', 2) are the first and the last step (exclusive) that each place of the past's axis stands for. `begin`
    is the step the forecast begins at: S, or before it where it is told of steps at which others are known. Where the
    target's own past is not known, `read` (S, C) is what was, brought to its scale. `linear` (S,) is the share of each
    step in the linear model that the forecast begins with, if it does.
    """

    name: str
    past: Numbers
    forecast: Numbers
    band: Numbers | None
    times: list[str]
    spans: NDArray[np.int64]
    begin: int
    read: Numbers | None = None
    linear: Numbers | None = None


@dataclass(frozen=True, eq=False)
class SeriesLook(Look):
    """A record whose picture is one of a series."""

    forecast: ShownForecast | None = None

    def looked_at(self, *, kind: MapKind | None = None, layer: int | None = None) -> Numbers:
        """How much each step of the past was looked at, (S,): the mean over heads and over who asked; sums to 1."""
        if self.forecast is None:
            raise UsageError("this record was read from a file, and does not hold the series")
        attention = self.of(kind)
        weights = attention.weights.mean((0, 1, 2)) if layer is None else attention.of_layer(layer).mean((0, 1))
        steps = np.zeros(int(self.forecast.spans.max()))
        for weight, (begin, end) in zip(weights.astype(np.float64), self.forecast.spans, strict=True):
            steps[begin:end] += weight / (end - begin)
        total: Numbers = steps / steps.sum()
        return total

    def own_picture(self, path: Path, *, layer: int | None, kind: MapKind | None, dark: bool) -> Path | None:
        """Draw the series and what was looked at."""
        if self.forecast is None or kind == "masked":
            return None
        return draw_series(self.forecast, path, looked_at=self.looked_at(kind=kind, layer=layer), title=self.title)


@dataclass(frozen=True, eq=False)
class SeriesCase(ForwardCase):
    """The end of a series, ready to be looked at, and what is shown of it."""

    forecast: ShownForecast | None = None

    def finish(self, seen: Look) -> SeriesLook:
        """The record with the numbers that were seen and said."""
        return SeriesLook(seen.axes, seen.maps, None, seen.title, self.forecast)


def draw_series(shown: ShownForecast, path: Path | str, *, looked_at: Numbers, title: str = "") -> Path:
    """Draw one target: history and forecast over time, with the attention that each known step got below."""
    import matplotlib
    from matplotlib.figure import Figure

    from regard.inspection.plots.panels import BLUE, GREY, PALE_BLUE, STYLE

    n, T = len(shown.past), len(shown.forecast)
    known, coming = np.arange(n), shown.begin + np.arange(T)
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=_SIZE, layout="constrained")
        above, below = figure.subplots(2, 1, sharex=True, gridspec_kw={"height_ratios": (3, 1)})
        if np.isfinite(shown.past).any():
            above.plot(known, shown.past, color=GREY, linewidth=1, label="known")
        if shown.read is not None:
            lines = above.plot(known, shown.read[:, :_MOST], color=GREY, linewidth=0.8, alpha=0.45)
            lines[0].set_label("read, to scale")
        if shown.band is not None:
            above.fill_between(coming, shown.band[:, 0], shown.band[:, 1], color=PALE_BLUE, alpha=0.4, linewidth=0)
        above.plot(coming, shown.forecast, "o-" if T == 1 else "-", color=BLUE, linewidth=1.6, label="forecast")
        above.axvline(shown.begin - 0.5, color=GREY, linewidth=0.8, linestyle=":")
        above.set_ylabel(shown.name)
        above.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=2)
        above.set_title(title or f"{shown.name}: {T} steps from {n}", loc="left")
        below.fill_between(known, looked_at, step="mid", color=BLUE, alpha=0.7, linewidth=0, label="attention")
        below.set_ylabel("looked at")
        if shown.linear is not None:
            below.step(known, shown.linear, where="mid", color=GREY, linewidth=1, label="linear model")
            below.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=2)
        below.set_ylim(0, _top(looked_at, shown.linear))
        places = np.unique(np.linspace(0, len(shown.times) - 1, 5).astype(int))
        below.set_xticks(places, [shown.times[index] for index in places])
        figure.savefig(path, dpi=_DPI)
    return Path(path)


def _top(looked_at: Numbers, linear: Numbers | None) -> float:
    """The height at which all that was looked at shows; the last value alone may rise above it in a linear model."""
    highest = float(looked_at.max()) if linear is None else max(float(looked_at.max()), float(np.sort(linear)[-2:][0]))
    return 1.05 * highest
