"""The Transformer's blocks, in the lectures' order (post-norm) and in today's (pre-norm).

    post    x = norm(x + part(x))         Vaswani et al. (2017)
    pre     x = x + part(norm(x))         and one norm at the end of the stack

    EncoderBlock    self-attention, feed-forward                        (B, T, D) → (B, T, D)
    DecoderBlock    masked self-attention, cross-attention, feed-forward
    EncoderStack, DecoderStack    blocks one after another
    StackMaker      stacks whose blocks are all of one make

Attention and feed-forward come in ready-made: what varies between models is passed, not switched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from torch import Tensor, nn

from regard.attention import Cache, Kind, Mask, MultiHeadAttention, Rotary
from regard.config.twins import twin
from regard.layers.dropout import drop
from regard.layers.kv_cache import DecoderKVCache
from regard.layers.norms import NormMaker, norm_of

Order = Literal["post", "pre"]


class Residual(nn.Module):
    """A part of a block with its shortcut and its norm, in either order."""

    __call__: Callable[..., Tensor]  # PyTorch's is of any type

    def __init__(self, d_model: int, *, order: Order = "post", norm: NormMaker | None = None, dropout: float = 0.0):
        super().__init__()
        self.norm = (norm or norm_of("layer"))(d_model)
        self.pre = order == "pre"
        self.dropout = dropout

    def forward(self, hidden: Tensor, part: Callable[[Tensor], Tensor]) -> Tensor:
        """Hidden states (..., D) plus what the part makes of them, normed before or after."""
        if self.pre:
            return hidden + drop(part(self.norm(hidden)), self.dropout, training=self.training)
        made = part(hidden)
        if self.training and (fast := twin("residual")) is not None:
            settled: Tensor | None = fast(hidden, made, norm=self.norm, dropout=self.dropout)
            if settled is not None:
                return settled
        output: Tensor = self.norm(hidden + drop(made, self.dropout, training=self.training))
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
        cache: Cache | None = None,
        positions: Tensor | None = None,
    ) -> Tensor:
        """(B, T, D) → (B, T, D). With a causal mask and a cache this is a language model's block."""
        hidden = self.around_attention(
            hidden, lambda x: self.attention(x, mask=mask, bias=bias, cache=cache, positions=positions)
        )
        return self.around_feedforward(hidden, self.feedforward)


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
        cache: Cache | None = None,
        memory_cache: Cache | None = None,
        positions: Tensor | None = None,
        per_source: int = 1,
    ) -> Tensor:
        """(B, T, D) with a memory (B, S, Dm), or the cache prefilled from it → (B, T, D).

        In single steps, `per_source` rows that follow one another may share one row of the memory: beams.
        """

        def look(x: Tensor) -> Tensor:
            # Beams of one sentence ask together, as several queries of one row, so its keys are read once.
            asked = x if per_source == 1 else x.view(-1, per_source, x.shape[-1])
            seen: Tensor = self.cross(asked, memory, mask=memory_mask, cache=memory_cache)
            return seen.view(x.shape)

        hidden = self.around_attention(hidden, lambda x: self.attention(x, mask=mask, cache=cache, positions=positions))
        hidden = self.around_cross(hidden, look)
        return self.around_feedforward(hidden, self.feedforward)


class EncoderStack(nn.Module):
    """Encoder blocks one after another; pre-norm blocks need the norm at the end."""

    __call__: Callable[..., Tensor]

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
        caches: Sequence[Cache] | None = None,
        positions: Tensor | None = None,
    ) -> Tensor:
        """(B, T, D) → (B, T, D); `caches` holds one cache a block."""
        fast = twin("encoder") if bias is None and caches is None else None
        encoded: Tensor | None = None if fast is None else fast(self.blocks, hidden, mask)
        if encoded is None:
            encoded = hidden
            for i, block in enumerate(self.blocks):
                encoded = block(encoded, mask=mask, bias=bias, cache=caches[i] if caches else None, positions=positions)
        return encoded if self.final_norm is None else self.final_norm(encoded)


