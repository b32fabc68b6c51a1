"""Texts as one stream of ids on disk, read through the page cache: what a language model learns from.

A folder holds the ids of all documents end to end, each with its marks, and where each begins:

    stream.ids      uint16, or uint32 for vocabularies over 65,536
    stream.offsets  int64, one more than documents
    stream.json     counts of documents, tokens, characters, bytes and words, and the fingerprint of what it is made of

It is whole or absent; what was cut short later is noticed. `rowplan` says which rows of it a batch holds.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from regard.data.io.atomic import whole_or_absent, write_synced
from regard.data.io.cache import Cached
from regard.data.text.documents import Document
from regard.data.text.markers import Markers
from regard.data.text.memmap_ids import ID_TYPES, MemmapIds, MemmapIdWriter
from regard.data.text.tokenizers import Tokenizer
from regard.errors import DataError

FORMAT = 1
_FILES = ("stream.json", "stream.ids", "stream.offsets")
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


@dataclass(frozen=True)
class StreamHeader:
    """What `stream.json` says."""

    documents: int
    tokens: int
    characters: int
    bytes: int
    words: int
    dtype: str
    fingerprint: str
    format: int = FORMAT


class TokenStream(Cached):
    """Tokenised documents end to end. Made by `TokenStream.build`, `open` or `cached`."""

    def __init__(self, folder: Path, header: StreamHeader) -> None:
        self.folder, self.header = folder, header
        self._file = MemmapIds(folder, "stream", sentences=header.documents, tokens=header.tokens, dtype=header.dtype)
        self.ids = self._file.flat  # (tokens,)

    def __len__(self) -> int:
        return self.header.tokens

    @property
    def fingerprint(self) -> str:
        """Of what the stream was made from, as given to `build`."""
        return self.header.fingerprint

    @property
    def extent(self) -> Extent:
        """How much text it is made of."""
        header = self.header
        return Extent(header.documents, header.characters, header.bytes, header.words)

    def document(self, index: int) -> npt.NDArray[Any]:
        """The ids of a document with its marks, (length,), as a view of the file."""
        return self._file[index]

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
        marks, extent = Markers.of(tokenizer, separated=separated), Extent()
        with whole_or_absent(folder, files=_FILES, what="a stream of text") as draft:
            with MemmapIdWriter(draft, "stream", tokenizer) as writer:
                for chunk in _chunks(documents):
                    _write(chunk, tokenizer, writer, marks=marks)
                    for document in chunk:
                        extent = extent.plus(document)
                if writer.inside:  # the last one promised more
                    writer.append([[*marks.after]])
            if not writer.tokens:
                raise DataError("no text: the documents hold nothing that the tokenizer has pieces for")
            header = StreamHeader(
                **(asdict(extent) | {"documents": writer.count}),
                tokens=writer.tokens,
                dtype=writer.dtype.str,
                fingerprint=fingerprint,
            )
            write_synced(draft / "stream.json", json.dumps(asdict(header), indent=2).encode())
        return cls.open(folder)

    @classmethod
    def open(cls, folder: Path | str) -> Self:
        """Open what `build` wrote; anything else, or anything cut short, is an error."""
        folder = Path(folder)
        return cls(folder, _read_header(folder))


def _chunks(documents: Iterable[Document]) -> Iterator[list[Document]]:
    chunk: list[Document] = []
    size = 0
    for document in documents:
        chunk.append(document)
        size += len(document.text) + 256  # a document costs something even if it is short
        if size >= _CHUNK:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _write(chunk: list[Document], tokenizer: Tokenizer, writer: MemmapIdWriter, *, marks: Markers) -> None:
    """Write documents, and parts of them, with the marks where each begins and ends."""
    whole: list[list[int]] = []
    begun = writer.inside
    for document, ids in zip(chunk, tokenizer.encode_batch([document.text for document in chunk]), strict=True):
        before = () if begun else marks.before
        if document.more:
            writer.append(whole)
            whole = []
            writer.begin([*before, *ids])
        else:
            whole.append([*before, *ids, *marks.after])
        begun = document.more
    writer.append(whole)


def _read_header(folder: Path) -> StreamHeader:
    path = folder / "stream.json"
    try:
        header = StreamHeader(**json.loads(path.read_text(encoding="utf-8")))
        counts = (header.documents - 1, header.tokens - 1, header.characters, header.bytes, header.words)
        ok = (
            header.format == FORMAT
            and set(map(type, counts)) == {int}
            and min(counts) >= 0
            and header.dtype in ID_TYPES
        )
    except FileNotFoundError:
        raise DataError(f"{folder}: holds no stream of text (no stream.json)", hint="build it first") from None
    except (OSError, ValueError, TypeError) as error:
        raise DataError(f"{path}: cannot be read ({error})", hint="delete the folder and build it again") from error
    if not ok:
        raise DataError(f"{path}: not a stream of format {FORMAT}", hint="delete the folder and build it again")
    return header
