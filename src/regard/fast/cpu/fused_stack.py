"""Whole stacks of packed blocks in one call of the kernels of our own (`regard.fast.cpu.native`).

    FusedDecoder.of(blocks).step(x, ...)       one decoding step, x (N, D) → (N, D)
    FusedDecoder.of(blocks).prefill(memory, lengths)      what it keeps of the sentences it will attend to
    FusedEncoder.of(blocks).run(x, ...)        sentences, x (B, T, D) → (B, T, D); or (1, T, D), one after another

A step of a few rows is hundreds of small computations. Called one by one, most of the time goes to the calling. Here
PyTorch hands over the addresses of weights and caches once a step. Blocks of the usual make suit: scaled dot products,
feed-forward layers with ReLU or GELU, either order of norms. The twins are `BlockStep` and the blocks' own `forward`.
"""

from __future__ import annotations

import ctypes
import operator
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import accumulate, chain

import torch
from torch import Tensor, nn

from regard.attention import Cache, Documents, Mask, MultiHeadAttention, Padding, ScaledDot
from regard.fast.cpu.head_cache import HalfHeadCache, HeadCache
from regard.fast.cpu.native import Kernels
from regard.fast.cpu.native.structures import SINGLE, DecoderRows, DecoderStep, EncoderRun, Linear, Norm, Prefill
from regard.fast.cpu.native.structures import DecoderBlock as DecoderBlockFacts
from regard.fast.cpu.native.structures import EncoderBlock as EncoderBlockFacts
from regard.fast.cpu.packed_linear import PackedLinear
from regard.layers.blocks import DecoderBlock, EncoderBlock
from regard.layers.feedforward import FeedForward
from regard.layers.norms import LayerNorm, RMSNorm

LONGEST = 8192  # positions of a sentence: scores of some queries with all of them are kept near


class _FusedStack:
    """What a stack is to the kernels."""

    def __init__(self, blocks: Sequence[DecoderBlock] | Sequence[EncoderBlock], kernels: Kernels) -> None:
        self.kernels, self.blocks = kernels, blocks  # the addresses below are those of the blocks' tensors
        facts = [_facts(block) for block in blocks]
        self.facts = (type(facts[0]) * len(facts))(*facts)
        self.heads = blocks[0].attention
        self.scale = self.heads.score.dot_scale(self.heads.d_head)


class FusedCaches:
    """The caches of a decoding, and where the kernels find them: looked up again only when they have moved."""

    def __init__(self, past: list[Cache], source: list[Cache]) -> None:
        self.past, self.source = past, source
        self._heads = [_of_heads(cache) for caches in (past, source) for cache in caches]
        self._rooms: list[list[Tensor]] = []
        self._addresses: list[ctypes.Array[ctypes.c_void_p]] = []  # they have to live as long as the structure is used
        self._shape: tuple[int, int, int] | None = None
        self._structure = DecoderRows()

    def claim(self, width: int, shape: tuple[int, int, int]) -> DecoderRows:
        """Make room for new positions (B, G, E) of so many rows that share theirs; gives what the kernels are told."""
        length, past = self.past[0].length, self._heads[: len(self.past)]
        if self._shape == shape and length + width <= self.past[0].capacity and self._are_where_they_were():
            for cache in past:
                cache.length += width
        else:
            HeadCache.reserve_all(past, length + width, shape)
            for cache in past:
                cache.length += width
            self._look_up(shape)
        self._structure.length = length
        return self._structure

    def reserve(self, n_positions: int, shape: tuple[int, int, int]) -> DecoderRows:
        """Have room for so many positions (B, G, E) in all; gives what the kernels are told, `length` as it is."""
        HeadCache.reserve_all(self._heads[: len(self.past)], n_positions, shape)
        self._look_up(shape)
        self._structure.length = self.past[0].length
        return self._structure

    def _are_where_they_were(self) -> bool:
        return all(map(operator.is_, [cache.room() for cache in self._heads], self._rooms))

    def _look_up(self, shape: tuple[int, int, int]) -> None:
        self._shape, self._rooms = shape, [cache.room() for cache in self._heads]
        self._addresses = [_addresses(caches, side) for caches in (self.past, self.source) for side in (0, 1)]
        self._structure = DecoderRows(*map(ctypes.addressof, self._addresses))
        self._structure.capacity, self._structure.source_capacity = self.past[0].capacity, self.source[0].capacity
        self._structure.n_source = self.source[0].length


