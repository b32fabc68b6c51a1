"""How word vectors are trained: the `[train]` section of their recipes."""

from __future__ import annotations

from dataclasses import dataclass, fields

from regard.config.training import TrainConfig
from regard.errors import ConfigError
from regard.tasks.registry import GuessOptions, TaskSpec
from regard.tasks.words.data import WordData, WordPieces

USED = ("epochs", "lr", "seed", "batch_tokens", "device")


@dataclass(frozen=True, kw_only=True)
class WordsConfig(TrainConfig):
    """Passes over the text, the first rate, which falls to nothing, words a batch, and the seed; nothing else counts.

    Short texts have smaller batches, so that there are enough of them. Vectors are computed on the CPU.
    """

    epochs: float = 5.0
    lr: float = 0.05
    batch_tokens: int = 1024
    device: str = "cpu"

    def __post_init__(self) -> None:
        super().__post_init__()
        strange = [f.name for f in fields(self) if f.name not in USED and getattr(self, f.name) != f.default]
        wrong = [f"train.{name} means nothing when word vectors are learnt; there are {', '.join(USED)}"
                 for name in strange]  # fmt: skip
        if self.epochs <= 0:
            wrong.append(f"train.epochs is {self.epochs}, above 0")
        if self.batch_tokens < 32:
            wrong.append(f"train.batch_tokens is {self.batch_tokens}, at least 32")
        if self.device not in ("cpu", "auto"):
            wrong.append(f"train.device is {self.device!r}; word vectors are learnt on the cpu")
        if wrong:
            raise ConfigError("; ".join(wrong))


TASK = TaskSpec(
    name="words",
    models=("word-vectors",),
    data=WordData,
    tokenizer=WordPieces,
    decode=GuessOptions,
    train=WordsConfig,
    loop="regard.tasks.words.run:train_words",
    predictor="regard.tasks.words.predictor:WordsPredictor",
)
