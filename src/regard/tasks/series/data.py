"""Series as a task's data: files to windows of what is read and predicted. `config.py` says how they are named.

The scale of every column is taken from the training part alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

from regard.data.io.lines import hash_file
from regard.data.io.tables import missing_column
from regard.data.series.calendar import DatePattern, learn_pattern, marks_of
from regard.data.series.dates import parse_dates
from regard.data.series.files import Reading, read_header, read_series, stem_of
from regard.data.series.series import Series, fill_rows, join_series
from regard.data.series.space import SeriesSpace
from regard.data.series.windows import Windows, places_in
from regard.errors import ConfigError, DataError, UsageError
from regard.tasks.files import DataFiles
from regard.tasks.series.config import Names, SeriesData

_LEAST_CONTEXT = 16  # that all models can read as they come


@dataclass(frozen=True, eq=False)
class SeriesSets:
    """All the data of a run, read and checked; `notes` are what the user should know about how it was read."""

    space: SeriesSpace
    train: Windows
    valid: Windows
    test: Windows
    notes: tuple[str, ...] = ()


class SeriesTable(NamedTuple):
    """Series side by side, the pattern of their dates, the columns that are read and predicted, the files' names."""

    series: Series
    pattern: DatePattern | None
    inputs: tuple[str, ...]
    targets: tuple[str, ...]
    names: tuple[str, ...]


class SeriesFiles(DataFiles[SeriesData]):
    """The series of a recipe."""

    @cached_property
    def paths(self) -> list[str]:
        """Where the series are."""
        return self.tables(self.data.train, what="train")

    def tables(self, files: Sequence[str], *, what: str = "data") -> list[str]:
        """Files as they are; of a folder, the CSV files in it."""
        paths = []
        for path in self.find(files, what=what):
            inside = sorted(str(entry) for entry in Path(path).glob("*.csv*")) if Path(path).is_dir() else [path]
            if not inside:
                raise DataError(f"{path}: there is no CSV file in this folder")
            paths += inside
        return paths

    def table(self) -> SeriesTable:
        """Read the series, before anything is asked of them."""
        names = tuple(map(stem_of, self.paths)) if len(self.paths) > 1 else ()
        if len(set(names)) < len(names):
            raise DataError(f"files are told apart by their names, and here are {', '.join(names)}")
        inputs, targets, note = self._columns(names)
        wanted = tuple(dict.fromkeys((*inputs, *targets)))
        series, pattern = self._stepped(self._joined(self.paths, names, wanted, self.reading()).noted(note))
        return SeriesTable(series, pattern, inputs, targets, names)

    def read(self) -> SeriesSets:
        """Read and check everything."""
        series, pattern, inputs, targets, names = self.table()
        edges = self._edges(series)
        mean, scale = SeriesSpace.scales(series.values[: edges[0]], series.columns)
        season = self.data.season if self.data.season is not None else pattern.season if pattern is not None else 0
        format = None if series.dates is None else series.dates.format
        naive = SeriesSpace.naive_errors(series.values[: edges[0]], series.columns, season)
        space = SeriesSpace(inputs, targets, mean, scale, pattern, season, names, format, naive)
        train, valid, test = (self._windows(series, space, *part) for part in zip((0, *edges), edges, strict=False))
        return SeriesSets(space, train, replace(valid, held=0), replace(test, held=len(valid)), series.notes)

    def read_known(self, files: Sequence[str], space: SeriesSpace) -> tuple[Series, Windows]:
        """Other files with the same columns, as one test set: every window they hold."""
        series = self.read_columns(files, space, space.columns)
        if len(series) < self.data.before + self.data.horizon:
            raise _too_short(series.name, len(series), "rows", self.data, whole=0)
        return series, self._windows(series, space, 0, len(series))

    def read_columns(self, files: Sequence[str], space: SeriesSpace, columns: Sequence[str]) -> Series:
        """These columns of other files, which stand for those of the recipe in the same order."""
        paths = self.tables(files)
        names = space.names
        if names and len(paths) != len(names):
            names = tuple(name for name in names if any(column.startswith(f"{name}.") for column in columns))
        if len(paths) != max(1, len(names)):
            raise UsageError(
                f"{len(paths)} files were given; needed: {', '.join(names or ('one',))}",
                hint="one file for each that was trained on, parted by commas" if names else None,
            )
        return self.stepped(self._joined(paths, names, columns, self.reading(space)), space)

    def reading(self, space: SeriesSpace | None = None) -> Reading:
        """How files are to be read: as the recipe says; others as the recipe's were, where nothing in them tells."""
        data, kept = self.data, None if space is None else space.format
        order = data.dates if isinstance(data.dates, str) else None
        return Reading(data.missing, dates=order, usual=None if kept is None else kept.order, encoding=data.encoding)

    def stepped(self, series: Series, space: SeriesSpace) -> Series:
        """Another series with its rows filled and its values taken as the run has it."""
        if series.dates is not None:
            learn_pattern(series.dates, where=series.where)  # refuses a date that comes twice
        if self.data.missing == "last" and space.pattern is not None:
            series = fill_rows(series, space.pattern)
        return series.returns() if self.data.values == "returns" else series

    def fingerprints(self) -> dict[str, list[str]]:
        """A SHA-256 of every file."""
        return {"train": [hash_file(path) for path in self.paths]}

    def _columns(self, names: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...], str | None]:
        """The inputs and targets by name, patterns resolved; and what is said of columns that are left out."""
        headers = [read_header(path, encoding=self.data.encoding) for path in self.paths]
        before = [f"{name}." for name in names] or [""]
        present, texts = (
            [prefix + name for prefix, header in zip(before, headers, strict=True) for name in of(header)]
            for of in (lambda header: header.numbers, lambda header: (*header.texts, *header.counters))
        )
        where = ", ".join(self.paths[:3]) + (", …" if len(self.paths) > 3 else "")
        inputs, targets = (_resolved(given, present, texts, where) for given in (self.data.inputs, self.data.targets))
        note = None
        if texts and not inputs and not targets:
            note = f"{where}: left out, since there is nothing to forecast in them: {', '.join(texts)}"
        targets = targets or inputs or tuple(present)
        inputs = inputs or targets
        if not targets:
            raise DataError(f"{where}: no column holds numbers; there are: {', '.join(texts) or 'none but dates'}")
        if self.data.together and (both := [name for name in targets if name in inputs]):
            raise ConfigError(
                f"{both[0]} is asked for at the time it is read: data.together tells columns from others",
                hint="name what is read in data.inputs, without data.targets",
            )
        return inputs, targets, note

    def _joined(self, paths: Sequence[str], names: Sequence[str], columns: Sequence[str], reading: Reading) -> Series:
        """The columns of one file, or of several side by side."""
        if not names:
            return read_series(paths[0], columns=columns, reading=reading)
        parts, kept = [], []
        for path, name in zip(paths, names, strict=True):
            own = [column.removeprefix(f"{name}.") for column in columns if column.startswith(f"{name}.")]
            if own:
                part = read_series(path, columns=own, reading=reading)
                if part.dates is not None:
                    learn_pattern(part.dates, where=part.where)  # refuses a date that comes twice
                parts.append(part)
                kept.append(name)
        return join_series(parts, names=kept).pick(columns)

    def _stepped(self, series: Series) -> tuple[Series, DatePattern | None]:
        """The series with its rows filled and its values taken as asked for, and the pattern of its dates."""
        pattern = None
        if series.dates is not None:
            fit = learn_pattern(series.dates, where=series.where)
            if fit.pattern is None and fit.nearest is not None and self.data.steps == "equal":
                raise fit.irregular(series.where)
            pattern = fit.pattern or fit.nearest
            if self.data.missing == "last" and fit.pattern is not None:
                series = fill_rows(series, fit.pattern)
            elif self.data.steps == "equal":
                said = fit.note(series.where)
                series = series.noted(said and f"{said}; rows count as steps, or are filled: data.missing=last")
        return (series.returns() if self.data.values == "returns" else series), pattern

    def _edges(self, series: Series) -> tuple[int, int, int]:
        """The rows at which training, validation and test part end."""
        data, n = self.data, len(series)
        if data.valid_from is not None and data.test_from is not None:
            if series.dates is None:
                raise DataError(f"{series.name}: has no dates, and data.valid_from is one")
            given = [data.valid_from, data.test_from]
            usual = self.reading().dates or series.dates.format.order
            asked = parse_dates(given, where=lambda _: "data.valid_from and data.test_from", usual=usual)
            first, second = np.searchsorted(series.dates.local, asked.local).tolist()
            edges = (first, second, n)
        else:
            shares = np.cumsum(data.split)
            edges = tuple((shares if data.split[0] >= 1 else np.round(shares * n)).astype(int).tolist())
        if edges[2] > n:
            raise DataError(f"{series.name}: has {n:,} rows, and data.split asks for {edges[2]:,}")
        sizes = (edges[0], edges[1] - edges[0], edges[2] - edges[1])
        for name, size, needed in zip(("training", "validation", "test"), sizes, (data.before, 0, 0), strict=True):
            if size < needed + data.horizon:
                raise _too_short(series.name, size, f"rows in the {name} part", data, whole=n, context=needed > 0)
        return edges

    def _windows(self, series: Series, space: SeriesSpace, begin: int, end: int) -> Windows:
        features = np.zeros((len(series), 0), np.float32)
        if self.data.dates and series.dates is not None and space.pattern is not None:
            features = marks_of(series.dates.local, space.pattern)
        data, targets = self.data, tuple(space.columns.index(name) for name in space.targets)
        places = places_in(begin, end, before=data.before, horizon=data.horizon)
        values = space.scaled(series.pick(space.columns).values)
        return Windows(values, features, places, data.context, data.horizon, len(space.inputs), targets, data.lead)


