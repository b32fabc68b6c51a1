"""The settings of the task, and what it consists of.

train = ["prices.csv"]                       one file; all columns are predicted from their own past
train = ["AAPL.csv", "MSFT.csv"]             joined by date; columns are called AAPL.close, MSFT.close, …
targets = ["AAPL.close"], inputs = ["MSFT.close"]     one from another; * stands for anything: "*.close"
together = true                              at the same time: the last `horizon` steps of what is read
known = ["promo", "holiday"]                 columns that are known in advance, and are not predicted
split = [0.7, 0.1, 0.2]                      shares of the rows to learn from, to choose by, to report on
split = [8640, 2880, 2880]                   the same as numbers of rows
valid_from = "2017-07-01", test_from = …     the same as dates
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

from regard.config.data import Files
from regard.config.settings import Settings, setting
from regard.config.training import Precision, ScheduleName, TrainConfig
from regard.tasks.registry import NoOptions, TaskSpec
from regard.tasks.use import Use

LossName = Literal["mse", "mae"]
Names = str | tuple[str, ...]
DatesRead = Literal[True, False, "day-first", "month-first"]


@dataclass(frozen=True, kw_only=True)
class SeriesData(Settings):
    """The `[data]` section: series, what is asked of them, and how time is divided."""

    section: ClassVar = "data"

    train: Files = setting((), "CSV files, or folders of them, joined by date; as --train")
    inputs: Names = setting((), "the columns that are read; unset: the targets")
    targets: Names = setting((), "the columns that are predicted; unset: all")
    known: Names | None = setting(None, "columns known in advance; unset: those that go on after the targets end")
    categories: Names | None = setting(None, "columns of texts to read as categories; unset: those of few texts")
    context: int = setting(336, "steps that are read", ge=1)
    horizon: int = setting(96, "steps that are predicted", ge=1)
    together: bool = setting(False, "targets are asked for at the time of what is read, not after it")
    split: tuple[float, ...] = setting((0.7, 0.1, 0.2), "training, validation and test: shares, or numbers of rows")
    valid_from: str | None = setting(None, "the date that validation begins at, instead of a split")
    test_from: str | None = setting(None, "the date that the test begins at")
    values: Literal["levels", "returns"] = setting("levels", "returns: logarithms of ratios of successive rows")
    steps: Literal["equal", "any"] = setting("equal", "any: rows count as steps, even if their dates have no pattern")
    missing: Literal["refuse", "last"] = setting("refuse", "last: gaps and missing rows repeat what was before")
    season: int | None = setting(None, "steps that repeat, for the naive forecast; unset: the dates tell it", ge=1)
    dates: DatesRead = setting(True, "false: hours, weekdays, months are not read; day-first: 01/02 is in February")
    encoding: str | None = setting(None, "of the files, such as cp1252; unset: their bytes tell it")
    interval: float = setting(0.9, "share of what comes that a forecast's bounds hold; 0: no bounds", ge=0, lt=1)
    quantiles: tuple[float, ...] = setting((), "forecast these as well; 0.5 is among them", gt=0, lt=1)

    def contradictions(self) -> Iterator[str]:
        """Time is divided once, in three; what is asked for at the time it is read lies within it."""
        whole = len(self.split) == 3 and all(part >= 1 and part == int(part) for part in self.split)
        shares = len(self.split) == 3 and min(self.split) > 0 and sum(self.split) <= 1 + 1e-9
        if not whole and not shares:
            yield f"data.split is {list(self.split)}; three shares of 1 are needed, or three numbers of rows"
        if (self.valid_from is None) != (self.test_from is None):
            yield "data.valid_from and data.test_from are given together or not at all"
        if self.together and self.known:
            yield "data.known means nothing with data.together: all inputs are known at the time that is asked for"
        if self.together and self.horizon > self.context:
            yield f"data.horizon is {self.horizon}, and with data.together it lies within data.context"
        q = self.quantiles
        if q and (list(q) != sorted(set(q)) or 0.5 not in q):
            yield f"data.quantiles are {list(q)}; rising numbers between 0 and 1 with 0.5 among them are needed"

    @property
    def share(self) -> float:
        """The share of what comes that lies within bounds: those of quantiles are theirs."""
        return round(self.quantiles[-1] - self.quantiles[0], 6) if self.quantiles else self.interval

    @property
    def lead(self) -> int:
        """How many of the steps asked for the inputs are known at."""
        return self.horizon if self.together else 0

    @property
    def before(self) -> int:
        """How many rows stand before the first step that can be asked for: one at least, which is repeated naively."""
        return max(1, self.context - self.lead)


@dataclass(frozen=True, kw_only=True)
class SeriesConfig(TrainConfig):
    """What suits small models of numbers: epochs, a rate that falls, single precision, and stopping early."""

    unused: ClassVar = ("batch_tokens", "label_smoothing", "layout", "r_drop")

    epochs: float = 20.0
    batch_examples: int = setting(64, "windows a batch, drawn at random", ge=1)
    loss: LossName = setting("mse", "what is made small; with data.quantiles, their pinball loss")
    betas: tuple[float, float] = (0.9, 0.999)
    epsilon: float = 1e-8
    schedule: ScheduleName = "cosine"
    warmup: int = 0
    label_smoothing: float = 0.0
    precision: Precision = "fp32"
    patience: int = 5


TASK = TaskSpec(
    name="series",
    help="the next steps of series, or one series from others",
    models=("patch-forecaster", "series-transformer", "recurrent-forecaster", "dlinear"),
    data=SeriesData,
    decode=NoOptions,
    train=SeriesConfig,
    plan="regard.tasks.series.planning:plan_series",
    setup="regard.tasks.series.setup:SeriesSetup",
    predictor="regard.tasks.series.predictor:SeriesPredictor",
    use=Use(
        does="forecasts the next rows of a table of numbers",
        figures=("mse", "pinball", "mae"),
        loss="scaled",
        asked=("table.csv",),
        looked="table.csv",
        data="table.csv",
        limits=("It takes for granted that what comes behaves as what was.",),
    ),
)
