"""Series from CSV files: named columns of numbers, a row a step, with a date column or without.

    read_series("prices.csv")                                 every column of numbers
    read_series("AAPL.csv", columns=["close"])                some of them; the others may hold anything
    read_header("prices.csv")                                 which columns hold dates, numbers, texts

Encoding, delimiter, decimal marks and the look of dates are the file's own. A date column is one that is called so
(date, time, Datum, …) or whose cells read as dates. Rows out of order are put in order. What cannot be used is named
with its file and line: cells that are empty, NaN or no numbers, a date that comes twice, dates without a pattern.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from regard.data.io.columns import STRONG
from regard.data.io.dialect import SAMPLE, Dialect, TableRow, sniffed, split_rows
from regard.data.io.encoding import open_text
from regard.data.io.lines import display_name, empty_file
from regard.data.io.numbers import POINT, parse_number, parse_numbers
from regard.data.io.tables import missing_column
from regard.data.series.covariates import NOTHING, Beside, Cells
from regard.data.series.dates import FORMS, Dates, Order, looks_like_dates, parse_dates
from regard.data.series.series import Series, Values
from regard.data.series.stacked import is_series_name, naming_column, side_by_side
from regard.data.series.table import Table
from regard.errors import DataError

Missing = Literal["refuse", "last"]
_SHOWN = 5
_GAPS_HINT = 'fill gaps with the value before: data.missing="last"; choose columns: data.inputs, data.targets'
_BESIDE_HINT = "write 0 where there is nothing, or name the column in data.categories: an empty cell is a category too"
_EMPTY = ("", "nan", "na", "n/a", "null", "none", "nat")
_GAPS = (*_EMPTY, "?", "-")
_PERIODS = ("year", "month", "week", "quarter", "jahr", "monat", "woche", "quartal", "period", "index")
_ROW_NUMBERS = re.compile(r"(unnamed:? ?\d*|index|id|nr|no|row)?", re.IGNORECASE)


@dataclass(frozen=True)
class Header:
    """The columns of a file by what they hold. `counters` number the rows, and are left out."""

    date: str | None
    numbers: tuple[str, ...]
    texts: tuple[str, ...] = ()
    counters: tuple[str, ...] = ()


@dataclass(frozen=True)
class Reading:
    """What a user may say about how a file is to be read: None, or "refuse", where the file tells it."""

    missing: Missing = "refuse"
    dates: Order | None = None
    usual: Order | None = None  # of dates that are open to both readings
    encoding: str | None = None


AS_IT_IS = Reading()


def read_header(path: Path | str, *, encoding: str | None = None) -> Header:
    """What the columns of a file hold, by its first rows."""
    begun = read_table(path, encoding=encoding, limit=SAMPLE)
    header = header_of(begun)
    bare = any(all(map(_is_gap, begun.column(name))) for name in header.numbers)
    if not header.texts and not bare and not any(map(is_series_name, begun.header)):
        return header
    return header_of(read_table(path, encoding=encoding))  # it may be one series below the other, or texts come later


def read_series(
    path: Path | str,
    *,
    columns: Sequence[str] | None = None,
    beside: Beside = NOTHING,
    reading: Reading = AS_IT_IS,
) -> Series:
    """The columns of a CSV file (gzip is undone; "-" is standard input)."""
    table = read_table(path, encoding=reading.encoding)
    return series_of_table(table, columns=columns, beside=beside, reading=reading)


def read_table(path: Path | str, *, encoding: str | None = None, limit: int | None = None, wide: bool = True) -> Table:
    """The cells of a file: at least a header, whose names differ, and a row.

    Series that stand one below the other are put side by side, if the table is to be `wide`.
    """
    name = display_name(path)
    with open_text(path, encoding=encoding) as text:
        dialect, lines = sniffed(text)
        filled = (row for row in split_rows(lines, dialect, name=name) if len(row.cells) == 1 or any(row.cells))
        rows = list(islice(filled, None if limit is None else limit + 1))
        note = text.note
    if not rows:
        raise empty_file(path)
    header = [cell.strip() for cell in rows[0].cells]
    if _is_header(header):
        rows = rows[1:]
    else:
        header = ["date" if looks_like_dates([cell]) else f"column{i}" for i, cell in enumerate(header, start=1)]
    while header and not header[-1] and all(len(row.cells) < len(header) or not row.cells[-1] for row in rows):
        header.pop()  # a delimiter at the end of each line
        rows = [TableRow(line, cells[: len(header)]) for line, cells in rows]
    if not rows:
        raise DataError(f"{name}: has a header and no rows")
    twice = next((name for i, name in enumerate(header) if name in header[:i]), None)
    if twice is not None:
        raise DataError(f"{name}:1: two columns are called {twice!r}")
    short = next((row for row in rows if len(row.cells) != len(header)), None)
    if short is not None:
        raise DataError(f"{name}:{short.line}: has {len(short.cells)} cells, and the header names {len(header)}")
    table = Table(name, header, rows, dialect, (note,) if note else ())
    return table if limit is not None or not wide else _side_by_side(table)


def _side_by_side(table: Table) -> Table:
    """The table with its series side by side, if they come one below the other."""
    found, name = header_of(table), column_of_names(table)
    if name is None or found.date is None:
        return table
    values = [value for value in found.numbers if value != name]
    return side_by_side(table, date=found.date, name=name, values=values) if values else table


def column_of_names(table: Table) -> str | None:
    """The column that tells apart series that stand one below the other; None if there is one series a column."""
    found = header_of(table)
    names = sorted((name for name in table.header if is_series_name(name)), key=lambda name: name not in found.texts)
    names += [name for name in found.texts if name not in names]
    return None if found.date is None or not names else naming_column(table, date=found.date, names=names)


def series_in(
    table: Table, name: str, *, columns: Sequence[str], beside: Beside = NOTHING, reading: Reading = AS_IT_IS
) -> dict[str, Series]:
    """Each of the series that a column names, with its own rows; where they hold dates, all are written alike."""
    found = header_of(table)
    rows: dict[str, list[int]] = {}
    for row, series in enumerate(table.column(name)):
        rows.setdefault(series.strip(), []).append(row)
    dates = _dates_of(table, found, reading)
    return {
        series: _series(
            replace(table, rows=[table.rows[i] for i in own], notes=()),
            found, columns=columns, beside=beside, reading=reading,
            dates=None if dates is None else dates.at(np.array(own, np.int64)),
        )
        for series, own in rows.items()
    }  # fmt: skip


def header_of(table: Table) -> Header:
    """What the columns of a table hold."""
    date = _date_column(table)
    numbers, texts, counters = [], [], []
    for name in table.header:
        cells = list(islice((cell for cell in table.column(name) if not _is_gap(cell)), SAMPLE))
        if name == date:
            continue
        if _ROW_NUMBERS.fullmatch(name) and _is_counting(cells):
            counters.append(name)
        elif not cells or sum(number is not None for number in _parsed(cells, table.dialect)) * 4 >= len(cells):
            numbers.append(name)
        else:
            texts.append(name)
    return Header(date, tuple(numbers), tuple(texts), tuple(counters))


def series_of_table(
    table: Table,
    *,
    columns: Sequence[str] | None = None,
    beside: Beside = NOTHING,
    reading: Reading = AS_IT_IS,
) -> Series:
    """The columns of a table of cells as a series, its rows in the order of time."""
    found = header_of(table)
    chosen = list(found.numbers if columns is None else columns)
    dates = _dates_of(table, found, reading)
    return _series(table, found, columns=chosen, beside=beside, reading=reading, dates=dates)


def _dates_of(table: Table, header: Header, reading: Reading) -> Dates | None:
    if header.date is None:
        return None
    return parse_dates(table.column(header.date), where=table.where, dates=reading.dates, usual=reading.usual)


def _series(
    table: Table, header: Header, *, columns: Sequence[str], beside: Beside, reading: Reading, dates: Dates | None
) -> Series:
    """The columns of a table whose dates are read."""
    for column in columns:
        if column not in table.header:
            raise missing_column(column, table.header, where=f"{table.name}:1")
    for column in beside.known:
        if column not in table.header:
            raise DataError(
                f"{table.name}:1: no column {column!r}, which is known in advance; it has: {', '.join(table.header)}",
                hint=f"add the column {column!r}, filled in for all rows and for those that are asked for",
            )
    order = _order_of(dates)
    sorted_table = table
    if order is not None and dates is not None:
        dates, sorted_table = dates.at(order), replace(table, rows=[table.rows[i] for i in order])
    lines = np.array([line for line, _ in sorted_table.rows], np.int64)
    values = _columns_read(sorted_table, columns)
    ahead = _rows_ahead(sorted_table, columns)
    numbers = [name for name in beside.numbers if name in table.header]
    extra = _columns_read(sorted_table, numbers)
    been = len(lines) - ahead
    _fill_gaps(sorted_table, columns, values[:been], missing=reading.missing, hint=_GAPS_HINT)
    _fill_gaps(sorted_table, numbers, extra[:been], missing=reading.missing, hint=_BESIDE_HINT)
    cells: dict[str, Cells] = dict(zip(numbers, extra.T, strict=True))
    cells |= {name: texts_in(sorted_table, name) for name in beside.texts if name in table.header}
    series = Series(table.name, tuple(columns), values, dates, lines, header.date or "", table.dialect)
    series = replace(series, stacked=table.stacked, beside=cells, ahead=ahead)
    return series.noted(*table.notes, None if order is None else f"{table.name}: its rows are put in the order of time")


def texts_in(table: Table, column: str) -> Cells:
    """The cells of a column of categories; "" for gaps."""
    cells = [cell.strip() for cell in table.column(column)]
    return np.array(["" if cell.lower() in _GAPS else cell for cell in cells])


def open_ends(
    table: Table, columns: Sequence[str], *, name: str | None = None, reading: Reading = AS_IT_IS
) -> dict[str, list[int]]:
    """How many cells of each column, at the end of time, are empty: of the table, or of each series in it."""
    dates = _dates_of(table, header_of(table), reading)
    groups: dict[str, list[int]] = {}
    for row, series in enumerate(table.column(name) if name is not None else [""] * len(table.rows)):
        groups.setdefault(series, []).append(row)
    ends: dict[str, list[int]] = {column: [] for column in columns}
    for own in groups.values():
        order = None if dates is None else _order_of(dates.at(np.array(own, np.int64)))
        rows = [table.rows[own[i]] for i in (range(len(own)) if order is None else order)]
        for column in columns:
            place = table.header.index(column)
            ends[column].append(next((i for i, row in enumerate(reversed(rows)) if not _is_empty(row.cells[place])), 0))
    return ends


def _is_gap(cell: str) -> bool:
    """Whether a cell says that a number is not known."""
    return cell.strip().lower() in _GAPS


def _is_empty(cell: str) -> bool:
    """Whether there is nothing in a cell, so that it may be asked for."""
    return cell.strip().lower() in _EMPTY


def _rows_ahead(table: Table, columns: Sequence[str]) -> int:
    """How many rows at the end hold nothing in these columns; 0 if none does, or all do."""
    places = [table.header.index(column) for column in columns]
    filled = (any(not _is_empty(cells[place]) for place in places) for _, cells in reversed(table.rows))
    return next((ahead for ahead, holds in enumerate(filled) if holds), 0)


def _columns_read(table: Table, columns: Sequence[str]) -> Values:
    """Columns of numbers (n, C), NaN where there is none."""
    if not columns:
        return np.zeros((len(table.rows), 0))
    return np.stack([_numbers(table, column) for column in columns], 1)


def stem_of(path: Path | str) -> str:
    """What a file's columns are called by: its name without endings."""
    return Path(str(path)).name.removesuffix(".gz").removesuffix(".csv").removesuffix(".tsv")


