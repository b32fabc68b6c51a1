"""The end of a series as a forecaster is asked about it: what has been, and what is known in advance of what comes.

    question = Question(series, future, space, data, n_dates=…)
    question.cut([len(series)])          the window before the end, with the features of the steps to come
    question.times(14)                   the dates that are asked for, as the file writes them

Rows at the end of a file whose targets are empty are the steps that are asked for: their dates are taken as they are,
and the columns that are known in advance from them. Where there are none, the pattern of the dates goes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from regard.config.wording import several
from regard.data.series.calendar import continue_dates, marks_of
from regard.data.series.covariates import features_of, unknown_ahead
from regard.data.series.dates import Moments, local_times
from regard.data.series.series import Series
from regard.data.series.space import SeriesSpace
from regard.data.series.windows import Cut, Numbers
from regard.errors import DataError
from regard.tasks.series.config import SeriesData


@dataclass(frozen=True, eq=False)
class Question:
    """What has been of a series, the rows that are asked for as far as there are any, and what its numbers mean."""

    series: Series
    future: Series
    space: SeriesSpace
    data: SeriesData
    n_dates: int = 0

    def __post_init__(self) -> None:
        """What the model needs has to be there."""
        series, data = self.series, self.data
        if len(series) < data.context:
            raise DataError(f"{series.name}: {len(series):,} rows are fewer than the context of {data.context:,}")
        if self.n_dates and not self.dated:
            raise DataError(f"{series.name}: has no date column, and the model was trained on dates")
        self._check_known()

    @property
    def dated(self) -> bool:
        """Whether the dates to come can be told."""
        return self.series.dates is not None and self.space.pattern is not None

    @property
    def ends(self) -> list[int]:
        """Where the windows end that a forecast is made of: at the last row; together, every horizon before it too."""
        data, n = self.data, len(self.series)
        return list(range(n, data.context - 1, -data.horizon))[::-1] if data.together else [n]

    def cut(self, ends: Sequence[int]) -> Cut:
        """The windows that end at these rows; nothing is known of their targets."""
        context, horizon = self.data.context, self.data.horizon
        marks, ahead = self._marks
        past, known = (np.stack([each[end - context : end] for end in ends]) for each in (self.scaled, marks))
        unknown = np.zeros((len(ends), horizon, len(self.space.targets)), np.float32)
        return Cut(past, known, unknown, known[:, -horizon:] if self.data.together else ahead[None])

    @cached_property
    def scaled(self) -> Numbers:
        """The inputs in the units of the training part, (n, C)."""
        space = self.space
        mean, scale = (np.array([each[name] for name in space.inputs]) for each in (space.mean, space.scale))
        scaled: Numbers = ((self.series.values - mean) / scale).astype(np.float32)
        return scaled

    @cached_property
    def ahead(self) -> Moments:
        """The dates to come: those of the rows that are asked for, and from there on by the pattern."""
        assert self.series.dates is not None
        assert self.space.pattern is not None
        asked = self.future.dates.moments[: self.data.horizon] if self.future.dates is not None else None
        if asked is None or not len(asked):
            return continue_dates(self.space.pattern, self.series.dates.moments[-1], self.data.horizon)
        rest = self.data.horizon - len(asked)
        return np.concatenate([asked, continue_dates(self.space.pattern, asked[-1], rest)]) if rest else asked

    def times(self, n: int) -> list[str]:
        """The names of the steps to come: dates, or numbers from 1; together, those of the last rows."""
        series = self.series
        if self.data.together:
            rows = range(len(series) - n + 1, len(series) + 1)
            return [str(row) for row in rows] if series.dates is None else series.dates.written()[-n:]
        if series.dates is None or not self.dated:
            return [str(i + 1) for i in range(n)]
        return series.dates.format.write(self.ahead)

    def behind(self) -> list[str]:
        """The names of the steps that are read."""
        n, dates = self.data.context, self.series.dates
        return [str(i - n) for i in range(n)] if dates is None else dates.written()[-n:]

    def beside(self) -> list[tuple[str, list[float | str | None]]]:
        """The columns beside the others, over what is read and, where it is known in advance, what is asked for."""
        n, T, found = self.data.context, self.data.horizon, list[tuple[str, list[float | str | None]]]()
        for each in self.space.covariates:
            if each.name in self.series.beside:
                cells = self.series.beside[each.name][-n:].tolist()
                cells += self.future.beside[each.name][:T].tolist() if each.known else [None] * T
                found.append((each.name, cells))
        return found

    def surprises(self) -> dict[str, list[str]]:
        """The texts that are none of the categories of a column, by its name; none where it is not there at all."""
        found: dict[str, list[str]] = {}
        for each in self.space.covariates:
            if each.name not in self.series.beside:
                found[each.name] = []
                continue
            parts = [self.series.beside[each.name][-self.data.context :]]
            parts += [self.future.beside[each.name][: self.data.horizon]] if each.known else []
            texts = sorted({text for cells in parts for text in each.strangers(cells)})
            if texts:
                found[each.name] = texts
        return found

    def breaks(self) -> str | None:
        """What is said where the rows that are asked for are not those that the pattern has next."""
        if not self.dated or self.future.dates is None or self.series.dates is None or self.space.pattern is None:
            return None
        asked = self.future.dates.moments[: self.data.horizon]
        expected = continue_dates(self.space.pattern, self.series.dates.moments[-1], len(asked))
        wrong = np.flatnonzero(asked != expected)
        if not len(wrong):
            return None
        place = int(wrong[0])
        written = self.series.dates.format.write(expected[place : place + 1])[0]
        return f"{self.future.where(place)}: {written} would come next by the dates before; the row's own date is kept"

    @cached_property
    def _marks(self) -> tuple[Numbers, Numbers]:
        """The features of all rows, (n, M), and of the steps that are asked for, (T, M)."""
        series, space, T = self.series, self.space, self.data.horizon
        marks, ahead = np.zeros((len(series), 0), np.float32), np.zeros((T, 0), np.float32)
        if self.n_dates and series.dates is not None and space.pattern is not None:
            zone = series.dates.format.zone
            marks, ahead = (
                marks_of(local, space.pattern) for local in (series.dates.local, local_times(self.ahead, zone))
            )
        if not space.covariates:
            return marks, ahead
        known = {each.name: self.future.beside[each.name][:T] for each in space.covariates if each.known}
        coming = features_of(space.covariates, known, T)
        coming[:, list(unknown_ahead(space.covariates))] = 0
        return (
            np.concatenate([marks, features_of(space.covariates, series.beside, len(series))], 1),
            np.concatenate([ahead, coming], 1),
        )

    def _check_known(self) -> None:
        """Refuse a file that does not say what is known in advance of all steps that are asked for."""
        names, T = self.space.beside.known, self.data.horizon
        if not names:
            return
        rows = len(self.future)
        for row in range(min(rows, T)):
            for name in (name for name in self.space.beside.numbers if name in names):
                if not np.isfinite(self.future.beside[name][row]):
                    raise DataError(f"{self.future.where(row)}: {name} is empty or no number, and is known in advance")
        if rows >= T:
            return
        last = f"row {len(self.series):,}" if self.series.dates is None else self.series.dates.written()[-1]
        are, targets = "is" if len(names) == 1 else "are", ", ".join(self.space.targets[:3])
        raise DataError(
            f"{self.series.name}: {', '.join(names)} {are} needed for the {several(T, 'step', 'steps')} after {last}, "
            f"and there {'is a row' if rows == 1 else 'are rows'} for {rows or 'none'} of them",
            hint=f"add {several(T - rows, 'row', 'rows')} at the end, with {', '.join(names)} filled in and "
            f"{targets} left empty" + (f"; the first is of {self.times(T)[rows]}" if self.dated else ""),
        )
