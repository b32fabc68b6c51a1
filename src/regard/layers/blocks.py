"""The Transformer's blocks, in the lectures' order (post-norm) and in today's (pre-norm).

    post    x = norm(x + part(x))         Vaswani et al. (2017)
    pre     x = x + part(norm(x))         and one norm at the end of the stack

    EncoderBlock    self-attention, feed-forward                        (B, T, D) → (B, T, D)
    DecoderBlock    masked self-attention, cross-attention, feed-forward
    EncoderStack, DecoderStack    blocks one after another

Attention and feed-forward come in ready-made: what varies between models is passed, not switched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from regard.attention import Cache, Mask, MultiHeadAttention
from regard.attention.masks import as_mask, simplify
from regard.fast.cpu.decoding_step import BlockStep
from regard.fast.cpu.fused_stack import WholeDecoder, WholeEncoder
from regard.fast.gpu.static_cache import LaneCache, LaneMemory, SourceCache
from regard.layers.dropout import drop
from regard.layers.kv_cache import DecoderMemory
from regard.layers.norms import NormMaker, norm_of

Order = Literal["post", "pre"]


class Residual(nn.Module):
    """A part of a block with its shortcut and its norm, in either order."""

    def __init__(self, d_model: int, *, order: Order = "post", norm: NormMaker | None = None, dropout: float = 0.0):
        super().__init__()
        self.norm = (norm or norm_of("layer"))(d_model)
        self.pre = order == "pre"
        self.dropout = dropout

    def forward(self, hidden: Tensor, part: Callable[[Tensor], Tensor]) -> Tensor:
        """Hidden states (..., D) plus what the part makes of them, normed before or after."""
        if self.pre:
            return hidden + drop(part(self.norm(hidden)), self.dropout, training=self.training)
        output: Tensor = self.norm(hidden + drop(part(hidden), self.dropout, training=self.training))
        return output


class EncoderBlock(nn.Module):
    """Look at all positions, then compute at each."""

    def __init__(
        self,
        d_model: int,
        *,
        attention: MultiHeadAttention,
        feedforward: nn.Module,
        order: Order = "post",
        norm: NormMaker | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.attention, self.feedforward = attention, feedforward
        self.around_attention = Residual(d_model, order=order, norm=norm, dropout=dropout)
        self.around_feedforward = Residual(d_model, order=order, norm=norm, dropout=dropout)

    def forward(
        self,
        hidden: Tensor,
        *,
        mask: Mask | Tensor | None = None,
        bias: Tensor | None = None,
        cache: Cache | LaneCache | None = None,
        positions: Tensor | None = None,
    ) -> Tensor:
        """(B, T, D) → (B, T, D). With a causal mask and a cache this is a language model's block."""
        hidden = self.around_attention(
            hidden, lambda x: self.attention(x, mask=mask, bias=bias, cache=cache, positions=positions)
        )
        output: Tensor = self.around_feedforward(hidden, self.feedforward)
        return output


