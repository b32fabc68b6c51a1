"""One decoding step of a whole stack that looks back only, in one call of the kernels of our own.

    CausalStack.of(stack).step(hidden, parts)        hidden (N, 1, D) → (N, 1, D), a new position a row

Blocks as Llama has them suit: norms before each part, scaled dot products, gated feed-forward parts, with rotary
positions or none. The readable twin is `regard.layers.joint_step`, layer by layer.
"""

from __future__ import annotations

import ctypes
import operator
from collections.abc import Sequence
from typing import cast
from weakref import WeakKeyDictionary

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention import Cache, MultiHeadAttention, ScaledDot, Since
from regard.fast.cpu.fused_stack import norm_structure
from regard.fast.cpu.head_cache import HeadCache
from regard.fast.cpu.native import Kernels
from regard.fast.cpu.native.structures import CausalBlock, CausalRows, CausalStep, Linear, Norm
from regard.fast.cpu.packed_linear import PackedBlocks, PackedLinear
from regard.layers.blocks import EncoderBlock, EncoderStack
from regard.layers.feedforward import GatedFeedForward
from regard.layers.joint_step import StackRows
from regard.layers.norms import LayerNorm, RMSNorm


class CausalStack:
    """The steps of a stack."""

    def __init__(self, stack: EncoderStack, kernels: Kernels) -> None:
        self.kernels, self.blocks = kernels, _blocks_of(stack)  # the addresses below are those of their tensors
        self.facts = (CausalBlock * len(self.blocks))(*map(_facts, self.blocks))
        self.heads = self.blocks[0].attention
        self.scale = self.heads.score.dot_scale(self.heads.d_head)
        self.last = None if stack.final_norm is None else norm_structure(stack.final_norm)

    @classmethod
    def of(cls, stack: EncoderStack) -> CausalStack | None:
        """The steps of a stack, or None where its blocks do not suit."""
        blocks = _blocks_of(stack)
        first = blocks[0].attention.out if blocks else None
        native = first.native if isinstance(first, PackedLinear) else None
        if native is None or len(blocks) != len(stack.blocks) or not _in_blocks(blocks):
            return None
        norms = [stack.final_norm] if stack.final_norm is not None else []
        suits = all(map(_suits, blocks)) and _alike(blocks) and all(map(_is_known, norms))
        return cls(stack, native.kernels) if suits else None

    @property
    def is_plain(self) -> bool:
        """Whether nobody watches and nothing is trained."""
        return not any(block.attention.tap.watchers or block.training for block in self.blocks)

    def takes(self, hidden: Tensor, parts: Sequence[StackRows]) -> bool:
        """Whether the rows are such as `step` can have."""
        plain = hidden.dtype == torch.float32 and hidden.device.type == "cpu" and not hidden.requires_grad
        return plain and all(
            (part.mask is None or (type(part.mask) is Since and part.mask.starts.dtype == torch.int64))
            and all(isinstance(cache, HeadCache) and cache.dtype == torch.float32 for cache in part.caches)
            for part in parts
        )

    def step(self, hidden: Tensor, parts: Sequence[StackRows]) -> Tensor:
        """One new position a row."""
        x = hidden.clone(memory_format=torch.contiguous_format)
        cos, sin = self._turns(parts)
        described = (CausalRows * len(parts))(*(_told(part, self.heads) for part in parts))
        heads = self.heads
        call = CausalStep(
            *(ctypes.addressof(self.facts), ctypes.addressof(described), x.data_ptr()),
            *(None if one is None else one.data_ptr() for one in (cos, sin)),
            None if self.last is None else ctypes.addressof(self.last),
            *(len(self.blocks), len(parts), len(x), x.shape[-1]),
            *(heads.n_heads, heads.n_kv_heads, heads.d_head, False, self.scale),
        )
        self.kernels.causal_step(self.kernels.threads, ctypes.addressof(call))
        return x

    def _turns(self, parts: Sequence[StackRows]) -> tuple[Tensor | None, Tensor | None]:
        """Cosines and sines of each row's angles, (N, E / 2)."""
        rotary = self.heads.rotary
        if rotary is None:
            return None, None
        places = [_places(part) for part in parts]
        angles = rotary.angles(places[0] if len(places) == 1 else torch.cat(places))
        return angles.cos(), angles.sin()


