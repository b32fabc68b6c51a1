"""How to train a forecaster: the `[train]` section of a series recipe."""

from __future__ import annotations

from dataclasses import dataclass

from regard.config.training import Precision, ScheduleName, TrainConfig
from regard.errors import ConfigError
from regard.tasks.registry import NoOptions, TaskSpec
from regard.tasks.series.data import SeriesData
from regard.tasks.series.training import LossName


@dataclass(frozen=True, kw_only=True)
class SeriesConfig(TrainConfig):
    """What suits small models of numbers: epochs, a rate that falls, single precision, and stopping early.

    batch_examples        windows a batch, drawn at random
    loss                  mse or mae; where data.quantiles are given, their pinball loss
    """

    epochs: float = 20.0
    batch_examples: int = 64
    loss: LossName = "mse"
    lr: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    epsilon: float = 1e-8
    schedule: ScheduleName = "cosine"
    warmup: int = 0
    label_smoothing: float = 0.0
    precision: Precision = "fp32"
    patience: int = 5

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.batch_examples < 1:
            raise ConfigError(f"train.batch_examples is {self.batch_examples}, at least 1")
        for name in ("label_smoothing", "r_drop"):
            if getattr(self, name):
                raise ConfigError(f"train.{name} is about words, and a series has none; leave it 0")


TASK = TaskSpec(
    name="series",
    models=("patch-forecaster", "series-transformer", "recurrent-forecaster", "dlinear"),
    data=SeriesData,
    decode=NoOptions,
    train=SeriesConfig,
    setup="regard.tasks.series.setup:SeriesSetup",
    predictor="regard.tasks.series.predictor:SeriesPredictor",
)
