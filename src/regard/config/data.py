"""What the `[data]` and `[tokenizer]` sections of several tasks have in common."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

from regard.config.settings import Settings, setting

TokenizerKind = Literal["bpe", "unigram", "wordpiece", "chars", "bytes", "words"]
Split = Literal["file", "blank", "heading", "line"]
RowOrder = Literal["rows", "random"]
Action = Literal["drop", "refuse", "keep"]
BadRows = Literal["refuse", "drop"]
Files = tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class DataConfig(Settings):
    """What to learn from, what to choose by, and what to report on."""

    section: ClassVar = "data"

    train: Files = setting((), "what to learn from, files or patterns, here or under the data root; as --train")
    valid: Files = setting((), "what to choose the best weights by; as --valid")
    test: dict[str, Files] = setting({}, "what to report on, by name: data.test.NAME=[…]")


@dataclass(frozen=True, kw_only=True)
class CorpusConfig(DataConfig):
    """Data that becomes ids on disk, in shards where it is large; neither setting changes what is learnt."""

    workers: int | None = setting(
        None, "processes that cut the data into ids; unset: one a core, 0: this one", ge=0, key=False
    )
    shard_mib: float = setting(128.0, "MiB after which ids go on in another file", gt=0, key=False)


@dataclass(frozen=True, kw_only=True)
class TextConfig(CorpusConfig):
    """Files and folders of text."""

    split: Split = setting("file", "where documents end in text files")
    column: str = setting("text", "the column of a table that holds the texts")
    held_out: float = setting(0.1, "share of the training text, its end, to choose by without data.valid", ge=0, lt=1)

    def contradictions(self) -> Iterator[str]:
        """There has to be something to choose by."""
        if not self.held_out and not self.valid:
            yield "data.held_out is 0, and data.valid names no text; allowed is above 0 and below 1"


@dataclass(frozen=True, kw_only=True)
class LearntTokenizer(Settings):
    """A tokenizer that is learnt from the training texts."""

    section: ClassVar = "tokenizer"

    kind: TokenizerKind = setting("bpe", "what texts are cut into: subwords of one kind or another, characters, words")
    size: int = setting(8_000, "most entries of the vocabulary", ge=1)
    lowercase: bool = setting(False, "whether texts are lower-cased")
    min_frequency: int = setting(1, "how often a piece has to occur", ge=1)
    sample_mib: float = setting(
        1024.0, "MiB of text that pieces are learnt from: of more, every n-th example", gt=0, key=False
    )


@dataclass(frozen=True, kw_only=True)
class TokenizerConfig(LearntTokenizer):
    """A tokenizer that is learnt, or one that is there."""

    file: str | None = setting(None, "a tokenizer.json to use instead of learning one")


@dataclass(frozen=True, kw_only=True)
class TextPieces(TokenizerConfig):
    """A tokenizer that can give texts back as they were."""

    verbatim: bool = setting(True, "whether every space and line break is kept")
