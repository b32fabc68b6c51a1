"""Which columns of a table are read, which are predicted, and which stand beside them: as set, or as the cells tell.

    targets      set, else all numbers but those that are known in advance
    known        set, else those whose cells go on where the targets' end: rows that ask for a forecast
    categories   set, else columns of few texts; in advance where their cells go on, else of the past alone

What was found and what is left out is said.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import NamedTuple

from regard.data.io.tables import missing_column
from regard.data.series.covariates import MOST, NOTHING, Beside, is_category
from regard.data.series.files import Header, Reading, column_of_names, header_of, open_ends, read_table, texts_in
from regard.data.series.table import Table
from regard.errors import ConfigError, DataError
from regard.tasks.series.config import Names, SeriesData

_FEWEST_AHEAD = 3  # rows that end all columns but some, to be believed without a word about targets
Found = Mapping[str, tuple[Table, Header]]  # by what the names of a file's columns begin with


class Columns(NamedTuple):
    """The columns that are read, predicted, and beside them; and what is said of how they were chosen."""

    inputs: tuple[str, ...]
    targets: tuple[str, ...]
    beside: Beside = NOTHING
    notes: tuple[str, ...] = ()

    @property
    def forecast(self) -> tuple[str, ...]:
        """Those that are read or predicted."""
        return tuple(dict.fromkeys((*self.inputs, *self.targets)))


class Stack(NamedTuple):
    """Series one below the other: the column that names them, the columns of each, and which are asked for (all)."""

    table: Table
    name: str
    columns: Columns
    chosen: tuple[str, ...] | None


def choose_columns(found: Found, data: SeriesData, *, where: str, reading: Reading, name: str | None = None) -> Columns:
    """The columns of files; `name` is the one that tells series apart, where they stand one below the other."""
    numbers, texts, counters = _held(found, name)
    inputs, targets = (resolved(names, numbers, [*texts, *counters], where) for names in (data.inputs, data.targets))
    notes: list[str] = []
    if data.known is not None:
        known = resolved(data.known, numbers, texts, where)
    else:
        known = () if data.together else _going_on(found, targets or inputs, reading=reading, name=name)
        if known and data.missing == "last" and not (targets or inputs):  # what ends early is a gap to be filled
            names = ",".join(known)
            notes.append(f"{where}: others end before {names}, and are filled; if known in advance: data.known={names}")
            known = ()
        if known:
            ends = ", ".join(targets or inputs or [column for column in numbers if column not in known])
            notes.append(f"{where}: known in advance, going on after {ends}: {', '.join(known)}; if not: data.known=[]")
    categories = _categories(found, data, where, name) if not inputs or data.categories is not None else ()
    categories += tuple(column for column in known if column in texts and column not in categories)
    _check_few(found, categories, where)
    targets = targets or inputs or tuple(column for column in numbers if column not in (*known, *categories))
    if not targets:
        raise DataError(f"{where}: no column holds numbers; there are: {', '.join(texts) or 'none but dates'}")
    clash = next((column for column in (*known, *categories) if column in targets), None)
    if clash is not None:
        raise ConfigError(
            f"{clash} is to be predicted, and is among data.known or data.categories", hint="take it out of one of them"
        )
    if categories:
        notes.append(f"{where}: read as categories: {', '.join(categories)}; if not: data.categories=[]")
    left_out = [column for column in (*texts, *counters) if column not in categories]
    if left_out and not data.inputs and not data.targets:
        notes.append(f"{where}: left out, since there is nothing to forecast in them: {', '.join(left_out)}")
    numbers_known = tuple(column for column in known if column not in categories)
    inputs = tuple(column for column in inputs if column not in (*known, *categories)) or targets
    return Columns(inputs, targets, Beside(numbers_known, categories, tuple(known)), tuple(notes))


def stack_in(path: str, data: SeriesData, *, reading: Reading) -> Stack | None:
    """The series of a file that stand one below the other, if they have dates of their own or columns beside them."""
    table = read_table(path, encoding=data.encoding, wide=False)
    name = column_of_names(table)
    if name is None:
        return None
    header, series = header_of(table), tuple(dict.fromkeys(cell.strip() for cell in table.column(name)))
    values = [column for column in header.numbers if column != name]
    patterns, chosen = _patterns(data.targets), None
    asked = data
    if patterns and not all(any(fnmatchcase(value, pattern) for value in values) for pattern in patterns):
        if not all(any(fnmatchcase(each, pattern) for each in series) for pattern in patterns):
            return None  # columns of series that are side by side
        chosen = tuple(each for each in series if any(fnmatchcase(each, pattern) for pattern in patterns))
        asked = replace(data, targets=())
    if not values:
        return None
    columns = choose_columns({"": (table, header)}, asked, where=path, reading=reading, name=name)
    if not columns.beside.names and _same_dates(table, name, header.date or ""):
        return None
    return Stack(table, name, columns, chosen)


def resolved(given: Names, present: Sequence[str], texts: Sequence[str], where: str) -> tuple[str, ...]:
    """The columns that are meant: names as they are, patterns as all that fit, texts parted at commas."""
    names: list[str] = []
    for pattern in _patterns(given):
        fitting = [name for name in present if name == pattern or fnmatchcase(name, pattern)]
        fitting += [name for name in texts if name == pattern]
        if not fitting:
            raise missing_column(pattern, present, where=where)
        names += [name for name in fitting if name not in names]
    return tuple(names)


def _held(found: Found, name: str | None) -> tuple[list[str], list[str], list[str]]:
    """The columns of numbers, of texts, and those that number the rows."""
    numbers, texts, counters = list[str](), list[str](), list[str]()
    for prefix, (_, header) in found.items():
        for held, columns in ((numbers, header.numbers), (texts, header.texts), (counters, header.counters)):
            held += [prefix + column for column in columns if column != name]
    return numbers, texts, counters


def _going_on(found: Found, asked: Sequence[str], *, reading: Reading, name: str | None) -> tuple[str, ...]:
    """The columns whose cells go on after those of the columns asked for, or of those that end before others."""
    known: list[str] = []
    for prefix, (table, header) in found.items():
        columns = [column for column in (*header.numbers, *header.texts) if column != name]
        if name is None and all(map(str.strip, _outer_cells(table))):
            continue
        ends = open_ends(table, columns, name=name, reading=reading)
        targets = [column for column in header.numbers if prefix + column in asked]
        if not asked:
            targets = [column for column in header.numbers if column != name and max(ends[column]) >= _FEWEST_AHEAD]
        if not targets or not all(max(ends[column]) for column in targets):
            continue
        known += [prefix + column for column in header.numbers
                  if column not in targets and column != name and not any(ends[column])]  # fmt: skip
        ahead = [min(ends[column][i] for column in targets) for i in range(len(ends[targets[0]]))]
        known += [prefix + column for column in header.texts if column != name and
                  is_category(texts_in(table, column).tolist()) and
                  all(own < rows for own, rows in zip(ends[column], ahead, strict=True) if rows)]  # fmt: skip
    return tuple(column for column in known if column not in asked)


def _categories(found: Found, data: SeriesData, where: str, name: str | None) -> tuple[str, ...]:
    """The columns that are read as categories."""
    if data.categories is None:
        if data.together:
            return ()
        return tuple(
            prefix + column
            for prefix, (table, header) in found.items()
            for column in header.texts
            if column != name and is_category(texts_in(table, column).tolist())
        )
    present = [prefix + column for prefix, (table, _) in found.items() for column in table.header]
    return resolved(data.categories, present, (), where)


def _check_few(found: Found, categories: Sequence[str], where: str) -> None:
    """Refuse columns that hold too many different texts."""
    for prefix, (table, _) in found.items():
        for column in (column for column in table.header if prefix + column in categories):
            n = len(set(texts_in(table, column).tolist()) - {""})
            if n > MOST:
                raise DataError(
                    f"{where}: {column!r} holds {n:,} different texts; categories are at most {MOST}",
                    hint="take it out of data.categories and data.known",
                )


def _outer_cells(table: Table) -> list[str]:
    """The cells of the first and the last row: where a column ends in time, one of them is empty."""
    return [*table.rows[0].cells, *table.rows[-1].cells]


def _patterns(given: Names) -> list[str]:
    return [part.strip() for part in given.split(",")] if isinstance(given, str) else list(given)


def _same_dates(table: Table, name: str, date: str) -> bool:
    """Whether all series have the same dates."""
    own: dict[str, set[str]] = {}
    for series, when in zip(table.column(name), table.column(date), strict=True):
        own.setdefault(series, set()).add(when)
    dates = list(own.values())
    return all(each == dates[0] for each in dates)
