"""Pictures of measurements, for the exhibits: four kinds of panel in one style, side by side.

    draw_panels([Lines(...), Heat(...)], "seen.png", title="…")

    Lines     numbers against numbers, a line or dots each          Bars     one number a name, lying
    Heat      a table of numbers as shades, with texts in its cells  Points   places in a plane, by group

One hue, blue; what is compared with it is grey. Lines differ in lightness, dash and marker as well, so nothing depends
on telling colours apart. Legends stand below their panel and texts shrink before they would overlap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, Literal

import matplotlib
import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import NullFormatter
from numpy.typing import NDArray
from PIL import Image

from regard.errors import UsageError
from regard.inspection.plots.colours import PLAIN_AXES, plain

Numbers = Sequence[float] | NDArray[np.floating[Any]]
Logs = Literal["", "x", "y", "xy"]

BLUE, PALE_BLUE, GREY, PALE_GREY, INK = "#0b5cad", "#6fa8dc", "#5f6368", "#b3b8bd", "#202124"
_LOOKS = ((BLUE, "-", "o"), (GREY, "--", "s"), (PALE_BLUE, "-", "^"), (PALE_GREY, "--", "D"), (INK, ":", "v"))
_SIGNED = ("#2b2d30", "#8a8f94", "#ffffff", PALE_BLUE, "#083a75")  # from below zero to above it
STYLE: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 11,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": "#9aa0a6",
    "xtick.color": GREY,
    "ytick.color": GREY,
    "grid.color": "#e8eaed",
    **PLAIN_AXES,
}
_INCHES, _DPI = 9.6, 150


@dataclass(frozen=True)
class Line:
    """Numbers y against x. `look` picks one of five looks, the accent first; `dots` draws no line between them."""

    name: str
    x: Numbers
    y: Numbers
    look: int = 0
    dots: bool = False


def lines_of(curves: Mapping[str, Numbers], x: Numbers, *, looks: Sequence[int]) -> list[Line]:
    """A line for each name, all over the same places, as far as its values go."""
    return [Line(name, x[: len(y)], y, look=look) for (name, y), look in zip(curves.items(), looks, strict=True)]


@dataclass(frozen=True)
class Lines:
    """Several lines over the same axes. `ramp` shades them from pale to dark, for an ordered family."""

    title: str
    lines: Sequence[Line]
    x_name: str
    y_name: str
    log: Logs = ""
    ramp: bool = False
    y_range: tuple[float, float] | None = None
    x_ticks: Numbers | None = None


@dataclass(frozen=True)
class Bars:
    """One lying bar a name, its value written at the end; `strong` ones are blue, the others grey."""

    title: str
    values: Mapping[str, float]
    x_name: str
    strong: Sequence[str] = ()
    form: str = "{:.3g}"
    log: bool = False
    x_range: tuple[float, float] | None = None


@dataclass(frozen=True)
class Heat:
    """A table of numbers (rows × columns) as shades of blue; `texts` are written into its cells.

    With `signed`, shades run from grey (below zero) through white to blue (above); `marks` are (row, column) framed.
    """

    title: str
    values: Sequence[Numbers]
    rows: Sequence[str] = ()
    columns: Sequence[str] = ()
    x_name: str = ""
    y_name: str = ""
    texts: Sequence[Sequence[str]] = ()
    marks: Sequence[tuple[int, int]] = ()
    signed: bool = False
    top: float | None = None
    unit: str = ""


@dataclass(frozen=True)
class Points:
    """Places in a plane, one look a group."""

    title: str
    groups: Mapping[str, tuple[Numbers, Numbers]]
    x_name: str
    y_name: str


Panel = Lines | Bars | Heat | Points


def draw_panels(
    panels: Sequence[Panel], path: Path | str, *, title: str, columns: int = 2, height: float = 3.7
) -> Path:
    """Draw the panels row by row, each `height` inches high, and save the picture."""
    if not panels:
        raise UsageError("nothing to draw: no panel was given")
    columns = min(columns, len(panels))
    n_rows = -(-len(panels) // columns)
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(_INCHES, height * n_rows + 0.4), facecolor="white")
        figure.set_layout_engine("constrained", w_pad=0.12, h_pad=0.08)
        figure.suptitle(title, fontsize=13, fontweight="bold", x=0.014, ha="left")
        parts = figure.subfigures(n_rows, columns, squeeze=False).flat
        for part, panel in zip(parts, panels, strict=False):
            part.suptitle(panel.title, fontsize=11)
            axis = part.subplots()
            axis.set(xlabel=panel.x_name, ylabel="" if isinstance(panel, Bars) else panel.y_name)
            _DRAW[type(panel)](part, axis, panel)
        return _save(figure, Path(path))


def _save(figure: Figure, path: Path) -> Path:
    """As a PNG of few colours: the pictures have no more, and are a third of the size."""
    drawn = BytesIO()
    figure.savefig(drawn, dpi=_DPI, format="png")
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.open(drawn).convert("RGB").quantize(96, dither=Image.Dither.NONE).save(path, optimize=True)
    return path


def _lines(part: Any, axis: Any, panel: Lines) -> None:
    shades = matplotlib.colormaps["Blues"](np.linspace(0.4, 1.0, len(panel.lines)))
    for i, line in enumerate(panel.lines):
        colour, dash, marker = _LOOKS[line.look % len(_LOOKS)]
        if panel.ramp and not line.dots:
            colour, dash = shades[i], "-"
        apart = {"linestyle": "none", "markersize": 8, "zorder": 3}
        joined = {"linestyle": dash, "markersize": 5, "zorder": 2}
        how: Any = apart if line.dots else joined
        shown = marker if line.dots or len(line.x) <= 16 else None
        axis.plot(line.x, line.y, color=colour, marker=shown, linewidth=2, label=line.name, **how)
    for side in panel.log:
        getattr(axis, f"set_{side}scale")("log")
    if panel.y_range:
        axis.set_ylim(*panel.y_range)
    if panel.x_ticks is not None:
        axis.set_xticks(panel.x_ticks, [f"{x:g}" for x in panel.x_ticks])
        axis.xaxis.set_minor_formatter(NullFormatter())
    if any(line.name for line in panel.lines):
        _legend(part, [line.name for line in panel.lines])


def _bars(part: Any, axis: Any, panel: Bars) -> None:
    names, values = list(panel.values), list(panel.values.values())
    colours = [BLUE if name in panel.strong else PALE_GREY for name in names]
    drawn = axis.barh(names, values, color=colours, height=0.65)
    axis.bar_label(drawn, [panel.form.format(value) for value in values], padding=4, fontsize=10, color=INK)
    axis.invert_yaxis()
    axis.tick_params(axis="y", length=0, labelcolor=INK)
    axis.grid(axis="y", visible=False)
    if panel.log:
        axis.set_xscale("log")
    if panel.x_range:
        axis.set_xlim(*panel.x_range)
    else:
        low, high = axis.get_xlim()
        axis.set_xlim(low, high * (high / low) ** 0.15 if panel.log else high * 1.15)  # room for the numbers


def _heat(part: Any, axis: Any, panel: Heat) -> None:
    values = np.asarray(panel.values, dtype=float)
    top = panel.top or float(np.nanmax(np.abs(values)))
    shades = LinearSegmentedColormap.from_list("signed", _SIGNED) if panel.signed else "Blues"
    low = -top if panel.signed else 0.0
    image = axis.imshow(values, cmap=shades, vmin=low, vmax=top, aspect="auto", interpolation="nearest")
    axis.grid(visible=False)
    axis.spines[:].set_visible(False)
    axis.tick_params(length=0, labelcolor=INK)
    if panel.rows:
        axis.set_yticks(range(len(panel.rows)), [plain(name) for name in panel.rows])
    if panel.columns:
        turn = 90 if max(map(len, panel.columns)) * len(panel.columns) > 40 else 0
        axis.set_xticks(range(len(panel.columns)), [plain(name) for name in panel.columns], rotation=turn)
    widest = max((len(line) for row in panel.texts for text in row for line in text.split("\n")), default=1)
    size = min(10.0, 420 / values.shape[1] / max(widest, 1))
    for row, texts in enumerate(panel.texts):
        for column, text in enumerate(texts):
            colour = "white" if abs(values[row, column]) > 0.6 * top else INK
            axis.text(column, row, plain(text), ha="center", va="center", fontsize=size, color=colour)
    for row, column in panel.marks:
        axis.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, fill=False, edgecolor=INK, linewidth=1.8))
    if panel.unit:
        part.colorbar(image, ax=axis, shrink=0.9, pad=0.02).set_label(panel.unit)


def _points(part: Any, axis: Any, panel: Points) -> None:
    for (name, (x, y)), (colour, _, marker) in zip(panel.groups.items(), _LOOKS, strict=False):
        axis.plot(x, y, linestyle="none", marker=marker, markersize=6, color=colour, alpha=0.75, label=name)
    axis.margins(0.12)
    _legend(part, list(panel.groups))


def _legend(part: Any, names: Sequence[str]) -> None:
    """Below the panel, in as many columns as fit its width."""
    longest = max(map(len, names))
    part.legend(loc="outside lower center", ncols=max(1, min(len(names), 60 // (longest + 6))), fontsize=10)


_DRAW: dict[type, Any] = {Lines: _lines, Bars: _bars, Heat: _heat, Points: _points}
