"""Sentences of ids in two flat files, `NAME.ids` and `NAME.offsets`: written by appending, read by mapping.

Sentence i is `ids[offsets[i] : offsets[i + 1]]`; there is one offset more than sentences, from 0 to the number of ids.
"""

import os
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from regard.data.batching.ragged import Ragged
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
    """One side of a corpus, mapped into memory; `lengths` (n,) int32."""

    def __init__(self, folder: Path, side: str, *, sentences: int, tokens: int, dtype: str) -> None:
        self._ids = _map(folder / f"{side}.ids", np.dtype(dtype), tokens)
        self._offsets: npt.NDArray[np.int64] = _map(folder / f"{side}.offsets", _OFFSETS, sentences + 1)
        lengths = np.diff(self._offsets)
        if self._offsets[0] != 0 or self._offsets[-1] != tokens or bool((lengths < 0).any()):
            raise _damaged(folder / f"{side}.offsets", "its offsets do not fit its ids")
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