@dataclass(frozen=True)
class FusedRows:
    """Rows that decode together: their caches, and what of them each row may see.

    `widths` are the rows that share a row of the past and of the source. `own` (N, positions) says what of the past
    each row may see, itself included, and `source_mask` (N / width, S) what of the source; None means everything.
    """

    n_rows: int
    _: KW_ONLY
    caches: FusedCaches
    own: Tensor | None
    source_mask: Tensor | None
    widths: tuple[int, int]

    def claim(self, n_groups: int, d_head: int) -> DecoderRows:
        """Make room for the new positions, and say all that the kernels are told."""
        told = self.caches.claim(self.widths[0], (self.n_rows // self.widths[0], n_groups, d_head))
        told.own = None if self.own is None else self.own.data_ptr()
        told.source_mask = None if self.source_mask is None else self.source_mask.data_ptr()
        told.n_rows = self.n_rows
        told.past_width, told.source_width = self.widths
        return told


class FusedDecoder(_FusedStack):
    """The steps of a decoder."""

    def __init__(self, blocks: Sequence[DecoderBlock], kernels: Kernels) -> None:
        super().__init__(blocks, kernels)
        # Keys and values need no more digits than the weights they come from, and there are as many bytes of them.
        self.cache = HeadCache if _linear(self.heads.out).kind == SINGLE else HalfHeadCache

    @classmethod
    def of(cls, blocks: Sequence[DecoderBlock]) -> FusedDecoder | None:
        """The steps of these blocks, or None where they do not suit."""
        kernels = _kernels_of(blocks)
        suit = all(_suits(block, heads=(block.attention, block.cross)) for block in blocks) and _alike(blocks)
        return cls(blocks, kernels) if kernels is not None and suit else None

    @property
    def prefills(self) -> bool:
        """Whether the layers that make keys and values of what is attended to suit as well."""
        layers = [block.cross.key_value for block in self.blocks if isinstance(block, DecoderBlock)]
        if not all(isinstance(layer, PackedLinear) and layer.native is not None for layer in layers):
            return False
        return len({(one.n_in, one.n_out, one.kind, one.positive) for one in map(_linear, layers)}) == 1

    def step(self, x: Tensor, parts: Sequence[FusedRows]) -> Tensor:
        """One new position for each row of x (N, D), which are those of the parts, one after the other."""
        x = x.clone(memory_format=torch.contiguous_format)
        H, G, E = self.heads.n_heads, self.heads.n_kv_heads, self.heads.d_head
        described = (DecoderRows * len(parts))(*(part.claim(G, E) for part in parts))
        call = DecoderStep(
            ctypes.addressof(self.facts),
            ctypes.addressof(described),
            x.data_ptr(),
            *(len(self.blocks), len(parts), *x.shape, H, G, E),
            self.cache.dtype == torch.bfloat16,
            self.scale,
        )
        self.kernels.decoder_step(self.kernels.threads, ctypes.addressof(call))
        return x

    def prefill(self, memory: Tensor, lengths: Sequence[int]) -> list[list[Cache]]:
        """The caches of sentences that stand one after another in memory (T, D): a list of each, a cache a block."""
        G, E, memory = self.heads.n_kv_heads, self.heads.d_head, memory.contiguous()
        layers = [_linear(block.cross.key_value) for block in self.blocks if isinstance(block, DecoderBlock)]
        rooms = [torch.empty(2 * len(layers), 1, G, n, E, dtype=self.cache.dtype) for n in lengths]
        addresses = (ctypes.c_void_p * len(layers))(*map(ctypes.addressof, layers))
        places = (ctypes.c_void_p * len(rooms))(*(room.data_ptr() for room in rooms))
        starts = _starts(lengths)
        call = Prefill(
            ctypes.addressof(addresses),
            memory.data_ptr(),
            ctypes.addressof(starts),
            ctypes.addressof(places),
            *(len(layers), len(rooms), G, E, self.cache.dtype == torch.bfloat16),
        )
        self.kernels.prefill(self.kernels.threads, ctypes.addressof(call))
        pairs = (room.unbind() for room in rooms)
        return [[self.cache.held(*both) for both in zip(one[::2], one[1::2], strict=True)] for one in pairs]


class FusedEncoder(_FusedStack):
    """One pass through an encoder."""

    @classmethod
    def of(cls, blocks: Sequence[EncoderBlock]) -> FusedEncoder | None:
        """The pass through these blocks, or None where they do not suit."""
        kernels = _kernels_of(blocks)
        suit = all(_suits(block, heads=(block.attention,)) for block in blocks) and _alike(blocks)
        return cls(blocks, kernels) if kernels is not None and suit else None

    @property
    def is_plain(self) -> bool:
        """Whether nobody watches and nothing is trained."""
        return not any(block.attention.tap.watchers or block.training for block in self.blocks)

    @staticmethod
    def takes(x: Tensor, mask: Mask | Tensor | None) -> bool:
        """Whether sentences (B, T, D) and their mask are such as `run` can have.

        The mask is padding or nothing, or tells the sentences of a single row apart.
        """
        plain = x.device.type == "cpu" and x.dtype == torch.float32 and x.ndim == 3
        learns = x.requires_grad or torch.is_autocast_enabled("cpu")
        if not plain or learns:
            return False
        if type(mask) is Documents:
            return mask.key_lengths is mask.lengths and len(x) == 1 and mask.longest <= LONGEST
        fits = 0 < x.shape[1] <= LONGEST
        return fits and (mask is None or (type(mask) is Padding and mask.lengths.ndim == 1))

    def run(self, x: Tensor, mask: Mask | Tensor | None) -> Tensor:
        """Sentences x (B, T, D), attending to what is no padding and to no other sentence."""
        x = x.clone(memory_format=torch.contiguous_format)
        B, T, D = x.shape
        allowed, lengths = None, [T] * B
        if isinstance(mask, Documents):
            lengths = mask.lengths.tolist()
            if sum(lengths) != T:
                mask.check(T, T)
        elif isinstance(mask, Mask):
            allowed = mask.dense(T, T, n_leading=1, device=x.device).expand(B, 1, T).contiguous()
        starts = _starts(lengths)
        call = EncoderRun(
            ctypes.addressof(self.facts),
            None if allowed is None else allowed.data_ptr(),
            ctypes.addressof(starts),
            x.data_ptr(),
            *(len(self.blocks), len(starts) - 1, D),
            *(self.heads.n_heads, self.heads.n_kv_heads, self.heads.d_head),
            self.scale,
        )
        self.kernels.encoder_run(self.kernels.threads, ctypes.addressof(call))
        return x


def _starts(lengths: Sequence[int]) -> ctypes.Array[ctypes.c_int64]:
    """Where sentences of these lengths begin that stand one after another, and where the last one ends."""
    starts = [0, *accumulate(lengths)]
    return (ctypes.c_int64 * len(starts))(*starts)


def _kernels_of(blocks: Sequence[DecoderBlock] | Sequence[EncoderBlock]) -> Kernels | None:
    """The kernels that the first block's weights are packed for, if they are."""
    first = blocks[0].attention.out if blocks else None
    return first.native.kernels if isinstance(first, PackedLinear) and first.native is not None else None


def _suits(block: DecoderBlock | EncoderBlock, *, heads: Sequence[MultiHeadAttention]) -> bool:
    """Whether a block is packed and of the usual make."""
    between = block.feedforward
    if not (isinstance(between, FeedForward) and isinstance(between.inner, PackedLinear)):
        return False
    if between.inner.activation == "none":  # it is left to the feed-forward part, which has one that is not known
        return False
    first = heads[0]
    return (
        all(isinstance(one, PackedLinear) and one.native for one in _linears(block))
        and all(type(norm) in (LayerNorm, RMSNorm) and norm.weight.dtype == torch.float32 for norm in _norms(block))
        and all(type(one.score) is ScaledDot and one.rotary is None for one in heads)
        and all(
            (one.n_heads, one.n_kv_heads, one.d_head) == (first.n_heads, first.n_kv_heads, first.d_head)
            for one in heads
        )
    )


def _alike(blocks: Sequence[DecoderBlock] | Sequence[EncoderBlock]) -> bool:
    """Whether blocks that suit have the same sizes and the same precision, layer by layer."""

    def sizes(block: DecoderBlock | EncoderBlock) -> list[tuple[int, ...]]:
        facts = [_linear(one) for one in _linears(block)]
        heads = (block.attention.n_heads, block.attention.n_kv_heads)
        return [heads, *((one.n_in, one.n_out, one.kind) for one in facts)]

    return all(sizes(block) == sizes(blocks[0]) for block in blocks)


def _facts(block: DecoderBlock | EncoderBlock) -> ctypes.Structure:
    kind = DecoderBlockFacts if isinstance(block, DecoderBlock) else EncoderBlockFacts
    norms = [norm_structure(norm) for norm in _norms(block)]
    return kind(*map(_linear, _linears(block)), (Norm * len(norms))(*norms), block.around_attention.pre)


class KnownParts:
    """The parts of a stack as they once were, and where the numbers of its norms lay; to look again is quick."""

    def __init__(self, stack: nn.Module) -> None:
        norms = [part for part in stack.modules() if isinstance(part, LayerNorm | RMSNorm)]
        self._held: list[Mapping[str, object]] = [part._modules for part in stack.modules()]
        self._held += [norm._parameters for norm in norms]
        self._known = self._found()
        self._numbers = [part for part in self._known if isinstance(part, Tensor)]
        self._places = self._found_places()

    def are_there(self) -> bool:
        """Whether all of them are where they were."""
        found = self._found()
        alike = len(found) == len(self._known) and all(map(operator.is_, found, self._known))
        return alike and self._found_places() == self._places

    def _found(self) -> list[object]:
        return [*chain.from_iterable(parts.values() for parts in self._held)]

    def _found_places(self) -> list[int]:
        return [numbers.data_ptr() for numbers in self._numbers]


def _linears(block: DecoderBlock | EncoderBlock) -> list[nn.Module]:
    """In the order of the structures' fields."""
    own, between, cross = block.attention, block.feedforward, getattr(block, "cross", None)
    across = [] if cross is None else [cross.query, cross.out]
    return [own.query_key_value, own.out, *across, between.inner, between.outer]


def _norms(block: DecoderBlock | EncoderBlock) -> list[nn.Module]:
    around = (block.around_attention, getattr(block, "around_cross", None), block.around_feedforward)
    return [part.norm for part in around if part is not None]


def _linear(layer: nn.Module) -> Linear:
    assert isinstance(layer, PackedLinear)
    assert layer.native is not None
    return layer.native.structure


def norm_structure(norm: nn.Module) -> Norm:
    """What a norm is to the kernels."""
    assert isinstance(norm, LayerNorm | RMSNorm)
    bias = getattr(norm, "bias", None)
    epsilon = torch.finfo(torch.float32).eps if norm.eps is None else norm.eps
    weight = None if norm.weight is None else norm.weight.data_ptr()
    return Norm(weight, None if bias is None else bias.data_ptr(), epsilon, isinstance(norm, LayerNorm))


def _of_heads(cache: Cache) -> HeadCache:
    assert isinstance(cache, HeadCache), "`FusedDecoder.cache` makes the caches"
    return cache


def _addresses(caches: Sequence[Cache], side: int) -> ctypes.Array[ctypes.c_void_p]:
    return (ctypes.c_void_p * len(caches))(*(_of_heads(cache).room()[side].data_ptr() for cache in caches))
