"""Keys and values of the tokens seen so far, so that a decoding step computes only the newest.

    keys (B, G, length, E), values (B, G, length, Ev) are views of room for `capacity` positions

The room is taken once and written in place. It grows by doubling when a caller outruns the capacity it asked for.
Position comes first in memory, (capacity, B, G, E): what is filled lies together, so rows change places in one copy.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.errors import ShapeError, UsageError


class Cache:
    """A preallocated store of keys and values with append, reorder and truncate."""

    def __init__(self, capacity: int = 64) -> None:
        if capacity < 1:
            raise UsageError(f"a cache holds at least one position, not {capacity}")
        self.capacity = capacity
        self.length = 0
        self._keys: Tensor | None = None
        self._values: Tensor | None = None
        self._spare: list[Tensor | None] = [None, None]  # the room left by the last reordering, used by the next
        self._borrowed = False  # tensors of the caller are read, never written

    @classmethod
    def filled(cls, keys: Tensor, values: Tensor) -> Cache:
        """A cache that holds exactly these: the memory of cross-attention."""
        cache = cls(max(1, keys.shape[-2]))
        cache._keys, cache._values, cache.length = _time_first(keys), _time_first(values), keys.shape[-2]
        if keys.device.type == "cpu":  # read at every step, and in this order many times as quick
            cache._keys, cache._values = cache._keys.contiguous(), cache._values.contiguous()
        cache._borrowed = True
        return cache

    @property
    def keys(self) -> Tensor:
        """What is held so far, (B, G, length, E)."""
        return self._held(self._keys)

    @property
    def values(self) -> Tensor:
        """What is held so far, (B, G, length, Ev)."""
        return self._held(self._values)

    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Write new positions behind the old ones and return all: (B, G, length, E) and (B, G, length, Ev)."""
        end = self.length + keys.shape[-2]
        if self._keys is None or self._values is None:
            self.capacity = max(self.capacity, end)
            self._keys, self._values = self._room(keys), self._room(values)
        elif self._keys.shape[1] != keys.shape[0]:
            raise ShapeError(f"a cache of {self._keys.shape[1]} rows cannot take {keys.shape[0]} rows")
        elif end > self.capacity or self._borrowed:
            self._borrowed = False
            self._grow(end)
        self._keys[self.length : end] = _time_first(keys)
        self._values[self.length : end] = _time_first(values)
        self.length = end
        return self.keys, self.values

    @torch.no_grad()
    def reorder(self, rows: Tensor) -> None:
        """Row i becomes what row `rows[i]` was: beams change places, finished rows leave, rows repeat."""
        if self._keys is not None and self._values is not None:
            left: list[Tensor | None] = [None, None] if self._borrowed else [self._keys, self._values]
            self._keys = self._moved(self._keys, rows, self._spare[0])
            self._values = self._moved(self._values, rows, self._spare[1])
            self._spare, self._borrowed = left, False

    @torch.no_grad()
    def fold(self, width: int) -> None:
        """Rows by the `width` become one: what they held at a position stands side by side, row after row."""
        if self._keys is not None and self._values is not None:
            self._keys, self._values = self._folded(self._keys, width), self._folded(self._values, width)
            self.capacity, self.length = self.capacity * width, self.length * width
            self._spare, self._borrowed = [None, None], False

    @torch.no_grad()
    def take(self, places: Tensor, rows: Tensor) -> None:
        """Position p of row i becomes what position `places[p, i]` of row `rows[i]` was: places (m, M), rows (M,)."""
        if self._keys is not None and self._values is not None:
            index = (places * self._keys.shape[1] + rows).flatten()
            self.capacity, self.length = max(self.capacity, len(places)), len(places)
            self._keys = self._taken(self._keys, index, len(rows))
            self._values = self._taken(self._values, index, len(rows))
            self._spare, self._borrowed = [None, None], False

    def truncate(self, length: int) -> None:
        """Forget every position from `length` on."""
        if not 0 <= length <= self.length:
            raise UsageError(f"a cache of {self.length} positions cannot be cut to {length}")
        self.length = length

    def _held(self, tensor: Tensor | None) -> Tensor:
        if tensor is None:
            raise UsageError("the cache is still empty: append keys and values first")
        return tensor[: self.length].permute(1, 2, 0, 3)

    def _moved(self, tensor: Tensor, rows: Tensor, spare: Tensor | None) -> Tensor:
        """The filled part with its rows in another order, in other room: what is not filled need not be copied."""
        shape = (self.capacity, len(rows), *tensor.shape[2:])
        moved = spare if spare is not None and spare.shape == shape else tensor.new_empty(shape)
        torch.index_select(tensor[: self.length], 1, rows, out=moved[: self.length])
        return moved

    def _folded(self, tensor: Tensor, width: int) -> Tensor:
        n_positions, n_rows, *rest = tensor.shape
        folded = tensor.new_empty(n_positions * width, n_rows // width, *rest)
        by_step = folded.view(n_positions, width, n_rows // width, *rest)
        by_step[: self.length] = tensor[: self.length].unflatten(1, (-1, width)).transpose(1, 2)
        return folded

    def _taken(self, tensor: Tensor, index: Tensor, n_rows: int) -> Tensor:
        """Whatever stands at these places, counted row by row of each position, in new room."""
        taken = tensor.new_empty(self.capacity, n_rows, *tensor.shape[2:])
        filled = taken[: self.length].flatten(0, 1)
        torch.index_select(tensor.flatten(0, 1), 0, index, out=filled)
        return taken

    def _room(self, like: Tensor) -> Tensor:
        return like.new_empty(self.capacity, *like.shape[:2], like.shape[-1])

    def _grow(self, needed: int) -> None:
        self.capacity = max(needed, 2 * self.capacity)
        keys, values = self.keys, self.values
        self._keys, self._values = self._room(keys), self._room(values)
        self._keys[: self.length] = _time_first(keys)
        self._values[: self.length] = _time_first(values)


def _time_first(tensor: Tensor) -> Tensor:
    """(B, G, T, E) seen as (T, B, G, E)."""
    return tensor.permute(2, 0, 1, 3)


def reorder_all(caches: list[Cache], rows: Tensor) -> None:
    """Reorder every layer's cache alike."""
    for cache in caches:
        cache.reorder(rows)
