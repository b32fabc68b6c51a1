"""Sentences of ids in two flat files, `NAME.ids` and `NAME.offsets`: written by appending, read by mapping.

Sentence i is `ids[offsets[i] : offsets[i + 1]]`; there is one offset more than sentences, from 0 to the number of ids.
What has several shards, `NAME.ids`, `NAME-00001.ids`, …, is read as if it were one: `ShardedIds`.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
import numpy.typing as npt

from regard.data.batching.ragged import Ragged
from regard.data.io.cache import whole_numbers
from regard.data.text.tokenizers import Tokenizer
from regard.errors import DataError

ID_TYPES = ("<u2", "<u4")  # little-endian on every machine
_OFFSETS = np.dtype("<i8")


class MemmapIdWriter:
    """Appends sentences to the files of one side."""

    def __init__(self, folder: Path, side: str, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.dtype = np.dtype(ID_TYPES[tokenizer.size > 2**16])
        self.count = self.tokens = 0
        self.inside = False  # whether a sentence was begun and not yet appended
        self._ids = open(folder / f"{side}.ids", "wb")  # noqa: SIM115 - closed in __exit__
        self._offsets = open(folder / f"{side}.offsets", "wb")  # noqa: SIM115
        self._offsets.write(np.zeros(1, _OFFSETS).tobytes())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def size(self) -> int:
        """Bytes of ids so far."""
        return self.tokens * self.dtype.itemsize

    def close(self) -> None:
        """Wait until the disk has all of it."""
        for file in (self._ids, self._offsets):
            file.flush()
            os.fsync(file.fileno())
            file.close()

    def append(self, sentences: list[list[int]]) -> None:
        """Write some sentences."""
        lengths = np.fromiter(map(len, sentences), np.int64, len(sentences))
        flat = np.fromiter((index for sentence in sentences for index in sentence), self.dtype, int(lengths.sum()))
        self._ids.write(flat.tobytes())
        self._offsets.write((self.tokens + np.cumsum(lengths)).astype(_OFFSETS).tobytes())
        self.count += len(sentences)
        self.tokens += len(flat)
        self.inside = self.inside and not sentences

    def begin(self, ids: list[int]) -> None:
        """Write the first ids of the next sentence to be appended: one too long to hold comes in parts."""
        self._ids.write(np.array(ids, self.dtype).tobytes())
        self.tokens += len(ids)
        self.inside = True


class MemmapIds:
    """One side of a corpus, or of a shard of it, mapped into memory; `lengths` (n,) int32."""

    def __init__(self, folder: Path, side: str, *, sentences: int, tokens: int, dtype: str, ending: str = "") -> None:
        path = folder / f"{side}{ending}.offsets"
        self._ids = _map(folder / f"{side}{ending}.ids", np.dtype(dtype), tokens)
        self._offsets: npt.NDArray[np.int64] = _map(path, _OFFSETS, sentences + 1)
        lengths = np.diff(self._offsets)
        if self._offsets[0] != 0 or self._offsets[-1] != tokens or bool((lengths < 0).any()):
            raise _damaged(path, "its offsets do not fit its ids")
        self.lengths: npt.NDArray[np.int32] = lengths.astype(np.int32)

    @property
    def flat(self) -> npt.NDArray[Any]:
        """All ids end to end, (tokens,)."""
        return self._ids

    def __getitem__(self, index: int) -> npt.NDArray[Any]:
        n = len(self.lengths)
        if not -n <= index < n:
            raise IndexError(f"example {index} of a corpus of {n}")
        index %= n
        return self._ids[self._offsets[index] : self._offsets[index + 1]]

    def rows(self, indices: npt.NDArray[np.int64]) -> Ragged:
        """The sentences of these numbers (k,), copied end to end."""
        n = len(self.lengths)
        if len(indices) and not 0 <= int(indices.min()) <= int(indices.max()) < n:
            raise IndexError(f"examples {int(indices.min())} to {int(indices.max())} of a corpus of {n}")
        return Ragged.gathered(self._ids, self._offsets[indices], self.lengths[indices])


class ShardedIds:
    """One side of a corpus in shards of (sentences, tokens), as if it were one file; `lengths` (n,) int32."""

    def __init__(self, folder: Path, side: str, *, shards: Sequence[tuple[int, int]], dtype: str) -> None:
        self.shards = [
            MemmapIds(folder, side, sentences=n, tokens=m, dtype=dtype, ending=f"-{i:05d}" if i else "")
            for i, (n, m) in enumerate(shards)
        ]
        self._starts = np.cumsum([0, *(n for n, _ in shards)])  # of the shards, in sentences
        parts = [shard.lengths for shard in self.shards]
        self.lengths: npt.NDArray[np.int32] = parts[0] if len(parts) == 1 else np.concatenate(parts)
        flat = FlatIds([shard.flat for shard in self.shards])
        self.flat = self.shards[0].flat if len(shards) == 1 else cast("npt.NDArray[Any]", flat)  # it slices like one

    def __getitem__(self, index: int) -> npt.NDArray[Any]:
        n = len(self.lengths)
        if not -n <= index < n:
            raise IndexError(f"example {index} of a corpus of {n}")
        shard = int(np.searchsorted(self._starts, index % n, side="right")) - 1
        return self.shards[shard][index % n - int(self._starts[shard])]

    def rows(self, indices: npt.NDArray[np.int64]) -> Ragged:
        """The sentences of these numbers (k,), copied end to end."""
        if len(self.shards) == 1:
            return self.shards[0].rows(indices)
        n = len(self.lengths)
        if len(indices) and not 0 <= int(indices.min()) <= int(indices.max()) < n:
            raise IndexError(f"examples {int(indices.min())} to {int(indices.max())} of a corpus of {n}")
        of = np.searchsorted(self._starts, indices, side="right") - 1
        order = np.argsort(of, kind="stable")
        parts = [
            self.shards[shard].rows(indices[of == shard] - self._starts[shard]) for shard in np.unique(of).tolist()
        ]
        together = Ragged(np.concatenate([part.ids for part in parts]), self.lengths[indices[order]].astype(np.int64))
        return together.take(np.argsort(order))


def fit(shards: Sequence[Sequence[int]], *, tokens: int) -> bool:
    """Whether a header's shards, if it names any, have so many tokens together."""
    numbers = all(len(shard) == 2 and whole_numbers(*shard) for shard in shards)
    return numbers and (not shards or sum(shard[1] for shard in shards) == tokens)


