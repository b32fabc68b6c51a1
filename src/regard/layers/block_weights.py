"""Weights that stay in the blocks they were published in: llama.cpp's Q8_0, Q4_0 and Q4_1, for inference.

    32 neighbouring inputs of an output share a scale d, and with Q4_1 a least value m

    Q8_0   w = d · q          q from −128 to 127      34 bytes a block
    Q4_0   w = d · (q − 8)    q from 0 to 15          18
    Q4_1   w = d · q + m      q from 0 to 15          20

They take as much memory as in their file. Here a product makes plain numbers of the blocks first, as often as it is
asked for: exact, and meant for looking, measuring and reading. `regard.fast.cpu` multiplies them as they lie.

Blocks of 16 outputs lie together in a tile, as processors multiply them: (blocks, groups of inputs, outputs, four
bytes), then the scales (blocks, outputs), then the least values. Bytes of Q8_0 have their first bit flipped.
"""

from __future__ import annotations

import mmap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.errors import ShapeError
from regard.layers.embeddings import Embedding

BLOCK = 32  # inputs that share a scale
TILE = 16  # outputs that lie together
_SIGN = 0x80


@dataclass(frozen=True)
class BlockFormat:
    """A way to write down 32 weights: how many bytes they take, and their halves of two bytes each before them."""

    name: str
    n_bytes: int
    n_halves: int
    zero: int

    @property
    def size(self) -> int:
        """Bytes of a block."""
        return self.n_bytes + 2 * self.n_halves


_ALL = (BlockFormat("Q8_0", 32, 1, 128), BlockFormat("Q4_0", 16, 1, 8), BlockFormat("Q4_1", 16, 2, 0))
FORMATS: Mapping[str, BlockFormat] = {one.name: one for one in _ALL}


class BlockMatrix(nn.Module):
    """A matrix (Dout, Din) in blocks. Nothing in it ever changes, so copies of a model share it."""

    tiles: Tensor

    def __init__(self, rows: Tensor, form: BlockFormat) -> None:
        """Make it of the rows of a file (Dout, bytes of a row)."""
        super().__init__()
        n_out, n_bytes = rows.shape
        if n_bytes % form.size:
            raise ShapeError(f"rows of {n_bytes} bytes are not made of blocks of {form.size}")
        self.form, self.n_out, self.n_blocks = form, n_out, n_bytes // form.size
        self.register_buffer("tiles", _tiled(rows, form))

    @property
    def shape(self) -> torch.Size:
        """(Dout, Din)."""
        return torch.Size((self.n_out, self.n_blocks * BLOCK))

    @property
    def device(self) -> torch.device:
        """Where it is."""
        return self.tiles.device

    @property
    def is_cuda(self) -> bool:
        """Whether that is a GPU."""
        return self.tiles.is_cuda

    @property
    def dtype(self) -> torch.dtype:
        """What plain numbers are made in."""
        return torch.float32

    def __len__(self) -> int:
        return self.n_out

    def __deepcopy__(self, memo: dict[int, Any]) -> BlockMatrix:
        return self

    def plain(self) -> Tensor:
        """All numbers, (Dout, Din)."""
        quants, halves = self._parts()
        q = quants.permute(0, 3, 1, 2, 4)  # (tiles, outputs, blocks, groups, bytes)
        return self._numbers(q, halves.transpose(-1, -2)).flatten(0, 1)[: self.n_out]

    def rows(self, ids: Tensor) -> Tensor:
        """The rows of some outputs, (...) → (..., Din)."""
        quants, halves = self._parts()
        tile, lane = ids // TILE, ids % TILE
        return self._numbers(quants[tile, :, :, lane], halves[:, tile, :, lane].movedim(-2, 0))

    def _parts(self) -> tuple[Tensor, Tensor]:
        """Bytes (tiles, blocks, groups, outputs, four), and halves (scales or least values, tiles, blocks, outputs)."""
        n_bytes = self.n_blocks * self.form.n_bytes * TILE
        quants = self.tiles[:, :n_bytes].unflatten(1, (self.n_blocks, -1, TILE, 4))
        halves = self.tiles[:, n_bytes:].view(torch.float16).unflatten(1, (-1, self.n_blocks, TILE))
        return quants, halves.movedim(1, 0)

    def _numbers(self, quants: Tensor, halves: Tensor) -> Tensor:
        """Bytes (..., blocks, groups, four) and halves (one or two, ..., blocks) → (..., Din)."""
        q = quants.flatten(-2)
        whole = q if self.form.n_bytes == BLOCK else torch.cat((q & 15, q >> 4), -1)
        scales, *least = halves.float().unsqueeze(-1)
        numbers = (whole.float() - self.form.zero) * scales
        plain: Tensor = (numbers + least[0] if least else numbers).flatten(-2)
        return plain