def _is_header(cells: Sequence[str]) -> bool:
    """Whether the first row is one of names: it holds no date, and not numbers alone."""
    dated = any(looks_like_dates([cell]) for cell in cells)
    return not dated and not all(parse_number(cell) is not None or not cell for cell in cells)


def _date_column(table: Table) -> str | None:
    """The column that is called so and reads so; else one that reads so, else one that is called so."""
    first = dict(zip(table.header, table.rows[0].cells, strict=True))
    named = [name for name in table.header if name.lower() in STRONG["ds"]]
    named += [name for name in table.header if name.lower() in _PERIODS]
    dated = [name for name, cell in first.items() if looks_like_dates([cell])]
    reads = [name for name in named if any(form.fullmatch(first[name].strip()) for form in FORMS.values())]
    words = [name for name in named if name.lower() in STRONG["ds"] and parse_number(first[name]) is None]
    both = [name for name in named if name in dated]
    return next(iter([*both, *dated, *reads, *words]), None)


def _is_counting(cells: Sequence[str]) -> bool:
    """Whether cells are whole numbers, each one more than the one before."""
    return all(cell.strip().isdecimal() for cell in cells) and bool((np.diff(list(map(int, cells))) == 1).all())


def _order_of(dates: Dates | None) -> NDArray[np.int64] | None:
    """The order that rows have to be put in; None if they are in order, or if dates that come twice leave it open."""
    if dates is None or (np.diff(dates.moments) > np.timedelta64(0, "s")).all():
        return None
    twice = len(np.unique(dates.moments)) < len(dates)
    return None if twice else np.argsort(dates.moments)


