"""A forecaster of series.

model = regard.load("runs/etth1")
model("prices.csv")                       → Forecast: the steps after the file's last row, in its own units
model(frame)                              the same of a pandas DataFrame, a dict of columns, or an array
model("AAPL.csv,MSFT.csv")                several files, where it was trained on several
model.look("prices.csv", "OT").plot("seen.png")

Rows at the end whose targets are empty are those that are asked for, with what is known of them in advance. Of series
that stand one below the other the answer is a StackedForecast: said["A"] is that of one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeAlias, Unpack

import numpy as np
from torch import nn

from regard.checkpoints.spec import Pretrained
from regard.config.recipe import Recipe
from regard.config.wording import several
from regard.data.series.inputs import SeriesInput, check_series, series_of, table_of
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
from regard.tasks.series.data import SeriesFiles, some_of
from regard.tasks.series.forecasting import Forecast, StackedForecast, forecasts_of, inputs_of
from regard.tasks.series.intervals import Intervals, widened
from regard.tasks.series.question import Question

if TYPE_CHECKING:
    from regard.inspection.forward_case import ForwardCase
    from regard.inspection.invariants import Check
    from regard.tasks.series.look import ShownForecast

SeriesOutput: TypeAlias = Forecast | StackedForecast


class SeriesPredictor(Predictor[SeriesInput, SeriesOutput]):
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

    def predict(self, inputs: Sequence[SeriesInput], **options: Unpack[NoSettings]) -> list[SeriesOutput]:
        """The steps after the last row of each series; commas part files that belong together.

        Where targets are told at the time of what is read, all rows of a series that have a whole window.
        """
        self.scoring_options(options)
        several = [self._questions(given, f"input {number}") for number, given in enumerate(inputs)]
        return [self._answered(questions) for questions in several]

    def _answered(self, questions: Mapping[str, Question]) -> SeriesOutput:
        forecasts = {name: self._forecast(question, question.ends) for name, question in questions.items()}
        return StackedForecast(self.space.told_by, forecasts) if self.space.told_by else forecasts[""]

    __call__ = one_or_many(predict)

    def files_in(self, folder: Path) -> list[str]:
        """A series a file; where it was trained on several files, those of the folder belong together."""
        return [str(folder)] if self.space.names else super().files_in(folder)

    def under_name(self, name: str, output: SeriesOutput) -> str:
        """The table with the name of its file in a first column."""
        return output.plain(name)

    def case(self, input: SeriesInput, target: str | None = None, **options: Any) -> ForwardCase:
        """The end of a series, ready to be looked at: what the forecast of a target (else the first) looked at."""
        if not self.space.told_by:
            place = self._place(target, self.space.targets)
            name = self.space.targets[place]
            return self._case(self._questions(input)[""], place, name=name, truth=self._truth(input, name))
        questions = self._questions(input)
        names = [f"{name}.{column}" if len(self.space.targets) > 1 else name
                 for name in questions for column in self.space.targets]  # fmt: skip
        place = self._place(target, names)
        series, column = divmod(place, len(self.space.targets))
        return self._case(list(questions.values())[series], column, name=names[place], truth=None)

    def _place(self, target: str | None, names: Sequence[str]) -> int:
        """Where a target stands among these names; the first, if none is said."""
        if target is not None and target not in names:
            raise UsageError(f"{target!r} is not forecast; there are {', '.join(names)}")
        return 0 if target is None else names.index(target)

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
        return SeriesFiles(self.config.data, data.root).read_known(files, self.space)

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

    def _questions(self, given: SeriesInput, where: str = "the series") -> dict[str, Question]:
        """What is asked of one file or several, or of a table in memory: series by their names, or one without."""
        files, space = SeriesFiles(self.config.data), self.space
        if not space.told_by:
            return {"": self._asked("", self._read(given, where), space)}
        if isinstance(given, str | Path):
            parts = files.read_parts(str(given).split(","), space, space.inputs)
        else:
            parts = files.parts_of(table_of(given, columns=space.inputs, name=where), space, space.inputs)
        return self._asked_of_each(parts)

    def _asked_of_each(self, parts: Mapping[str, Series]) -> dict[str, Question]:
        """What is asked of several series; of those that are too short, nothing."""
        questions, short, new = {}, [], []
        for name, part in parts.items():
            been = part.parted()[0]
            if len(been) < self.config.data.context:
                short.append(f"{name} ({several(len(been), 'row', 'rows')})")
                continue
            known = name in self.space.series
            new += [] if known else [name]
            space = self.space.of(name) if known else self.space.of(name, been.pick(self.space.columns).values)
            questions[name] = self._asked(name, part, space)
        which = f"a context of {self.config.data.context:,} rows"
        if not questions:
            raise DataError(f"{next(iter(parts.values())).name}: no series has {which}: {some_of(short)}")
        if short:
            self.say(f"no forecast of those that are shorter than {which}: {some_of(short)}")
        if new:
            self.say(f"not among those it was trained on, and forecast by their own mean and deviation: {some_of(new)}")
        return questions

    def _asked(self, name: str, series: Series, space: SeriesSpace) -> Question:
        """What is asked of a series, with what is to be said of it."""
        try:
            question = Question(*series.parted(), space, self.config.data, self._n_dates)
        except DataError as error:
            raise (DataError(f"{name!r} of {error}", hint=error.hint) if name else error) from None
        of = f" of {name!r}" if name else ""
        for column, texts in question.surprises().items():
            shown = ", ".join(map(repr, texts[:5])) + (", …" if len(texts) > 5 else "")
            what = f"{shown} of {column}{of}: none of those it was trained on" if texts else f"no column {column!r}{of}"
            self.say(f"{what}; taken as unknown")
        broken = question.breaks()
        if broken:
            self.say(broken)
        return question

    @property
    def _n_dates(self) -> int:
        """How many features of a date the model is given."""
        return self.shape.n_marks - self.shape.n_covariates

    def _read(self, given: SeriesInput, where: str = "the series", *, columns: tuple[str, ...] | None = None) -> Series:
        """The columns that are read, or others, of one file or several, or of a table in memory, side by side."""
        columns, files = columns or tuple(self.space.inputs), SeriesFiles(self.config.data)
        if isinstance(given, str | Path):
            series = files.read_columns(str(given).split(","), self.space, columns)
        else:
            reading, beside = files.reading(self.space), self.space.beside
            series = files.stepped(
                series_of(given, columns=columns, beside=beside, reading=reading, name=where), self.space
            )
        for note in series.notes:
            self.say(note)
        return series

    def _forecast(self, question: Question, ends: Sequence[int]) -> Forecast:
        scaled = forecasts_of(self.module, lambda rows: question.cut([ends[row] for row in rows]), len(ends))
        quantiles, bounded = self.config.data.quantiles, False
        if self.intervals is not None:
            scaled = widened(scaled, self.intervals.offsets, quantiles)
            bounded = not quantiles
            quantiles = quantiles or self.intervals.quantiles
        values = question.space.unscaled(scaled.reshape(-1, *scaled.shape[2:]))
        times, series = question.times(len(values)), question.series
        date = series.date_column if question.dated else None
        return Forecast(times, self.space.targets, values, quantiles, date, series.dialect, bounded, series.stacked)

    def _case(self, question: Question, place: int, *, name: str, truth: Any) -> ForwardCase:
        """The last window as something to look at, with the steps that each place of the past stands for."""
        from regard.inspection.record import Axis
        from regard.tasks.series.look import SERIES_SIDES, SeriesCase

        before, ahead = question.behind(), question.times(self.shape.horizon)
        when = "up to" if self.config.data.together else "after"
        title = f"{name}: {several(len(ahead), 'step', 'steps')} {when} {before[-1]}"
        spans, options = np.stack([np.arange(len(before)), np.arange(len(before)) + 1], 1), {}
        if isinstance(self.module, PatchForecaster):
            shape, n = self.module.config, len(before)
            begins = np.arange(shape.n_patches) * shape.stride
            spans = np.stack([np.minimum(begins, n - 1), np.minimum(begins + shape.patch, n)], 1)
            before = [f"{before[a]} … {before[b - 1]}" for a, b in spans]
            options = {"only": place}
        axes = {"past": Axis(before, "steps"), "future": Axis(ahead, "steps")}
        inputs = inputs_of(question.cut([len(question.series)]), self.device)
        shown = replace(self._shown(question, place, spans), truth=truth, name=name)
        return SeriesCase(self.module, inputs, axes, SERIES_SIDES, options=options, title=title, forecast=shown)

    def _shown(self, question: Question, place: int, spans: Any) -> ShownForecast:
        from regard.tasks.series.look import ShownForecast

        series, space = question.series, question.space
        forecast, name = self._forecast(question, [len(series)]), space.targets[place]
        n = self.config.data.context
        past, read = np.full(n, np.nan), None
        if name in series.columns:
            past = series.pick([name]).values[-n:, 0]
        else:
            read = question.scaled[-n:].astype(np.float64) * space.scale[name] + space.mean[name]
        band = forecast.values[:, place][:, [0, -1]] if len(forecast.quantiles) > 1 else None
        linear = self.forecaster.linear_shares(place).cpu().numpy() if self.shape.linear else None
        begin = n - self.config.data.lead
        times = [*question.behind()[:begin], *forecast.times]
        return ShownForecast(
            name, past, forecast.point[:, place], band, times, spans, begin, read, linear, beside=question.beside()
        )
