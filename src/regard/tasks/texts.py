"""Plain text as a task's data: where it is, how it is cut, and what is held back to choose by.

`encode_texts` learns or opens the tokenizer and puts the ids of the training and the validation text on disk, once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from regard.config.data import TextConfig, TextPieces, TokenizerConfig
from regard.data.io.cache import store_key
from regard.data.io.hashes import NAME as HASHES
from regard.data.io.hashes import Damaged, check_hashes, record_hashes
from regard.data.io.paths import find_data
from regard.data.io.saved import saved_part
from regard.data.text.documents import Document, TextSource
from regard.data.text.streams import TokenStream
from regard.data.text.tokenizers import Tokenizer
from regard.data.text.vocabulary import learn_pieces
from regard.errors import DataError
from regard.tasks.files import DataFiles, Say

Documents = Callable[[], Iterable[Document]]


class EncodedTexts(NamedTuple):
    """A tokenizer, and the streams to learn from and to choose by."""

    tokenizer: Tokenizer
    train: TokenStream
    valid: TokenStream


class TextFiles(DataFiles[TextConfig]):
    """The texts of a recipe."""

    holds, example, ending = "text", "FILE", ".txt"

    def source(self, names: tuple[str, ...], *, what: str) -> TextSource:
        """Describe one set of texts."""
        paths = tuple(saved_part(path, what) or path for path in self.find(names, what=what))
        return TextSource(paths, split=self.data.split, column=self.data.column)

    @cached_property
    def train(self) -> TextSource:
        """The texts to learn from."""
        return self.source(self.data.train, what="train")

    @cached_property
    def valid(self) -> TextSource | None:
        """The texts to choose by, named or saved beside the others; None: they are held out of the training text."""
        if self.data.valid or not self.data.train:
            return self.source(self.data.valid, what="valid") if self.data.valid else None
        beside = all(saved_part(path, "valid") for path in self.find(self.data.train, what="train"))
        return self.source(self.data.train, what="valid") if beside else None

    @cached_property
    def tests(self) -> dict[str, TextSource]:
        """The texts to report on, by name."""
        return {name: self.source(files, what=f"test.{name}") for name, files in self.data.test.items()}

    def fingerprints(self) -> dict[str, str]:
        """A SHA-256 of every set, and of the way it is read."""
        sources = {"train": self.train, "valid": self.valid} | self.tests
        return {name: source.fingerprint() for name, source in sources.items() if source is not None}

    def train_documents(self) -> Iterator[Document]:
        """What is learnt from."""
        return self._parted(held_out=False) if self.valid is None else self.train.documents()

    def valid_documents(self) -> Iterator[Document]:
        """What is chosen by."""
        return self._parted(held_out=True) if self.valid is None else self.valid.documents()

    def test_documents(self) -> dict[str, Documents]:
        """The documents to report on, by name; else those held out, where the model was trained on some."""
        held_out: dict[str, Documents] = {"valid": self.valid_documents} if self.data.train else {}
        return {name: source.documents for name, source in self.tests.items()} or held_out

    def given_tokenizer(self, pieces: TokenizerConfig) -> Tokenizer | None:
        """The tokenizer that a `[tokenizer]` section names, if it does."""
        return None if pieces.file is None else Tokenizer.load(find_data(pieces.file, self.root))

    def _parted(self, *, held_out: bool) -> Iterator[Document]:
        parted = hold_out(self.train.documents, self.data.held_out)
        return (document for held, document in parted if held == held_out)


def hold_out(documents: Callable[[], Iterator[Document]], share: float) -> Iterator[tuple[bool, Document]]:
    """Every document with whether it is held out: the last ones, with about `share` of all characters.

    The document that the border runs through is kept to learn from, unless it is the last: then it is cut there.
    """
    total, ends = 0, []
    for document in documents():
        total += len(document.text)
        if not document.more:
            ends.append(total)
    border = int(total * (1 - share))
    whole = [end for end in ends[:-1] if end >= border]
    border = whole[0] if whole else border
    done = 0
    for document in documents():
        before = document.text[: max(0, border - done)]
        after = document.text[len(before) :]
        if before:
            yield False, document._replace(text=before, more=document.more and not after)
        if after:
            yield True, document._replace(text=after)
        done += len(document.text)


def encode_texts(
    files: TextFiles, pieces: TextPieces, folder: Path, *, separated: bool = True, say: Say
) -> EncodedTexts:
    """Open or learn the tokenizer, and put the ids on disk, `separated` by end marks; reused when nothing changed."""
    data = files.data
    sources = [files.train] if files.valid is None else [files.train, files.valid]
    given = files.given_tokenizer(pieces)
    facts = (repr((separated, data.held_out if files.valid is None else None)), repr(pieces))
    elsewhere = "" if given is None else given.fingerprint()  # its file may change
    key = store_key("texts", *(source.fingerprint() for source in sources), *facts, elsewhere)
    made = folder / key[:24]
    texts = (document.text for document in files.train_documents())
    tokenizer = kept_tokenizer(made, lambda: given or learn_pieces(texts, pieces, verbatim=pieces.verbatim), say=say)

    def stream(name: str, documents: Callable[[], Iterator[Document]]) -> TokenStream:
        part = store_key(key, name)

        def build(into: Path) -> TokenStream:
            built = TokenStream.build(documents(), tokenizer, into, separated=separated, fingerprint=part)
            say(f"{name}: {built.extent.characters:,} characters, {len(built):,} tokens")
            return built

        return TokenStream.cached(part, made, build=build, say=say)

    return EncodedTexts(tokenizer, stream("train", files.train_documents), stream("valid", files.valid_documents))


def kept_tokenizer(folder: Path, make: Callable[[], Tokenizer], *, say: Say = lambda _: None) -> Tokenizer:
    """The tokenizer of a folder, made and kept there the first time, and again where it is damaged; that is said."""
    kept = folder / "tokenizer.json"
    if kept.exists():
        try:
            check_hashes(folder)
            return Tokenizer.load(kept)
        except (DataError, Damaged) as problem:
            say(f"{problem}; it is made anew")
            (folder / HASHES).unlink(missing_ok=True)
    made = make()
    folder.mkdir(parents=True, exist_ok=True)
    made.save(kept)
    record_hashes(folder, [kept.name])
    return Tokenizer.load(kept)