class DecoderStack(nn.Module):
    """Decoder blocks one after another."""

    __call__: Callable[..., Tensor]

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
        kv_cache: DecoderKVCache | None = None,
        positions: Tensor | None = None,
    ) -> Tensor:
        """(B, T, D) with the encoder's output (B, S, D), or with what `prefill` kept of it → (B, T, D)."""
        if kv_cache is not None and hidden.shape[1] == 1:
            fast = twin("decoder_step")
            stepped: Tensor | None = (
                None if fast is None else fast(kv_cache, hidden, mask=mask, memory_mask=memory_mask)
            )
            if stepped is not None:
                return stepped if self.final_norm is None else self.final_norm(stepped)
            if kv_cache.own is not None:
                return self._step_beams(hidden, kv_cache, memory_mask=memory_mask)
        elif kv_cache is not None:
            kv_cache.unshare()  # several positions at once are a matter of each row
        for i, block in enumerate(self.blocks):
            hidden = block(
                hidden,
                memory,
                mask=mask,
                memory_mask=memory_mask,
                cache=kv_cache.past[i] if kv_cache else None,
                memory_cache=kv_cache.source[i] if kv_cache else None,
                positions=positions,
                per_source=kv_cache.per_source if kv_cache else 1,
            )
        return hidden if self.final_norm is None else self.final_norm(hidden)

    def _step_beams(self, hidden: Tensor, kv_cache: DecoderKVCache, *, memory_mask: Mask | Tensor | None) -> Tensor:
        """One step of beams that share their past: (N, 1, D) → (N, 1, D), the beams of a source asking together."""
        width, shape = kv_cache.per_source, hidden.shape
        positions = torch.full((width,), kv_cache.length)
        mask = kv_cache.step_beams()
        hidden = hidden.view(-1, width, shape[-1])
        for block, past, source in zip(self.blocks, kv_cache.past, kv_cache.source, strict=True):
            hidden = block(
                hidden, mask=mask, memory_mask=memory_mask, cache=past, memory_cache=source, positions=positions
            )
        return (hidden if self.final_norm is None else self.final_norm(hidden)).view(shape)

    def prefill(self, memory: Tensor, *, capacity: int) -> DecoderKVCache:
        """Project the encoder's output (B, S, D) once for every layer and make room for `capacity` steps."""
        fast = twin("prefill")
        kv_cache: DecoderKVCache | None = None if fast is None else fast(self.blocks, memory, capacity=capacity)
        if kv_cache is not None:
            return kv_cache
        blocks = [block for block in self.blocks if isinstance(block, DecoderBlock)]
        return DecoderKVCache([Cache(capacity) for _ in blocks], [block.cross.prefill(memory) for block in blocks])

    def prefill_each(
        self, memory: Tensor, lengths: Sequence[int], *, capacities: Sequence[int]
    ) -> Sequence[DecoderKVCache]:
        """The same for several decodings, whose memories stand one after another (T, D): each gets caches of its own.

        A product makes its rows together; where it leaves them alone, each gets what it would get by itself.
        """
        fast = twin("prefill_each")
        made: Sequence[DecoderKVCache] | None = (
            None if fast is None else fast(self.blocks, memory, lengths, capacities=capacities)
        )
        if made is not None:
            return made
        each = zip(memory.split(list(lengths)), capacities, strict=True)
        return [self.prefill(own[None], capacity=capacity) for own, capacity in each]


@dataclass(frozen=True, kw_only=True)
class StackMaker:
    """Makes stacks of blocks of one make; pre-norm stacks get the norm at the end.

    `attention` is called with its kind for each block, and with `rotary` where a block looks at its own sequence.
    """

    d_model: int
    attention: Callable[..., MultiHeadAttention]
    feedforward: Callable[[], nn.Module]
    norm: NormMaker
    order: Order = "pre"
    dropout: float = 0.0
    rotary: Rotary | None = None

    def encoder(self, n_layers: int, *, kind: Kind = "self") -> EncoderStack:
        """So many encoder blocks; of the kind "masked" in language models."""
        block = partial(EncoderBlock, self.d_model, order=self.order, norm=self.norm, dropout=self.dropout)
        own = partial(self.attention, kind=kind, rotary=self.rotary)
        blocks = [block(attention=own(), feedforward=self.feedforward()) for _ in range(n_layers)]
        return EncoderStack(blocks, final_norm=self._final_norm())

    def decoder(self, n_layers: int) -> DecoderStack:
        """So many decoder blocks."""
        block = partial(DecoderBlock, self.d_model, order=self.order, norm=self.norm, dropout=self.dropout)
        own, cross = partial(self.attention, kind="masked", rotary=self.rotary), partial(self.attention, kind="cross")
        blocks = [block(attention=own(), cross=cross(), feedforward=self.feedforward()) for _ in range(n_layers)]
        return DecoderStack(blocks, final_norm=self._final_norm())

    def _final_norm(self) -> nn.Module | None:
        return self.norm(self.d_model) if self.order == "pre" else None
