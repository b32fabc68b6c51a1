"""Sequences of different lengths end to end: (n,) ids and (k,) lengths, so that a batch is made in whole arrays.

One numpy call for six hundred sentences costs what one call for a single sentence costs: what is done sentence by
sentence elsewhere is done here for all of them at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Ids = Sequence[int] | npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Ragged:
    """k sequences end to end: `ids` (n,) of any integer type, `lengths` (k,) int64 that sum to n."""

    ids: npt.NDArray[Any]
    lengths: Ints

    @classmethod
    def of(cls, sequences: Ragged | Sequence[Ids]) -> Ragged:
        """Sequences put end to end; what is ragged already stays as it is."""
        if isinstance(sequences, Ragged):
            return sequences
        lengths = np.fromiter(map(len, sequences), np.int64, len(sequences))
        if not len(lengths):
            return cls(np.empty(0, np.int64), lengths)
        return cls(np.concatenate(sequences, dtype=np.int64, casting="unsafe"), lengths)  # an empty list has no type

    @classmethod
    def gathered(cls, flat: npt.NDArray[Any], starts: npt.NDArray[Any], lengths: npt.NDArray[Any]) -> Ragged:
        """The stretches of a flat array that begin at `starts` (k,) and have `lengths` (k,)."""
        lengths = lengths.astype(np.int64)
        ends = np.cumsum(lengths)
        total = int(ends[-1]) if len(ends) else 0
        return cls(flat[np.repeat(starts - ends + lengths, lengths) + np.arange(total)], lengths)

    @cached_property
    def starts(self) -> Ints:
        """Where each sequence begins, (k,)."""
        starts: Ints = np.cumsum(self.lengths) - self.lengths
        return starts

    @property
    def places(self) -> Ints:
        """The place of each id in its own sequence, (n,)."""
        return np.arange(len(self.ids)) - np.repeat(self.starts, self.lengths)

    def __len__(self) -> int:
        return len(self.lengths)

    def __iter__(self) -> Iterator[npt.NDArray[Any]]:
        """Each sequence as a view."""
        for start, length in zip(self.starts.tolist(), self.lengths.tolist(), strict=True):
            yield self.ids[start : start + length]

    def take(self, rows: slice | npt.NDArray[Any]) -> Ragged:
        """Some of the sequences: a slice of them, those of these numbers, or those where a mask holds."""
        return Ragged.gathered(self.ids, self.starts[rows], self.lengths[rows])

    def marked(self, *, first: int | None = None, last: int | None = None) -> Ragged:
        """A mark before every sequence, or behind it, or both."""
        lengths = self.lengths + (first is not None) + (last is not None)
        ends = np.cumsum(lengths)
        ids = np.empty(int(lengths.sum()), np.int64)
        own = np.ones(len(ids), np.bool_)
        for mark, places in ((first, ends - lengths), (last, ends - 1)):
            if mark is not None:
                ids[places], own[places] = mark, False
        ids[own] = self.ids
        return Ragged(ids, lengths)

    def where(self, mask: npt.NDArray[np.bool_], other: Ragged) -> Ragged:
        """Each sequence where the mask (k,) holds, and the other's in its place where it does not."""
        starts = np.where(mask, self.starts, len(self.ids) + other.starts)
        return Ragged.gathered(
            np.concatenate([self.ids, other.ids]), starts, np.where(mask, self.lengths, other.lengths)
        )


class Shelf:
    """Rows of ids kept by number, in one flat array that grows; any of them may be missing."""

    def __init__(self) -> None:
        self.used = 0
        self._flat = np.empty(1 << 10, np.int32)
        self._starts = np.full(1 << 10, -1, np.int32)  # -1 for a row that is missing
        self._lengths = np.zeros(1 << 10, np.int32)

    def has(self, rows: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        """Which of these rows are here."""
        self._reach(int(rows.max(initial=-1)) + 1)
        here: npt.NDArray[np.bool_] = self._starts[rows] >= 0
        return here

    def put(self, rows: npt.NDArray[Any], sequences: Ragged) -> None:
        """Keep sequences as the rows of these numbers."""
        self._reach(int(rows.max(initial=-1)) + 1)
        end = self.used + len(sequences.ids)
        if end > len(self._flat):
            self._flat = _grown(self._flat, end, fill=0)
        self._flat[self.used : end] = sequences.ids
        self._starts[rows], self._lengths[rows] = self.used + sequences.starts, sequences.lengths
        self.used = end

    def take(self, rows: npt.NDArray[Any]) -> Ragged:
        """The rows of these numbers, all of which must be here."""
        return Ragged.gathered(self._flat, self._starts[rows], self._lengths[rows])

    def _reach(self, rows: int) -> None:
        if rows > len(self._starts):
            self._starts = _grown(self._starts, rows, fill=-1)
            self._lengths = _grown(self._lengths, rows, fill=0)


def _grown(array: npt.NDArray[np.int32], least: int, *, fill: int) -> npt.NDArray[np.int32]:
    larger = np.full(max(least, 2 * len(array)), fill, np.int32)
    larger[: len(array)] = array
    return larger
