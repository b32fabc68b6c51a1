"""Keys and values of the tokens seen so far, so that a decoding step computes only the newest.

    keys (B, G, length, E), values (B, G, length, Ev) are views of room for `capacity` positions

The room is taken once and written in place. It grows by doubling when a caller outruns the capacity it asked for.
Position comes first in memory, (capacity, B, G, E): what is filled lies together, so rows change places in one copy.
"""

from __future__ import annotations

from itertools import zip_longest

import torch
from torch import Tensor

from regard.errors import ShapeError, UsageError


class Cache:
    """A preallocated store of keys and values with append, reorder and truncate."""

    def __init__(self, capacity: int = 64) -> None:
        if capacity < 1:
            raise UsageError(f"a cache holds at least one position, not {capacity}")
        self.capacity, self.length = capacity, 0
        self._rooms: list[Tensor] = []  # of the keys and of the values, once there are any
        self._spares: list[Tensor] = []  # the rooms left by the last reordering, used by the next
        self._borrowed = False  # tensors of the caller are read, never written

    @classmethod
    def filled(cls, keys: Tensor, values: Tensor) -> Cache:
        """A cache that holds exactly these: the memory of cross-attention."""
        cache = cls(max(1, keys.shape[-2]))
        cache._rooms = [_time_first(keys), _time_first(values)]
        if keys.device.type == "cpu":  # read at every step, and in this order many times as quick
            cache._rooms = [room.contiguous() for room in cache._rooms]
        cache.length, cache._borrowed = keys.shape[-2], True
        return cache

    @property
    def keys(self) -> Tensor:
        """What is held so far, (B, G, length, E)."""
        return self._held(0)

    @property
    def values(self) -> Tensor:
        """What is held so far, (B, G, length, Ev)."""
        return self._held(1)

    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Write new positions behind the old ones and return all: (B, G, length, E) and (B, G, length, Ev)."""
        end = self.length + keys.shape[-2]
        if not self._rooms:
            self.capacity = max(self.capacity, end)
            self._rooms = [self._in_room(_time_first(new)[:0]) for new in (keys, values)]
        elif self._rooms[0].shape[1] != keys.shape[0]:
            raise ShapeError(f"a cache of {self._rooms[0].shape[1]} rows cannot take {keys.shape[0]} rows")
        elif end > self.capacity or self._borrowed:
            self._grow(end)
        key_room, value_room = self._rooms
        key_room[self.length : end], value_room[self.length : end] = _time_first(keys), _time_first(values)
        self.length = end
        return self.keys, self.values

    @torch.no_grad()
    def reorder(self, rows: Tensor) -> None:
        """Row i becomes what row `rows[i]` was: beams change places, finished rows leave, rows repeat."""
        moved = [self._moved(room, rows, spare) for room, spare in zip_longest(self._rooms, self._spares)]
        self._rooms, self._spares, self._borrowed = moved, [] if self._borrowed else self._rooms, False

    @torch.no_grad()
    def fold(self, width: int) -> None:
        """Rows by the `width` become one: what they held at a position stands side by side, row after row."""
        if self._rooms:
            self._rooms = [self._folded(room, width) for room in self._rooms]
            self.capacity, self.length = self.capacity * width, self.length * width
            self._spares, self._borrowed = [], False

    @torch.no_grad()
    def take(self, places: Tensor, rows: Tensor) -> None:
        """Position p of row i becomes what position `places[p, i]` of row `rows[i]` was: places (m, M), rows (M,)."""
        if self._rooms:
            self.capacity, self.length = max(self.capacity, len(places)), len(places)
            self._rooms = [self._taken(room, places, rows) for room in self._rooms]
            self._spares, self._borrowed = [], False

    def truncate(self, length: int) -> None:
        """Forget every position from `length` on."""
        if not 0 <= length <= self.length:
            raise UsageError(f"a cache of {self.length} positions cannot be cut to {length}")
        self.length = length

    def _held(self, side: int) -> Tensor:
        if not self._rooms:
            raise UsageError("the cache is still empty: append keys and values first")
        return self._rooms[side][: self.length].permute(1, 2, 0, 3)

    def _moved(self, room: Tensor, rows: Tensor, spare: Tensor | None) -> Tensor:
        """The filled part with its rows in another order, in other room: what is not filled need not be copied."""
        shape = (self.capacity, len(rows), *room.shape[2:])
        moved = spare if spare is not None and spare.shape == shape else room.new_empty(shape)
        torch.index_select(room[: self.length], 1, rows, out=moved[: self.length])
        return moved

    def _folded(self, room: Tensor, width: int) -> Tensor:
        n_positions, n_rows, *rest = room.shape
        folded = room.new_empty(n_positions * width, n_rows // width, *rest)
        by_step = folded.view(n_positions, width, n_rows // width, *rest)
        by_step[: self.length] = room[: self.length].unflatten(1, (-1, width)).transpose(1, 2)
        return folded

    def _taken(self, room: Tensor, places: Tensor, rows: Tensor) -> Tensor:
        """Whatever stands at these places of these rows, in new room."""
        index = (places * room.shape[1] + rows).flatten()
        taken = room.new_empty(self.capacity, len(rows), *room.shape[2:])
        torch.index_select(room.flatten(0, 1), 0, index, out=taken[: self.length].flatten(0, 1))
        return taken

    def _grow(self, needed: int) -> None:
        self.capacity, self._borrowed = max(needed, 2 * self.capacity), False
        self._rooms = [self._in_room(room[: self.length]) for room in self._rooms]

    def _in_room(self, held: Tensor) -> Tensor:
        """The same (length, B, G, E) at the beginning of new room."""
        room = held.new_empty(self.capacity, *held.shape[1:])
        room[: len(held)] = held
        return room


def _time_first(tensor: Tensor) -> Tensor:
    """(B, G, T, E) seen as (T, B, G, E)."""
    return tensor.permute(2, 0, 1, 3)


def reorder_all(caches: list[Cache], rows: Tensor) -> None:
    """Reorder every layer's cache alike."""
    for cache in caches:
        cache.reorder(rows)
