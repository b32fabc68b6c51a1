"""Series as a task's data: where they are, which columns are read and predicted, and how time is divided.

`SeriesData` is the `[data]` section of a recipe:

    train = ["prices.csv"]                       one file; all columns are predicted from their own past
    train = ["AAPL.csv", "MSFT.csv"]             joined by date; columns are called AAPL.close, MSFT.close, …
    targets = ["AAPL.close"], inputs = ["MSFT.close"]     one from another; * stands for anything: "*.close"
    together = true                              at the same time: the last `horizon` steps of what is read
    split = [0.7, 0.1, 0.2]                      shares of the rows to learn from, to choose by, to report on
    split = [8640, 2880, 2880]                   the same as numbers of rows
    valid_from = "2017-07-01", test_from = …     the same as dates

The scale of every column is taken from the training part alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np

from regard.data.io.lines import hash_file
from regard.data.io.tables import missing_column
from regard.data.series.files import Missing, Series, join_series, read_header, read_series, stem_of
from regard.data.series.space import SeriesSpace
from regard.data.series.timestamps import marks_of, parse_timestamps, step_of
from regard.data.series.windows import Windows, places_in
from regard.errors import ConfigError, DataError, UsageError
from regard.tasks.files import DataFiles

Names = str | tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class SeriesData:
    """The `[data]` section: series, what is asked of them, and how time is divided.

    Without `inputs` the targets are predicted from their own past; without `targets` every column is predicted.
    `values` "returns" takes logarithms of ratios of successive rows. `steps` "any" counts rows as steps, whatever lies
    between their dates. `missing` "last" fills gaps with the value before. `season` is the number of steps that
    repeat, for the seasonal naive forecast; unless given, the step tells it. With `quantiles` these are forecast.
    `together` asks for targets at the time of what is read, not after it; they are told from other columns then.
    """

    train: tuple[str, ...] = ()
    inputs: Names = ()
    targets: Names = ()
    context: int = 336
    horizon: int = 96
    together: bool = False
    split: tuple[float, ...] = (0.7, 0.1, 0.2)
    valid_from: str | None = None
    test_from: str | None = None
    values: Literal["levels", "returns"] = "levels"
    steps: Literal["equal", "any"] = "equal"
    missing: Missing = "refuse"
    season: int | None = None
    dates: bool = True
    quantiles: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        wrong = [f"data.{k} is {getattr(self, k)}, at least 1" for k in ("context", "horizon") if getattr(self, k) < 1]
        whole = len(self.split) == 3 and all(part >= 1 and part == int(part) for part in self.split)
        shares = len(self.split) == 3 and min(self.split) > 0 and sum(self.split) <= 1 + 1e-9
        if not whole and not shares:
            wrong.append(f"data.split is {list(self.split)}; three shares of 1 are needed, or three numbers of rows")
        if (self.valid_from is None) != (self.test_from is None):
            wrong.append("data.valid_from and data.test_from are given together or not at all")
        if self.together and self.horizon > self.context:
            wrong.append(f"data.horizon is {self.horizon}, and with data.together it lies within data.context")
        q = self.quantiles
        if q and (list(q) != sorted(set(q)) or not 0 < q[0] <= q[-1] < 1 or 0.5 not in q):
            wrong.append(f"data.quantiles are {list(q)}; rising numbers between 0 and 1 with 0.5 among them are needed")
        if wrong:
            raise ConfigError("; ".join(wrong))

    @property
    def lead(self) -> int:
        """How many of the steps asked for the inputs are known at."""
        return self.horizon if self.together else 0

    @property
    def before(self) -> int:
        """How many rows stand before the first step that can be asked for: one at least, which is repeated naively."""
        return max(1, self.context - self.lead)


@dataclass(frozen=True, eq=False)
class SeriesSets:
    """All the data of a run, read and checked."""

    space: SeriesSpace
    train: Windows
    valid: Windows
    test: Windows


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

    def read(self) -> SeriesSets:
        """Read and check everything."""
        names = tuple(map(stem_of, self.paths)) if len(self.paths) > 1 else ()
        if len(set(names)) < len(names):
            raise DataError(f"files are told apart by their names, and here are {', '.join(names)}")
        inputs, targets = self._columns(names)
        wanted = tuple(dict.fromkeys((*inputs, *targets)))
        series = self._joined(self.paths, names, wanted)
        step = None
        if series.moments is not None:
            step = step_of(series.moments, equal=self.data.steps == "equal", where=series.where)
        edges = self._edges(series)
        mean, scale = SeriesSpace.scales(series.values[: edges[0]], series.columns)
        season = self.data.season if self.data.season is not None else step.season if step is not None else 0
        space = SeriesSpace(inputs, targets, mean, scale, step, season, names)
        parts = [self._windows(series, space, begin, end) for begin, end in zip((0, *edges), edges, strict=False)]
        return SeriesSets(space, *parts)

    def read_known(self, files: Sequence[str], space: SeriesSpace) -> tuple[Series, Windows]:
        """Other files with the same columns, as one test set: every window they hold."""
        series = self.read_columns(files, space, space.columns)
        if len(series) < self.data.before + self.data.horizon:
            raise _too_short(series.name, len(series), "rows", self.data)
        if series.moments is not None:
            step_of(series.moments, equal=self.data.steps == "equal", where=series.where)
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
        return self._joined(paths, names, columns)

    def fingerprints(self) -> dict[str, list[str]]:
        """A SHA-256 of every file."""
        return {"train": [hash_file(path) for path in self.paths]}

    def _columns(self, names: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The inputs and targets by name, patterns resolved."""
        headers = [read_header(path)[0] for path in self.paths]
        present = headers[0]
        if names:
            present = [f"{name}.{column}" for name, header in zip(names, headers, strict=True) for column in header]
        where = ", ".join(self.paths[:3]) + (", …" if len(self.paths) > 3 else "")
        inputs, targets = (_resolved(given, present, where) for given in (self.data.inputs, self.data.targets))
        targets = targets or inputs or tuple(present)
        inputs = inputs or targets
        if self.data.together and (both := [name for name in targets if name in inputs]):
            raise ConfigError(
                f"{both[0]} is asked for at the time it is read: data.together tells columns from others",
                hint="name what is read in data.inputs, without data.targets",
            )
        return inputs, targets

    def _joined(self, paths: Sequence[str], names: Sequence[str], columns: Sequence[str]) -> Series:
        """The columns of one file, or of several side by side; returns, if those are asked for."""
        missing = self.data.missing
        if not names:
            series = read_series(paths[0], columns=columns, missing=missing)
        else:
            parts, kept = [], []
            for path, name in zip(paths, names, strict=True):
                own = [column.removeprefix(f"{name}.") for column in columns if column.startswith(f"{name}.")]
                if own:
                    parts.append(_in_order(read_series(path, columns=own, missing=missing)))
                    kept.append(name)
            series = join_series(parts, names=kept).pick(columns)
        return series.returns() if self.data.values == "returns" else series

    def _edges(self, series: Series) -> tuple[int, int, int]:
        """The rows at which training, validation and test part end."""
        data, n = self.data, len(series)
        if data.valid_from is not None and data.test_from is not None:
            if series.moments is None:
                raise DataError(f"{series.name}: has no dates, and data.valid_from is one")
            dates = parse_timestamps([data.valid_from, data.test_from], where=lambda _: "data.valid_from and test_from")
            first, second = np.searchsorted(series.moments, dates).tolist()
            edges = (first, second, n)
        else:
            shares = np.cumsum(data.split)
            edges = tuple((shares if data.split[0] >= 1 else np.round(shares * n)).astype(int).tolist())
        if edges[2] > n:
            raise DataError(f"{series.name}: has {n:,} rows, and data.split asks for {edges[2]:,}")
        sizes = (edges[0], edges[1] - edges[0], edges[2] - edges[1])
        for name, size, needed in zip(("training", "validation", "test"), sizes, (data.before, 0, 0), strict=True):
            if size < needed + data.horizon:
                raise _too_short(series.name, size, f"rows in the {name} part", data, context=needed > 0)
        return edges

    def _windows(self, series: Series, space: SeriesSpace, begin: int, end: int) -> Windows:
        features = np.zeros((len(series), 0), np.float32)
        if self.data.dates and series.moments is not None and space.step is not None:
            features = marks_of(series.moments, space.step)
        data, targets = self.data, tuple(space.columns.index(name) for name in space.targets)
        places = places_in(begin, end, before=data.before, horizon=data.horizon)
        values = space.scaled(series.pick(space.columns).values)
        return Windows(values, features, places, data.context, data.horizon, len(space.inputs), targets, data.lead)


def _in_order(series: Series) -> Series:
    if series.moments is not None:
        step_of(series.moments, equal=False, where=series.where)
    return series


def _too_short(name: str, n: int, what: str, data: SeriesData, *, context: bool = True) -> DataError:
    needed = f"context {data.context} + horizon {data.horizon}" if context else f"horizon {data.horizon}"
    if context and data.together:
        needed = f"context {data.context}"
    return DataError(
        f"{name}: {n:,} {what} are fewer than {needed}",
        hint="give a longer series, or lower data.context and data.horizon",
    )


def _resolved(given: Names, present: Sequence[str], where: str) -> tuple[str, ...]:
    """The columns that are meant: names as they are, patterns as all that fit, texts parted at commas."""
    patterns = [part.strip() for part in given.split(",")] if isinstance(given, str) else list(given)
    names: list[str] = []
    for pattern in patterns:
        fitting = [name for name in present if name == pattern or fnmatchcase(name, pattern)]
        if not fitting:
            raise missing_column(pattern, present, where=where)
        names += [name for name in fitting if name not in names]
    return tuple(names)
