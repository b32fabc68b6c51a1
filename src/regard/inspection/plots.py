"""Pictures of attention, for people: the only file that draws.

    draw_weights(weights, rows=..., columns=..., path=...)      one map (T, S) or a row of heads (H, T, S)
    draw_alignment(alignment, path, source=..., target=...)     source words above, target words at the left
    draw_lengths(path, models=...)                              BLEU by source length, one line a model

The colour map runs from the page's white to dark blue, in even steps of lightness: it survives a grey printer and
colour-blindness. Labels shrink, then thin out, before they would overlap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from regard.errors import ShapeError, UsageError
from regard.inspection.alignments import Alignment
from regard.tasks.metrics import LengthBucket

COLOURS = "Blues"
LINES = ("#0b3c73", "#c4620a", "#4b8b3b", "#7b3f99")
_DPI = 160
_CELL_INCHES = 0.34
_MAX_INCHES = 14.0
_MARKERS = "osD^vP"


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


def draw_alignment(
    alignment: Alignment,
    path: Path | str,
    *,
    source: Sequence[str],
    target: Sequence[str],
    title: str | None = None,
) -> Path:
    """Draw who looked at whom: source words above, target words at the left, dark is attended; a dot marks a pair.

    The words may be single characters; a space shows as ␣.
    """
    matrix = alignment.matrix
    if matrix.shape != (len(target), len(source)):
        raise ShapeError(
            f"an alignment of {matrix.shape[0]} target and {matrix.shape[1]} source words does not fit "
            f"{len(target)} target and {len(source)} source labels"
        )
    if not matrix.size:
        raise UsageError(f"nothing to draw: {len(target)} target and {len(source)} source words")
    rows, columns = ([word.replace(" ", "␣") for word in words] for words in (target, source))
    cell = min(max(_CELL_INCHES, min(0.6, 4 / max(matrix.shape))), 11.0 / max(matrix.shape))
    size = min(max(7.0, 0.45 * 72 * cell), 12.0)
    inches = (
        cell * len(columns) + _room(rows, size) + 0.4,
        cell * len(rows) + _room(columns, size) + (0.8 if title else 0.4),
    )
    with matplotlib.rc_context({"font.family": "DejaVu Sans"}):
        figure = Figure(figsize=inches)
        figure.set_layout_engine("constrained", w_pad=0.1, h_pad=0.1)
        axis = figure.subplots()
        axis.imshow(matrix, cmap=COLOURS, vmin=0, vmax=1, aspect="equal", interpolation="nearest")
        _label(axis, rows, columns, size=size)
        _grid(axis, matrix.shape)
        sources, targets = [source for source, _ in alignment.pairs], [target for _, target in alignment.pairs]
        axis.scatter(sources, targets, s=(14 * cell) ** 2, color=LINES[1], linewidths=0)
        figure.suptitle(title or "", fontsize=12)
        return _save(figure, path)


def draw_lengths(
    path: Path | str,
    *,
    models: Mapping[str, Sequence[LengthBucket]],
    title: str | None = None,
) -> Path:
    """Draw BLEU against source length, one line a model, over bars that say how many sentences each point stands on."""
    labels = _shared_labels(models)
    figure = Figure(figsize=(max(5.0, 0.9 * len(labels) + 1.5), 4.6), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(4, 1))
    for i, (name, buckets) in enumerate(models.items()):
        scores = [np.nan if bucket.metric is None else bucket.metric.value for bucket in buckets]
        colour, marker = LINES[i % len(LINES)], _MARKERS[i % len(_MARKERS)]
        style = "-" if i < len(LINES) else "--"
        above.plot(scores, label=name, color=colour, marker=marker, linestyle=style, linewidth=2)
    above.set_ylim(bottom=0)
    above.set_ylabel("BLEU")
    above.legend(frameon=False, ncols=min(3, len(models)), loc="lower left", bbox_to_anchor=(0, 1))
    above.grid(axis="y", color="#dddddd", linewidth=0.8)
    counts = [bucket.n for bucket in next(iter(models.values()))]
    below.bar_label(below.bar(range(len(labels)), counts, color="#b8c4d2", width=0.7), fmt="{:,.0f}", fontsize=8)
    below.set_ylim(top=1.4 * max(*counts, 1))
    below.set_yticks([])
    below.set_ylabel("sentences", fontsize=9)
    below.set_xticks(range(len(labels)), labels)
    below.set_xlabel("words in the source")
    for axis in (above, below):
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(length=0)
    figure.suptitle(title or "", fontsize=12)
    return _save(figure, path)


def _shared_labels(models: Mapping[str, Sequence[LengthBucket]]) -> list[str]:
    """The names of the buckets, which are to be the same for every model, or the lines could not be compared."""
    kinds = {tuple((bucket.label, bucket.n) for bucket in buckets) for buckets in models.values()}
    if len(kinds) != 1:
        raise UsageError(
            f"{len(models)} models with {len(kinds)} kinds of length buckets cannot share one picture",
            hint="score at least one model, and all on the same sentences with the same edges",
        )
    return [label for label, _ in kinds.pop()]


def _room(labels: Sequence[str], size: float) -> float:
    """Inches that the longest label takes at a font size, as `_clip` leaves it."""
    return 0.01 * size * min(max(map(len, labels)), 24)


def _grid(axis: Any, shape: tuple[int, ...]) -> None:
    """Thin lines between cells, so that the eye finds the word of a far cell."""
    axis.set_xticks(np.arange(shape[1] + 1) - 0.5, minor=True)
    axis.set_yticks(np.arange(shape[0] + 1) - 0.5, minor=True)
    axis.grid(which="minor", color="#e6e6e6", linewidth=0.6)
    axis.tick_params(which="minor", length=0)


def _size(shape: tuple[int, ...], rows: Sequence[str], columns: Sequence[str]) -> tuple[float, float]:
    """Cells of an even size plus room for the labels, within what a screen shows."""
    label_width = 0.09 * min(max(map(len, rows), default=1), 24)
    label_height = 0.09 * min(max(map(len, columns), default=1), 24)
    width = shape[0] * max(1.6, _CELL_INCHES * shape[2]) + label_width + 1.4
    height = max(1.6, _CELL_INCHES * shape[1]) + label_height + 1.0
    return min(width, _MAX_INCHES), min(height, _MAX_INCHES)


def _label(axis: Any, rows: Sequence[str], columns: Sequence[str], *, size: float | None = None) -> None:
    for n, labels, setter, turn in (
        (len(rows), rows, axis.set_yticks, 0),
        (len(columns), columns, axis.set_xticks, _turn(columns)),
    ):
        step = max(1, round(n / 48))  # thin out what could not be read anyway
        shown = range(0, n, step)
        setter(shown, [_clip(labels[i]) for i in shown], rotation=turn, fontsize=size or (9 if n <= 30 else 7))
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
