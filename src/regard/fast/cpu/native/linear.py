"""A linear layer for the kernels: weights packed once, rows multiplied in one call.

    (n, Din) · weightᵀ + bias → (n, Dout)        weight (Dout, Din) in float32, bfloat16 or int8

Weights lie as they are read: tiles of 32 outputs, and in each, for every four bytes of an input row, the four bytes of
each output that meet them. bfloat16 rounds the inputs as well; results and bias stay in single precision. With int8, an
input row is rounded in steps of its own largest number, see `regard.fast.cpu.packed_linear`.

Weights in blocks (`regard.layers.block_weights`) are multiplied where they are: nothing is packed or copied.
"""

from __future__ import annotations

import ctypes
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from regard.fast.cpu.native.loading import Kernels
from regard.fast.cpu.native.structures import ACTIVATIONS, BFLOAT, BYTES, IN_BLOCKS, SINGLE, Linear
from regard.layers.block_weights import BlockMatrix

TILE = 32
KINDS = {torch.float32: SINGLE, torch.bfloat16: BFLOAT, torch.int8: BYTES}


class Native:
    """A layer of the kernels, by its structure; what the addresses in it belong to has to live as long."""

    def __init__(self, kernels: Kernels, structure: Linear, held: Any) -> None:
        self.kernels, self.structure, self._held = kernels, structure, held
        self._address = ctypes.addressof(structure)

    def __call__(self, rows: Tensor) -> Tensor:
        """Rows (..., Din) in any precision → (..., Dout) in float32."""
        rows = rows.float().contiguous()
        output = torch.empty((*rows.shape[:-1], self.structure.n_out))
        n_rows = rows.shape[:-1].numel()
        self.kernels.linear(self.kernels.threads, self._address, rows.data_ptr(), n_rows, output.data_ptr())
        return output

    def __deepcopy__(self, memo: dict[int, Any]) -> Native:
        return self  # nothing in it ever changes


class NativeBlocks(Native):
    """A layer whose weight stays in its blocks."""

    def __init__(self, kernels: Kernels, weight: BlockMatrix, *, bias: Tensor | None = None) -> None:
        added = None if bias is None else _padded(bias.detach().float())
        n_out, n_in = weight.shape
        addresses = (weight.tiles.data_ptr(), None, None, None if added is None else added.data_ptr())
        super().__init__(
            kernels, Linear(*addresses, n_in, n_out, IN_BLOCKS[weight.form.name], 0, 0), (weight.tiles, added)
        )

    def rows(self, outputs: Tensor) -> Tensor:
        """The weights of some outputs, (...) → (..., Din)."""
        outputs = outputs.contiguous()
        rows = torch.empty((*outputs.shape, self.structure.n_in))
        self.kernels.block_rows(self._address, outputs.data_ptr(), outputs.numel(), rows.data_ptr())
        return rows


class NativeLinear(Native):
    """The layer; `scales` (Dout,) belong to int8 weights, `positive` promises inputs of 0 or more."""

    def __init__(
        self,
        kernels: Kernels,
        weight: Tensor,
        *,
        bias: Tensor | None = None,
        scales: Tensor | None = None,
        activation: str = "none",
        positive: bool = False,
    ) -> None:
        self.n_out, self.n_in = weight.shape
        tiles = _packed(weight.detach())
        self.bias = _padded(torch.zeros(self.n_out) if bias is None else bias.detach().float())
        self.scales, self.offsets = self.bias, self.bias
        if scales is not None:
            zero, n_steps = _rounding(kernels.bits, positive)
            self.scales = _padded(scales.detach().float() / n_steps)
            self.offsets = _padded(weight.detach().sum(1, dtype=torch.int32) * zero)
        addresses = (part.data_ptr() for part in (tiles, self.scales, self.offsets, self.bias))
        structure = Linear(*addresses, self.n_in, self.n_out, KINDS[weight.dtype], ACTIVATIONS[activation], positive)
        super().__init__(kernels, structure, tiles)

    @property
    def tiles(self) -> Tensor:
        """The packed weights; they may be moved before anybody has noted where they are."""
        held: Tensor = self._held
        return held

    @tiles.setter
    def tiles(self, tiles: Tensor) -> None:
        self.structure.weights, self._held = tiles.data_ptr(), tiles

    def rows(self, outputs: Tensor) -> Native:
        """The layer of some outputs only (n,): each gives, bit for bit, what it gives here."""
        of_tiles = torch.nn.functional.pad(outputs, (0, -len(outputs) % TILE))  # what fills up the last is not given
        tiles = self._by_output.index_select(0, of_tiles).view(-1, TILE, self._by_output.shape[1])
        held = [tiles.transpose(1, 2).contiguous()]
        held += [part.index_select(0, of_tiles) for part in (self.scales, self.offsets, self.bias)]
        facts = self.structure
        addresses = (part.data_ptr() for part in held)
        structure = Linear(*addresses, self.n_in, len(outputs), facts.kind, facts.activation, facts.positive)
        return Native(self.kernels, structure, held)

    @cached_property
    def _by_output(self) -> Tensor:
        """The weights as they are gathered, four bytes a number: (Dout, groups of inputs)."""
        n_tiles, n_groups = self.tiles.shape[:2]
        groups = self.tiles.view(n_tiles, n_groups, -1).view(torch.int32)  # (tiles, groups, outputs)
        return groups.transpose(1, 2).reshape(n_tiles * TILE, n_groups)


def _rounding(bits: int, positive: bool) -> tuple[int, int]:
    """The number that stands for 0, and how many steps there are from it to the largest."""
    zero = 0 if positive else 2 ** (bits - 1)
    return zero, 2**bits - 1 if positive else zero - 1


def _packed(weight: Tensor) -> Tensor:
    """(Dout, Din) → (tiles, groups of inputs, outputs in a tile, inputs in a group), filled up with zeros."""
    per_group = 4 // weight.itemsize
    n_out, n_in = (-size % multiple for size, multiple in zip(weight.shape, (TILE, per_group), strict=True))
    padded = torch.nn.functional.pad(weight, (0, n_in, 0, n_out))
    tiles = padded.view(-1, TILE, padded.shape[1] // per_group, per_group)
    return _aligned(tiles.permute(0, 2, 1, 3))


def _padded(values: Tensor) -> Tensor:
    return _aligned(torch.nn.functional.pad(values, (0, -len(values) % TILE)))


def _aligned(tensor: Tensor) -> Tensor:
    """A contiguous copy; PyTorch gives memory from a multiple of 64 bytes on, as the kernels like it best."""
    return tensor.contiguous().clone(memory_format=torch.contiguous_format)
