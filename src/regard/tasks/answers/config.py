"""The settings of the task, and what it consists of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from regard.config.data import DataConfig, TokenizerConfig
from regard.config.settings import Settings, setting
from regard.config.training import TuningConfig
from regard.tasks.registry import TaskSpec
from regard.tasks.use import Use


@dataclass(frozen=True, kw_only=True)
class AnswerData(DataConfig):
    """The `[data]` section: files of questions, and the windows that their passages are read in."""

    split: tuple[float, ...] = setting(
        (0.8, 0.1, 0.1), "shares of training, validation and test articles, without data.valid", gt=0
    )
    split_seed: int = setting(0, "which articles go where", ge=0)
    ambiguous: bool = setting(True, "learn also from answers that stand in several places, of which the first is given")
    max_tokens: int = setting(384, "tokens of a window, question included", ge=8)
    overlap: int = setting(128, "tokens that neighbouring windows share", ge=1)
    max_question: int = setting(64, "longer questions are cut", ge=1)

    def contradictions(self) -> Iterator[str]:
        """A split has two or three parts."""
        if not 2 <= len(self.split) <= 3:
            yield f"data.split is {list(self.split)}; allowed are two or three shares above 0"


@dataclass(frozen=True, kw_only=True)
class AnswerOptions(Settings):
    """The `[decode]` section: how answers are looked for."""

    section: ClassVar = "decode"

    n_best: int = setting(1, "how many answers are given", ge=1)
    max_answer: int = setting(30, "most tokens of an answer", ge=1)
    no_answer: bool = setting(False, "the model may say that there is none (Devlin et al., 2019)")
    threshold: float = setting(
        0.0, "there is none where [CLS] scores higher than the best answer by more", infinite=True
    )


@dataclass(frozen=True, kw_only=True)
class AnswerTrain(TuningConfig):
    """The `[train]` section."""

    unused: ClassVar = ("label_smoothing", "layout", "lm_weight")


TASK = TaskSpec(
    name="answers",
    help="where a passage answers a question",
    models=("span-reader",),
    data=AnswerData,
    tokenizer=TokenizerConfig,
    decode=AnswerOptions,
    train=AnswerTrain,
    beginnings=("start", "vectors"),
    plan="regard.tasks.answers.planning:plan_answers",
    setup="regard.tasks.answers.setup:AnswerSetup",
    predictor="regard.tasks.answers.predictor:AnswerPredictor",
    flags=("n_best", "context"),
    use=Use(
        does="finds the piece of a passage that answers a question",
        figures=("f1",),
        loss="nats an example",
        asked=("--context passage.txt", '"Who wrote it?"'),
        looked="$'Who wrote it?\\tAda wrote it.'",
        data="test.json",
        limits=("It answers with words of the passage only.",),
    ),
)
