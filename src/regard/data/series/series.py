"""A series in memory: named columns of numbers, a row a step, with dates or without.

series.pick(["close"])                                    some columns
series.returns()                                          logarithms of ratios of successive rows
join_series([a, b], names=["AAPL", "MSFT"])               the rows whose dates are in all, columns AAPL.close, …
fill_rows(series, pattern)                                dates that the pattern has and the rows do not, filled
series.parted()                                           what has been, and the rows at the end that ask for more
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from regard.data.io.dialect import CSV, Dialect
from regard.data.io.tables import missing_column
from regard.data.series.calendar import DatePattern
from regard.data.series.covariates import Cells
from regard.data.series.dates import Dates, local_times, utc_times
from regard.data.series.table import Stacked
from regard.errors import DataError

Values = NDArray[np.float64]
_MOST_FILLED = 10  # times the rows that are there


@dataclass(frozen=True, eq=False)
class Series:
    """Numbers (n, C) of named columns, their dates (n,) if they have any, and the line each row came from.

    `date_column` and `dialect` are how the file calls its dates and writes its cells; `notes` are what the user should
    know about how it was read; `stacked` how series were told apart that came one below the other. `beside` are the
    cells (n,) of columns that are not forecast themselves; the last `ahead` rows hold nothing but these: their values
    are NaN, and asked for.
    """

    name: str
    columns: tuple[str, ...]
    values: Values
    dates: Dates | None
    lines: NDArray[np.int64]
    date_column: str = "date"
    dialect: Dialect = CSV
    notes: tuple[str, ...] = ()
    stacked: Stacked | None = None
    beside: Mapping[str, Cells] = field(default_factory=dict)
    ahead: int = 0

    def __len__(self) -> int:
        return len(self.values)

    def where(self, row: int) -> str:
        """The file and the line of a row, for messages."""
        return f"{self.name}:{self.lines[row]}"

    def noted(self, *notes: str | None) -> Series:
        """The same with more to say, where there is something."""
        return replace(self, notes=(*self.notes, *(note for note in notes if note)))

    def pick(self, columns: Sequence[str]) -> Series:
        """Some columns, in this order."""
        for column in columns:
            if column not in self.columns:
                raise missing_column(column, self.columns, where=self.name)
        places = [self.columns.index(column) for column in columns]
        return replace(self, columns=tuple(columns), values=self.values[:, places])

    def at(self, rows: NDArray[np.int64]) -> Series:
        """Some rows, in this order."""
        dates = None if self.dates is None else self.dates.at(rows)
        beside = {name: cells[rows] for name, cells in self.beside.items()}
        return replace(self, values=self.values[rows], dates=dates, lines=self.lines[rows], beside=beside)

    def parted(self) -> tuple[Series, Series]:
        """What has been, and the rows at the end that are asked for."""
        if not self.ahead:
            return self, self.at(np.arange(0))
        n = len(self) - self.ahead
        return replace(self.at(np.arange(n)), ahead=0), self.at(np.arange(n, len(self)))

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
        return replace(self.at(np.arange(1, len(self))), values=np.diff(np.log(self.values), axis=0))


def join_series(parts: Sequence[Series], *, names: Sequence[str]) -> Series:
    """Series side by side, at the dates that all of them have; columns are called name.column."""
    without = next((part for part in parts if part.dates is None), None)
    if without is not None:
        raise DataError(f"{without.name}: has no date column; several files are joined by their dates")
    moments = [part.dates.moments for part in parts if part.dates is not None]
    common = reduce(np.intersect1d, moments)
    if not len(common):
        raise DataError(f"{', '.join(part.name for part in parts)}: have no date in common")
    rows = [np.searchsorted(own, common) for own in moments]
    columns = tuple(f"{name}.{column}" for name, part in zip(names, parts, strict=True) for column in part.columns)
    values = np.concatenate([part.values[at] for part, at in zip(parts, rows, strict=True)], 1)
    notes = tuple(note for part in parts for note in part.notes)
    beside = {f"{name}.{column}": cells[at] for name, part, at in zip(names, parts, rows, strict=True)
              for column, cells in part.beside.items()}  # fmt: skip
    open_rows = np.flatnonzero(np.isnan(values).any(1))
    ahead = len(common) - int(open_rows[0]) if len(open_rows) else 0
    return replace(parts[0].at(rows[0]), columns=columns, values=values, notes=notes, beside=beside, ahead=ahead)


def fill_rows(series: Series, pattern: DatePattern) -> Series:
    """The series with a row at each date that the pattern has between its rows; it repeats the row before."""
    if series.dates is None or len(series) < 2:
        return series
    times = series.dates.local if pattern.zone else series.dates.moments
    missing = np.append(np.maximum(pattern.between(times[:-1], times[1:]), 0), 0)
    if not missing.any():
        return series
    if missing.sum() > _MOST_FILLED * len(series):
        most = int(np.argmax(missing))
        raise DataError(
            f"{series.where(most)}: {missing[most]:,} rows are missing after it, too many to fill",
            hint='begin the file later, or let rows count as steps: data.steps="any" data.missing="refuse"',
        )
    rows = np.repeat(np.arange(len(series)), missing + 1)
    ahead = int((rows >= len(series) - series.ahead).sum())
    steps = np.arange(len(rows)) - np.searchsorted(rows, rows)
    shown = pattern.after(times[rows], steps)
    shown = np.where(steps > 0, shown, times[rows])
    moments = utc_times(shown, pattern.zone) if pattern.zone else shown
    format = series.dates.format
    dates = Dates(moments, local_times(moments, format.zone), format)
    filled = int(missing.sum())
    note = f"{series.name}: {filled:,} row{'s' * (filled > 1)} filled with the row before"
    return replace(series.at(rows), dates=dates, ahead=ahead).noted(note)
