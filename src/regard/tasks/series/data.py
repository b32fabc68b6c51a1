"""Series as a task's data: files to windows of what is read and predicted. `config.py` says how they are named.

The scale of every column is taken from the training part alone. Series that stand one below the other, with dates of
their own or columns beside them, are learnt so: each keeps its rows, its scale and its parts of time, and all have the
same columns. Else they are put side by side.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

from regard.config.wording import several
from regard.data.io.lines import hash_file
from regard.data.io.tables import missing_column
from regard.data.series.calendar import DatePattern, PatternFit, learn_pattern, marks_of
from regard.data.series.covariates import Beside, Covariate, features_of, fit_covariates, unknown_ahead
from regard.data.series.dates import parse_dates
from regard.data.series.files import Reading, read_header, read_series, read_table, series_in, stem_of
from regard.data.series.series import Series, fill_rows, join_series
from regard.data.series.space import SeriesSpace
from regard.data.series.table import Table
from regard.data.series.windows import Rows, Windows, in_order, places_in
from regard.errors import ConfigError, DataError, UsageError
from regard.tasks.files import DataFiles
from regard.tasks.series.columns import Columns, choose_columns, stack_in
from regard.tasks.series.config import SeriesData

_LEAST_CONTEXT = 16  # that all models can read as they come
_SHOWN = 5  # series that are named
Edges = tuple[int, int, int]


@dataclass(frozen=True, eq=False)
class SeriesSets:
    """All the data of a run, read and checked; `notes` are what the user should know about how it was read."""

    space: SeriesSpace
    train: Windows
    valid: Windows
    test: Windows
    notes: tuple[str, ...] = ()


class SeriesTable(NamedTuple):
    """Series side by side, or one below the other by name; the pattern of their dates, and the columns that are meant.

    `names` are the files', where several are joined; `told_by` is the column that told apart what stood one below the
    other.
    """

    parts: Mapping[str, Series]
    pattern: DatePattern | None
    columns: Columns
    names: tuple[str, ...] = ()
    told_by: str = ""
    notes: tuple[str, ...] = ()

    @property
    def n_rows(self) -> int:
        """How many rows one series has, in the middle of all."""
        return int(np.median([len(part) for part in self.parts.values()]))


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
        stacked = self._stacked()
        if stacked is not None:
            return stacked
        names = tuple(map(stem_of, self.paths)) if len(self.paths) > 1 else ()
        if len(set(names)) < len(names):
            raise DataError(f"files are told apart by their names, and here are {', '.join(names)}")
        columns = self._columns(names)
        series, pattern = self._stepped(
            self._joined(self.paths, names, columns.forecast, columns.beside, self.reading()).noted(*columns.notes)
        )
        return SeriesTable({"": series.parted()[0]}, pattern, columns, names, notes=series.notes)

    def read(self) -> SeriesSets:
        """Read and check everything."""
        table = self.table()
        parts, edges, notes = self._divided(table)
        been = {name: part.at(np.arange(edges[name][0])) for name, part in parts.items()}
        beside, flat = table.columns.beside, list[str]()
        covariates: list[Covariate] = []
        if beside.names:
            cells = {name: np.concatenate([part.beside[name] for part in been.values()]) for name in beside.names}
            covariates, flat = fit_covariates(beside, cells)
        if flat:
            notes.append(f"{', '.join(flat)}: always the same in the training part, and not read")
        space = self._space(table, been, tuple(covariates))
        train, valid, test = (
            self._windows(parts, space, {name: (0, *ends)[i : i + 2] for name, ends in edges.items()}) for i in range(3)
        )
        if table.told_by:
            return SeriesSets(space, train, replace(valid, held=0), replace(test, earlier=valid.places), tuple(notes))
        return SeriesSets(space, train, replace(valid, held=0), replace(test, held=len(valid)), tuple(notes))

    def read_known(self, files: Sequence[str], space: SeriesSpace) -> Windows:
        """Other files with the same columns, as one test set: every window they hold."""
        needed, known = self.data.before + self.data.horizon, {}
        parts = {name: part.parted()[0] for name, part in self.read_parts(files, space, space.columns).items()}
        for name, part in parts.items():
            if len(part) >= needed and (not space.told_by or name in space.series):
                known[name] = part
        if not known:
            longest = max(parts.values(), key=len)
            raise _too_short(longest.name, len(longest), "rows", self.data, whole=0)
        return self._windows(known, space, {name: (0, len(part)) for name, part in known.items()})

    def read_parts(self, files: Sequence[str], space: SeriesSpace, columns: Sequence[str]) -> dict[str, Series]:
        """These columns of other files: of the series in them by name, or of all side by side under no name."""
        if not space.told_by:
            return {"": self.read_columns(files, space, columns)}
        paths = self.tables(files)
        if len(paths) != 1:
            raise UsageError(f"{len(paths)} files were given; needed: one")
        return self.parts_of(read_table(paths[0], encoding=self.data.encoding, wide=False), space, columns)

    def parts_of(self, table: Table, space: SeriesSpace, columns: Sequence[str]) -> dict[str, Series]:
        """The series of a table, by name, with their rows and values taken as the run has it."""
        if space.told_by not in table.header:
            raise missing_column(space.told_by, table.header, where=f"{table.name}:1")
        reading = self.reading(space)
        parts = series_in(table, space.told_by, columns=columns, beside=space.beside, reading=reading)
        return {name: self.stepped(part, space) for name, part in parts.items()}

    def read_columns(self, files: Sequence[str], space: SeriesSpace, columns: Sequence[str]) -> Series:
        """These columns of other files, which stand for those of the recipe in the same order."""
        paths = self.tables(files)
        names = space.names
        if names and len(paths) != len(names):
            read = (*columns, *space.beside.names)
            names = tuple(name for name in names if any(column.startswith(f"{name}.") for column in read))
        if len(paths) != max(1, len(names)):
            raise UsageError(
                f"{len(paths)} files were given; needed: {', '.join(names or ('one',))}",
                hint="one file for each that was trained on, parted by commas" if names else None,
            )
        return self.stepped(self._joined(paths, names, columns, space.beside, self.reading(space)), space)

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

    def _columns(self, names: Sequence[str]) -> Columns:
        """What is read and predicted of files whose series are side by side."""
        headers = [read_header(path, encoding=self.data.encoding) for path in self.paths]
        before = [f"{name}." for name in names] or [""]
        tables = [read_table(path, encoding=self.data.encoding) for path in self.paths]
        where = ", ".join(self.paths[:3]) + (", …" if len(self.paths) > 3 else "")
        found = dict(zip(before, zip(tables, headers, strict=True), strict=True))
        columns = choose_columns(found, self.data, where=where, reading=self.reading())
        if self.data.together and (both := [name for name in columns.targets if name in columns.inputs]):
            raise ConfigError(
                f"{both[0]} is asked for at the time it is read: data.together tells columns from others",
                hint="name what is read in data.inputs, without data.targets",
            )
        return columns

    def _stacked(self) -> SeriesTable | None:
        """The series of a file that are learnt one below the other; None if they are to be side by side."""
        if len(self.paths) != 1 or self.data.inputs or self.data.together:
            return None
        stack = stack_in(self.paths[0], self.data, reading=self.reading())
        if stack is None:
            return None
        table, name, columns, chosen = stack
        parts = series_in(table, name, columns=columns.forecast, beside=columns.beside, reading=self.reading())
        parts = {name: part for name, part in parts.items() if chosen is None or name in chosen}
        notes = [*table.notes, f"{table.name}: {several(len(parts), 'series', 'series')}, told apart by {name!r}"]
        parts, pattern = self._stepped_alike(parts, notes)
        parts = {name: part.parted()[0] for name, part in parts.items()}
        return SeriesTable(parts, pattern, columns, told_by=name, notes=(*notes, *columns.notes))

    def _joined(
        self, paths: Sequence[str], names: Sequence[str], columns: Sequence[str], beside: Beside, reading: Reading
    ) -> Series:
        """The columns of one file, or of several side by side."""
        if not names:
            return read_series(paths[0], columns=columns, beside=beside, reading=reading)
        parts, kept = [], []
        for path, name in zip(paths, names, strict=True):
            own = [column.removeprefix(f"{name}.") for column in columns if column.startswith(f"{name}.")]
            others = beside.of(f"{name}.")
            if own or others.names:
                part = read_series(path, columns=own, beside=others, reading=reading)
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

    def _stepped_alike(
        self, parts: Mapping[str, Series], notes: list[str]
    ) -> tuple[dict[str, Series], DatePattern | None]:
        """The same of several series, whose dates follow the pattern that most rows of them do."""
        fits: dict[str, PatternFit] = {}
        for name, part in parts.items():
            assert part.dates is not None
            fits[name] = learn_pattern(part.dates, where=part.where)
        rows: Counter[DatePattern] = Counter()
        for name, fit in fits.items():
            if fit.pattern is not None:
                rows[fit.pattern] += len(parts[name])
        pattern = rows.most_common(1)[0][0] if rows else None
        if pattern is None:
            longest = max(parts, key=lambda name: len(parts[name]))
            if self.data.steps == "equal":
                raise fits[longest].irregular(parts[longest].where)
            pattern = fits[longest].nearest
        stepped = dict(parts)
        missing = sum(fit.missing for fit in fits.values())
        if self.data.missing == "last" and rows and pattern is not None:
            stepped = {name: fill_rows(part, pattern) for name, part in parts.items()}
            filled = sum(map(len, stepped.values())) - sum(map(len, parts.values()))
            notes += [f"{several(filled, 'row', 'rows')} filled with the row before"] if filled else []
        elif missing and self.data.steps == "equal":
            said = f"{pattern}; {several(missing, 'row is', 'rows are')} missing"
            notes.append(f"{said}; rows count as steps, or are filled: data.missing=last")
        if self.data.values == "returns":
            stepped = {name: part.returns() for name, part in stepped.items()}
        return stepped, pattern

    def _divided(self, table: SeriesTable) -> tuple[dict[str, Series], dict[str, Edges], list[str]]:
        """The series that can be learnt from, where the parts of each end, and what is said of the others."""
        notes = list(table.notes)
        if not table.told_by:
            return dict(table.parts), {name: self._edges(part) for name, part in table.parts.items()}, notes
        edges: dict[str, Edges] = {}
        short, flat, error = [], [], None
        for name, part in table.parts.items():
            try:
                edges[name] = self._edges(part)
            except DataError as problem:
                short.append(f"{name} ({several(len(part), 'row', 'rows')})")
                error = error or DataError(f"{name!r} of {problem}", hint=problem.hint)
                continue
            if (part.values[: edges[name][0]].std(0) == 0).any():
                flat.append(name)
                del edges[name]
        if not edges:
            raise error or DataError(f"{', '.join(flat[:_SHOWN])}: always the same number in the training part")
        if short:
            notes.append(f"not learnt from, too short for data.context and data.horizon: {some_of(short)}")
        if flat:
            notes.append(f"not learnt from, always the same number in the training part: {some_of(flat)}")
        return {name: table.parts[name] for name in edges}, edges, notes

    def _space(self, table: SeriesTable, been: Mapping[str, Series], covariates: tuple[Covariate, ...]) -> SeriesSpace:
        """What the numbers of the training part mean."""
        pattern, (inputs, targets) = table.pattern, (table.columns.inputs, table.columns.targets)
        season = self.data.season if self.data.season is not None else pattern.season if pattern is not None else 0
        mean: dict[str, float] = {}
        scale: dict[str, float] = {}
        naive: dict[str, float] = {}
        for name, part in been.items():
            columns = tuple(f"{name}.{column}" if table.told_by else column for column in part.columns)
            own = SeriesSpace.scales(part.values, columns)
            mean, scale = mean | own[0], scale | own[1]
            naive |= SeriesSpace.naive_errors(part.values, columns, season)
        first = next(iter(been.values()))
        format = None if first.dates is None else first.dates.format
        series = tuple(been) if table.told_by else ()
        return SeriesSpace(
            inputs, targets, mean, scale, pattern, season, table.names, format, naive, covariates, series, table.told_by
        )

    def _edges(self, series: Series) -> Edges:
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

    def _windows(self, parts: Mapping[str, Series], space: SeriesSpace, ranges: Mapping[str, Sequence[int]]) -> Windows:
        """The windows of these rows of each series; of several, in the order of time."""
        data, targets = self.data, tuple(space.columns.index(name) for name in space.targets)
        values, marks, places, begun = [], [], [], 0
        for name, part in parts.items():
            own = space.of(name) if space.told_by else space
            values.append(own.scaled(part.pick(space.columns).values))
            marks.append(self._marks(part, space))
            places.append(begun + places_in(*ranges[name], before=data.before, horizon=data.horizon))
            begun += len(part)
        n_covariates = sum(each.width for each in space.covariates)
        n_dates = marks[0].shape[1] - n_covariates
        windows = Windows(
            np.concatenate(values), np.concatenate(marks), np.concatenate(places), data.context, data.horizon,
            len(space.inputs), targets, data.lead, n_covariates=n_covariates,
            hidden=tuple(n_dates + place for place in unknown_ahead(space.covariates)),
        )  # fmt: skip
        return _owned(windows, parts) if space.told_by else windows

    def _marks(self, series: Series, space: SeriesSpace) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        """The features of the dates of a series, and of the columns beside the others, (n, M)."""
        features = np.zeros((len(series), 0), np.float32)
        if self.data.dates and series.dates is not None and space.pattern is not None:
            features = marks_of(series.dates.local, space.pattern)
        if not space.covariates:
            return features
        return np.concatenate([features, features_of(space.covariates, series.beside, len(series))], 1)


def _owned(windows: Windows, parts: Mapping[str, Series]) -> Windows:
    """Windows that know whose rows they are and when, in the order of time."""
    owners = np.repeat(np.arange(len(parts)), [len(part) for part in parts.values()])
    moments = [part.dates.moments for part in parts.values() if part.dates is not None]
    times: Rows = np.concatenate(moments).astype(np.int64)
    places = in_order(windows.places, times)
    return replace(windows, places=places, owners=owners, times=times, series=tuple(parts))


def some_of(names: Sequence[str]) -> str:
    """A few names, and how many more there are."""
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else "")


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
