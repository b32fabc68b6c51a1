"""Pictures of attention, for people: the only file that draws.

    draw_weights(weights, rows=..., columns=..., path=...)      one map (T, S) or a row of heads (H, T, S)
    draw_regression(...)                                        Nadaraya–Watson: curves and who looked at whom

The colour map runs from the page's white to dark blue, in even steps of lightness: it survives a grey printer and
colour-blindness. Labels shrink, then thin out, before they would overlap.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from regard.errors import ShapeError

COLOURS = "Blues"
LINES = ("#0b3c73", "#c4620a", "#4b8b3b", "#7b3f99")
_DPI = 160
_CELL_INCHES = 0.34
_MAX_INCHES = 14.0


def draw_weights(
    weights: NDArray[np.floating[Any]],
    path: Path | str,
    *,
    rows: Sequence[str],
    columns: Sequence[str],
    title: str | None = None,
    names: Sequence[str] | None = None,
    row_name: str | None = None,
    column_name: str | None = None,
) -> Path:
    """Draw one map (T, S), or several heads (H, T, S) side by side; rows look, columns are looked at."""
    maps = np.asarray(weights, dtype=float)
    maps = maps[None] if maps.ndim == 2 else maps
    if maps.ndim != 3 or maps.shape[1:] != (len(rows), len(columns)):
        raise ShapeError(
            f"weights of shape {np.shape(weights)} do not fit {len(rows)} row labels and {len(columns)} column labels"
        )
    with matplotlib.rc_context({"font.family": "DejaVu Sans"}):
        figure = Figure(figsize=_size(maps.shape, rows, columns), layout="constrained")
        axes = figure.subplots(1, len(maps), squeeze=False)[0]
        for i, (axis, weights_of_head) in enumerate(zip(axes, maps, strict=True)):
            image = axis.imshow(weights_of_head, cmap=COLOURS, vmin=0, vmax=1, aspect="auto", interpolation="nearest")
            _label(axis, rows if i == 0 else [""] * len(rows), columns)
            axis.set_title(names[i] if names else "", fontsize=10)
            axis.set_xlabel(column_name or "")
        axes[0].set_ylabel(row_name or "")
        bar = figure.colorbar(image, ax=list(axes), shrink=0.8, pad=0.02)
        bar.set_label("weight")
        figure.suptitle(title or "", fontsize=12)
        return _save(figure, path)


def draw_regression(
    path: Path | str,
    *,
    points: tuple[NDArray[Any], NDArray[Any]],
    grid: NDArray[Any],
    curves: dict[str, NDArray[Any]],
    weights: NDArray[Any],
    labels: tuple[str, str],
    title: str,
) -> Path:
    """Known points and one curve a bandwidth on the left; on the right how each input weighs the known points."""
    figure = Figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    for (name, curve), colour in zip(curves.items(), LINES, strict=False):
        left.plot(grid, curve, color=colour, label=name, linewidth=2)
    left.scatter(*points, color="black", zorder=3, label="known")
    left.set_xlabel(labels[0])
    left.set_ylabel(labels[1])
    left.legend(frameon=False)
    left.spines[["top", "right"]].set_visible(False)
    image = right.imshow(weights, cmap=COLOURS, vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    shown = np.linspace(0, len(grid) - 1, 8).round().astype(int)
    right.set_yticks(shown, [f"{grid[i]:,.0f}" for i in shown])
    right.set_xticks(range(len(points[0])), [f"{x:,.0f}" for x in points[0]])
    right.set_xlabel(f"known {labels[0]}")
    right.set_ylabel(f"{labels[0]} asked for")
    figure.colorbar(image, ax=right).set_label("weight")
    figure.suptitle(title, fontsize=12)
    return _save(figure, path)


def _size(shape: tuple[int, ...], rows: Sequence[str], columns: Sequence[str]) -> tuple[float, float]:
    """Cells of an even size plus room for the labels, within what a screen shows."""
    label_width = 0.09 * min(max(map(len, rows), default=1), 24)
    label_height = 0.09 * min(max(map(len, columns), default=1), 24)
    width = shape[0] * max(1.6, _CELL_INCHES * shape[2]) + label_width + 1.4
    height = max(1.6, _CELL_INCHES * shape[1]) + label_height + 1.0
    return min(width, _MAX_INCHES), min(height, _MAX_INCHES)


def _label(axis: Any, rows: Sequence[str], columns: Sequence[str]) -> None:
    for n, labels, setter, turn in (
        (len(rows), rows, axis.set_yticks, 0),
        (len(columns), columns, axis.set_xticks, _turn(columns)),
    ):
        step = max(1, round(n / 48))  # thin out what could not be read anyway
        shown = range(0, n, step)
        setter(shown, [_clip(labels[i]) for i in shown], rotation=turn, fontsize=9 if n <= 30 else 7)
    axis.xaxis.tick_top()
    axis.tick_params(length=0)
    axis.spines[:].set_visible(False)


def _turn(columns: Sequence[str]) -> int:
    """Single characters stand upright; words stand on end so that they never run into each other."""
    return 90 if max(map(len, columns), default=1) > 2 else 0


def _clip(label: str) -> str:
    shown = label if len(label) <= 24 else label[:23] + "…"
    return shown.replace("$", r"\$")


def _save(figure: Figure, path: Path | str) -> Path:
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=_DPI, facecolor="white")
    return path
