"""The settings of the task, and what it consists of."""

from __future__ import annotations

from regard.config.training import TuningConfig
from regard.tasks.answers.data import AnswerData, AnswerOptions
from regard.tasks.masked.data import MaskedPieces
from regard.tasks.registry import TaskSpec

TASK = TaskSpec(
    name="answers",
    models=("span-reader",),
    data=AnswerData,
    tokenizer=MaskedPieces,
    decode=AnswerOptions,
    train=TuningConfig,
    beginnings=("start", "vectors"),
    setup="regard.tasks.answers.setup:AnswerSetup",
    predictor="regard.tasks.answers.predictor:AnswerPredictor",
    flags=("n_best", "context"),
)
