"""Caches in which each head's positions lie together, as the kernels of our own read them.

    keys (B, G, length, E), values (B, G, length, E) are views of room (B, G, capacity, E)

A step on a processor reads every head's past from one end to the other. Where positions come first in memory, each is
in another place, and fetching them takes longer than computing. Rows that change places are copied in pieces instead,
but on a processor they seldom do: beams share their past. `HalfHeadCache` keeps bfloat16: half as much to read.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.attention.cache import Cache
from regard.errors import ShapeError, UsageError


class HeadCache(Cache):
    """A `Cache` with its heads first in memory."""

    dtype = torch.float32

    @classmethod
    def filled(cls, keys: Tensor, values: Tensor) -> HeadCache:
        """A cache that holds exactly these: the memory of cross-attention."""
        cache = cls(max(1, keys.shape[-2]))
        cache._keys, cache._values = (tensor.to(cls.dtype).contiguous() for tensor in (keys, values))
        cache.length, cache._borrowed = keys.shape[-2], True
        return cache

    def claim(self, n: int, shape: tuple[int, int, int]) -> None:
        """Count n more positions (B, G, E) as held, which the caller then writes to the room; the first makes it."""
        B, G, E = shape
        end = self.length + n
        if self._keys is None or self._values is None:
            self.capacity = max(self.capacity, end)
            self._keys, self._values = (torch.empty(B, G, self.capacity, E, dtype=self.dtype) for _ in range(2))
        elif self._keys.shape[0] != B:
            raise ShapeError(f"a cache of {self._keys.shape[0]} rows cannot take {B} rows")
        elif end > self.capacity or self._borrowed:
            self._borrowed = False
            self._grow(end)
        self.length = end

    def room(self) -> tuple[Tensor, Tensor]:
        """Where keys and values are, and will be: two of (B, G, capacity, E), in the precision they are kept in."""
        if self._keys is None or self._values is None:
            raise UsageError("the cache is still empty: claim room or append keys and values first")
        return self._keys, self._values

    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Write new positions behind the old ones and return all: two of (B, G, length, E)."""
        start = self.length
        self.claim(keys.shape[-2], (*keys.shape[:2], keys.shape[-1]))
        for room, new in zip(self.room(), (keys, values), strict=True):
            room[:, :, start : self.length] = new
        return self.keys, self.values

    @torch.no_grad()
    def take(self, places: Tensor, rows: Tensor) -> None:
        """Position p of row i becomes what position `places[p, i]` of row `rows[i]` was: places (m, M), rows (M,)."""
        if self._keys is not None and self._values is not None:
            self.capacity, self.length = max(self.capacity, len(places)), len(places)
            taken = [tensor[rows[:, None], :, places.T].transpose(1, 2) for tensor in (self._keys, self._values)]
            self._keys, self._values = (self._in_room(tensor) for tensor in taken)
            self._spare, self._borrowed = [None, None], False

    def _held(self, tensor: Tensor | None) -> Tensor:
        held = super()._held(None) if tensor is None else tensor[:, :, : self.length]
        return held.float()

    def _moved(self, tensor: Tensor, rows: Tensor, spare: Tensor | None) -> Tensor:
        shape = (len(rows), tensor.shape[1], self.capacity, tensor.shape[3])
        moved = spare if spare is not None and spare.shape == shape else tensor.new_empty(shape)
        moved[:, :, : self.length] = tensor[:, :, : self.length].index_select(0, rows)
        return moved

    def _folded(self, tensor: Tensor, width: int) -> Tensor:
        n_rows, G, n_positions, E = tensor.shape
        folded = tensor.new_empty(n_rows // width, G, n_positions * width, E)
        by_step = folded.view(n_rows // width, G, n_positions, width, E)
        by_step[:, :, : self.length] = tensor[:, :, : self.length].unflatten(0, (-1, width)).permute(0, 2, 3, 1, 4)
        return folded

    def _grow(self, needed: int) -> None:
        self.capacity = max(needed, 2 * self.capacity)
        self._keys, self._values = (self._in_room(room[:, :, : self.length]) for room in self.room())

    def _in_room(self, held: Tensor) -> Tensor:
        """The same (B, G, length, E) at the beginning of new room."""
        room = held.new_empty(*held.shape[:2], self.capacity, held.shape[-1])
        room[:, :, : self.length] = held
        return room


class HalfHeadCache(HeadCache):
    """The same in bfloat16, for models whose weights have no more digits either."""

    dtype = torch.bfloat16
