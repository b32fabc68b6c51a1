"""The settings of the task, and what it consists of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from regard.config.data import BadRows, DataConfig, TokenizerConfig
from regard.config.settings import setting
from regard.config.training import TuningConfig
from regard.tasks.registry import NoOptions, TaskSpec
from regard.tasks.use import Use

Column = str | int


@dataclass(frozen=True, kw_only=True)
class LabelData(DataConfig):
    """The `[data]` section: labelled texts, and which columns hold what; without them the layout is recognised."""

    text: Column | None = setting(None, "the column of the texts, by name or number")
    pair: Column | None = setting(None, "the column of second texts")
    label: Column | None = setting(None, "the column of the labels")
    format: str | None = setting(None, "what tables are, where their names do not tell: csv, tsv, jsonl …")
    labels: Literal["auto", "classes", "numbers"] = setting("auto", "what labels are; auto: as the layout says")
    bad: BadRows = setting("refuse", "rows that cannot be used: all named at once, or dropped and counted")
    valid_share: float = setting(0.1, "share of the training data to choose by without data.valid", gt=0, lt=1)
    max_tokens: int = setting(128, "longer texts are cut", ge=4)
    objective: str | None = setting(None, "the figure that decides which weights are kept: accuracy, f1, matthews …")


TASK = TaskSpec(
    name="labels",
    help="a class or a number for a text or a pair of texts",
    models=("classifier",),
    data=LabelData,
    tokenizer=TokenizerConfig,
    decode=NoOptions,
    train=TuningConfig,
    beginnings=("start", "vectors"),
    plan="regard.tasks.labels.planning:plan_labels",
    setup="regard.tasks.labels.setup:LabelSetup",
    predictor="regard.tasks.labels.predictor:LabelPredictor",
    use=Use(
        does="gives a text a label, or a number, with its probability",
        figures=("accuracy", "spearman"),
        loss="an example",
        asked=('"A fine film."',),
        looked='"A fine film."',
        data="test.csv",
        limits=("It knows the labels of its training data and no others: something else gets one of them, too.",),
    ),
)