class FlatIds:
    """The ids of several arrays end to end, in slices; a slice within one of them is a view of it."""

    def __init__(self, parts: Sequence[npt.NDArray[Any]]) -> None:
        self._parts = parts
        self._ends = np.cumsum([len(part) for part in parts])

    def __len__(self) -> int:
        return int(self._ends[-1])

    def __getitem__(self, places: slice) -> npt.NDArray[Any]:
        start, stop, step = places.indices(len(self))
        if step != 1:
            raise IndexError("ids are read in their order")
        pieces = list(self._pieces(start, stop))
        return pieces[0] if len(pieces) == 1 else np.concatenate([self._parts[0][:0], *pieces])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """All of them, where they are few enough to be held."""
        return np.asarray(self[:], dtype)

    def tolist(self) -> list[int]:
        """All of them as a list."""
        ids: list[int] = self[:].tolist()
        return ids

    def _pieces(self, start: int, stop: int) -> Iterator[npt.NDArray[Any]]:
        part = int(np.searchsorted(self._ends, start, side="right"))
        while start < stop:
            begin = int(self._ends[part]) - len(self._parts[part])
            piece = self._parts[part][start - begin : stop - begin]
            yield piece
            start, part = start + len(piece), part + 1


def _map(path: Path, dtype: np.dtype[Any], count: int) -> npt.NDArray[Any]:
    try:
        size = path.stat().st_size
    except OSError as error:
        raise _damaged(path, error.strerror or str(error)) from None
    if size != count * dtype.itemsize:
        raise _damaged(path, f"it has {size} bytes, {count * dtype.itemsize} were written")
    if not count:  # nothing to map: every sentence of this side is empty
        return np.empty(0, dtype)
    return np.memmap(path, dtype, "r", shape=(count,)).view(np.ndarray)


def _damaged(path: Path, why: str) -> DataError:
    return DataError(f"{path}: damaged ({why})", hint="delete the folder and build it again")
