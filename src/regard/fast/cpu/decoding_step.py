"""One decoding step of a packed decoder: what its blocks compute, without what surrounds it.

    x (N, D) → (N, D)        N = n · W rows, W neighbours asking together as queries of one row of the caches

A step of a few rows is so little work that half the time would go to calling modules and shaping tensors. Here the
layers of a block are called one after another, on two dimensions; or all blocks in one call, where there are kernels
for that. `DecoderStack.forward` is the readable twin; it does every step that is watched, and all that is unusual.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention import Cache, Mask, MultiHeadAttention, ScaledDot, attend
from regard.attention.masks import Materialized, as_mask, simplify
from regard.fast.cpu.fused_stack import FusedCaches, FusedDecoder, FusedRows
from regard.fast.cpu.packed_linear import PackedLinear
from regard.layers.blocks import DecoderBlock
from regard.layers.feedforward import FeedForward
from regard.layers.kv_cache import DecoderKVCache
from regard.layers.norms import LayerNorm

Part = Callable[[Tensor], Tensor]


class PackedDecoder:
    """What all decodings by the same packed blocks have in common."""

    def __init__(self, blocks: Sequence[DecoderBlock]) -> None:
        self.blocks = list(blocks)
        self.fused = FusedDecoder.of(self.blocks)
        self.steps = [BlockStep(block) for block in self.blocks]
        self.taps = [tap for step in self.steps for tap in (step.own.heads.tap, step.cross.heads.tap)]
        self.cache = Cache if self.fused is None else self.fused.cache
        self.rows_independent = self.fused is not None and self.fused.prefills

    @classmethod
    def of(cls, blocks: Sequence[DecoderBlock]) -> PackedDecoder | None:
        """The same, where the blocks are packed."""
        return cls(blocks) if all(map(BlockStep.suits, blocks)) else None

    def prefill(self, memory: Tensor, *, capacity: int) -> PackedDecoderKVCache:
        """The caches of sentences (B, S, D)."""
        source = [block.cross.prefill(memory, kind=self.cache) for block in self.blocks]
        return PackedDecoderKVCache(self, source, capacity=capacity)

    def prefill_each(
        self, memory: Tensor, lengths: Sequence[int], *, capacities: Sequence[int]
    ) -> list[PackedDecoderKVCache] | None:
        """The caches of several decodings whose sentences stand one after another in memory (T, D)."""
        if self.fused is None or not self.rows_independent or memory.dtype != torch.float32:
            return None
        sources = self.fused.prefill(memory, lengths)
        pairs = zip(sources, capacities, strict=True)
        return [PackedDecoderKVCache(self, source, capacity=capacity) for source, capacity in pairs]


class PackedDecoderKVCache(DecoderKVCache):
    """The caches of a packed decoder, which know its step."""

    def __init__(self, decoder: PackedDecoder, source: list[Cache], *, capacity: int) -> None:
        self.fused, self.steps, self.taps = decoder.fused, decoder.steps, decoder.taps
        past = [decoder.cache(capacity) for _ in source]
        super().__init__(past, source, rows_independent=decoder.rows_independent)
        self.fused_caches = None if self.fused is None else FusedCaches(self.past, self.source)
        self.walk: Any = None  # what a walk is to the kernels, while it goes on (`walking`)

    @property
    def is_plain(self) -> bool:
        """Whether the next step can be a fast one: nobody watches, and nothing is trained."""
        if torch.is_autocast_enabled("cpu") or any(tap.watchers for tap in self.taps):
            return False
        return not any(step.block.training for step in self.steps)

    def step(self, hidden: Tensor, mask: Mask | Tensor | None, memory_mask: Mask | Tensor | None) -> Tensor:
        """One new position a row, (N, 1, D) → (N, 1, D), the last norm aside."""
        shared, width = self.own is not None, self.per_source
        positions = torch.full((width if shared else 1,), self.length)
        own = self.step_beams() if shared else simplify(as_mask(mask), 1, self.length + 1)
        x, widths = hidden[:, 0], (len(positions), width)
        if self.fused is not None and x.dtype == torch.float32 and _is_dense(own) and _is_dense(memory_mask):
            return self.fused.step(x, [self._rows(len(x), own, memory_mask, widths)])[:, None]
        for step, past, source in zip(self.steps, self.past, self.source, strict=True):
            x = step(x, past=past, source=source, mask=own, source_mask=memory_mask, widths=widths, positions=positions)
        return x[:, None]

    def fused_rows(self, n_rows: int, memory_mask: Mask | Tensor | None) -> FusedRows:
        """What so many rows bring to a step of their own: one position more, and nothing of it hidden from them."""
        shared = self.own is not None
        own = self.step_beams() if shared else None
        return self._rows(n_rows, own, memory_mask, (self.per_source if shared else 1, self.per_source))

    def _rows(
        self, n_rows: int, own: Mask | None, memory_mask: Mask | Tensor | None, widths: tuple[int, int]
    ) -> FusedRows:
        assert self.fused_caches is not None
        n_sources = n_rows // widths[1]
        return FusedRows(
            n_rows,
            caches=self.fused_caches,
            own=None if own is None else _rows_of(own, n_sources, widths[1]),
            source_mask=None if memory_mask is None else _rows_of(memory_mask, n_sources, 1),
            widths=widths,
        )


def joint_step(
    caches: Sequence[PackedDecoderKVCache],
    hidden: Tensor,
    counts: Sequence[int],
    memory_masks: Sequence[Mask | Tensor | None],
) -> Tensor | None:
    """One step of several decodings by the same blocks, so many rows of each, (N, 1, D) → (N, 1, D).

    None where they do not suit.
    """
    fused = caches[0].fused
    if fused is None or any(cache.fused is None for cache in caches) or not all(map(_is_dense, memory_masks)):
        return None
    if hidden.dtype != torch.float32:
        return None
    parts = [cache.fused_rows(n, mask) for cache, n, mask in zip(caches, counts, memory_masks, strict=True)]
    return fused.step(hidden[:, 0], parts)[:, None]


class BlockStep:
    """The step of one block."""

    def __init__(self, block: DecoderBlock) -> None:
        self.block, self.pre = block, block.around_attention.pre
        self.own, self.cross = HeadsStep(block.attention), HeadsStep(block.cross)
        self.feedforward = _feedforward(block.feedforward)
        around = (block.around_attention, block.around_cross, block.around_feedforward)
        self.norms = [_norm(part.norm) for part in around]

    @staticmethod
    def suits(block: nn.Module) -> bool:
        """Whether a block has been packed and compares by scaled dot products."""
        heads = [getattr(block, name, None) for name in ("attention", "cross")]
        return all(
            isinstance(one, MultiHeadAttention) and isinstance(one.out, PackedLinear) and type(one.score) is ScaledDot
            for one in heads
        )

    def __call__(
        self,
        x: Tensor,
        *,
        past: Cache,
        source: Cache,
        mask: Mask | None,
        source_mask: Mask | Tensor | None,
        widths: tuple[int, int],
        positions: Tensor | None,
    ) -> Tensor:
        """One new position a row; `widths` are the rows that ask together of their past and of the source."""
        before, between, after = self.norms
        if self.pre:
            x = x + self.own.attend_past(before(x), past, mask, width=widths[0], positions=positions)
            x = x + self.cross.attend_source(between(x), source, source_mask, width=widths[1])
            return x + self.feedforward(after(x))
        x = before(x + self.own.attend_past(x, past, mask, width=widths[0], positions=positions))
        x = between(x + self.cross.attend_source(x, source, source_mask, width=widths[1]))
        return after(x + self.feedforward(x))


class HeadsStep:
    """Multi-head attention for rows (N, D) that are one position each."""

    def __init__(self, heads: MultiHeadAttention) -> None:
        self.heads, self.score, self.rotary = heads, heads.score, heads.rotary
        self.d_head, self.n_heads, self.n_kv_heads = heads.d_head, heads.n_heads, heads.n_kv_heads
        self.out: Part = heads.out.forward
        self.project: Part = (heads.query if heads.tap.kind == "cross" else heads.query_key_value).forward

    def attend_past(self, x: Tensor, past: Cache, mask: Mask | None, *, width: int, positions: Tensor | None) -> Tensor:
        """Attend to the past and to itself."""
        H, G = self.n_heads, self.n_kv_heads
        all_BHTE = self.project(x).view(-1, width, H + 2 * G, self.d_head).transpose(1, 2)
        q_BHTE, k_BGTE, v_BGTE = all_BHTE.split((H, G, G), 1)
        if self.rotary is not None:
            q_BHTE, k_BGTE = self.rotary(q_BHTE, positions=positions), self.rotary(k_BGTE, positions=positions)
        return self._see(x, q_BHTE, *past.append(k_BGTE, v_BGTE), mask=mask)

    def attend_source(self, x: Tensor, source: Cache, mask: Mask | Tensor | None, *, width: int) -> Tensor:
        """Attend to the source."""
        q_BHTE = self.project(x).view(-1, width, self.n_heads, self.d_head).transpose(1, 2)
        return self._see(x, q_BHTE, source.keys, source.values, mask=mask)

    def _see(self, x: Tensor, query: Tensor, keys: Tensor, values: Tensor, *, mask: Mask | Tensor | None) -> Tensor:
        seen = attend(query, keys, values, score=self.score, mask=mask)
        return self.out(seen.transpose(1, 2).reshape(len(x), -1))


def _is_dense(mask: Mask | Tensor | None) -> bool:
    return mask is None or isinstance(mask, Materialized)


def _rows_of(mask: Mask | Tensor, n_rows: int, n_queries: int) -> Tensor:
    """What a materialized mask (B, 1, T, S) allows, row after row: (n_rows · n_queries, S)."""
    assert isinstance(mask, Materialized)
    allowed = mask.allowed
    return allowed.expand(n_rows, 1, n_queries, allowed.shape[-1]).reshape(n_rows * n_queries, -1).contiguous()


def _norm(norm: nn.Module) -> Part:
    """The bare function of a layer norm; other norms as they are."""
    if type(norm) is not LayerNorm:
        return norm
    shape, weight, bias, epsilon = norm.normalized_shape, norm.weight, norm.bias, norm.eps
    return lambda x: torch.layer_norm(x, shape, weight, bias, epsilon)


def _feedforward(part: nn.Module) -> Part:
    """The two layers of one whose first activates by itself; others as they are."""
    if not (isinstance(part, FeedForward) and isinstance(part.inner, PackedLinear)):
        return part
    if part.inner.activation == "none":
        return part
    inner, outer = part.inner.forward, part.outer.forward
    return lambda x: outer(inner(x))
