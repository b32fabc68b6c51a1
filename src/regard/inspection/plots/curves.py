"""Curves of training: figures over steps, of one run or of several, a panel for each figure.

    draw_curves([CurvePanel("loss (nats a token)", [Curve("de", steps, values), …])], "curves.png")

A run has one colour, one dash and one marker in every panel, and is named once, where a panel is missing or below all
of them. Panels have the same steps, unless one would be left almost empty. Many noisy reports are drawn as their
running mean; of a lone run, over a pale line of what was reported. A ring marks the best point, with its value where
there is one run. Losses over several orders of magnitude get a logarithmic axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter
from numpy.typing import NDArray

from regard.errors import UsageError
from regard.inspection.plots.colours import DARK, LIGHT, PLAIN_AXES, Theme, plain, save_picture, style

PICTURES = (".png", ".svg", ".pdf")
MOST_RUNS = 24
_WIDTH, _HEIGHT = 5.0, 3.0  # inches of a panel
_MANY = 150  # so many reports are smoothed
_FEW = 40  # so few evaluations get a marker each
_DECADES = 1.3  # so many powers of ten between smallest and largest get a logarithmic axis
_TALL = 12  # so many names stand below each other in the place of a panel
_NAME = 34  # characters of a name that are shown

# By contrast with the paper, and told apart in every kind of colour-blindness together with dash and marker.
_LIGHT = ("#215f9d", "#c4620a", "#2f7d4f", "#8b3a8f", "#7a6a00", "#0f8b9d", "#b3274a", "#5b5f66")
_DARK = ("#6fb1ee", "#f0a35e", "#6cc68f", "#d391d8", "#d9c84a", "#5fd0de", "#f28ba3", "#b4b9c1")
_DASHES: tuple[Any, ...] = ("-", (0, (5, 1.6)), (0, (1.4, 1.4)))
_MARKERS = "osD^vPX*"


@dataclass(frozen=True)
class Curve:
    """A figure of a run: values at steps. `best` is the step to mark, `label` tells two curves of one run apart.

    `dots` are single measurements, which get a marker each; `noisy` ones are smoothed where there are many.
    """

    run: str
    steps: Sequence[int]
    values: Sequence[float]
    best: int | None = None
    label: str = ""
    dots: bool = False
    noisy: bool = False


@dataclass(frozen=True)
class CurvePanel:
    """One figure of all runs, named by what it is and what it is measured in; `loss`: less is better."""

    name: str
    curves: Sequence[Curve]
    loss: bool = False


def draw_curves(panels: Sequence[CurvePanel], path: Path | str, *, title: str = "", dark: bool = False) -> Path:
    """Draw the panels in two columns, and save the picture as its name ends: .png, .svg or .pdf."""
    runs = list(dict.fromkeys(curve.run for panel in panels for curve in panel.curves))
    if not runs:
        raise UsageError("nothing to draw: no run has reported anything")
    if len(runs) > MOST_RUNS:
        raise UsageError(f"{len(runs)} runs in one picture cannot be told apart; at most {MOST_RUNS} can")
    theme, across = DARK if dark else LIGHT, min(2, len(panels))
    down = -(-len(panels) // across)
    looks = {run: _Look.of(i, dark=dark) for i, run in enumerate(runs)}
    spare, alone = down * across > len(panels), len(runs) == 1
    below = 0.0 if spare or alone else _legend_room(runs, across)
    last = max(max(curve.steps, default=0) for panel in panels for curve in panel.curves)
    with matplotlib.rc_context(style(theme) | PLAIN_AXES | _style(theme)):
        figure = Figure(figsize=(_WIDTH * across, _HEIGHT * down + (0.35 if title else 0.0) + below))
        figure.set_layout_engine("constrained", w_pad=0.08, h_pad=0.08, wspace=0.02, hspace=0.03)
        axes = figure.subplots(down, across, squeeze=False).flat
        for axis, panel in zip(axes, panels, strict=False):
            _draw(axis, panel, looks, theme, alone=alone, last=last)
        if spare:
            axes[len(panels)].set_axis_off()
        if title:
            figure.suptitle(plain(title), fontsize=12, fontweight="bold", x=0.012, ha="left")
        if not alone:
            ringed = any(curve.best is not None for panel in panels for curve in panel.curves)
            handles = [*_handles(runs, looks), *([_ring_handle(theme)] if ringed else [])]
            if spare:
                ncols = 1 if len(handles) <= _TALL else 2
                axes[len(panels)].legend(handles=handles, loc="center", fontsize=9.5, ncols=ncols)
            else:
                figure.legend(handles=handles, loc="outside lower center", ncols=_columns(runs, across), fontsize=9.5)
        return save_picture(figure, path, theme)


@dataclass(frozen=True)
class _Look:
    colour: str
    dash: Any
    marker: str

    @classmethod
    def of(cls, number: int, *, dark: bool) -> _Look:
        colours = _DARK if dark else _LIGHT
        n = len(colours)
        return cls(colours[number % n], _DASHES[number // n % len(_DASHES)], _MARKERS[number % len(_MARKERS)])


def _draw(axis: Any, panel: CurvePanel, looks: dict[str, _Look], theme: Theme, *, alone: bool, last: int) -> None:
    shown = [curve for curve in panel.curves if len(curve.steps)]
    for curve in shown:
        _line(axis, curve, looks[curve.run], theme, alone=alone)
    values = np.concatenate([np.asarray(curve.values, float) for curve in shown])
    axis.set_ylabel(plain(panel.name))
    axis.set_xlabel("step")
    own = max(max(curve.steps) for curve in shown)
    axis.set_xlim(0, 1.03 * max(1, last if own > last / 2 else own))
    axis.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    axis.xaxis.set_major_formatter(FuncFormatter(_steps))
    axis.margins(y=0.18 if alone else 0.1)  # room for the value of the best
    if panel.loss and _spans_decades(values):
        axis.set_yscale("log")
        few = np.log10(values.max() / values.min()) < 3
        axis.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if few else (1.0,)))
        axis.yaxis.set_minor_formatter(NullFormatter())
    elif values.min() >= 0 and not 0.3 * values.max() < values.min() < values.max():
        axis.set_ylim(bottom=0)
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.6g}"))
    if alone:
        for curve in shown:
            _say_best(axis, curve, theme, above=not panel.loss)
    if any(curve.label for curve in shown):
        axis.legend(loc="best", fontsize=9)


def _line(axis: Any, curve: Curve, look: _Look, theme: Theme, *, alone: bool) -> None:
    x, y = np.asarray(curve.steps, float), np.asarray(curve.values, float)
    colour = theme.accent if curve.label == "validation" and alone else look.colour
    drawn = y
    if len(y) > _MANY and curve.noisy:
        drawn = _running_mean(y, max(3, len(y) // 50))
        if alone:
            axis.plot(x, y, color=colour, linewidth=0.7, alpha=0.28, zorder=2)
    marked = (curve.dots and len(x) <= _FEW) or len(x) == 1
    axis.plot(
        x,
        drawn,
        color=colour,
        linestyle=look.dash,
        marker=look.marker if marked else None,
        markersize=4.2 if alone else 3.2,
        linewidth=1.8 if alone else 1.5,
        label=curve.label or None,
        zorder=3,
    )
    if curve.best is not None and curve.best in curve.steps:
        at = list(curve.steps).index(curve.best)
        axis.plot(
            x[at], y[at], marker="o", markersize=11 if alone else 9, markerfacecolor="none", markeredgecolor=colour,
            markeredgewidth=1.8, linestyle="none", zorder=4, clip_on=False,
        )  # fmt: skip


def _say_best(axis: Any, curve: Curve, theme: Theme, *, above: bool) -> None:
    """The value of the best point: above a highest one, below a lowest one unless the axis is there."""
    if curve.best is None or curve.best not in curve.steps:
        return
    value = curve.values[list(curve.steps).index(curve.best)]
    left, right = axis.get_xlim()
    low, _ = axis.transAxes.inverted().transform(axis.transData.transform((left, value)))[::-1]
    up = above or low < 0.12
    beyond = (curve.best - left) / (right - left) > 0.6
    axis.annotate(
        f"best {value:.4g}, step {curve.best:,}",
        (curve.best, value),
        xytext=(4 if beyond else -4, 9 if up else -9),
        textcoords="offset points",
        ha="right" if beyond else "left",
        va="bottom" if up else "top",
        fontsize=9,
        color=theme.ink,
        bbox={"facecolor": theme.paper, "edgecolor": "none", "alpha": 0.75, "pad": 1.0},
        zorder=5,
    )


def _handles(runs: Sequence[str], looks: dict[str, _Look]) -> list[Line2D]:
    return [
        Line2D([], [], color=looks[run].colour, linestyle=looks[run].dash, marker=looks[run].marker, markersize=5,
               linewidth=1.8, label=_clip(run))
        for run in runs
    ]  # fmt: skip


def _ring_handle(theme: Theme) -> Line2D:
    return Line2D([], [], linestyle="none", marker="o", markersize=10, markerfacecolor="none",
                  markeredgecolor=theme.ink, markeredgewidth=1.5, label="best evaluation")  # fmt: skip


def _columns(runs: Sequence[str], across: int) -> int:
    longest = max(len(_clip(run)) for run in (*runs, "best evaluation"))
    return max(1, min(len(runs) + 1, int(56 * across / (longest + 7))))


def _legend_room(runs: Sequence[str], across: int) -> float:
    return 0.1 + 0.22 * -(-(len(runs) + 1) // _columns(runs, across))


def _running_mean(values: NDArray[np.float64], window: int) -> NDArray[np.float64]:
    """The mean over a window around each value; at the ends over as much of it as there is."""
    kernel = np.ones(window)
    return np.asarray(np.convolve(values, kernel, "same") / np.convolve(np.ones_like(values), kernel, "same"))


def _spans_decades(values: NDArray[np.float64]) -> bool:
    return bool((values > 0).all()) and float(np.log10(values.max() / values.min())) > _DECADES


def _steps(value: float, _: object) -> str:
    """Thousands as k, so that ticks never touch."""
    if value >= 1e6:
        return f"{value / 1e6:g}M"
    return f"{value / 1e3:g}k" if value >= 10_000 else f"{value:,.0f}"


def _style(theme: Theme) -> Any:
    return {
        "font.size": 10,
        "axes.edgecolor": theme.rule,
        "axes.titlecolor": theme.ink,
        "grid.color": theme.rule,
        "grid.linewidth": 0.7,
        **dict.fromkeys(("xtick.major.size", "ytick.major.size", "ytick.minor.size"), 0),
        **dict.fromkeys(("xtick.labelsize", "ytick.labelsize"), 9),
        "svg.fonttype": "none",
    }


def _clip(name: str) -> str:
    shown = name if len(name) <= _NAME else f"{name[: _NAME // 2]}…{name[-(_NAME // 2 - 1) :]}"
    return plain(shown)
