"""The settings of the task, and what it consists of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from regard.config.data import TextConfig, TokenizerConfig
from regard.config.settings import setting
from regard.config.training import ReadingConfig
from regard.tasks.registry import GuessOptions, TaskSpec
from regard.tasks.use import Use


@dataclass(frozen=True, kw_only=True)
class MaskedData(TextConfig):
    """The `[data]` section: texts, how examples are cut from them, and what is hidden."""

    sentences: Literal["rules", "lines"] = setting("rules", "how documents fall into sentences")
    length: int = setting(128, "most tokens of an example, special ones included", ge=8)
    short_sequences: float = setting(0.1, "share of the examples that aim at a shorter length", ge=0, le=1, was="short")
    next_sentence: bool = setting(True, "examples are pairs, half of them true, to be told apart")
    mask_share: float = setting(0.15, "share of the pieces to be guessed", gt=0, le=0.9)
    whole_words: bool = setting(False, "all pieces of a word are hidden together")


@dataclass(frozen=True, kw_only=True)
class MaskedTrain(ReadingConfig):
    """The `[train]` section."""

    unused: ClassVar = ("label_smoothing", "r_drop")


TASK = TaskSpec(
    name="masked",
    help="what stands behind a mask, learnt from plain text",
    models=("bert",),
    data=MaskedData,
    tokenizer=TokenizerConfig,
    decode=GuessOptions,
    train=MaskedTrain,
    size="small",
    beginnings=("start", "vectors"),
    plan="regard.tasks.masked.planning:plan_masked",
    setup="regard.tasks.masked.setup:MaskedSetup",
    predictor="regard.tasks.masked.predictor:MaskedPredictor",
    flags=("embed",),
    serves=("embed",),
    use=Use(
        does="guesses the words that are left out of a text, and gives texts vectors",
        figures=("mlm_accuracy",),
        loss="nats a masked token",
        asked=('"The cat [MASK] on the mat."',),
        looked='"The cat [MASK] on the mat."',
        data="test.txt",
    ),
)
