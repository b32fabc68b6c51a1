"""How verbs that tell many facts lay them out: sections with a name at the left, and columns that fit the terminal."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_JOINED = "\u00a0"
_NAMES, _LEAST = 11, 60  # columns for a section's name; columns that no terminal is taken to have less of


def terminal_width() -> int:
    """Columns of the terminal; 80 where there is none."""
    return max(_LEAST, shutil.get_terminal_size((80, 24)).columns)


def section(name: str, lines: Iterable[str], *, width: int) -> list[str]:
    """Lines under a name: the name stands before the first; what is too long goes on below, a little further in.

    What is `whole` stays in one line, however long it is.
    """
    wrapped: list[str] = []
    for line in lines:
        further = " " * (len(line) - len(line.lstrip()) + 2)
        room = width - _NAMES
        wrapped += textwrap.wrap(
            line, room, subsequent_indent=further, break_long_words=False, break_on_hyphens=False
        ) or [""]
    named = (f"{name if i == 0 else '':<{_NAMES}}{line}" for i, line in enumerate(wrapped))
    return [line.rstrip().replace(_JOINED, " ") for line in named]


def whole(line: str) -> str:
    """A line that a section does not break, such as a command that can be copied."""
    return line.replace(" ", _JOINED)


@dataclass(frozen=True)
class Column:
    """A column of a table. Of those that may go, the one with the highest `rank` goes first; 0 stays.

    A column with a `least` width may be clipped to it: its texts lose their middle, or with `tail` their end.
    """

    name: str
    cells: Sequence[str]
    rank: int = 0
    right: bool = False
    least: int = 0
    tail: bool = False

    @property
    def width(self) -> int:
        """What it takes to show every cell whole."""
        return max(map(len, (self.name, *self.cells)))

    @property
    def narrowest(self) -> int:
        """What it takes at least."""
        return min(self.width, self.least or self.width)


def table(columns: Sequence[Column], *, width: int) -> list[str]:
    """A table that is no wider than asked: columns go by their rank until the others fit, clipped where they can be."""
    kept = list(columns)
    while _least(kept) > width and any(column.rank for column in kept):
        kept.remove(max(kept, key=lambda column: column.rank))
    widths = [column.width for column in kept]
    for i, column in sorted(enumerate(kept), key=lambda item: -item[1].width):
        over = sum(widths) + 2 * (len(kept) - 1) - width
        widths[i] -= min(max(0, over), column.width - column.narrowest)
    rows = [[column.name for column in kept], *zip(*(column.cells for column in kept), strict=True)]
    return [_row(row, kept, widths) for row in rows]


def clip(text: str, width: int, *, end: bool = False) -> str:
    """A text that is no longer than that; its middle goes, or with `end` its end."""
    if len(text) <= width:
        return text
    tail = 0 if end else (width - 1) // 2
    return text[: width - 1 - tail] + "…" + text[len(text) - tail :]


def _least(columns: Sequence[Column]) -> int:
    return sum(column.narrowest for column in columns) + 2 * (len(columns) - 1)


def _row(cells: Sequence[str], columns: Sequence[Column], widths: Sequence[int]) -> str:
    padded = []
    for cell, column, width in zip(cells, columns, widths, strict=True):
        shown = clip(cell, width, end=column.tail)
        padded.append(shown.rjust(width) if column.right else shown.ljust(width))
    return "  ".join(padded).rstrip()
