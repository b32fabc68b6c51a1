"""The settings of the task, and what it consists of."""

from __future__ import annotations

from regard.tasks.registry import TaskSpec
from regard.tasks.translation.data import PairData, PieceConfig

TASK = TaskSpec(
    name="translation",
    models=("transformer", "recurrent"),
    data=PairData,
    tokenizer=PieceConfig,
    setup="regard.tasks.translation.setup:TranslationSetup",
    predictor="regard.tasks.translation.predictor:TranslationPredictor",
    flags=("beam", "n_best", "prefix", "align", "ensemble", "by_length", "target"),
)
