"""Texts as one stream of ids on disk, read through the page cache: what a language model learns from.

A folder holds the ids of all documents end to end, each with its marks, and where each begins:

    stream.ids      uint16, or uint32 for vocabularies over 65,536
    stream.offsets  int64, one more than documents
    stream.json     counts of documents, tokens, characters, bytes and words, and the fingerprint of what it is made of

It is whole or absent; what was cut short later is noticed. `batching.rows` says which rows of it a batch holds.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt

from regard.data.batching.chunks import chunks
from regard.data.io.cache import Header, Store, whole_numbers
from regard.data.text.documents import Document
from regard.data.text.markers import Markers
from regard.data.text.memmap_ids import ID_TYPES, MemmapIds, MemmapIdWriter
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

    def sound(self) -> bool:
        """Whether there is a token, and ids are of a type that is written."""
        counts = (self.documents - 1, self.tokens - 1, self.characters, self.bytes, self.words)
        return self.dtype in ID_TYPES and whole_numbers(*counts)


class TokenStream(Store):
    """Tokenised documents end to end. Made by `TokenStream.build`, `open` or `cached`."""

    what, header_file, header_type = "a stream of text", "stream.json", StreamHeader
    files = ("stream.ids", "stream.offsets")

    def __init__(self, folder: Path, header: StreamHeader) -> None:
        super().__init__(folder, header)
        file = MemmapIds(folder, "stream", sentences=header.documents, tokens=header.tokens, dtype=header.dtype)
        self.ids = file.flat  # (tokens,)

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
        markers, extent = Markers.of(tokenizer, separated=separated), Extent()
        with cls.writing(folder) as draft:
            with MemmapIdWriter(draft, "stream", tokenizer) as writer:
                # A document costs something even if it is short.
                for chunk in chunks(documents, _CHUNK, size=lambda document: len(document.text) + 256):
                    _write(chunk, tokenizer, writer, markers=markers)
                    for document in chunk:
                        extent = extent.plus(document)
                if writer.inside:  # the last one promised more
                    writer.append([[*markers.after]])
            if not writer.tokens:
                raise DataError("no text: the documents hold nothing that the tokenizer has pieces for")
            header = StreamHeader(
                **(asdict(extent) | {"documents": writer.count}),
                tokens=writer.tokens,
                dtype=writer.dtype.str,
                fingerprint=fingerprint,
            )
            cls.write_header(draft, header)
        return cls.open(folder)


def _write(chunk: list[Document], tokenizer: Tokenizer, writer: MemmapIdWriter, *, markers: Markers) -> None:
    """Write documents, and parts of them, with the marks where each begins and ends."""
    whole: list[list[int]] = []
    begun = writer.inside
    for document, ids in zip(chunk, tokenizer.encode_batch([document.text for document in chunk]), strict=True):
        before = () if begun else markers.before
        if document.more:
            writer.append(whole)
            whole = []
            writer.begin([*before, *ids])
        else:
            whole.append([*before, *ids, *markers.after])
        begun = document.more
    writer.append(whole)
