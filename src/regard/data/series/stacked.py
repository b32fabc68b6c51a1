"""Many series in one table, one below the other: a row names its series, its date and its value.

    unique_id,ds,y                        ds,A,B
    A,2020-01-01,1                        2020-01-01,1,7
    A,2020-01-02,2            →           2020-01-02,2,8
    B,2020-01-01,7
    B,2020-01-02,8

Such a table is known by dates that come more than once and a column of names under which each comes once. Series that
are read together are put side by side, at the dates that all of them have.
"""

from __future__ import annotations

from dataclasses import replace

from regard.data.io.columns import STRONG
from regard.data.io.dialect import TableRow
from regard.data.series.table import Stacked, Table
from regard.errors import DataError

MOST = 10_000  # series


def is_series_name(name: str) -> bool:
    """Whether a column is called as those are that name series."""
    return name.lower().replace("_", "").replace(" ", "") in STRONG["unique_id"] | {"id"}


def naming_column(table: Table, *, date: str, names: list[str]) -> str | None:
    """Which of these columns tells series apart that stand one below the other, if they do."""
    dates = table.column(date)
    if len(set(dates)) == len(dates):  # as they are if no two series have a date in common
        return next((name for name in names if is_series_name(name) and _repeats(table.column(name))), None)
    return next((name for name in names if _tells(table.column(name), dates)), None)


def side_by_side(table: Table, *, date: str, name: str, values: list[str]) -> Table:
    """The table with a column for each series that the column `name` tells apart."""
    dates = table.column(date)
    rows: dict[str, dict[str, TableRow]] = {}
    for series, when, row in zip(table.column(name), dates, table.rows, strict=True):
        rows.setdefault(when, {})[series] = row
    order = list(dict.fromkeys(table.column(name)))
    shared = [(when, found) for when, found in rows.items() if len(found) == len(order)]
    if not shared or len(order) > MOST:
        problem = f"{len(order):,} series of column {name!r} have no date in common"
        raise DataError(f"{table.name}: {problem if not shared else f'{len(order):,} series are more than {MOST:,}'}",
                        hint="leave out the rows of some of them")  # fmt: skip
    places = [table.header.index(value) for value in values]
    header = [date, *(series if len(values) == 1 else f"{series}.{value}" for series in order for value in values)]
    wide = [
        TableRow(found[order[0]].line, [when, *(found[series].cells[i] for series in order for i in places)])
        for when, found in shared
    ]
    left = len(rows) - len(shared)
    note = f"{table.name}: {len(order):,} series, told apart by {name!r}, at the {len(shared):,} dates that all have"
    note += f"; {left:,} dates are left out" if left else ""
    stacked = Stacked(name, values[0]) if len(values) == 1 else None
    return replace(table, header=header, rows=wide, notes=(*table.notes, note), stacked=stacked)


def _tells(names: list[str], dates: list[str]) -> bool:
    """Whether each date comes once under each name, and there are several."""
    return len(set(names)) > 1 and len(set(zip(names, dates, strict=True))) == len(dates)


def _repeats(names: list[str]) -> bool:
    """Whether there are several names, each of some rows."""
    return 1 < len(set(names)) <= len(names) // 4
