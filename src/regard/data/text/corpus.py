"""A tokenised corpus on disk, read through the page cache: any size, little memory.

A folder holds, for each side, the ids of all sentences in one flat array and where each begins:

    source.ids  target.ids           uint16, or uint32 for vocabularies over 65,536; without special tokens
    source.offsets  target.offsets   int64, n + 1 of them
    corpus.json                      counts, types, what was dropped, and the fingerprint of what it was made from

It is written under a temporary name and renamed, so a folder is whole or absent; what was cut short later is noticed.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from regard.data.batching.ragged import Ragged
from regard.data.io.atomic import whole_or_absent, write_synced
from regard.data.io.cache import Cached
from regard.data.text.memmap_ids import ID_TYPES, MemmapIds, MemmapIdWriter
from regard.data.text.pairs import Pair
from regard.data.text.tokenizers import Tokenizer
from regard.errors import DataError, UsageError

FORMAT = 1
_FILES = ("corpus.json", "source.ids", "source.offsets", "target.ids", "target.offsets")
_CHUNK = 4096  # pairs encoded at once


@dataclass(frozen=True)
class Header:
    """What `corpus.json` says."""

    pairs: int
    source_tokens: int
    target_tokens: int
    source_dtype: str
    target_dtype: str
    dropped_long: int
    fingerprint: str
    format: int = FORMAT


class Corpus(Cached):
    """Tokenised pairs, by number. Made by `Corpus.build`, `Corpus.open` or `Corpus.cached`."""

    def __init__(self, folder: Path, header: Header) -> None:
        self.folder, self.header = folder, header
        n = header.pairs
        self._source = MemmapIds(folder, "source", sentences=n, tokens=header.source_tokens, dtype=header.source_dtype)
        self._target = MemmapIds(folder, "target", sentences=n, tokens=header.target_tokens, dtype=header.target_dtype)
        self.source_lengths = self._source.lengths  # (n,)
        self.target_lengths = self._target.lengths  # (n,)

    def __len__(self) -> int:
        return self.header.pairs

    @property
    def fingerprint(self) -> str:
        """Of what the corpus was made from, as given to `build`."""
        return self.header.fingerprint

    def source(self, index: int) -> npt.NDArray[Any]:
        """The ids of a source sentence, (length,), as a view of the file."""
        return self._source[index]

    def target(self, index: int) -> npt.NDArray[Any]:
        """The ids of a target sentence, (length,), as a view of the file."""
        return self._target[index]

    def sources(self, indices: npt.NDArray[np.int64]) -> Ragged:
        """The ids of many source sentences, end to end."""
        return self._source.rows(indices)

    def targets(self, indices: npt.NDArray[np.int64]) -> Ragged:
        """The ids of many target sentences, end to end."""
        return self._target.rows(indices)

    @classmethod
    def build(
        cls,
        pairs: Iterable[Pair],
        source_tokenizer: Tokenizer,
        target_tokenizer: Tokenizer,
        folder: Path | str,
        *,
        max_tokens: int | None = None,
        fingerprint: str = "",
    ) -> Self:
        """Encode a stream of pairs into `folder`, replacing what is there.

        Pairs with more than `max_tokens` on a side are left out; the header counts them as `dropped_long`.
        """
        if max_tokens is not None and max_tokens < 1:
            raise UsageError(f"max_tokens is {max_tokens}, at least 1 is needed")
        folder = Path(folder)
        with whole_or_absent(folder, files=_FILES, what="a corpus") as draft:
            with (
                MemmapIdWriter(draft, "source", source_tokenizer) as source,
                MemmapIdWriter(draft, "target", target_tokenizer) as target,
            ):
                dropped = _encode(pairs, source, target, max_tokens=max_tokens)
            header = Header(
                pairs=source.count,
                source_tokens=source.tokens,
                target_tokens=target.tokens,
                source_dtype=source.dtype.str,
                target_dtype=target.dtype.str,
                dropped_long=dropped,
                fingerprint=fingerprint,
            )
            if not header.pairs:
                message = f"no usable pairs: none was given, or all {dropped} are longer than {max_tokens} tokens"
                raise DataError(message, hint="raise max_tokens, or check the input")
            write_synced(draft / "corpus.json", json.dumps(asdict(header), indent=2).encode())
        return cls.open(folder)

    @classmethod
    def open(cls, folder: Path | str) -> Self:
        """Open what `build` wrote; anything else, or anything cut short, is an error."""
        folder = Path(folder)
        return cls(folder, _read_header(folder))


def corpus_key(*parts: str | int | float | None) -> str:
    """A key for `Corpus.cached` from all that decides the ids: fingerprints of sources and tokenizers, and options."""
    return hashlib.sha256(json.dumps([FORMAT, *parts]).encode()).hexdigest()


def _encode(pairs: Iterable[Pair], source: MemmapIdWriter, target: MemmapIdWriter, *, max_tokens: int | None) -> int:
    """Write all pairs that are short enough; how many were not."""
    dropped = 0
    for chunk in _chunks(pairs):
        sources = source.tokenizer.encode_batch([pair.source for pair in chunk])
        targets = target.tokenizer.encode_batch([pair.target for pair in chunk])
        if max_tokens is not None:
            kept = [both for both in zip(sources, targets, strict=True) if max(map(len, both)) <= max_tokens]
            dropped += len(chunk) - len(kept)
            sources, targets = [both[0] for both in kept], [both[1] for both in kept]
        source.append(sources)
        target.append(targets)
    return dropped


def _chunks(pairs: Iterable[Pair]) -> Iterator[list[Pair]]:
    pairs = iter(pairs)
    while chunk := list(islice(pairs, _CHUNK)):
        yield chunk


def _read_header(folder: Path) -> Header:
    path = folder / "corpus.json"
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
        header = Header(**facts)
        counts = (header.pairs - 1, header.source_tokens, header.target_tokens)
        types = (header.source_dtype, header.target_dtype)
        ok = (
            header.format == FORMAT and min(counts) >= 0 and set(map(type, counts)) == {int} and {*types} <= {*ID_TYPES}
        )
    except FileNotFoundError:
        raise DataError(f"{folder}: holds no corpus (no corpus.json)", hint="build it first") from None
    except (OSError, ValueError, TypeError) as error:
        raise DataError(f"{path}: cannot be read ({error})", hint="delete the folder and build it again") from error
    if not ok:
        raise DataError(f"{path}: not a corpus of format {FORMAT}", hint="delete the folder and build it again")
    return header
