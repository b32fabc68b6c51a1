"""The settings of the task, and what it consists of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from regard.config.data import Action, CorpusConfig, LearntTokenizer
from regard.config.settings import setting
from regard.decoding.options import DecodeOptions
from regard.tasks.registry import TaskSpec
from regard.tasks.use import Use


@dataclass(frozen=True, kw_only=True)
class PairData(CorpusConfig):
    """The `[data]` section: files of pairs, one table or two parallel texts each; and what to do about bad pairs."""

    columns: tuple[str, str] | tuple[int, int] | None = setting(None, "the columns of tables: source and target")
    format: str | None = setting(None, "what tables are, where their names do not tell: csv, tsv, jsonl …")
    valid_share: float = setting(0.05, "share of the training pairs to choose by without data.valid", gt=0, lt=1)
    synthetic: Literal["dates"] | None = setting(None, "make the pairs instead: dates as people write them")
    n_train: int = setting(20_000, "synthetic pairs to learn from", ge=1)
    n_valid: int = setting(500, "synthetic pairs to choose by", ge=1)
    n_test: int = setting(2_000, "synthetic pairs to report on", ge=1)
    languages: tuple[str, str] | None = setting(None, "codes of both, such as en, de; unset: suffixes or columns tell")
    moses: tuple[str, str] | None = setting(None, "two languages whose Moses rules cut the texts before the tokenizer")
    max_tokens: int = setting(256, "longer training examples are left out", ge=1)
    max_characters: int = setting(4_000, "a side is long beyond so many characters", ge=1)
    max_ratio: float = setting(9.0, "how many times longer one side may be than the other", ge=1, infinite=True)
    empty: Action = setting("drop", "pairs with an empty side")
    long: Action = setting("drop", "pairs with a side that is long")
    ratio: Action = setting("drop", "pairs with sides of very different length")
    duplicate: Action = setting("keep", "pairs that come twice")
    overlap: Action = setting("drop", "training pairs that are held out as well")


@dataclass(frozen=True, kw_only=True)
class PieceConfig(LearntTokenizer):
    """The `[tokenizer]` section."""

    joint: bool = setting(True, "one vocabulary for both sides")
    dropout: float = setting(0.0, "chance that a merge of BPE is left out, drawn anew each epoch", ge=0, lt=1)


@dataclass(frozen=True, kw_only=True)
class TranslationDecode(DecodeOptions):
    """The `[decode]` section: as for any text, and whether to choose among likely tokens only."""

    shortlist: bool = setting(
        False, "choose among likely translations of the source's tokens and frequent tokens only; quicker on a CPU"
    )


TASK = TaskSpec(
    name="translation",
    help="one text into another, from pairs",
    models=("transformer", "recurrent"),
    data=PairData,
    tokenizer=PieceConfig,
    decode=TranslationDecode,
    plan="regard.tasks.translation.planning:plan_translation",
    setup="regard.tasks.translation.setup:TranslationSetup",
    predictor="regard.tasks.translation.predictor:TranslationPredictor",
    flags=("beam", "n_best", "prefix", "align", "ensemble", "by_length", "target"),
    serves=("translate",),
    use=Use(
        does="translates text, a line at a time",
        figures=("bleu",),
        loss="nats a token",
        asked=('"A dog runs along the beach."',),
        looked='"A dog runs along the beach."',
        limits=(
            "It may leave out or make up words, most of all in lines that are longer than those it was trained on.",
        ),
        sampled=True,
    ),
)