def _numbers(table: Table, column: str) -> Values:
    """The cells of a column as numbers; NaN for gaps, and for what is none."""
    cells = ["nan" if cell.strip().lower() in _GAPS else cell for cell in table.column(column)]
    if table.dialect.decimal == POINT:
        try:
            return np.array(list(map(float, cells)))
        except ValueError:
            pass
    return np.array([math.nan if number is None else number for number in _parsed(cells, table.dialect)])


def _parsed(cells: Sequence[str], dialect: Dialect) -> list[float | None]:
    return parse_numbers(cells, default=dialect.decimal)


def _fill_gaps(table: Table, names: Sequence[str], values: Values, *, missing: Missing, hint: str) -> None:
    """Gaps of these numbers (n, C) are filled by the last one before, if asked for; what is no number is named."""
    rows, places = table.rows, [table.header.index(name) for name in names]
    for row, column in np.argwhere(np.isnan(values)) if missing == "last" else ():
        if row and _is_gap(rows[row].cells[places[column]]):
            values[row, column] = values[row - 1, column]
    wrong = np.argwhere(~np.isfinite(values))
    if not len(wrong):
        return
    shown = [
        f"{table.name}:{rows[i].line}: {names[j]} is {rows[i].cells[places[j]]!r}" for i, j in wrong[:_SHOWN].tolist()
    ]
    more = f"; and {len(wrong) - _SHOWN:,} more" if len(wrong) > _SHOWN else ""
    raise DataError("; ".join(shown) + more + "; numbers are needed", hint=hint)
