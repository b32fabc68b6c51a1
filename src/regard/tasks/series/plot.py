"""The picture of a forecast: what was known, what is forecast and how surely, and below it where the model looked."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from regard.inspection.plots.panels import _STYLE, BLUE, GREY, PALE_BLUE
from regard.tasks.series.look import Numbers, Told

_SIZE, _DPI = (9.6, 4.8), 150
_MOST = 8  # columns that were read


def draw_series(told: Told, path: Path | str, *, looked_at: Numbers, title: str = "") -> Path:
    """Draw one target: history and forecast over time, with the attention that each known step got below."""
    n, T = len(told.past), len(told.forecast)
    known, coming = np.arange(n), told.begin + np.arange(T)
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=_SIZE, layout="constrained")
        above, below = figure.subplots(2, 1, sharex=True, gridspec_kw={"height_ratios": (3, 1)})
        if np.isfinite(told.past).any():
            above.plot(known, told.past, color=GREY, linewidth=1, label="known")
        if told.read is not None:
            lines = above.plot(known, told.read[:, :_MOST], color=GREY, linewidth=0.8, alpha=0.45)
            lines[0].set_label("read, to scale")
        if told.band is not None:
            above.fill_between(coming, told.band[:, 0], told.band[:, 1], color=PALE_BLUE, alpha=0.4, linewidth=0)
        above.plot(coming, told.forecast, "o-" if T == 1 else "-", color=BLUE, linewidth=1.6, label="forecast")
        above.axvline(told.begin - 0.5, color=GREY, linewidth=0.8, linestyle=":")
        above.set_ylabel(told.name)
        above.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=2)
        above.set_title(title or f"{told.name}: {T} steps from {n}", loc="left")
        below.fill_between(known, looked_at, step="mid", color=BLUE, alpha=0.7, linewidth=0, label="attention")
        below.set_ylabel("looked at")
        if told.linear is not None:
            below.step(known, told.linear, where="mid", color=GREY, linewidth=1, label="linear model")
            below.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=2)
        below.set_ylim(0, _top(looked_at, told.linear))
        places = np.unique(np.linspace(0, len(told.times) - 1, 5).astype(int))
        below.set_xticks(places, [told.times[place] for place in places])
        figure.savefig(path, dpi=_DPI)
    return Path(path)


def _top(looked_at: Numbers, linear: Numbers | None) -> float:
    """The height at which all that was looked at shows; the last value alone may rise above it in a linear model."""
    highest = float(looked_at.max()) if linear is None else max(float(looked_at.max()), float(np.sort(linear)[-2:][0]))
    return 1.05 * highest
