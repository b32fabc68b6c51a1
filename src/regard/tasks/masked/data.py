"""Plain text as data for a masked language model: where it is, how it is cut, and what is hidden of it.

`MaskedData` and `MaskedPieces` are the `[data]` and `[tokenizer]` sections of a recipe. `encode_documents` learns or
opens the tokenizer and puts the sentences of the training and the validation documents on disk, once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

from regard.data.io.cache import store_key
from regard.data.io.paths import find_data
from regard.data.text.documents import Document, Split
from regard.data.text.splitting import split_lines, split_sentences
from regard.data.text.tokenizers import Tokenizer
from regard.data.text.vocabulary import learn_tokenizer
from regard.errors import ConfigError, DataError
from regard.tasks.files import Say
from regard.tasks.masked.masking import Masking, word_beginnings
from regard.tasks.masked.sentences import SentenceCorpus
from regard.tasks.texts import TextData, TextFiles, TokenizerKind


@dataclass(frozen=True, kw_only=True)
class MaskedData:
    """The `[data]` section: files and folders of text, and what is made of them.

    `split` says where documents end in text files, `column` which one of a table holds them; without `valid`, the last
    `held_out` of the training text is kept to choose by. `sentences` says how documents fall into sentences: by rules,
    or line by line. An example has at most `length` tokens, special ones included; `short` is the share of examples
    that aim at a shorter length. `next_sentence` trains on pairs, half of them true. `mask_share` of the pieces are to
    be guessed, `whole_words` all pieces of a word together.
    """

    train: tuple[str, ...] = ()
    valid: tuple[str, ...] = ()
    test: dict[str, tuple[str, ...]] = field(default_factory=dict)
    split: Split = "file"
    column: str = "text"
    held_out: float = 0.1
    sentences: Literal["rules", "lines"] = "rules"
    length: int = 128
    short: float = 0.1
    next_sentence: bool = True
    mask_share: float = 0.15
    whole_words: bool = False

    def __post_init__(self) -> None:
        wrong = []
        if self.length < 8:
            wrong.append(f"data.length is {self.length}, at least 8")
        if not 0 <= self.short <= 1:
            wrong.append(f"data.short is {self.short}, from 0 to 1")
        if not 0 < self.mask_share <= 0.9:
            wrong.append(f"data.mask_share is {self.mask_share}, above 0 and at most 0.9")
        if wrong:
            raise ConfigError("; ".join(wrong))

    def files(self, root: Path | None, made: Path) -> TextFiles:
        """The texts, found: relative names are looked for here, then under the data root."""
        data = TextData(
            train=self.train,
            valid=self.valid,
            test=self.test,
            split=self.split,
            column=self.column,
            held_out=self.held_out,
        )
        return TextFiles(data, root, made)


@dataclass(frozen=True, kw_only=True)
class MaskedPieces:
    """The `[tokenizer]` section. `file` names a tokenizer.json, with a mask token, to use instead of learning one."""

    kind: TokenizerKind = "bpe"
    size: int = 8_000
    lowercase: bool = False
    min_frequency: int = 1
    file: str | None = None


class EncodedDocuments(NamedTuple):
    """A tokenizer, and the documents to learn from and to choose by."""

    tokenizer: Tokenizer
    train: SentenceCorpus
    valid: SentenceCorpus


def encode_documents(
    files: TextFiles, data: MaskedData, pieces: MaskedPieces, *, folder: Path, say: Say
) -> EncodedDocuments:
    """Open or learn the tokenizer, and put the sentences on disk; reused when nothing changed."""
    sources = [files.train] if files.valid is None else [files.train, files.valid]
    held_out = data.held_out if files.valid is None else None
    given = None if pieces.file is None else Tokenizer.load(find_data(pieces.file, files.root))
    facts = (repr(pieces), held_out, given.fingerprint() if given is not None else None)
    made = folder / store_key("masked", *(source.fingerprint() for source in sources), *facts)[:24]
    if not (made / "tokenizer.json").exists():
        tokenizer = given if given is not None else _learn(files, pieces)
        masking_of(tokenizer, data, seed=0)  # what cannot mask is refused before anything is built on it
        made.mkdir(parents=True, exist_ok=True)
        tokenizer.save(made / "tokenizer.json")
    tokenizer = Tokenizer.load(made / "tokenizer.json")
    train = corpus_of(files.train_documents, data, tokenizer, folder=made, name="train", say=say)
    valid = corpus_of(files.valid_documents, data, tokenizer, folder=made, name="valid", say=say)
    return EncodedDocuments(tokenizer, train, valid)


def corpus_of(
    documents: Callable[[], Iterable[Document]],
    data: MaskedData,
    tokenizer: Tokenizer,
    *,
    folder: Path,
    name: str,
    say: Say = lambda _: None,
) -> SentenceCorpus:
    """Documents as sentences on disk under `folder`, which belongs to these documents and this tokenizer."""
    longest = data.length - len(tokenizer.frame([], []).ids)
    key = store_key(folder.name, name, tokenizer.fingerprint(), data.sentences, longest)
    split = split_lines if data.sentences == "lines" else split_sentences

    def build(into: Path) -> SentenceCorpus:
        corpus = SentenceCorpus.build(documents(), tokenizer, into, split=split, longest=longest, fingerprint=key)
        header = corpus.header
        say(f"{name}: {header.documents:,} documents, {header.sentences:,} sentences, {header.tokens:,} tokens")
        return corpus

    return SentenceCorpus.cached(key, folder, build=build)


def masking_of(tokenizer: Tokenizer, data: MaskedData, *, seed: int) -> Masking:
    """What is hidden of a tokenizer's texts."""
    mask_id = required_mask(tokenizer)
    if tokenizer.cls_id is None or tokenizer.sep_id is None:
        raise DataError("this tokenizer has no tokens to head and to part texts (roles cls and sep)")
    gaps = [index for index, piece in enumerate(tokenizer.tokens(range(len(tokenizer)))) if not piece]
    return Masking(
        n_ids=len(tokenizer),
        mask_id=mask_id,
        special_ids=(*tokenizer.special_ids, *gaps),
        seed=seed,
        share=data.mask_share,
        begins_word=word_beginnings(tokenizer) if data.whole_words else None,
    )


def required_mask(tokenizer: Tokenizer) -> int:
    """The id of the mask; a tokenizer without one is an error."""
    if tokenizer.mask_id is None:
        raise DataError("this tokenizer has no mask token", hint="learn one with mask=True, or use that of a BERT")
    return tokenizer.mask_id


def _learn(files: TextFiles, pieces: MaskedPieces) -> Tokenizer:
    return learn_tokenizer(
        (document.text for document in files.train_documents()),
        pieces.kind,
        size=pieces.size,
        lowercase=pieces.lowercase,
        min_frequency=pieces.min_frequency,
        mask=True,
    )
