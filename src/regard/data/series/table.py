"""The cells of a table of series, before they are numbers and dates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from regard.data.io.dialect import CSV, Dialect, TableRow


class Stacked(NamedTuple):
    """Series one below the other: the column that names them, and the one of their values."""

    names: str
    values: str


@dataclass(frozen=True)
class Table:
    """The cells of a file: a header and rows, each with the number of its line; how they are written; what to say.

    `stacked` is how its series were told apart, where they came one below the other.
    """

    name: str
    header: list[str]
    rows: list[TableRow]
    dialect: Dialect = CSV
    notes: tuple[str, ...] = ()
    stacked: Stacked | None = None

    def column(self, name: str) -> list[str]:
        """The cells of a column."""
        place = self.header.index(name)
        return [cells[place] for _, cells in self.rows]

    def where(self, row: int) -> str:
        """The file and the line of a row."""
        return f"{self.name}:{self.rows[row].line}"
