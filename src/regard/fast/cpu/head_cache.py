"""Caches in which each head's positions lie together, as the kernels of our own read them.

    keys (B, G, length, E), values (B, G, length, E) are views of room (B, G, capacity, E)

A step on a processor reads every head's past from one end to the other. Where positions come first in memory, each is
in another place, and fetching them takes longer than computing. Rows that change places are copied in pieces instead,
but on a processor they seldom do: beams share their past. `HalfHeadCache` keeps bfloat16: half as much to read.
"""

from __future__ import annotations

from collections.abc import Sequence

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
        return cls.held(*(tensor.to(cls.dtype).contiguous() for tensor in (keys, values)))

    @classmethod
    def held(cls, keys: Tensor, values: Tensor) -> HeadCache:
        """A cache whose room these are (B, G, S, E), in its precision."""
        cache = cls(max(1, keys.shape[-2]))
        cache._rooms, cache.length, cache._borrowed = [keys, values], keys.shape[-2], True
        return cache

    def claim(self, n: int, shape: tuple[int, int, int]) -> None:
        """Count n more positions (B, G, E) as held, which the caller then writes to the room; the first makes it."""
        self.reserve(self.length + n, shape)
        self.length += n

    def reserve(self, n_positions: int, shape: tuple[int, int, int]) -> None:
        """Have room for so many positions (B, G, E) in all."""
        B, G, E = shape
        if not self._rooms:
            self.capacity = max(self.capacity, n_positions)
            self._rooms = [torch.empty(B, G, self.capacity, E, dtype=self.dtype) for _ in range(2)]
        elif len(self._rooms[0]) != B:
            raise ShapeError(f"a cache of {len(self._rooms[0])} rows cannot take {B} rows")
        elif n_positions > self.capacity or self._borrowed:
            self._grow(n_positions)

    @staticmethod
    def reserve_all(caches: Sequence[HeadCache], n_positions: int, shape: tuple[int, int, int]) -> None:
        """`reserve` for each of some alike; rooms of those that are all empty are taken in one piece."""
        if any(cache._rooms for cache in caches):
            for cache in caches:
                cache.reserve(n_positions, shape)
            return
        B, G, E = shape
        capacity = max(n_positions, *(cache.capacity for cache in caches))
        rooms = torch.empty(2 * len(caches), B, G, capacity, E, dtype=caches[0].dtype).unbind()
        for cache, *both in zip(caches, rooms[::2], rooms[1::2], strict=True):
            cache.capacity, cache._rooms = capacity, both

    def room(self) -> list[Tensor]:
        """Where keys and values are, and will be: two of (B, G, capacity, E), in the precision they are kept in."""
        if not self._rooms:
            raise UsageError("the cache is still empty: claim room or append keys and values first")
        return self._rooms

    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Write new positions behind the old ones and return all: two of (B, G, length, E)."""
        start = self.length
        self.claim(keys.shape[-2], (*keys.shape[:2], keys.shape[-1]))
        for room, new in zip(self._rooms, (keys, values), strict=True):
            room[:, :, start : self.length] = new
        return self.keys, self.values

    def _held(self, side: int) -> Tensor:
        held = self._rooms[side][:, :, : self.length] if self._rooms else super()._held(side)
        return held.float()

    def _moved(self, room: Tensor, rows: Tensor, spare: Tensor | None) -> Tensor:
        shape = (len(rows), room.shape[1], self.capacity, room.shape[3])
        moved = spare if spare is not None and spare.shape == shape else room.new_empty(shape)
        moved[:, :, : self.length] = room[:, :, : self.length].index_select(0, rows)
        return moved

    def _folded(self, room: Tensor, width: int) -> Tensor:
        n_rows, G, n_positions, E = room.shape
        folded = room.new_empty(n_rows // width, G, n_positions * width, E)
        by_step = folded.view(n_rows // width, G, n_positions, width, E)
        by_step[:, :, : self.length] = room[:, :, : self.length].unflatten(0, (-1, width)).permute(0, 2, 3, 1, 4)
        return folded

    def _taken(self, room: Tensor, places: Tensor, rows: Tensor) -> Tensor:
        return self._in_room(room[rows[:, None], :, places.T].transpose(1, 2))

    def _grow(self, needed: int) -> None:
        self.capacity, self._borrowed = max(needed, 2 * self.capacity), False
        self._rooms = [self._in_room(room[:, :, : self.length]) for room in self._rooms]

    def _in_room(self, held: Tensor) -> Tensor:
        """The same (B, G, length, E) at the beginning of new room."""
        room = held.new_empty(*held.shape[:2], self.capacity, held.shape[-1])
        room[:, :, : self.length] = held
        return room


class HalfHeadCache(HeadCache):
    """The same in bfloat16, for models whose weights have no more digits either."""

    dtype = torch.bfloat16