class _Pasts:
    """The caches of a decoding, and where the kernels find them: looked up again only when they have moved."""

    def __init__(self) -> None:
        self._rooms: list[list[Tensor]] = []
        self._addresses: list[ctypes.Array[ctypes.c_void_p]] = []  # they have to live as long as the structure is used
        self._structure = CausalRows()

    def claim(self, part: StackRows, heads: MultiHeadAttention) -> CausalRows:
        """Make room for a new position of each row; gives what the kernels are told, `starts` aside."""
        caches = cast(Sequence[HeadCache], part.caches)
        length = caches[0].length
        for cache in caches:
            cache.claim(1, (part.n_rows, heads.n_kv_heads, heads.d_head))
        rooms = [cache.room() for cache in caches]
        if len(rooms) != len(self._rooms) or not all(map(operator.is_, rooms, self._rooms)):
            kind = ctypes.c_void_p * len(rooms)
            self._rooms = rooms
            self._addresses = [kind(*(room[side].data_ptr() for room in rooms)) for side in (0, 1)]
            self._structure = CausalRows(*map(ctypes.addressof, self._addresses))
        told = self._structure
        told.n_rows, told.length, told.capacity = part.n_rows, length, caches[0].capacity
        return told


_pasts: WeakKeyDictionary[Cache, _Pasts] = WeakKeyDictionary()  # by the first cache of a decoding


def _told(part: StackRows, heads: MultiHeadAttention) -> CausalRows:
    first = part.caches[0]
    if first not in _pasts:
        _pasts[first] = _Pasts()
    pasts = _pasts[first]
    told = pasts.claim(part, heads)
    told.starts = part.mask.starts.data_ptr() if isinstance(part.mask, Since) else None
    return told


def _places(part: StackRows) -> Tensor:
    """Where the new positions of rows stand, (N,)."""
    if part.positions is None:
        return torch.full((part.n_rows,), part.caches[0].length)
    return part.positions.reshape(-1)


def _blocks_of(stack: EncoderStack) -> list[EncoderBlock]:
    return [block for block in stack.blocks if isinstance(block, EncoderBlock)]


def _linears(block: EncoderBlock) -> list[nn.Module]:
    """In the order of the structure's fields."""
    heads, between = block.attention, block.feedforward
    assert isinstance(between, GatedFeedForward)
    return [heads.query_key_value, heads.out, between.gate_inner, between.outer]


def _norms(block: EncoderBlock) -> list[nn.Module]:
    return [block.around_attention.norm, block.around_feedforward.norm]


def _suits(block: EncoderBlock) -> bool:
    heads, between = block.attention, block.feedforward
    if not isinstance(between, GatedFeedForward) or between.activation is not F.silu:
        return False
    rotary = heads.rotary
    return (
        all(isinstance(one, PackedLinear) and one.native is not None for one in _linears(block))
        and all(map(_is_known, _norms(block)))
        and block.around_attention.pre
        and type(heads.score) is ScaledDot
        and (rotary is None or (rotary.d_rotary == heads.d_head and not rotary.interleaved))
    )


def _in_blocks(blocks: Sequence[EncoderBlock]) -> bool:
    """Whether weights are kept in blocks: steps in other precisions stay, bit for bit, what they are."""
    return any(isinstance(part, PackedBlocks) for block in blocks for part in block.modules())


def _is_known(norm: nn.Module) -> bool:
    return isinstance(norm, LayerNorm | RMSNorm) and norm.weight is not None and norm.weight.dtype == torch.float32


def _alike(blocks: Sequence[EncoderBlock]) -> bool:
    """Whether blocks that suit have the same sizes."""

    def sizes(block: EncoderBlock) -> list[tuple[int, int]]:
        facts = [_linear(one) for one in _linears(block)]
        heads = block.attention
        return [(heads.n_heads, heads.n_kv_heads), *((one.n_in, one.n_out) for one in facts)]

    return all(sizes(block) == sizes(blocks[0]) for block in blocks)


def _facts(block: EncoderBlock) -> CausalBlock:
    return CausalBlock(*map(_linear, _linears(block)), (Norm * 2)(*map(norm_structure, _norms(block))))


def _linear(layer: nn.Module) -> Linear:
    assert isinstance(layer, PackedLinear)
    assert layer.native is not None
    return layer.native.structure
