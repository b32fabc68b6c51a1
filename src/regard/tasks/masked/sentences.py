"""Documents as sentences of ids on disk, read through the page cache: what pairs of sentences are made of.

    sentences.ids       uint16, or uint32 for vocabularies over 65,536: all sentences end to end, without special tokens
    sentences.offsets   int64, where each sentence begins among the ids, and one more
    documents.offsets   int64, where each document begins among the sentences, and one more
    sentences.json      counts, types, and the fingerprint of what it was made from

Sentences with more pieces than `longest` are cut into several, so that no text is too long to be used. The folder is
whole or absent; what was cut short later is noticed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Self

import numpy as np
import numpy.typing as npt

from regard.config.bounded import regular_size
from regard.data.batching.chunks import chunks
from regard.data.io.cache import REBUILD, Header, Store, whole_numbers
from regard.data.text.documents import Document
from regard.data.text.memmap_ids import ID_TYPES, MemmapIds, MemmapIdWriter
from regard.data.text.splitting import split_sentences
from regard.data.text.tokenizers import Tokenizer
from regard.errors import DataError

_CHUNK = 4096  # sentences encoded at once


@dataclass(frozen=True, kw_only=True)
class SentenceHeader(Header):
    """What `sentences.json` says."""

    documents: int
    sentences: int
    tokens: int
    dtype: str

    def sound(self) -> bool:
        """Whether there is a token, and ids are of a type that is written."""
        return self.dtype in ID_TYPES and whole_numbers(self.documents, self.sentences, self.tokens, least=1)


class SentenceCorpus(Store):
    """Tokenised documents, sentence by sentence. Made by `SentenceCorpus.build`, `open` or `cached`."""

    what, header_file, header_type = "a corpus of sentences", "sentences.json", SentenceHeader
    files = ("sentences.ids", "sentences.offsets", "documents.offsets")

    def __init__(self, folder: Path, header: SentenceHeader) -> None:
        super().__init__(folder, header)
        file = MemmapIds(folder, "sentences", sentences=header.sentences, tokens=header.tokens, dtype=header.dtype)
        self.ids = file.flat  # (tokens,)
        self.borders: npt.NDArray[np.int64] = np.concatenate([[0], np.cumsum(file.lengths, dtype=np.int64)])
        self.documents = _read_offsets(folder / "documents.offsets", header)  # (documents + 1,) in sentences

    def __len__(self) -> int:
        return int(self.header.documents)

    @classmethod
    def build(
        cls,
        documents: Iterable[Document],
        tokenizer: Tokenizer,
        folder: Path | str,
        *,
        split: Callable[[str], list[str]] = split_sentences,
        longest: int | None = None,
        fingerprint: str = "",
    ) -> Self:
        """Encode a stream of documents into `folder`, replacing what is there; documents without pieces are left out.

        `split` makes sentences of a text; those with more than `longest` pieces are cut.
        """

        folder = Path(folder)
        with cls.writing(folder) as draft:
            with (
                MemmapIdWriter(draft, "sentences", tokenizer) as writer,
                open(draft / "documents.offsets", "wb") as offsets,
            ):
                n = _write(documents, writer, offsets, split=split, longest=longest)
            if not writer.count:
                raise DataError("no sentences: there are no documents, or none that hold text", hint="check the input")
            counts = {"documents": n, "sentences": writer.count, "tokens": writer.tokens}
            cls.write_header(draft, SentenceHeader(**counts, dtype=writer.dtype.str, fingerprint=fingerprint))
        return cls.open(folder)


def _write(
    documents: Iterable[Document],
    writer: MemmapIdWriter,
    offsets: BinaryIO,
    *,
    split: Callable[[str], list[str]],
    longest: int | None,
) -> int:
    """Write all sentences, and where documents begin among them; how many documents there are."""
    n, end = 0, 0
    offsets.write(np.zeros(1, "<i8").tobytes())
    parted = ((split(document.text), document.more) for document in documents)
    for chunk in chunks(parted, _CHUNK, size=lambda document: len(document[0]) + 1):
        encoded = iter(writer.tokenizer.encode_batch([text for sentences, _ in chunk for text in sentences]))
        for sentences, more in chunk:
            parts = [part for _ in sentences for part in _cut(next(encoded), longest)]
            writer.append(parts)
            if writer.count > end and not more:  # a document of several parts ends with the last of them
                n, end = n + 1, writer.count
                offsets.write(np.array([end], "<i8").tobytes())
    if writer.count > end:  # the last one promised more
        offsets.write(np.array([writer.count], "<i8").tobytes())
    return n + (writer.count > end)


def _cut(ids: list[int], longest: int | None) -> list[list[int]]:
    step = longest or max(1, len(ids))
    return [ids[start : start + step] for start in range(0, len(ids), step)]


def _read_offsets(path: Path, header: SentenceHeader) -> npt.NDArray[np.int64]:
    try:
        if regular_size(path) != 8 * (header.documents + 1):
            raise DataError(f"{path}: damaged (it does not fit {header.sentences} sentences)", hint=REBUILD)
        offsets = np.fromfile(path, "<i8").astype(np.int64)
    except OSError as error:
        raise DataError(f"{path}: damaged ({error.strerror or error})", hint=REBUILD) from None
    if len(offsets) != header.documents + 1 or offsets[0] != 0 or offsets[-1] != header.sentences:
        raise DataError(f"{path}: damaged (it does not fit {header.sentences} sentences)", hint=REBUILD)
    if not (np.diff(offsets) > 0).all():
        raise DataError(f"{path}: damaged (its documents are not in order)", hint=REBUILD)
    return offsets
