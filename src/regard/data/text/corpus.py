"""A tokenised corpus on disk, read through the page cache: any size, little memory.

A folder holds, for each side, the ids of all sentences in one flat array and where each begins:

    source.ids  target.ids           uint16, or uint32 for vocabularies over 65,536; without special tokens
    source.offsets  target.offsets   int64, n + 1 of them
    corpus.json                      counts, types, what was dropped, and the fingerprint of what it was made from

It is written under a temporary name and renamed, so a folder is whole or absent; what was cut short later is noticed.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from regard.data.batching.chunks import chunks
from regard.data.batching.ragged import Ragged
from regard.data.io.cache import Header, Store, whole_numbers
from regard.data.text.memmap_ids import ID_TYPES, MemmapIds, MemmapIdWriter
from regard.data.text.pairs import Pair
from regard.data.text.tokenizers import Tokenizer
from regard.errors import DataError

_CHUNK = 4096  # pairs encoded at once


@dataclass(frozen=True, kw_only=True)
class CorpusHeader(Header):
    """What `corpus.json` says."""

    pairs: int
    source_tokens: int
    target_tokens: int
    source_dtype: str
    target_dtype: str
    dropped_long: int

    def sound(self) -> bool:
        """Whether there is a pair, and ids are of a type that is written."""
        types = {self.source_dtype, self.target_dtype} <= {*ID_TYPES}
        return types and whole_numbers(self.pairs - 1, self.source_tokens, self.target_tokens)


class Corpus(Store):
    """Tokenised pairs, by number. Made by `Corpus.build`, `Corpus.open` or `Corpus.cached`."""

    what, header_file, header_type = "a corpus", "corpus.json", CorpusHeader
    files = ("source.ids", "source.offsets", "target.ids", "target.offsets")

    def __init__(self, folder: Path, header: CorpusHeader) -> None:
        super().__init__(folder, header)
        n = header.pairs
        self._source = MemmapIds(folder, "source", sentences=n, tokens=header.source_tokens, dtype=header.source_dtype)
        self._target = MemmapIds(folder, "target", sentences=n, tokens=header.target_tokens, dtype=header.target_dtype)
        self.source_lengths = self._source.lengths  # (n,)
        self.target_lengths = self._target.lengths  # (n,)

    def __len__(self) -> int:
        return int(self.header.pairs)

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

        folder = Path(folder)
        with cls.writing(folder) as draft:
            with (
                MemmapIdWriter(draft, "source", source_tokenizer) as source,
                MemmapIdWriter(draft, "target", target_tokenizer) as target,
            ):
                dropped = _encode(pairs, source, target, max_tokens=max_tokens)
            header = CorpusHeader(
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
            cls.write_header(draft, header)
        return cls.open(folder)


def _encode(pairs: Iterable[Pair], source: MemmapIdWriter, target: MemmapIdWriter, *, max_tokens: int | None) -> int:
    """Write all pairs that are short enough; how many were not."""
    dropped = 0
    for chunk in chunks(pairs, _CHUNK):
        sources = source.tokenizer.encode_batch([pair.source for pair in chunk])
        targets = target.tokenizer.encode_batch([pair.target for pair in chunk])
        if max_tokens is not None:
            kept = [both for both in zip(sources, targets, strict=True) if max(map(len, both)) <= max_tokens]
            dropped += len(chunk) - len(kept)
            sources, targets = [both[0] for both in kept], [both[1] for both in kept]
        source.append(sources)
        target.append(targets)
    return dropped
