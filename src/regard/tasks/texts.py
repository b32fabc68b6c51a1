"""Plain text as a task's data: where it is, how it is cut, and what is held back to choose by.

`encode_texts` learns or opens the tokenizer and puts the ids of the training and the validation text on disk, once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from regard.config.data import LearntTokenizer, TextConfig, TextPieces, TokenizerConfig
from regard.data.io.cache import store_key
from regard.data.io.globs import is_pattern
from regard.data.io.hashes import NAME as HASHES
from regard.data.io.hashes import Damaged, check_hashes, record_hashes
from regard.data.io.paths import find_data
from regard.data.io.saved import saved_part
from regard.data.text.documents import Document, TextSource
from regard.data.text.streams import TokenStream
from regard.data.text.text_units import HeldOut, TextUnits, sample_every
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
        named = [name for name in names if not is_pattern(name, self.root)]
        needed = frozenset(self.find(named, what=what)) if named else frozenset()
        return TextSource(paths, split=self.data.split, column=self.data.column, needed=needed)

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

    @cached_property
    def held_out(self) -> HeldOut | None:
        """What is held out of the training text, where no other text is named."""
        if self.valid is not None:
            return None
        return HeldOut.of(self.train, self.data.held_out, workers=self.workshop.processes)

    def train_documents(self) -> Iterator[Document]:
        """What is learnt from."""
        if self.held_out is None:
            return self.train.documents()
        return (document for held, document in self.held_out.documents() if not held)

    def valid_documents(self) -> Iterator[Document]:
        """What is chosen by."""
        return self.valid.documents() if self.valid is not None else self._held_documents()

    def _held_documents(self) -> Iterator[Document]:
        assert self.held_out is not None
        return self.held_out.held()

    def units(self) -> TextUnits:
        """What is learnt from, as units that can be read at once."""
        return TextUnits.of(self.train, most=self.workshop.shard_bytes, held=self.held_out)

    def sample_every(self, pieces: LearntTokenizer) -> int:
        """Each how manieth document a tokenizer is learnt from: all, unless there is too much text."""
        return sample_every(self.train.files(), pieces)

    def sample(self, pieces: LearntTokenizer) -> Iterator[str]:
        """The texts that a tokenizer is learnt from."""
        every = self.sample_every(pieces)
        return (document.text for document in islice(self.train_documents(), 0, None, every))

    def test_documents(self) -> dict[str, Documents]:
        """The documents to report on, by name; else those held out, where the model was trained on some."""
        held_out: dict[str, Documents] = {"valid": self.valid_documents} if self.data.train else {}
        return {name: source.documents for name, source in self.tests.items()} or held_out

    def given_tokenizer(self, pieces: TokenizerConfig) -> Tokenizer | None:
        """The tokenizer that a `[tokenizer]` section names, if it does."""
        return None if pieces.file is None else Tokenizer.load(find_data(pieces.file, self.root))


def encode_texts(
    files: TextFiles, pieces: TextPieces, folder: Path, *, separated: bool = True, say: Say
) -> EncodedTexts:
    """Open or learn the tokenizer, and put the ids on disk, `separated` by end marks; reused when nothing changed."""
    data = files.data
    sources = [files.train] if files.valid is None else [files.train, files.valid]
    given = files.given_tokenizer(pieces)
    facts = (repr((separated, data.held_out if files.valid is None else None)), repr(pieces))
    elsewhere = "" if given is None else given.fingerprint()  # its file may change
    sampled = [] if files.sample_every(pieces) == 1 else [files.sample_every(pieces)]
    key = store_key("texts", *(source.fingerprint() for source in sources), *facts, elsewhere, *sampled)
    made = folder / key[:24]

    def make() -> Tokenizer:
        return given or learn_pieces(files.sample(pieces), pieces, verbatim=pieces.verbatim)

    tokenizer = kept_tokenizer(made, make, say=say)

    def stream(name: str, build: Callable[..., TokenStream]) -> TokenStream:
        part = store_key(key, name)

        def said(into: Path) -> TokenStream:
            built = build(tokenizer, into, separated=separated, fingerprint=part)
            say(f"{name}: {built.extent.characters:,} characters, {len(built):,} tokens")
            return built

        return TokenStream.cached(part, made, build=said, say=say)

    def build_train(*where: Any, **options: Any) -> TokenStream:
        return TokenStream.build_from(files.units(), *where, **options, workshop=files.workshop, name="train", say=say)

    def build_valid(*where: Any, **options: Any) -> TokenStream:
        return TokenStream.build(files.valid_documents(), *where, **options)

    return EncodedTexts(tokenizer, stream("train", build_train), stream("valid", build_valid))


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
