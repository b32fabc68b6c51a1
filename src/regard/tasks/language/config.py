"""The settings of the task, and what it consists of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from regard.config.data import RowOrder, TextConfig, TextPieces
from regard.config.settings import setting
from regard.config.training import ReadingConfig
from regard.tasks.registry import TaskSpec
from regard.tasks.use import Use


@dataclass(frozen=True, kw_only=True)
class TextData(TextConfig):
    """The `[data]` section: texts, and how rows are cut from them."""

    separated: bool = setting(True, "an end mark after each document")
    context: int | None = setting(None, "tokens that the model reads at once; unset: as many as it can", ge=1)
    order: RowOrder = setting("rows", "how rows are drawn: side by side, or beginning anywhere")


@dataclass(frozen=True, kw_only=True)
class LanguageTrain(ReadingConfig):
    """The `[train]` section."""

    unused: ClassVar = ("layout", "r_drop")


TASK = TaskSpec(
    name="language",
    help="a text goes on, learnt from plain text",
    models=("gpt", "recurrent-lm"),
    data=TextData,
    tokenizer=TextPieces,
    train=LanguageTrain,
    size="small",
    beginnings=("start", "vectors"),
    plan="regard.tasks.language.planning:plan_language",
    setup="regard.tasks.language.setup:LanguageSetup",
    predictor="regard.tasks.language.predictor:LanguagePredictor",
    flags=("beam", "n_best", "stop", "stream", "few_shot", "task", "stride"),
    serves=("continue",),
    use=Use(
        does="goes on with a text",
        figures=("perplexity",),
        loss="nats a token",
        asked=('"Once upon a time"',),
        looked='"Once upon a time"',
        data="test.txt",
        limits=("What it writes is likely text, not knowledge: nothing in it is checked.",),
    ),
)