def _too_short(name: str, n: int, what: str, data: SeriesData, *, whole: int, context: bool = True) -> DataError:
    """The error for `n` rows of something; a run that is to be trained on `whole` of them can ask for less."""
    needed = f"context {data.context} + horizon {data.horizon}" if context else f"horizon {data.horizon}"
    if context and data.together:
        needed = f"context {data.context}"
    horizon = max(1, min(data.horizon, whole // 20))
    hint = "give a longer series"
    if whole >= 2 * _LEAST_CONTEXT:
        fewer = min(data.context, max(_LEAST_CONTEXT, 4 * horizon))
        hint += f", or ask for less: data.context={fewer} data.horizon={horizon}"
    return DataError(f"{name}: {n:,} {what} are fewer than {needed}", hint=hint)


def _resolved(given: Names, present: Sequence[str], texts: Sequence[str], where: str) -> tuple[str, ...]:
    """The columns that are meant: names as they are, patterns as all that fit, texts parted at commas."""
    patterns = [part.strip() for part in given.split(",")] if isinstance(given, str) else list(given)
    names: list[str] = []
    for pattern in patterns:
        fitting = [name for name in present if name == pattern or fnmatchcase(name, pattern)]
        fitting += [name for name in texts if name == pattern]
        if not fitting:
            raise missing_column(pattern, present, where=where)
        names += [name for name in fitting if name not in names]
    return tuple(names)
