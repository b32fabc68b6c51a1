"""A forecaster of series.

model = regard.load("runs/etth1")
model("prices.csv")                       → Forecast: the steps after the file's last row, in its own units
model(frame)                              the same of a pandas DataFrame, a dict of columns, or an array
model("AAPL.csv,MSFT.csv")                several files, where it was trained on several
model.look("prices.csv", "OT").plot("seen.png")
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Unpack

import numpy as np
from torch import nn

from regard.checkpoints.spec import Pretrained
from regard.config.recipe import Recipe
from regard.config.wording import several
from regard.data.series.calendar import continue_dates, marks_of
from regard.data.series.dates import Moments, local_times
from regard.data.series.inputs import SeriesInput, check_series, series_of
from regard.data.series.series import Series
from regard.data.series.space import FILE, SeriesSpace
from regard.data.series.windows import Cut, Windows
from regard.errors import CheckpointError, DataError, UsageError
from regard.models.interfaces.series import Forecaster
from regard.models.patch_forecaster import PatchForecaster
from regard.tasks.base import Predictor, ScoreData, folder_of, one_or_many
from regard.tasks.decode_settings import NoSettings
from regard.tasks.measuring import Scores
from regard.tasks.registry import NoOptions
from regard.tasks.series.baselines import Ridge, score_windows
from regard.tasks.series.data import SeriesFiles
from regard.tasks.series.forecasting import Forecast, forecasts_of, inputs_of
from regard.tasks.series.intervals import Intervals, widened

if TYPE_CHECKING:
    from regard.inspection.forward_case import ForwardCase
    from regard.inspection.invariants import Check
    from regard.tasks.series.look import ShownForecast


class SeriesPredictor(Predictor[SeriesInput, Forecast]):
    """A forecaster with the scale of its columns, and the linear forecast it is measured against."""

    suffixes = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
    headed = True
    undecoded = "to a forecaster: it forecasts its whole horizon"
    verified_on = ("windows", "windows of random numbers")

    def __init__(
        self,
        module: nn.Module,
        space: SeriesSpace,
        config: Recipe,
        ridge: Ridge | None = None,
        intervals: Intervals | None = None,
    ) -> None:
        super().__init__(module, config)
        self.space, self.ridge, self.intervals = space, ridge, intervals
        assert isinstance(module, Forecaster)
        self.forecaster, self.shape = module, module.config

    @classmethod
    def open(cls, pretrained: Pretrained, recipe: Recipe, module: nn.Module, *, precision: str) -> Self:
        """The predictor of an opened model."""
        folder = folder_of(pretrained)
        space = SeriesSpace.load(folder)
        if (told := len(space.targets)) != (n := len(pretrained.options["targets"])):
            raise CheckpointError(f"{folder / FILE}: names {several(told, 'target', 'targets')}, and the model has {n}")
        return cls(module, space, recipe, Ridge.load(folder), Intervals.load(folder))

    def is_single(self, inputs: Any) -> bool:
        """Whether this is one series, not several."""
        return not isinstance(inputs, list | tuple | Iterator)

    def check_inputs(self, inputs: Sequence[Any]) -> None:
        """Series are paths, tables of columns or arrays."""
        check_series(inputs)

    def predict(
        self, inputs: Sequence[SeriesInput], *, keys: Sequence[int] | None = None, **options: Unpack[NoSettings]
    ) -> list[Forecast]:
        """The steps after the last row of each series; commas part files that belong together.

        Where targets are told at the time of what is read, all rows of a series that have a whole window.
        """
        self.scoring_options(options)
        several = [self._read(given, f"input {number}") for number, given in enumerate(inputs)]
        return [self._forecast(series, self._ends(series)) for series in several]

    __call__ = one_or_many(predict)

    def files_in(self, folder: Path) -> list[str]:
        """A series a file; where it was trained on several files, those of the folder belong together."""
        return [str(folder)] if self.space.names else super().files_in(folder)

    def under_name(self, name: str, output: Forecast) -> str:
        """The table with the name of its file in a first column."""
        return output.plain(name)

    def case(self, input: SeriesInput, target: str | None = None, **options: Any) -> ForwardCase:
        """The end of a series, ready to be looked at: what the forecast of a target (else the first) looked at."""
        if target is not None and target not in self.space.targets:
            raise UsageError(f"{target!r} is not forecast; there are {', '.join(self.space.targets)}")
        place = 0 if target is None else self.space.targets.index(target)
        return self._case(self._read(input), place, truth=self._truth(input, self.space.targets[place]))

    def _truth(self, given: SeriesInput, name: str) -> Any:
        """What a target was at the steps that are told, (T,), where that is known: when it is told of the same time."""
        data = self.config.data
        if not data.together:
            return None
        try:
            return self._read(given, columns=(*self.space.inputs, name)).pick([name]).values[-data.horizon :, 0]
        except DataError:  # the input does not hold it
            return None

    def test_sets(self, data: ScoreData) -> Mapping[str, Windows]:
        """The windows to score on: those of the files given, else of the recipe's test part."""
        return {",".join(data.files): self.given_examples(data)} if data.files else self.recipe_tests(data)

    def given_examples(self, data: ScoreData) -> Windows:
        """Every window of the files given."""
        files = [part for name in data.files for part in name.split(",")]
        return SeriesFiles(self.config.data, data.root).read_known(files, self.space)[1]

    def recipe_tests(self, data: ScoreData) -> Mapping[str, Windows]:
        """The windows of the recipe's test part."""
        return {"test": SeriesFiles(self.config.data, data.root).read().test}

    def score(self, examples: Windows, options: NoOptions) -> Scores:
        """All figures on every window, with simple forecasts beside them."""
        quantiles, space = self.config.data.quantiles, self.space
        return score_windows(
            self.module, examples, space, quantiles=quantiles, ridge=self.ridge, intervals=self.intervals
        )

    def check_comparable(self, other: Self) -> None:
        """Both forecast the same columns, on one scale."""
        mine, yours = ((p.space.targets, p.config.data.horizon, p.space.scale) for p in (self, other))
        if mine != yours:
            raise UsageError(
                "the two models forecast different columns, horizons or scales: their errors differ in kind"
            )

    def shared(self, other: Self, name: str, examples: Windows, data: ScoreData) -> tuple[Windows, Windows]:
        """The windows that both have, in the order of time."""
        theirs: Windows = next(iter(other.test_sets(data).values()))
        places = np.intersect1d(examples.places, theirs.places)
        return replace(examples, places=places), replace(theirs, places=places)

    def sample(self, examples: Windows, n: int) -> list[Any]:
        """Windows from all over the test part."""
        rows = np.linspace(0, len(examples) - 1, min(n, len(examples))).astype(np.int64)
        return list(zip(*examples.cut(rows), strict=True))

    def random_sample(self, n: int) -> list[Any]:
        """Random numbers."""
        chance, shape = np.random.default_rng(1), self.shape
        sizes = [(shape.context, shape.n_inputs), (shape.context, shape.n_marks)]
        sizes += [(shape.horizon, len(shape.targets)), (shape.horizon, shape.n_marks)]
        return list(zip(*(chance.standard_normal((n, *size)).astype(np.float32) for size in sizes), strict=True))

    def promises(self, sample: list[Any]) -> Iterator[Check]:
        """Batching, fused kernels and saving."""
        from regard.inspection.invariants import measure_plain

        cut = Cut(*(np.stack(part) for part in zip(*sample, strict=True)))
        return measure_plain(self.module, inputs_of(cut, self.device))

    def _read(self, given: SeriesInput, where: str = "the series", *, columns: tuple[str, ...] | None = None) -> Series:
        """The columns that are read, or others, of one file or several, or of a table in memory."""
        data, columns = self.config.data, columns or tuple(self.space.inputs)
        files = SeriesFiles(data)
        if isinstance(given, str | Path):
            series = files.read_columns(str(given).split(","), self.space, columns)
        else:
            series = series_of(given, columns=columns, reading=files.reading(self.space), name=where)
            series = files.stepped(series, self.space)
        for note in series.notes:
            self.say(note)
        if len(series) < data.context:
            raise DataError(f"{series.name}: {len(series):,} rows are fewer than the context of {data.context:,}")
        if self.shape.n_marks and (series.dates is None or self.space.pattern is None):
            raise DataError(f"{series.name}: has no date column, and the model was trained on dates")
        return series

    def _ends(self, series: Series) -> list[int]:
        """Where the windows end that a forecast is made of: at the last row; together, every horizon before it too."""
        data = self.config.data
        return list(range(len(series), data.context - 1, -data.horizon))[::-1] if data.together else [len(series)]

    def _cut(self, series: Series, ends: Sequence[int]) -> Cut:
        """The windows that end at these rows; nothing is known of their targets."""
        shape, pattern = self.shape, self.space.pattern
        scaled = self._scaled(series)
        past = np.stack([scaled[end - shape.context : end] for end in ends])
        unknown = np.zeros((len(ends), shape.horizon, len(self.space.targets)), np.float32)
        if not shape.n_marks or series.dates is None or pattern is None:
            none = [np.zeros((len(ends), n, 0), np.float32) for n in (shape.context, shape.horizon)]
            return Cut(past, none[0], unknown, none[1])
        zone = series.dates.format.zone
        marks, ahead = (
            marks_of(local, pattern) for local in (series.dates.local, local_times(self._ahead(series), zone))
        )
        known = np.stack([marks[end - shape.context : end] for end in ends])
        return Cut(past, known, unknown, known[:, -shape.horizon :] if self.config.data.together else ahead[None])

    def _scaled(self, series: Series) -> Any:
        """The inputs of a series in the units of the training part."""
        mean, scale = (
            np.array([each[name] for name in self.space.inputs]) for each in (self.space.mean, self.space.scale)
        )
        return ((series.values - mean) / scale).astype(np.float32)

    def _forecast(self, series: Series, ends: Sequence[int]) -> Forecast:
        scaled = forecasts_of(self.module, lambda rows: self._cut(series, [ends[row] for row in rows]), len(ends))
        quantiles, bounded = self.config.data.quantiles, False
        if self.intervals is not None:
            scaled = widened(scaled, self.intervals.offsets, quantiles)
            bounded = not quantiles
            quantiles = quantiles or self.intervals.quantiles
        values = self.space.unscaled(scaled.reshape(-1, *scaled.shape[2:]))
        times = self._times(series, len(values))
        date = series.date_column if series.dates is not None and self.space.pattern is not None else None
        return Forecast(times, self.space.targets, values, quantiles, date, series.dialect, bounded, series.stacked)

    def _ahead(self, series: Series) -> Moments:
        """The dates to come."""
        assert series.dates is not None
        assert self.space.pattern is not None
        return continue_dates(self.space.pattern, series.dates.moments[-1], self.shape.horizon)

    def _times(self, series: Series, n: int) -> list[str]:
        """The names of the steps to come: dates, or numbers from 1; together, those of the last rows."""
        if self.config.data.together:
            rows = range(len(series) - n + 1, len(series) + 1)
            return [str(row) for row in rows] if series.dates is None else series.dates.written()[-n:]
        if series.dates is None or self.space.pattern is None:
            return [str(i + 1) for i in range(n)]
        return series.dates.format.write(self._ahead(series))

    def _behind(self, series: Series) -> list[str]:
        n = self.config.data.context
        return [str(i - n) for i in range(n)] if series.dates is None else series.dates.written()[-n:]

    def _case(self, series: Series, place: int, *, truth: Any) -> ForwardCase:
        """The last window as something to look at, with the steps that each place of the past stands for."""
        from regard.inspection.record import Axis
        from regard.tasks.series.look import SERIES_SIDES, SeriesCase

        before, ahead = self._behind(series), self._times(series, self.shape.horizon)
        when = "up to" if self.config.data.together else "after"
        title = f"{self.space.targets[place]}: {several(len(ahead), 'step', 'steps')} {when} {before[-1]}"
        spans, options = np.stack([np.arange(len(before)), np.arange(len(before)) + 1], 1), {}
        if isinstance(self.module, PatchForecaster):
            shape, n = self.module.config, len(before)
            begins = np.arange(shape.n_patches) * shape.stride
            spans = np.stack([np.minimum(begins, n - 1), np.minimum(begins + shape.patch, n)], 1)
            before = [f"{before[a]} … {before[b - 1]}" for a, b in spans]
            options = {"only": place}
        axes = {"past": Axis(before, "steps"), "future": Axis(ahead, "steps")}
        inputs = inputs_of(self._cut(series, [len(series)]), self.device)
        shown = replace(self._shown(series, place, spans), truth=truth)
        return SeriesCase(self.module, inputs, axes, SERIES_SIDES, options=options, title=title, forecast=shown)

    def _shown(self, series: Series, place: int, spans: Any) -> ShownForecast:
        from regard.tasks.series.look import ShownForecast

        forecast, name = self._forecast(series, [len(series)]), self.space.targets[place]
        n = self.config.data.context
        past, read = np.full(n, np.nan), None
        if name in series.columns:
            past = series.pick([name]).values[-n:, 0]
        else:
            read = self._scaled(series)[-n:] * self.space.scale[name] + self.space.mean[name]
        band = forecast.values[:, place][:, [0, -1]] if len(forecast.quantiles) > 1 else None
        linear = self.forecaster.linear_shares(place).cpu().numpy() if self.shape.linear else None
        begin = n - self.config.data.lead
        times = [*self._behind(series)[:begin], *forecast.times]
        return ShownForecast(name, past, forecast.point[:, place], band, times, spans, begin, read, linear)
