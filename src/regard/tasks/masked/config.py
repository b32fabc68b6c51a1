"""The settings of the task, and what it consists of."""

from __future__ import annotations

from regard.config.training import ReadingConfig
from regard.tasks.masked.data import MaskedData, MaskedPieces
from regard.tasks.registry import GuessOptions, TaskSpec

TASK = TaskSpec(
    name="masked",
    models=("bert",),
    data=MaskedData,
    tokenizer=MaskedPieces,
    decode=GuessOptions,
    train=ReadingConfig,
    size="small",
    beginnings=("start", "vectors"),
    setup="regard.tasks.masked.setup:MaskedSetup",
    predictor="regard.tasks.masked.predictor:MaskedPredictor",
    flags=("embed",),
)
