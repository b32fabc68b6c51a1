"""Series to train a forecaster on, with the simple forecasts that it has to beat."""

from __future__ import annotations

from typing import Any

import torch

from regard.config.recipe import Recipe
from regard.data.series.windows import Windows
from regard.models.interfaces.series import Forecaster
from regard.tasks.measuring import Scores, measure
from regard.tasks.series.baselines import Ridge, bounds_along, lines_of, score_windows
from regard.tasks.series.config import SeriesConfig
from regard.tasks.series.data import SeriesFiles
from regard.tasks.series.forecasting import forecasts
from regard.tasks.series.intervals import Intervals
from regard.tasks.series.training import SeriesTraining
from regard.training.setup import RunContext, Say, TaskSetup
from regard.training.warm_start import begin_model, own_options, refuse_start


class SeriesSetup(TaskSetup):
    """Windows of a series, and a forecaster."""

    def __init__(self, recipe: Recipe, context: RunContext) -> None:
        super().__init__(recipe)
        self.context = context
        self.intervals: Intervals | None = None
        self.files = SeriesFiles(recipe.data, context.data_root)
        self.sets = self.files.read()
        for note in self.sets.notes if context.group.first else ():
            context.say(note)
        space, train = self.sets.space, recipe.train
        self.ridge = Ridge.fit(self.sets.train, self.sets.valid, season=space.season)
        refuse_start(recipe, "a forecaster")
        shape = {
            "context": recipe.data.context,
            "horizon": recipe.data.horizon,
            "n_inputs": len(space.inputs),
            "targets": space.target_places,
            "n_marks": self.sets.train.marks.shape[1],
            "n_outputs": max(1, len(recipe.data.quantiles)),
            "lead": recipe.data.lead,
            "n_covariates": self.sets.train.n_covariates,
        }
        self.model, self.spec = begin_model(recipe, own_options(recipe) | shape)
        if isinstance(self.model, Forecaster) and self.model.config.linear:
            effects = None if self.ridge.effects is None else torch.from_numpy(self.ridge.effects)
            self.model.start(torch.from_numpy(self.ridge.weights), effects)
        context.keep(space.save)
        context.keep(self.ridge.save)
        assert isinstance(train, SeriesConfig)
        self.task = SeriesTraining(
            space,
            self.sets.train,
            self.sets.valid,
            batch_examples=train.batch_examples,
            seed=train.seed,
            loss=train.loss,
            quantiles=recipe.data.quantiles,
        )

    def about(self) -> str:
        """The columns and the windows."""
        sets, space, data = self.sets, self.sets.space, self.recipe.data
        beside = f" and {', '.join(each.name for each in space.covariates)}" if space.covariates else ""
        series = f" of {len(space.series):,} series" if space.series else ""
        return (
            f"{len(space.targets)} columns{series} from {len(space.inputs)}{beside}, "
            f"{data.horizon} steps from {data.context}; "
            f"windows: {len(sets.train):,} to learn from, {len(sets.valid):,} to choose by, "
            f"{len(sets.test):,} to report on"
        )

    def counts(self) -> dict[str, Any]:
        """How many windows."""
        return {"windows": len(self.sets.train)}

    def measure(self, say: Say) -> dict[str, dict[str, Any]]:
        """All figures on the validation and the test part, with those of the simple forecasts beside them."""
        sets, share = {"valid": self.sets.valid, "test": self.sets.test}, self.recipe.data.share
        if share:
            said = forecasts(self.model, self.sets.test)
            self.intervals = bounds_along(self.model, self.sets.test, said, share)[1]
        if self.intervals is not None:
            self.context.keep(self.intervals.save)
        return measure(sets, self._score, say=say, lines=lines_of)

    def _score(self, windows: Windows) -> Scores:
        quantiles, space = self.recipe.data.quantiles, self.sets.space
        return score_windows(
            self.model, windows, space, quantiles=quantiles, ridge=self.ridge, intervals=self.intervals
        )
