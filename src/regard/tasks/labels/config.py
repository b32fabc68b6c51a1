"""The settings of the task, and what it consists of."""

from __future__ import annotations

from regard.config.training import TuningConfig
from regard.tasks.labels.data import LabelData
from regard.tasks.masked.data import MaskedPieces
from regard.tasks.registry import NoOptions, TaskSpec

TASK = TaskSpec(
    name="labels",
    models=("classifier",),
    data=LabelData,
    tokenizer=MaskedPieces,
    decode=NoOptions,
    train=TuningConfig,
    beginnings=("start", "vectors"),
    setup="regard.tasks.labels.setup:LabelSetup",
    predictor="regard.tasks.labels.predictor:LabelPredictor",
)