class BlockLinear(nn.Module):
    """A linear layer with its weight in blocks; it learns nothing."""

    def __init__(self, weight: BlockMatrix, bias: Tensor | None = None) -> None:
        super().__init__()
        self.weight, self.bias = weight, None if bias is None else nn.Parameter(bias, requires_grad=False)

    def forward(self, hidden: Tensor) -> Tensor:
        """(..., Din) → (..., Dout)."""
        return F.linear(hidden, self.weight.plain(), self.bias)


class BlockEmbedding(Embedding):
    """An embedding with its matrix in blocks; it learns nothing."""

    weight: BlockMatrix  # type: ignore[assignment]

    def __init__(self, weight: BlockMatrix, *, scale: float, pad_id: int | None) -> None:
        nn.Module.__init__(self)
        self.weight, self.scale, self.pad_id = weight, scale, pad_id

    def forward(self, ids: Tensor) -> Tensor:
        """Ids (..., T) → vectors (..., T, D)."""
        vectors = self.weight.rows(ids)
        return vectors if self.scale == 1.0 else vectors * self.scale

    def unembed(self, hidden: Tensor) -> Tensor:
        """Hidden states (..., D) → scores over ids (..., V), by the same matrix."""
        return F.linear(hidden, self.weight.plain())


def _tiled(rows: Tensor, form: BlockFormat) -> Tensor:
    """Rows of a file (Dout, bytes) → tiles (Dout / 16, bytes of a tile), filled up with blocks of zeros."""
    missing = -len(rows) % TILE
    padded = F.pad(rows, (0, 0, 0, missing)) if missing else rows
    blocks = padded.unflatten(1, (-1, form.size)).unflatten(0, (-1, TILE))  # (tiles, outputs, blocks, bytes)
    halves, quants = blocks.split((2 * form.n_halves, form.n_bytes), -1)
    tiles = _room(blocks.numel()).view(len(blocks), -1)
    groups, beside = tiles.split([TILE * blocks.shape[2] * part.shape[-1] for part in (quants, halves)], 1)
    interleaved = quants.unflatten(-1, (-1, 4)).permute(0, 2, 3, 1, 4)
    groups.unflatten(1, interleaved.shape[1:]).copy_(interleaved)
    if form.n_bytes == BLOCK:
        groups ^= _SIGN
    by_half = halves.unflatten(-1, (form.n_halves, 2)).permute(0, 3, 2, 1, 4)
    beside.unflatten(1, by_half.shape[1:]).copy_(by_half)
    return tiles


def _room(n_bytes: int) -> Tensor:
    """Memory straight from the system, which has it back as soon as nobody uses it."""
    if not hasattr(mmap, "MAP_PRIVATE"):  # a system that gives it otherwise
        return torch.empty(n_bytes, dtype=torch.uint8)
    room = mmap.mmap(-1, max(n_bytes, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return torch.frombuffer(room, dtype=torch.uint8)[:n_bytes]
