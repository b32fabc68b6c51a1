"""The settings of the task, and what it consists of."""

from __future__ import annotations

from regard.config.training import ReadingConfig
from regard.tasks.registry import TaskSpec
from regard.tasks.texts import TextData, TextPieces

TASK = TaskSpec(
    name="language",
    models=("gpt", "recurrent-lm"),
    data=TextData,
    tokenizer=TextPieces,
    train=ReadingConfig,
    size="small",
    beginnings=("start", "vectors"),
    setup="regard.tasks.language.setup:LanguageSetup",
    predictor="regard.tasks.language.predictor:LanguagePredictor",
    flags=("beam", "n_best", "stop", "stream", "few_shot", "task", "stride"),
)
