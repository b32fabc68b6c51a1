"""Weights one after another in large pages of memory, in the order they are used.

A decoding step reads all of them once. Where each page is four kilobytes, a processor spends as long on finding pages
as on reading them.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

_LINE = 64  # bytes, of which every matrix begins at a multiple


class Matrix(Protocol):
    """What keeps weights as they are read, tile by tile, and may be given others that are equal."""

    tiles: Tensor


def move_together(matrices: Sequence[Matrix]) -> None:
    """Move matrices to common memory, unless they are there; systems without large pages leave them where they are."""
    distinct = list(dict.fromkeys(matrices))
    advice: int | None = getattr(mmap, "MADV_HUGEPAGE", None)
    places = {matrix.tiles.untyped_storage().data_ptr() for matrix in distinct}
    if advice is None or len(places) < 2:
        return
    sizes = [-(-matrix.tiles.nbytes // _LINE) * _LINE for matrix in distinct]
    room = mmap.mmap(-1, sum(sizes), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    try:
        room.madvise(advice)
    except OSError:  # the system was built without them
        return
    whole = torch.frombuffer(room, dtype=torch.uint8)
    for matrix, part in zip(distinct, whole.split(sizes), strict=True):
        tiles = matrix.tiles
        matrix.tiles = part[: tiles.nbytes].view(tiles.dtype).view(tiles.shape).copy_(tiles)
    _give_back()


def _give_back() -> None:
    """Room that the matrices have left, which the allocator would keep for smaller things."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
