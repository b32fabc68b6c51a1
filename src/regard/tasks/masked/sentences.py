"""Documents as sentences of ids on disk, read through the page cache: what pairs of sentences are made of.

    sentences.ids       uint16, or uint32 for vocabularies over 65,536: all sentences end to end, without special tokens
    sentences.offsets   int64, where each sentence begins among the ids, and one more
    documents.offsets   int64, where each document begins among the sentences, and one more
    sentences.json      counts, types, and the fingerprint of what it was made from

Sentences with more pieces than `longest` are cut into several, so that no text is too long to be used. A large corpus
has shards, sentences-00001.ids and so on, of whole documents. The folder is whole or absent; what was cut short later
is noticed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from regard.config.bounded import regular_size
from regard.data.batching.chunks import chunks
from regard.data.io.cache import REBUILD, Header, Store, whole_numbers
from regard.data.io.lines import Say
from regard.data.io.shards import Facts, ShardJob, ShardWriter, Workshop, file_name, work_folder
from regard.data.text.documents import Document
from regard.data.text.memmap_ids import ID_TYPES, MemmapIdWriter, ShardedIds
from regard.data.text.splitting import split_sentences
from regard.data.text.text_units import TextUnits
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
    shards: tuple[tuple[int, int, int], ...] = ()  # documents, sentences, tokens of each, where there are several

    def sound(self) -> bool:
        """Whether there is a token, and ids are of a type that is written."""
        counts = (self.documents, self.sentences, self.tokens)
        shards = all(len(shard) == 3 and whole_numbers(*shard) for shard in self.shards)
        summed = not self.shards or tuple(map(sum, zip(*self.shards, strict=True))) == counts
        return self.dtype in ID_TYPES and whole_numbers(*counts, least=1) and shards and summed


class SentenceCorpus(Store):
    """Tokenised documents, sentence by sentence. Made by `SentenceCorpus.build`, `open` or `cached`."""

    what, header_file, header_type = "a corpus of sentences", "sentences.json", SentenceHeader
    files = ("sentences.ids", "sentences.offsets", "documents.offsets")

    def __init__(self, folder: Path, header: SentenceHeader) -> None:
        super().__init__(folder, header)
        shards = header.shards or ((header.documents, header.sentences, header.tokens),)
        file = ShardedIds(folder, "sentences", shards=[(n, m) for _, n, m in shards], dtype=header.dtype)
        self.ids = file.flat  # (tokens,)
        self.borders: npt.NDArray[np.int64] = np.concatenate([[0], np.cumsum(file.lengths, dtype=np.int64)])
        offsets, before = [np.zeros(1, np.int64)], 0
        for number, (documents, sentences, _) in enumerate(shards):
            path = folder / file_name("documents.offsets", number)
            offsets.append(_read_offsets(path, documents=documents, sentences=sentences)[1:] + before)
            before += sentences
        self.documents: npt.NDArray[np.int64] = np.concatenate(offsets)  # (documents + 1,) in sentences

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
            writer = SentenceWriter(draft, tokenizer, longest=longest)
            for chunk in sentence_chunks(documents, split):
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
        split: Callable[[str], list[str]] = split_sentences,
        longest: int | None = None,
        fingerprint: str = "",
        name: str = "",
        say: Say = lambda _: None,
    ) -> Self:
        """The same for files, by several processes, in as many shards as it takes; the sentences are the same."""
        plan = {"key": fingerprint, "tokenizer": tokenizer.fingerprint(), "units": units.key(), **workshop.plan()}
        return cls.build_shards(
            SentenceJob(work_folder(folder), workshop.shard_bytes, units, tokenizer, split, longest),
            folder,
            n_units=len(units),
            workers=workshop.processes,
            plan=plan,
            header=lambda facts: _header(facts, fingerprint),
            name=name,
            say=say,
        )


def _header(shards: Sequence[Facts], fingerprint: str) -> SentenceHeader:
    """The counts of all shards together."""
    names = ("documents", "sentences", "tokens")
    totals = {name: sum(facts[name] for facts in shards) for name in names}
    if not totals["sentences"]:
        raise DataError("no sentences: there are no documents, or none that hold text", hint="check the input")
    several = tuple((facts["documents"], facts["sentences"], facts["tokens"]) for facts in shards)
    dtype = shards[0]["dtype"]
    return SentenceHeader(**totals, dtype=dtype, fingerprint=fingerprint, shards=several if len(shards) > 1 else ())


def sentence_chunks(
    documents: Iterable[Document], split: Callable[[str], list[str]]
) -> Iterator[list[tuple[list[str], bool]]]:
    """The sentences of documents to be encoded together, and whether each document goes on."""
    parted = ((split(document.text), document.more) for document in documents)
    return chunks(parted, _CHUNK, size=lambda document: len(document[0]) + 1)


class SentenceWriter(ShardWriter):
    """Writes sentences, and where documents begin among them."""

    def __init__(self, folder: Path, tokenizer: Tokenizer, *, longest: int | None) -> None:
        self.tokenizer, self.longest = tokenizer, longest
        self._ids = MemmapIdWriter(folder, "sentences", tokenizer)
        self._offsets = open(folder / "documents.offsets", "wb")  # noqa: SIM115 - closed in close
        self._offsets.write(np.zeros(1, "<i8").tobytes())
        self._documents, self._end, self._more = 0, 0, False

    @property
    def size(self) -> int:
        """Bytes of ids so far; a shard ends where a document does."""
        return -1 if self._more else self._ids.size

    def write(self, chunk: list[tuple[list[str], bool]]) -> None:
        """Write the sentences of some documents."""
        encoded = iter(self.tokenizer.encode_batch([text for sentences, _ in chunk for text in sentences]))
        for sentences, more in chunk:
            self._ids.append([part for _ in sentences for part in _cut(next(encoded), self.longest)])
            self._more = more
            if not more:  # a document of several parts ends with the last of them
                self._end_document()

    def close(self, *, last: bool) -> Facts:
        """End the files; the last document may have promised more."""
        self._end_document()
        self._offsets.flush()
        os.fsync(self._offsets.fileno())
        self._offsets.close()
        self._ids.close()
        counts = {"documents": self._documents, "sentences": self._ids.count, "tokens": self._ids.tokens}
        return counts | {"dtype": self._ids.dtype.str}

    def _end_document(self) -> None:
        if self._ids.count > self._end:  # else it has no pieces, and is left out
            self._documents, self._end = self._documents + 1, self._ids.count
            self._offsets.write(np.array([self._end], "<i8").tobytes())


@dataclass(frozen=True)
class SentenceJob(ShardJob):
    """Files of text to shards of sentences."""

    work: Path
    shard_bytes: int
    units: TextUnits
    tokenizer: Tokenizer
    split: Callable[[str], list[str]]
    longest: int | None

    def chunks(self, unit: int) -> Iterator[Any]:
        """The documents of some files, as sentences."""
        return sentence_chunks(self.units.documents(unit), self.split)

    def open(self, folder: Path) -> ShardWriter:
        """A shard of the corpus."""
        return SentenceWriter(folder, self.tokenizer, longest=self.longest)


def _cut(ids: list[int], longest: int | None) -> list[list[int]]:
    step = longest or max(1, len(ids))
    return [ids[start : start + step] for start in range(0, len(ids), step)]


def _read_offsets(path: Path, *, documents: int, sentences: int) -> npt.NDArray[np.int64]:
    try:
        if regular_size(path) != 8 * (documents + 1):
            raise DataError(f"{path}: damaged (it does not fit {sentences} sentences)", hint=REBUILD)
        offsets = np.fromfile(path, "<i8").astype(np.int64)
    except OSError as error:
        raise DataError(f"{path}: damaged ({error.strerror or error})", hint=REBUILD) from None
    if len(offsets) != documents + 1 or offsets[0] != 0 or offsets[-1] != sentences:
        raise DataError(f"{path}: damaged (it does not fit {sentences} sentences)", hint=REBUILD)
    if not (np.diff(offsets) > 0).all():
        raise DataError(f"{path}: damaged (its documents are not in order)", hint=REBUILD)
    return offsets
