"""The settings of the task, and what it consists of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from regard.config.data import Files, Split
from regard.config.settings import Settings, setting, settings_of
from regard.config.training import TrainConfig
from regard.tasks.registry import GuessOptions, TaskSpec
from regard.tasks.use import Use

WordKind = Literal["words", "spaces"]
USED = ("plan", "epochs", "lr", "seed", "batch_tokens", "device")


@dataclass(frozen=True, kw_only=True)
class WordData(Settings):
    """The `[data]` section: the texts, which words are kept, and what stands around a word."""

    section: ClassVar = "data"

    train: Files = setting((), "files and folders of text; as --train")
    test: dict[str, Files] = setting({}, "questions or judged pairs to report on, by name: data.test.NAME=[…]")
    split: Split = setting("line", "where documents end in text files: no pair crosses that")
    column: str = setting("text", "the column of a table that holds the texts")
    window: int = setting(5, "widest radius around a word", ge=1)
    negatives: int = setting(5, "random words that a pair is told from", ge=1)
    min_count: int = setting(5, "how often a word has to occur", ge=1)
    max_words: int = setting(0, "how many words are kept at most; 0: all", ge=0)
    sample: float = setting(1e-3, "share of all words from which on a frequent one is thinned out; 0: none is", ge=0)


@dataclass(frozen=True, kw_only=True)
class WordPieces(Settings):
    """The `[tokenizer]` section."""

    section: ClassVar = "tokenizer"

    kind: WordKind = setting("words", "runs of letters and digits; or whatever stands between spaces")
    lowercase: bool = setting(True, "whether texts are lower-cased")


@dataclass(frozen=True, kw_only=True)
class WordsConfig(TrainConfig):
    """Passes over the text, the first rate, which falls to nothing, words a batch, and the seed; nothing else counts.

    Short texts have smaller batches, so that there are enough of them.
    """

    unused: ClassVar = tuple(name for name in settings_of(TrainConfig) if name not in USED)

    epochs: float = setting(5.0, "passes over the text", gt=0)
    lr: float = 0.05
    batch_tokens: int = setting(1024, "words a batch", ge=32)
    device: Literal["cpu", "auto"] = setting("cpu", "word vectors are learnt on the CPU")


TASK = TaskSpec(
    name="words",
    help="a vector for each word, learnt from plain text",
    models=("word-vectors",),
    data=WordData,
    tokenizer=WordPieces,
    decode=GuessOptions,
    train=WordsConfig,
    plan="regard.tasks.words.planning:plan_words",
    loop="regard.tasks.words.run:train_words",
    predictor="regard.tasks.words.predictor:WordsPredictor",
    use=Use(
        does="gives words vectors, finds their neighbours, and completes analogies",
        figures=("spearman", "accuracy"),
        loss="nats a pair",
        asked=('"king - man + woman"',),
        looked=None,
        data="pairs.tsv",
        limits=("It knows the words of its training text; others have no vector.",),
        imported=True,
    ),
)
