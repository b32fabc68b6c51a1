"""Texts as one stream of ids on disk, read through the page cache: what a language model learns from.

A folder holds the ids of all documents end to end, each with its marks, and where each begins:

    stream.ids      uint16, or uint32 for vocabularies over 65,536
    stream.offsets  int64, one more than documents
    stream.json     counts of documents, tokens, characters, bytes and words, and the fingerprint of what it is made of

A large one has shards: stream-00001.ids and so on; a document may go on in the next. It is whole or absent; what was
cut short later is noticed. `batching.rows` says which rows of it a batch holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from regard.data.batching.chunks import chunks
from regard.data.io.cache import Header, Store, whole_numbers
from regard.data.io.lines import Say
from regard.data.io.shards import Facts, ShardJob, ShardWriter, Workshop, work_folder
from regard.data.text.documents import Document
from regard.data.text.markers import Markers
from regard.data.text.memmap_ids import ID_TYPES, MemmapIdWriter, ShardedIds, fit
from regard.data.text.text_units import TextUnits
from regard.data.text.tokenizers import Tokenizer
from regard.errors import DataError

_CHUNK = 2**22  # characters encoded at once


@dataclass(frozen=True)
class Extent:
    """How much text there is: what figures a token, a character, a byte or a word are divided by."""

    documents: int = 0
    characters: int = 0
    bytes: int = 0
    words: int = 0

    def plus(self, document: Document) -> Extent:
        """With one more document, or one more part of one."""
        return Extent(
            self.documents + (not document.more),
            self.characters + len(document.text),
            self.bytes + len(document.text.encode()),
            self.words + len(document.text.split()),
        )


@dataclass(frozen=True, kw_only=True)
class StreamHeader(Header):
    """What `stream.json` says."""

    documents: int
    tokens: int
    characters: int
    bytes: int
    words: int
    dtype: str
    shards: tuple[tuple[int, int], ...] = ()  # sentences and tokens of each, where there are several

    def sound(self) -> bool:
        """Whether there is a token, and ids are of a type that is written."""
        counts = (self.documents - 1, self.tokens - 1, self.characters, self.bytes, self.words)
        return self.dtype in ID_TYPES and whole_numbers(*counts) and fit(self.shards, tokens=self.tokens)


class TokenStream(Store):
    """Tokenised documents end to end. Made by `TokenStream.build`, `open` or `cached`."""

    what, header_file, header_type = "a stream of text", "stream.json", StreamHeader
    files = ("stream.ids", "stream.offsets")

    def __init__(self, folder: Path, header: StreamHeader) -> None:
        super().__init__(folder, header)
        shards = header.shards or ((header.documents, header.tokens),)
        self.ids = ShardedIds(folder, "stream", shards=shards, dtype=header.dtype).flat  # (tokens,)

    def __len__(self) -> int:
        return int(self.header.tokens)

    @property
    def extent(self) -> Extent:
        """How much text it is made of."""
        header = self.header
        return Extent(header.documents, header.characters, header.bytes, header.words)

    def rows(self, starts: npt.ArrayLike, width: int) -> npt.NDArray[np.int64]:
        """`width` ids from each start on, (B, width); after the last id comes the first again."""
        n, places = len(self), np.asarray(starts, np.int64)
        rows = np.empty((len(places), width), np.int64)
        for row, start in zip(rows, places.tolist(), strict=True):
            filled = 0
            while filled < width:
                piece = self.ids[(start + filled) % n :][: width - filled]
                row[filled : filled + len(piece)] = piece
                filled += len(piece)
        return rows

    @classmethod
    def build(
        cls,
        documents: Iterable[Document],
        tokenizer: Tokenizer,
        folder: Path | str,
        *,
        separated: bool = True,
        fingerprint: str = "",
    ) -> Self:
        """Encode documents into `folder`, replacing what is there; `separated` ones have their marks around them."""
        folder = Path(folder)
        with cls.writing(folder) as draft:
            writer = StreamWriter(draft, tokenizer, separated=separated)
            for chunk in document_chunks(documents):
                writer.write(chunk)
            cls.write_header(draft, _header([writer.close(last=True)], fingerprint))
        return cls.open(folder)

    @classmethod
    def build_from(
        cls,
        units: TextUnits,
        tokenizer: Tokenizer,
        folder: Path,
        *,
        workshop: Workshop,
        separated: bool = True,
        fingerprint: str = "",
        name: str = "",
        say: Say = lambda _: None,
    ) -> Self:
        """The same for files, by several processes, in as many shards as it takes; the ids are the same."""
        work = work_folder(folder)
        plan = {"key": fingerprint, "tokenizer": tokenizer.fingerprint(), "units": units.key(), **workshop.plan()}
        return cls.build_shards(
            StreamJob(work, workshop.shard_bytes, units, tokenizer, separated),
            folder,
            n_units=len(units),
            workers=workshop.processes,
            plan=plan,
            header=lambda facts: _header(facts, fingerprint),
            name=name,
            say=say,
        )


def _header(shards: Sequence[Facts], fingerprint: str) -> StreamHeader:
    """The counts of all shards together."""
    names = ("documents", "tokens", "characters", "bytes", "words")
    totals = {name: sum(facts[name] for facts in shards) for name in names}
    if not totals["tokens"]:
        raise DataError("no text: the documents hold nothing that the tokenizer has pieces for")
    several = tuple((facts["sentences"], facts["tokens"]) for facts in shards) if len(shards) > 1 else ()
    return StreamHeader(**totals, dtype=shards[0]["dtype"], fingerprint=fingerprint, shards=several)


def document_chunks(documents: Iterable[Document]) -> Iterator[tuple[bool, list[Document]]]:
    """Documents to be encoded together, and whether the first of them goes on with the last one before."""
    begun = False
    # A document costs something even if it is short.
    for chunk in chunks(documents, _CHUNK, size=lambda document: len(document.text) + 256):
        yield begun, chunk
        begun = chunk[-1].more


class StreamWriter(ShardWriter):
    """Writes documents end to end, with the marks where each begins and ends."""

    def __init__(self, folder: Path, tokenizer: Tokenizer, *, separated: bool) -> None:
        self.tokenizer, self.markers = tokenizer, Markers.of(tokenizer, separated=separated)
        self.extent, self._ids = Extent(), MemmapIdWriter(folder, "stream", tokenizer)

    @property
    def size(self) -> int:
        """Bytes of ids so far: a shard may end within a document."""
        return self._ids.size

    def write(self, chunk: tuple[bool, list[Document]]) -> None:
        """Write documents, and parts of them."""
        whole: list[list[int]] = []
        begun, documents = chunk
        texts = [document.text for document in documents]
        for document, ids in zip(documents, self.tokenizer.encode_batch(texts), strict=True):
            before = () if begun else self.markers.before
            if document.more:
                self._ids.append(whole)
                whole = []
                self._ids.begin([*before, *ids])
            else:
                whole.append([*before, *ids, *self.markers.after])
            begun = document.more
            self.extent = self.extent.plus(document)
        self._ids.append(whole)

    def close(self, *, last: bool) -> Facts:
        """End the files; a document that promised more has its mark if nothing follows."""
        inside = self._ids.inside
        if inside:
            self._ids.append([[*self.markers.after] if last else []])
        self._ids.close()
        counts = {"documents": self._ids.count - (inside and not last), "sentences": self._ids.count}
        return asdict(self.extent) | counts | {"tokens": self._ids.tokens, "dtype": self._ids.dtype.str}


@dataclass(frozen=True)
class StreamJob(ShardJob):
    """Files of text to shards of a stream."""

    work: Path
    shard_bytes: int
    units: TextUnits
    tokenizer: Tokenizer
    separated: bool

    def chunks(self, unit: int) -> Iterator[Any]:
        """The documents of some files."""
        return document_chunks(self.units.documents(unit))

    def open(self, folder: Path) -> ShardWriter:
        """A shard of the stream."""
        return StreamWriter(folder, self.tokenizer, separated=self.separated)
