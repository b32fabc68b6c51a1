"""What a forecaster looked at: the record of its attention over time, with the numbers it saw and said.

seen = model.look("prices.csv")
seen.weights["self"]        (L, H, P, P) between patches, or (L, H, S, S) between steps
seen.plot("seen.png")       history, forecast, quantile band, and how much each step was looked at
seen.page("seen.html")      the same, for each step of the forecast, each layer and each head
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.errors import UsageError
from regard.inspection.forward_case import ForwardCase, Sides
from regard.inspection.page import Scene, file_text, page
from regard.inspection.plots.colours import DARK, LIGHT, PLAIN_AXES, Theme, plain, save_picture, style
from regard.inspection.record import Look, MapKind

_SIZE = (9.6, 4.8)
_MOST = 8  # columns that were read
Numbers = NDArray[np.float64]
Beside = Sequence[tuple[str, Sequence[float | str | None]]]
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
    step in the linear model that the forecast begins with, if it does. `truth` (T,) is what came, where it is known.
    `beside` are columns that are not forecast, each by its name with its cells (S + T): None where they are not known.
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
    truth: Numbers | None = None
    beside: Beside = ()


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
        looked_at = self.looked_at(kind=kind, layer=layer)
        return draw_series(self.forecast, path, looked_at=looked_at, title=self.title, dark=dark)

    def html(self) -> str:
        """The page: the series and the forecast, and below them what each step looked at."""
        if self.forecast is None or not {"self", "cross"} & set(self.maps):
            return super().html()
        return page(self, series_scene(self, self.forecast))


@dataclass(frozen=True, eq=False)
class SeriesCase(ForwardCase):
    """The end of a series, ready to be looked at, and what is shown of it."""

    forecast: ShownForecast | None = None

    def finish(self, seen: Look) -> SeriesLook:
        """The record with the numbers that were seen and said."""
        return SeriesLook(seen.axes, seen.maps, None, seen.title, self.forecast)


def series_scene(look: SeriesLook, shown: ShownForecast) -> Scene:
    """The numbers and the names of the steps, for the page."""
    facts = {
        "target": shown.name,
        "past": _listed(shown.past),
        "forecast": _listed(shown.forecast),
        "band": None if shown.band is None else [_listed(side) for side in shown.band.T],
        "truth": None if shown.truth is None else _listed(shown.truth),
        "others": [] if shown.read is None else [_listed(column) for column in shown.read.T[:_MOST]],
        "linear": None if shown.linear is None else _listed(shown.linear),
        "beside": [{"name": name, "cells": list(cells)} for name, cells in shown.beside[:_MOST]],
        "times": shown.times,
        "spans": shown.spans.tolist(),
        "begin": shown.begin,
    }
    kinds: tuple[MapKind, ...] = ("cross", "self") if "cross" in look.maps else ("self",)
    script = file_text("regard.tasks.series", "page.js")
    return Scene("Series", script, kinds, read=look.title or shown.name, facts=facts)


def _listed(numbers: Numbers) -> list[float | None]:
    """Numbers in seven digits; None where there is none."""
    return [float(f"{value:.7g}") if np.isfinite(value) else None for value in numbers]


def draw_series(
    shown: ShownForecast, path: Path | str, *, looked_at: Numbers, title: str = "", dark: bool = False
) -> Path:
    """Draw one target: history and forecast over time, with the attention that each known step got below."""
    import matplotlib
    from matplotlib.figure import Figure

    theme = DARK if dark else LIGHT
    n, T = len(shown.past), len(shown.forecast)
    rest = {"axes.edgecolor": theme.quiet, "grid.color": theme.rule, "legend.labelcolor": theme.ink, **PLAIN_AXES}
    with matplotlib.rc_context(style(theme) | rest):
        figure = Figure(figsize=_SIZE, layout="constrained")
        beside = shown.beside[:_MOST]
        ratios = (3, *[0.25] * len(beside), 1)
        above, *between, below = figure.subplots(len(ratios), 1, sharex=True, gridspec_kw={"height_ratios": ratios})
        _draw_values(above, shown, theme)
        for axes, (name, cells) in zip(between, beside, strict=True):
            _draw_beside(axes, name, cells, theme)
        above.set_title(plain(title or f"{shown.name}: {T} steps from {n}"), loc="left")
        known, hue = np.arange(n), theme.shades[-2]
        below.fill_between(known, looked_at, step="mid", color=hue, linewidth=0, label="attention")
        below.set_ylabel("weight")
        if shown.linear is not None:
            below.step(known, shown.linear, where="mid", color=theme.quiet, linewidth=1, label="linear model")
            below.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=2)
        top = _top(looked_at, shown.linear)
        below.set_ylim(0, top)
        below.set_yticks([0, top / 1.05], ["0", f"{top / 1.05:.2g}"])
        places = np.unique(np.linspace(0, len(shown.times) - 1, 5).astype(int))
        below.set_xticks(places, [plain(shown.times[index]) for index in places])
        return save_picture(figure, path, theme)


def _draw_values(axes: Any, shown: ShownForecast, theme: Theme) -> None:
    """What was read, what is forecast between which bounds, and what came where that is known."""
    known, coming = np.arange(len(shown.past)), shown.begin + np.arange(len(shown.forecast))
    hue, dots = theme.shades[-2], "o-" if len(coming) == 1 else "-"
    if np.isfinite(shown.past).any():
        axes.plot(known, shown.past, color=theme.quiet, linewidth=1, label="known")
    if shown.read is not None:
        lines = axes.plot(known, shown.read[:, :_MOST], color=theme.quiet, linewidth=0.8, alpha=0.45)
        lines[0].set_label("read, to scale")
    if shown.band is not None:
        axes.fill_between(coming, *shown.band.T, color=hue, alpha=0.22, linewidth=0, label="bounds")
    axes.plot(coming, shown.forecast, dots, color=hue, linewidth=1.8, label="forecast")
    if shown.truth is not None:
        axes.plot(coming, shown.truth, color=theme.ink, linewidth=1.2, linestyle="--", label="what came")
    axes.axvline(shown.begin - 0.5, color=theme.quiet, linewidth=0.8, linestyle=":")
    axes.set_ylabel(plain(shown.name))
    axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=4)


def _draw_beside(axes: Any, name: str, cells: Sequence[float | str | None], theme: Theme) -> None:
    """A column beside the series, as a strip: numbers as bars, texts in shades; nothing where it is not known."""
    texts = sorted({cell for cell in cells if isinstance(cell, str) and cell})
    for step, cell in enumerate(cells):
        if isinstance(cell, str) and cell:
            axes.bar(step, 1, 1, color=theme.quiet, alpha=0.2 + 0.7 * (texts.index(cell) + 1) / len(texts))
    numbers = [cell if isinstance(cell, int | float) else np.nan for cell in cells]
    if np.isfinite(numbers).any():
        axes.bar(np.arange(len(numbers)), numbers, 1, color=theme.quiet)
    axes.set_ylabel(plain(name), rotation=0, ha="right", va="center")
    axes.set_yticks([])


def _top(looked_at: Numbers, linear: Numbers | None) -> float:
    """The height at which all that was looked at shows; the last value alone may rise above it in a linear model."""
    highest = float(looked_at.max()) if linear is None else max(float(looked_at.max()), float(np.sort(linear)[-2:][0]))
    return 1.05 * highest
