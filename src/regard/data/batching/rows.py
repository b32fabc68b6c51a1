"""Which rows of a stream a batch holds, the same for the same seed, and resumable at any batch.

    rows     the stream cut into rows of T tokens, at another place each epoch, in random order: an epoch predicts every
             token once (where T does not divide the stream, fewer than T of them twice)
    random   rows that begin anywhere, drawn anew; an epoch is as many rows as above

The stream is a ring, so no token is left out at its ends. Batches are all of one size: where an epoch is not full of
them, the last one goes on with the next epoch's rows. An epoch's batches are those whose first row is one of its own.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from regard.config.data import RowOrder
from regard.data.batching.plan import Indices, Position, no_such_batch
from regard.errors import DataError


class RowPlan:
    """Where the rows of each batch begin, batch by batch, without end."""

    def __init__(
        self, n_tokens: int, context: int, *, rows_per_batch: int, seed: int, order: RowOrder = "rows"
    ) -> None:

        if n_tokens <= context:
            raise DataError(
                f"the text has {n_tokens:,} tokens, and a row of context {context:,} needs {context + 1:,}",
                hint=f"give more text, or a shorter context, such as data.context={max(1, n_tokens // 2)}",
            )
        self.n_tokens, self.context, self.rows_per_batch = n_tokens, context, rows_per_batch
        self.seed, self.order = seed, order
        self._known: tuple[int, Indices] | None = None

    @property
    def rows_per_epoch(self) -> int:
        """How many rows see every token."""
        return -(-self.n_tokens // self.context)

    def first_batch(self, epoch: int) -> int:
        """The number of the first batch whose first row is one of this epoch's, counted over all epochs."""
        return -(-epoch * self.rows_per_epoch // self.rows_per_batch)

    def batch(self, number: int) -> Indices:
        """Where the rows of a batch begin, (rows_per_batch,)."""
        B, R = self.rows_per_batch, self.rows_per_epoch
        if self.order == "random":
            return np.random.default_rng([self.seed, number]).integers(self.n_tokens, size=B)
        places = range(number * B, (number + 1) * B)
        parts = [
            self._epoch(epoch)[max(places.start - epoch * R, 0) : places.stop - epoch * R]
            for epoch in range(places.start // R, (places.stop - 1) // R + 1)
        ]
        return np.concatenate(parts)

    def _epoch(self, number: int) -> Indices:
        """Where the rows of an epoch begin, in its order; the last one asked for is kept."""
        if self._known is None or self._known[0] != number:
            random = np.random.default_rng([self.seed, number])
            offset = int(random.integers(self.n_tokens))
            order: Indices = random.permutation(self.rows_per_epoch)
            self._known = number, (order * self.context + offset) % self.n_tokens
        return self._known[1]

    def iterate(self, position: Position = Position()) -> Iterator[tuple[Position, Indices]]:  # noqa: B008 - frozen
        """Batches without end from `position` on, each with the position after it."""
        number = self.first_batch(position.epoch) + position.batch
        if position.batch < 0 or number > self.first_batch(position.epoch + 1):
            n = self.first_batch(position.epoch + 1) - self.first_batch(position.epoch)
            raise no_such_batch(position, n)
        while True:
            number += 1
            epoch = number * self.rows_per_batch // self.rows_per_epoch
            yield Position(epoch, number - self.first_batch(epoch)), self.batch(number - 1)
