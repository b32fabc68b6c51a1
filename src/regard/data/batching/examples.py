"""Which examples a batch holds, of all that are learnt from together: what order and draws are a matter of.

A step's batch is one for all processes, and each takes a share of it. An example's place in the whole batch and the
batch's position in the run are the same whoever takes it, so what is drawn for it follows from these and the seed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.data.batching.hashing import hashed, text_hash
from regard.data.batching.plan import Indices, Position

_NOBODY = 2**40  # the place of the first row that is no example


@dataclass(frozen=True, eq=False)
class BatchExamples:
    """The examples of one process's share: their numbers in the data, and their places in the whole batch."""

    numbers: Indices
    places: Indices
    position: Position  # of the whole batch: what was done before it
    beside: Indices  # places of examples of others whose rows come after the own ones

    @classmethod
    def share(
        cls, numbers: npt.NDArray[Any], position: Position, *, rank: int, world: int, beside: Indices | None = None
    ) -> BatchExamples:
        """Every `world`th example of a whole batch, from the one of this rank on."""
        places = np.arange(rank, len(numbers), world)
        others = np.zeros(0, np.int64) if beside is None else beside
        return cls(np.asarray(numbers, np.int64)[places], places, position, others)

    def keys(self, seed: int, n_rows: int | None = None) -> npt.NDArray[np.int64]:
        """What the draws of each example follow from; rows up to `n_rows` that hold none have keys of their own."""
        places = np.concatenate([self.places, self.beside])
        nobody = np.arange(_NOBODY, _NOBODY + max(0, (n_rows or 0) - len(places)))
        run = text_hash(repr((seed, self.position.epoch, self.position.batch)))
        return hashed(run, np.concatenate([places, nobody])).view(np.int64)

    def digest(self) -> int:
        """A number of 64 bits for these examples at these places.

        Sums of them, modulo 2⁶⁴, say what was learnt from in which order, however it was shared.
        """
        own = hashed(self.position.epoch, self.position.batch, self.places, self.numbers)
        return int(own.sum(dtype=np.uint64))
