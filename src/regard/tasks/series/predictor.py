"""A forecaster of series.

model = regard.load("runs/etth1")
model("prices.csv")                       → Forecast: the steps after the file's last row, in its own units
model("AAPL.csv,MSFT.csv")                several files, where it was trained on several
model.look("prices.csv", "OT").plot("seen.png")
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, Self

import numpy as np
from torch import nn

from regard.checkpoints.spec import Pretrained
from regard.checkpoints.weights import read_tensors
from regard.config.recipe import Recipe
from regard.data.series.files import Series
from regard.data.series.space import SeriesSpace
from regard.data.series.timestamps import marks_of, written
from regard.data.series.windows import Cut, Windows
from regard.errors import DataError, RegardError, UsageError
from regard.inspection.forward_case import ForwardCase
from regard.inspection.invariants import Check, measure_plain
from regard.inspection.look import look_at
from regard.inspection.record import Axis
from regard.metrics.comparing import Compared, paired
from regard.models.interfaces.series import Forecaster
from regard.models.patch_forecaster import PatchForecaster
from regard.tasks.base import Evaluation, Predictor, ScoreData, check_texts, folder_of, refuse_options
from regard.tasks.series.baselines import Ridge
from regard.tasks.series.data import SeriesFiles
from regard.tasks.series.forecasting import Forecast, forecasts, forecasts_of, inputs_of
from regard.tasks.series.look import SeriesLook, ShownForecast
from regard.tasks.series.metrics import Errors, blocks_of, errors_of
from regard.tasks.series.report import compared
from regard.tasks.series.setup import BASELINE

NOTHING = "to a forecaster: it forecasts its whole horizon"


class SeriesPredictor(Predictor[Forecast]):
    """A forecaster with the scale of its columns, and the linear forecast it is measured against."""

    def __init__(self, module: nn.Module, space: SeriesSpace, config: Recipe, ridge: Ridge | None = None) -> None:
        super().__init__(module, config)
        self.space, self.ridge = space, ridge
        self.device = next(module.parameters()).device
        assert isinstance(module, Forecaster)
        self.forecaster, self.shape = module, module.config

    @classmethod
    def open(cls, found: Pretrained, recipe: Recipe, module: nn.Module, *, precision: str) -> Self:
        """The predictor of an opened model."""
        folder, ridge = folder_of(found), None
        if (folder / BASELINE).exists():
            ridge = Ridge(read_tensors(folder / BASELINE)["ridge"].numpy())
        return cls(module, SeriesSpace.load(folder), recipe, ridge)

    def predict(self, texts: Sequence[str], *, keys: Sequence[int] | None = None, **options: Any) -> list[Forecast]:
        """The steps after the last row of each file; commas part files that belong together.

        Where targets are told at the time of what is read, all rows of a file that have a whole window.
        """
        refuse_options(options, NOTHING)
        return [self._forecast(series := self._read(text), self._ends(series)) for text in texts]

    def look(
        self,
        text: str,
        target: str | None = None,
        *,
        layers: Collection[int] | None = None,
        kinds: Collection[str] | None = None,
        queries: bool = False,
        **options: Any,
    ) -> SeriesLook:
        """Which steps or patches of the past the forecast of a target (else the first) looked at."""
        check_texts([text])
        if target is not None and target not in self.space.targets:
            raise UsageError(f"{target!r} is not forecast; there are {', '.join(self.space.targets)}")
        place = 0 if target is None else self.space.targets.index(target)
        series = self._read(text)
        cut = self._cut(series, [len(series)])
        case, spans = self._scene(series, cut, place)
        seen = look_at(case, layers=layers, kinds=kinds, queries=queries, alternatives=0)
        return SeriesLook(seen.axes, seen.maps, None, seen.title, self._told(series, place, spans))

    def evaluate(self, data: ScoreData, **options: Any) -> Iterator[Evaluation]:
        """All figures on every window of the test part, or of the files given, with simple forecasts beside them."""
        refuse_options(options, NOTHING)
        name, windows = self.windows(data)
        said = forecasts(self.module, windows)
        figures = compared(said, windows, self.space, quantiles=self.config.data.quantiles, ridge=self.ridge)
        yield Evaluation(name, len(windows), "windows", figures, [])

    def compare(
        self, other: Any, data: ScoreData, *, resamples: int = 1000, seed: int = 1, **options: Any
    ) -> Iterator[Compared]:
        """The scaled errors of both on the same windows."""
        refuse_options(options, NOTHING)
        self._check_same_task(other)
        mine, yours = ((p.space.targets, p.config.data.horizon, p.space.scale) for p in (self, other))
        if mine != yours:
            raise UsageError(
                "the two models forecast different columns, horizons or scales: their errors differ in kind"
            )
        name, windows = self.windows(data)
        _, again = other.windows(data)
        shared = set(windows.places.tolist()) & set(again.places.tolist())
        systems = [_errors(p, w, shared) for p, w in ((self, windows), (other, again))]
        block = blocks_of(len(shared), self.config.data.horizon)
        found = paired(
            (systems[0].figures, systems[1].figures), len(shared), resamples=resamples, seed=seed, block=block
        )
        yield Compared(name, len(shared), "windows", found)

    def verify(self, data: ScoreData, *, n: int = 24) -> Iterator[Check]:
        """What this model promises, measured on windows of the test part, or on random numbers."""
        yield from measure_plain(self.module, inputs_of(self._some(data, n), self.device))

    def windows(self, data: ScoreData) -> tuple[str, Windows]:
        """The windows to score on: those of the files given, else of the recipe's test part."""
        files = SeriesFiles(self.config.data, data.root)
        if data.files:
            given = [part for name in data.files for part in name.split(",")]
            return ",".join(data.files), files.read_known(given, self.space)[1]
        return "test", files.read().test

    def _read(self, text: str) -> Series:
        """The columns that are read, of one file or several."""
        data = self.config.data
        series = SeriesFiles(data).read_columns(text.split(","), self.space, self.space.inputs)
        if len(series) < data.context:
            raise DataError(f"{series.name}: {len(series):,} rows are fewer than the context of {data.context:,}")
        if self.shape.n_marks and (series.moments is None or self.space.step is None):
            raise DataError(f"{series.name}: has no date column, and the model was trained on dates")
        return series

    def _ends(self, series: Series) -> list[int]:
        """Where the windows end that a forecast is made of: at the last row; together, every horizon before it too."""
        data = self.config.data
        return list(range(len(series), data.context - 1, -data.horizon))[::-1] if data.together else [len(series)]

    def _cut(self, series: Series, ends: Sequence[int]) -> Cut:
        """The windows that end at these rows; nothing is known of their targets."""
        shape, step = self.shape, self.space.step
        scaled = self._scaled(series)
        past = np.stack([scaled[end - shape.context : end] for end in ends])
        unknown = np.zeros((len(ends), shape.horizon, len(self.space.targets)), np.float32)
        if not shape.n_marks or series.moments is None or step is None:
            none = [np.zeros((len(ends), n, 0), np.float32) for n in (shape.context, shape.horizon)]
            return Cut(past, none[0], unknown, none[1])
        marks, ahead = marks_of(series.moments, step), marks_of(step.after(series.moments[-1], shape.horizon), step)
        known = np.stack([marks[end - shape.context : end] for end in ends])
        return Cut(past, known, unknown, known[:, -shape.horizon :] if self.config.data.together else ahead[None])

    def _scaled(self, series: Series) -> Any:
        """The inputs of a series in the units of the training part."""
        mean, scale = (
            np.array([each[name] for name in self.space.inputs]) for each in (self.space.mean, self.space.scale)
        )
        return ((series.values - mean) / scale).astype(np.float32)

    def _forecast(self, series: Series, ends: Sequence[int]) -> Forecast:
        said = forecasts_of(self.module, lambda rows: self._cut(series, [ends[row] for row in rows]), len(ends))
        values = self.space.unscaled(said.reshape(-1, *said.shape[2:]))
        times = self._times(series, len(values))
        return Forecast(times, self.space.targets, values, self.config.data.quantiles, self._dated(series))

    def _dated(self, series: Series) -> bool:
        return series.moments is not None and self.space.step is not None

    def _times(self, series: Series, n: int) -> list[str]:
        """The names of the steps to come: dates, or numbers from 1; together, those of the last rows."""
        if self.config.data.together:
            rows = range(len(series) - n + 1, len(series) + 1)
            return [str(row) for row in rows] if series.moments is None else written(series.moments)[-n:]
        if series.moments is None or self.space.step is None:
            return [str(i + 1) for i in range(n)]
        ahead = self.space.step.after(series.moments[-1], self.config.data.horizon)
        whole = written(np.concatenate([series.moments, ahead]))
        return whole[len(series) :]

    def _behind(self, series: Series) -> list[str]:
        n = self.config.data.context
        return [str(i - n) for i in range(n)] if series.moments is None else written(series.moments)[-n:]

    def _scene(self, series: Series, cut: Cut, place: int) -> tuple[ForwardCase, Any]:
        """The window as something to look at, and the steps that each place of the past stands for."""
        before, ahead = self._behind(series), self._times(series, self.shape.horizon)
        when = "up to" if self.config.data.together else "after"
        title = f"{self.space.targets[place]}: {len(ahead)} steps {when} {before[-1]}"
        spans, options = np.stack([np.arange(len(before)), np.arange(len(before)) + 1], 1), {}
        if isinstance(self.module, PatchForecaster):
            shape, n = self.module.config, len(before)
            begins = np.arange(shape.n_patches) * shape.stride
            spans = np.stack([np.minimum(begins, n - 1), np.minimum(begins + shape.patch, n)], 1)
            before = [f"{before[a]} … {before[b - 1]}" for a, b in spans]
            options = {"only": place}
        axes = {"past": Axis(before, "steps"), "future": Axis(ahead, "steps")}
        sides: Any = {"self": ("self", "past", "past"), "masked": ("masked", "future", "future"),
                      "cross": ("cross", "future", "past")}  # fmt: skip
        return ForwardCase(self.module, inputs_of(cut, self.device), axes, sides, options=options, title=title), spans

    def _told(self, series: Series, place: int, spans: Any) -> ShownForecast:
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

    def _some(self, data: ScoreData, n: int) -> Cut:
        """Windows to verify on."""
        try:
            name, windows = self.windows(data)
            self.say(f"on {min(n, len(windows))} windows of {name}")
            return windows.cut(np.linspace(0, len(windows) - 1, min(n, len(windows))).astype(np.int64))
        except RegardError:
            self.say(f"on {n} windows of random numbers")
        chance, shape = np.random.default_rng(1), self.shape
        sizes = [(shape.context, shape.n_inputs), (shape.context, shape.n_marks)]
        sizes += [(shape.horizon, len(shape.targets)), (shape.horizon, shape.n_marks)]
        return Cut(*(chance.standard_normal((n, *size)).astype(np.float32) for size in sizes))


def _errors(predictor: SeriesPredictor, windows: Windows, shared: set[int]) -> Errors:
    """The errors of the windows that two models both have, in the order of time."""
    errors = errors_of(forecasts(predictor.module, windows), windows, quantiles=predictor.config.data.quantiles)
    kept = np.array([place in shared for place in windows.places.tolist()])
    return Errors(errors.squared[kept], errors.absolute[kept])