class DecoderBlock(nn.Module):
    """Look at one's own past, then at the source, then compute at each position."""

    def __init__(
        self,
        d_model: int,
        *,
        attention: MultiHeadAttention,
        cross: MultiHeadAttention,
        feedforward: nn.Module,
        order: Order = "post",
        norm: NormMaker | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.attention, self.cross, self.feedforward = attention, cross, feedforward
        self.around_attention = Residual(d_model, order=order, norm=norm, dropout=dropout)
        self.around_cross = Residual(d_model, order=order, norm=norm, dropout=dropout)
        self.around_feedforward = Residual(d_model, order=order, norm=norm, dropout=dropout)

    def forward(
        self,
        hidden: Tensor,
        memory: Tensor | None = None,
        *,
        mask: Mask | Tensor | None = None,
        memory_mask: Mask | Tensor | None = None,
        cache: Cache | LaneCache | None = None,
        memory_cache: Cache | SourceCache | None = None,
        positions: Tensor | None = None,
        per_source: int = 1,
    ) -> Tensor:
        """(B, T, D) with a memory (B, S, Dm), or the cache remembered from it → (B, T, D).

        In single steps, `per_source` rows that follow one another may share one row of the memory: beams.
        """

        def look(x: Tensor) -> Tensor:
            # Beams of one sentence ask together, as several queries of one row, so its keys are read once.
            asked = x if per_source == 1 else x.view(-1, per_source, x.shape[-1])
            seen: Tensor = self.cross(asked, memory, mask=memory_mask, cache=memory_cache)
            return seen.view(x.shape)

        hidden = self.around_attention(hidden, lambda x: self.attention(x, mask=mask, cache=cache, positions=positions))
        hidden = self.around_cross(hidden, look)
        output: Tensor = self.around_feedforward(hidden, self.feedforward)
        return output


class EncoderStack(nn.Module):
    """Encoder blocks one after another; pre-norm blocks need the norm at the end."""

    def __init__(self, blocks: Iterable[EncoderBlock], *, final_norm: nn.Module | None = None) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        self.final_norm = final_norm

    def forward(
        self,
        hidden: Tensor,
        *,
        mask: Mask | Tensor | None = None,
        bias: Tensor | None = None,
        caches: Sequence[Cache | LaneCache] | None = None,
        positions: Tensor | None = None,
    ) -> Tensor:
        """(B, T, D) → (B, T, D); `caches` holds one cache a block."""
        if bias is None and caches is None and WholeEncoder.takes(hidden, mask) and (whole := self._whole()):
            hidden = whole.run(hidden, mask)
            return hidden if self.final_norm is None else self.final_norm(hidden)
        for i, block in enumerate(self.blocks):
            hidden = block(hidden, mask=mask, bias=bias, cache=caches[i] if caches else None, positions=positions)
        return hidden if self.final_norm is None else self.final_norm(hidden)

    def _whole(self) -> WholeEncoder | None:
        """All blocks in one call, where they have been quickened and nobody watches."""
        blocks = [block for block in self.blocks if isinstance(block, EncoderBlock)]
        return WholeEncoder.of(blocks) if len(blocks) == len(self.blocks) else None


class DecoderStack(nn.Module):
    """Decoder blocks one after another."""

    def __init__(self, blocks: Iterable[DecoderBlock], *, final_norm: nn.Module | None = None) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        self.final_norm = final_norm

    def forward(
        self,
        hidden: Tensor,
        memory: Tensor | None = None,
        *,
        mask: Mask | Tensor | None = None,
        memory_mask: Mask | Tensor | None = None,
        remembered: DecoderMemory | None = None,
        positions: Tensor | None = None,
    ) -> Tensor:
        """(B, T, D) with the encoder's output (B, S, D), or with what `remember` kept of it → (B, T, D)."""
        if remembered is not None and hidden.shape[1] == 1:
            if remembered.is_quick:
                return self._quick_step(hidden, remembered, mask=mask, memory_mask=memory_mask)
            if remembered.own is not None:
                return self._step_beams(hidden, remembered, memory_mask=memory_mask)
        elif remembered is not None:
            remembered.part()  # several positions at once are a matter of each row
        for i, block in enumerate(self.blocks):
            hidden = block(
                hidden,
                memory,
                mask=mask,
                memory_mask=memory_mask,
                cache=remembered.past[i] if remembered else None,
                memory_cache=remembered.source[i] if remembered else None,
                positions=positions,
                per_source=remembered.per_source if remembered else 1,
            )
        return hidden if self.final_norm is None else self.final_norm(hidden)

    def _step_beams(self, hidden: Tensor, remembered: DecoderMemory, *, memory_mask: Mask | Tensor | None) -> Tensor:
        """One step of beams that share their past: (N, 1, D) → (N, 1, D), the beams of a source asking together."""
        width, shape = remembered.per_source, hidden.shape
        positions = torch.full((width,), remembered.length)
        mask = remembered.step_beams()
        hidden = hidden.view(-1, width, shape[-1])
        for block, past, source in zip(self.blocks, remembered.past, remembered.source, strict=True):
            hidden = block(
                hidden, mask=mask, memory_mask=memory_mask, cache=past, memory_cache=source, positions=positions
            )
        return (hidden if self.final_norm is None else self.final_norm(hidden)).view(shape)

    def _quick_step(
        self,
        hidden: Tensor,
        remembered: DecoderMemory,
        *,
        mask: Mask | Tensor | None,
        memory_mask: Mask | Tensor | None,
    ) -> Tensor:
        """The same for any rows of a quickened decoder: (N, 1, D) → (N, 1, D)."""
        shared, width = remembered.own is not None, remembered.per_source
        positions = torch.full((width if shared else 1,), remembered.length)
        own = remembered.step_beams() if shared else simplify(as_mask(mask), 1, remembered.length + 1)
        x = hidden[:, 0]
        if (done := remembered.step_whole(x, own, memory_mask)) is not None:
            return (done if self.final_norm is None else self.final_norm(done))[:, None]
        for step, past, source in zip(remembered.steps, remembered.past, remembered.source, strict=True):
            x = step(
                x,
                past=past,
                source=source,
                mask=own,
                source_mask=memory_mask,
                widths=(len(positions), width),
                positions=positions,
            )
        return (x if self.final_norm is None else self.final_norm(x))[:, None]

    def step(self, hidden: Tensor, memory: LaneMemory, *, positions: Tensor) -> Tensor:
        """One new position a row over fixed buffers, (N, 1, D) → (N, 1, D); `positions` (N, 1) are for rotary heads."""
        for block, past, source in zip(self.blocks, memory.past, memory.source, strict=True):
            hidden = block(hidden, cache=past, memory_cache=source, positions=positions)
        return hidden if self.final_norm is None else self.final_norm(hidden)

    def remember(self, memory: Tensor, *, capacity: int) -> DecoderMemory:
        """Project the encoder's output (B, S, D) once for every layer and make room for `capacity` steps."""
        blocks = [block for block in self.blocks if isinstance(block, DecoderBlock)]
        steps = [BlockStep(block) for block in blocks] if all(map(BlockStep.suits, blocks)) else []
        whole = WholeDecoder.of(blocks) if steps else None
        kind = Cache if whole is None else whole.cache
        return DecoderMemory(
            [kind(capacity) for _ in blocks],
            [block.cross.remember(memory, kind=kind) for block in blocks],
            steps=steps,
            whole=whole,
        )
