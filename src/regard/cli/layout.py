"""How verbs that tell many facts lay them out: sections with a name at the left, and columns that fit the terminal."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_NAMES, _LEAST = 11, 60  # columns for a section's name; columns that no terminal is taken to have less of


def terminal_width() -> int:
    """Columns of the terminal; 80 where there is none."""
    return max(_LEAST, shutil.get_terminal_size((80, 24)).columns)


def section(name: str, lines: Iterable[str], *, width: int) -> list[str]:
    """Lines under a name: the name stands before the first; what is too long goes on below, a little further in."""
    wrapped: list[str] = []
    for line in lines:
        further = " " * (len(line) - len(line.lstrip()) + 2)
        room = width - _NAMES
        wrapped += textwrap.wrap(
            line, room, subsequent_indent=further, break_long_words=False, break_on_hyphens=False
        ) or [""]
    return [f"{name if i == 0 else '':<{_NAMES}}{line}".rstrip() for i, line in enumerate(wrapped)]


@dataclass(frozen=True)
class Column:
    """A column of a table. Of those that may go, the one with the highest `rank` goes first; 0 stays.

    A column with a `least` width may be clipped to it.
    """

    name: str
    cells: Sequence[str]
    rank: int = 0
    right: bool = False
    least: int = 0

    @property
    def width(self) -> int:
        """What it takes to show every cell whole."""
        return max(map(len, (self.name, *self.cells)))


def table(columns: Sequence[Column], *, width: int) -> list[str]:
    """A table that is no wider than asked: columns go by their rank, then those that can be clipped are."""
    kept = list(columns)
    while _total(kept) > width and any(column.rank for column in kept):
        kept.remove(max(kept, key=lambda column: column.rank))
    over = max(0, _total(kept) - width)
    widths = []
    for column in kept:
        taken = min(over, max(0, column.width - column.least)) if column.least else 0
        over -= taken
        widths.append(column.width - taken)
    rows = [[column.name for column in kept], *zip(*(column.cells for column in kept), strict=True)]
    return [_row(row, kept, widths) for row in rows]


def clip(text: str, width: int) -> str:
    """A text that is no longer than that; its middle goes."""
    if len(text) <= width:
        return text
    tail = (width - 1) // 2
    return text[: width - 1 - tail] + "…" + text[len(text) - tail :]


def _total(columns: Sequence[Column]) -> int:
    return sum(column.width for column in columns) + 2 * (len(columns) - 1)


def _row(cells: Sequence[str], columns: Sequence[Column], widths: Sequence[int]) -> str:
    shown = (clip(cell, width) for cell, width in zip(cells, widths, strict=True))
    padded = (
        cell.rjust(width) if column.right else cell.ljust(width)
        for cell, column, width in zip(shown, columns, widths, strict=True)
    )
    return "  ".join(padded).rstrip()
