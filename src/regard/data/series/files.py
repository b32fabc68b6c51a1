"""Series from CSV files: named columns of numbers, a row a step, with a date column or without.

    read_series("prices.csv")                                 every column but the date
    read_series("AAPL.csv", columns=["close"])                some of them; the others may hold anything
    join_series([a, b], names=["AAPL", "MSFT"])               the rows whose dates are in all, columns AAPL.close, …

A date column is one that is called so (date, time, timestamp, …) or whose first cell reads as a date. What cannot be
used is named with its file and line: cells that are empty, NaN or no numbers, dates out of order, unequal steps.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from regard.data.io.lines import display_name, empty_file, stream_lines
from regard.data.io.tables import missing_column
from regard.data.series.timestamps import DATE_NAMES, Moments, looks_like_date, parse_timestamps
from regard.errors import DataError

Missing = Literal["refuse", "last"]
Values = NDArray[np.float64]
_SHOWN = 5
_GAPS = ("", "nan", "na", "n/a", "null", "none", "?", "-")


@dataclass(frozen=True, eq=False)
class Series:
    """Numbers (n, C) of named columns, their dates (n,) if they have any, and the line each row came from."""

    name: str
    columns: tuple[str, ...]
    values: Values
    moments: Moments | None
    lines: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.values)

    def where(self, row: int) -> str:
        """The file and the line of a row, for messages."""
        return f"{self.name}:{self.lines[row]}"

    def pick(self, columns: Sequence[str]) -> Series:
        """Some columns, in this order."""
        for column in columns:
            if column not in self.columns:
                raise missing_column(column, self.columns, where=self.name)
        places = [self.columns.index(column) for column in columns]
        return replace(self, columns=tuple(columns), values=self.values[:, places])

    def returns(self) -> Series:
        """Logarithms of the ratio to the row before; the first row has none and goes."""
        wrong = np.argwhere(self.values <= 0)
        if len(wrong):
            row, column = map(int, wrong[0])
            raise DataError(
                f"{self.where(row)}: {self.columns[column]} is {self.values[row, column]:g}, "
                "and returns need numbers above 0",
                hint='take the values as they are: data.values="levels"',
            )
        moments = None if self.moments is None else self.moments[1:]
        return replace(self, values=np.diff(np.log(self.values), axis=0), moments=moments, lines=self.lines[1:])


def read_header(path: Path | str) -> tuple[list[str], str | None]:
    """The names of a file's columns of numbers, and of its date column."""
    rows = _rows(path, limit=2)
    date = _date_column(rows)
    return [name for name in rows[0][1] if name != date], date


def read_series(path: Path | str, *, columns: Sequence[str] | None = None, missing: Missing = "refuse") -> Series:
    """The columns of a CSV file (comma, semicolon or tab; gzip is undone; "-" is standard input)."""
    return series_of_rows(_rows(path), name=display_name(path), columns=columns, missing=missing)


def series_of_rows(
    table: Sequence[tuple[int, list[str]]], *, name: str, columns: Sequence[str] | None, missing: Missing
) -> Series:
    """The columns of a table of cells: a header and rows, each with the number of its line."""
    (_, header), *rows = table
    date = _date_column(table)
    chosen = [column for column in header if column != date] if columns is None else list(columns)
    for column in chosen:
        if column not in header:
            raise missing_column(column, header, where=f"{name}:1")
    short = next(((line, cells) for line, cells in rows if len(cells) != len(header)), None)
    if short is not None:
        raise DataError(f"{name}:{short[0]}: has {len(short[1])} cells, and the header names {len(header)}")
    lines = np.array([line for line, _ in rows], np.int64)
    values = _numbers(rows, [header.index(column) for column in chosen], chosen, name=name, missing=missing)
    moments = None
    if date is not None:
        place = header.index(date)
        moments = parse_timestamps([cells[place] for _, cells in rows], where=lambda row: f"{name}:{lines[row]}")
    return Series(name, tuple(chosen), values, moments, lines)


def join_series(parts: Sequence[Series], *, names: Sequence[str]) -> Series:
    """Series side by side, at the dates that all of them have; columns are called name.column."""
    without = next((part for part in parts if part.moments is None), None)
    if without is not None:
        raise DataError(f"{without.name}: has no date column; several files are joined by their dates")
    dates = [part.moments for part in parts if part.moments is not None]
    common = reduce(np.intersect1d, dates)
    if not len(common):
        raise DataError(f"{', '.join(part.name for part in parts)}: have no date in common")
    rows = [np.searchsorted(own, common) for own in dates]
    columns = tuple(f"{name}.{column}" for name, part in zip(names, parts, strict=True) for column in part.columns)
    values = np.concatenate([part.values[at] for part, at in zip(parts, rows, strict=True)], 1)
    return Series(parts[0].name, columns, values, common, parts[0].lines[rows[0]])


def stem_of(path: Path | str) -> str:
    """What a file's columns are called by: its name without endings."""
    return Path(str(path)).name.removesuffix(".gz").removesuffix(".csv").removesuffix(".tsv")


def _rows(path: Path | str, *, limit: int | None = None) -> list[tuple[int, list[str]]]:
    """The lines that are not blank, as cells, with their numbers; at least a header and a row."""
    lines = stream_lines(path)
    first = next(lines, None)
    if first is None:
        raise empty_file(path)
    separator = max(",;\t", key=first.count)
    rows = [(1, [cell.strip() for cell in next(csv.reader([first], delimiter=separator))])]
    for number, cells in enumerate(csv.reader(lines, delimiter=separator), start=2):
        if cells:
            rows.append((number, cells))
        if len(rows) == limit:
            break
    if len(rows) < 2:
        raise DataError(f"{display_name(path)}: has a header and no rows")
    names = rows[0][1]
    twice = next((name for i, name in enumerate(names) if name in names[:i]), None)
    if twice is not None:
        raise DataError(f"{display_name(path)}:1: two columns are called {twice!r}")
    return rows


def _date_column(rows: Sequence[tuple[int, list[str]]]) -> str | None:
    header, first = rows[0][1], rows[1][1]
    named = [name for name in header if name.lower() in DATE_NAMES]
    dated = [name for name, cell in zip(header, first, strict=False) if looks_like_date(cell)]
    return next((name for name in named if name in dated), None) or next(iter(dated), None) or next(iter(named), None)


def _numbers(
    rows: Sequence[tuple[int, list[str]]], places: Sequence[int], names: Sequence[str], *, name: str, missing: Missing
) -> Values:
    """The cells of columns as numbers (n, C); what is none is named, or filled with the last one before it."""
    values = np.array([[_number(cells[index]) for index in places] for _, cells in rows], np.float64)
    values = values.reshape(len(rows), len(places))
    for row, column in np.argwhere(np.isnan(values)) if missing == "last" else ():
        if row and rows[row][1][places[column]].strip().lower() in _GAPS:
            values[row, column] = values[row - 1, column]
    wrong = np.argwhere(~np.isfinite(values))
    if not len(wrong):
        return values
    shown = [f"{name}:{rows[i][0]}: {names[j]} is {rows[i][1][places[j]]!r}" for i, j in wrong[:_SHOWN].tolist()]
    more = f"; and {len(wrong) - _SHOWN:,} more" if len(wrong) > _SHOWN else ""
    raise DataError(
        "; ".join(shown) + more + "; numbers are needed",
        hint='fill gaps with the value before: data.missing="last"; choose columns: data.inputs, data.targets',
    )


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return math.nan
