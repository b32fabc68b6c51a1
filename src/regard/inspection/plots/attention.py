"""Pictures of attention, for people: the only file that draws.

    draw_grid(weights, path, rows=..., columns=...)             maps (R, C, T, S) in rows and columns: heads, layers
    draw_alignment(alignment, path, source=..., target=...)     source words above, target words at the left
    draw_lengths(path, models=...)                              BLEU by source length, one line a model

Colours are those of `colours`, on white or dark paper. Labels shrink, then thin out, before they would overlap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.colors import LinearSegmentedColormap, PowerNorm
from matplotlib.figure import Figure
from numpy.typing import NDArray

from regard.errors import ShapeError, UsageError
from regard.inspection.alignments import Alignment
from regard.inspection.plots.colours import DARK, LIGHT, Theme, full_colour, plain, save_picture, style
from regard.metrics.scores import LengthBucket

LINES = ("#0b3c73", "#c4620a", "#4b8b3b", "#7b3f99")
_CELL_INCHES = 0.34
_MARKERS = "osD^vP"


def draw_alignment(
    alignment: Alignment,
    path: Path | str,
    *,
    source: Sequence[str],
    target: Sequence[str],
    title: str | None = None,
    dark: bool = False,
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
    theme = DARK if dark else LIGHT
    with matplotlib.rc_context(style(theme)):
        figure = Figure(figsize=inches)
        figure.set_layout_engine("constrained", w_pad=0.1, h_pad=0.1)
        axis = figure.subplots()
        axis.imshow(matrix, cmap=_shades(theme), vmin=0, vmax=1, aspect="equal", interpolation="nearest")
        thinned = (max(1, round(len(rows) / 48)), max(1, round(len(columns) / 48)))  # they could not be read anyway
        turn = 90 if max(map(len, columns)) > 2 else 0  # words stand on end and never run into each other
        _label(axis, rows, columns, steps=thinned, turn=turn, size=size)
        axis.tick_params(length=0)
        axis.spines[:].set_visible(False)
        _grid(axis, matrix.shape, theme)
        sources, targets = [source for source, _ in alignment.pairs], [target for _, target in alignment.pairs]
        axis.scatter(sources, targets, s=(14 * cell) ** 2, color=theme.accent, linewidths=0)
        figure.suptitle(title or "", fontsize=12)
        return save_picture(figure, path, theme)


def draw_grid(
    weights: NDArray[np.floating[Any]],
    path: Path | str,
    *,
    rows: Sequence[str],
    columns: Sequence[str],
    names: Sequence[Sequence[str]],
    title: str | None = None,
    labelled: bool = True,
    dark: bool = False,
) -> Path:
    """Draw maps (R, C, T, S) in R rows and C columns, each under its name; an empty name leaves its place empty.

    Colour goes with the root of the weight, so that faint attention is seen, and is full from `full_colour` on.
    Unlabelled maps are small; their names, two lines each, are then those of the whole row and of the whole column.
    """
    theme, (n_down, n_across, n_rows, n_columns) = DARK if dark else LIGHT, weights.shape
    _check_grid(weights, rows, columns, names)
    cell = _cell(n_down, n_across, n_rows, n_columns, labelled=labelled)
    size = float(np.clip(0.6 * 72 * cell, 6.5, 10.0))
    room = (_room(rows, size), _room(columns, size)) if labelled else (0.3, 0.2)
    inches = (n_across * (n_columns * cell + 0.16) + room[0] + 1.1, n_down * (n_rows * cell + 0.34) + room[1] + 0.6)
    most = full_colour(n_columns)
    with matplotlib.rc_context(style(theme)):
        figure = Figure(figsize=inches, layout="constrained")
        axes = figure.subplots(n_down, n_across, squeeze=False)
        for (i, j), axis in np.ndenumerate(axes):
            if not names[i][j]:
                axis.set_axis_off()
                continue
            norm = PowerNorm(0.5, vmin=0, vmax=most, clip=True)
            image = axis.imshow(weights[i, j], cmap=_shades(theme), norm=norm, aspect="equal", interpolation="nearest")
            axis.set(xticks=[], yticks=[])
            axis.spines[:].set_color(theme.rule)
            if labelled:
                step = max(1, int(np.ceil(size * 1.5 / 72 / cell)))  # as many as have room
                sides = rows if j == 0 else (), columns if i == 0 else ()
                _label(axis, *sides, steps=(step, step), turn=90, size=size)
                axis.tick_params(length=0, pad=5)  # at the corner the first labels of both sides come close
                axis.set_xlabel(names[i][j], fontsize=10)
            else:
                axis.set_title(names[i][j].partition("\n")[2] if i == 0 else "", fontsize=9)
                axis.set_ylabel(names[i][j].partition("\n")[0] if j == 0 else "", fontsize=9, rotation=0, labelpad=12)
        _bar(figure, image, axes, most)
        figure.suptitle(title or "", fontsize=12)
        return save_picture(figure, path, theme)


def draw_lengths(path: Path | str, *, models: Mapping[str, Sequence[LengthBucket]], title: str | None = None) -> Path:
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
    return save_picture(figure, path)


def _shared_labels(models: Mapping[str, Sequence[LengthBucket]]) -> list[str]:
    """The names of the buckets, which are to be the same for every model, or the lines could not be compared."""
    kinds = {tuple((bucket.label, bucket.n) for bucket in buckets) for buckets in models.values()}
    if len(kinds) != 1:
        raise UsageError(
            f"{len(models)} models with {len(kinds)} kinds of length buckets cannot share one picture",
            hint="score at least one model, and all on the same sentences with the same edges",
        )
    return [label for label, _ in kinds.pop()]


def _shades(theme: Theme) -> LinearSegmentedColormap:
    return LinearSegmentedColormap.from_list("attention", theme.shades)


def _check_grid(
    weights: NDArray[np.floating[Any]], rows: Sequence[str], columns: Sequence[str], names: Sequence[Sequence[str]]
) -> None:
    shape = (len(names), len(names[0]) if names else 0, len(rows), len(columns))
    if weights.shape != shape or not weights.size:
        raise ShapeError(f"weights of shape {weights.shape} do not fit names and labels of {shape}")


def _cell(n_down: int, n_across: int, n_rows: int, n_columns: int, *, labelled: bool) -> float:
    """Inches of a cell: as large as reads well, as small as a page demands."""
    most = 0.3 if labelled else 1.1 / max(n_rows, n_columns)
    return min(most, 11.5 / (n_across * n_columns), 11.5 / (n_down * n_rows))


def _label(
    axis: Any, rows: Sequence[str], columns: Sequence[str], *, steps: tuple[int, int], turn: int, size: float
) -> None:
    """Every so manieth label at the left and above; those above are turned."""
    for set_ticks, labels, step, angle in (
        (axis.set_yticks, rows, steps[0], 0),
        (axis.set_xticks, columns, steps[1], turn),
    ):
        shown = range(0, len(labels), step)
        set_ticks(shown, [_clip(labels[i]) for i in shown], rotation=angle, fontsize=size)
    axis.xaxis.tick_top()


def _bar(figure: Figure, image: Any, axes: Any, most: float) -> None:
    bar = figure.colorbar(image, ax=list(axes.flat), shrink=0.8, aspect=30, pad=0.015, fraction=0.04)
    ticks = [0, most / 16, most / 4, most]
    bar.set_ticks(ticks, labels=[f"{tick:.2g}" for tick in ticks[:-1]] + ["1" if most == 1 else f"≥ {most:.2g}"])
    bar.set_label("weight", fontsize=9)
    bar.ax.tick_params(labelsize=8, length=2)
    bar.outline.set_visible(False)


def _room(labels: Sequence[str], size: float) -> float:
    """Inches that the longest label takes at a font size, as `_clip` leaves it."""
    return 0.01 * size * min(max(map(len, labels)), 24)


def _grid(axis: Any, shape: tuple[int, ...], theme: Theme) -> None:
    """Thin lines between cells, so that the eye finds the word of a far cell."""
    axis.set_xticks(np.arange(shape[1] + 1) - 0.5, minor=True)
    axis.set_yticks(np.arange(shape[0] + 1) - 0.5, minor=True)
    axis.grid(which="minor", color=theme.rule, linewidth=0.6)
    axis.tick_params(which="minor", length=0)


def _clip(label: str) -> str:
    return plain(label if len(label) <= 24 else label[:23] + "…")
