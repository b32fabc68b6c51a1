"""One decoding step of a pre-norm language model for a few rows on a GPU: five kernels a block.

    norm, queries, keys and values → attention → out, residual → norm, inner, activation → outer, residual

    GemvStep     tokens (N,) → logits (N, V), over the static caches of a capture
    GemvBlock    x (N, D) → (N, D)

So little is computed for one row that a step's time is that of its kernels, one after another. `EncoderBlock.forward`
is the readable twin; it does all that is unusual. Here the kernels make a chain, each by
`programmatic_launch`; the first of a step is not, since it waits for the step before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

import torch
from torch import Tensor, nn

from regard.attention import Dot, Learned, MultiHeadAttention, ScaledDot, Sinusoidal
from regard.fast.gpu.few_rows.gemv import LONGEST, GemvActivation, GemvNorm, embed_step, gemv
from regard.fast.gpu.few_rows.programmatic_launch import programmatic_launch
from regard.fast.gpu.few_rows.split_kv import attend_split_kv
from regard.fast.gpu.static_cache import StaticDecoderCache, StaticKVCache, attend_past_explicitly
from regard.layers.blocks import EncoderBlock, EncoderStack
from regard.layers.embeddings import Embedding
from regard.layers.feedforward import ActivationName, FeedForward, GatedFeedForward, activation_of
from regard.layers.norms import LayerNorm, RMSNorm

_NAMES: dict[object, GemvActivation] = {activation_of(name): name for name in get_args(ActivationName)}


@dataclass(frozen=True)
class GemvLayer:
    """A linear layer with the norm before it and the activation behind it."""

    weight: Tensor
    bias: Tensor | None = None
    norm: GemvNorm | None = None
    activation: GemvActivation = "none"
    gated: bool = False

    def __call__(self, x: Tensor, residual: Tensor | None = None, *, split_sums: Tensor | None = None) -> Tensor:
        """(N, K), or the parts (N, S, K) of it → (N, O), plus the residual (N, O)."""
        return gemv(
            x,
            self.weight,
            self.bias,
            norm=self.norm,
            activation=self.activation,
            gated=self.gated,
            residual=residual,
            split_sums=split_sums,
            launch=programmatic_launch(x.device),
        )


class GemvBlock:
    """The step of one block."""

    def __init__(self, block: EncoderBlock) -> None:
        heads, part = block.attention, block.feedforward
        assert isinstance(part, FeedForward | GatedFeedForward)
        first = _first(part)
        self.heads = heads
        self.project = _layer(heads.query_key_value, norm=block.around_attention.norm)
        self.out = _layer(heads.out)
        self.inner = GemvLayer(
            first.weight,
            first.bias,
            _norm(block.around_feedforward.norm),
            _NAMES[part.activation],
            gated=isinstance(part, GatedFeedForward),
        )
        self.outer = _layer(part.outer)

    @staticmethod
    def suits(block: nn.Module) -> bool:
        """Whether a block is made of what the kernels know."""
        if not isinstance(block, EncoderBlock) or block.training or not block.around_attention.pre:
            return False
        heads, part = block.attention, block.feedforward
        if not (isinstance(part, FeedForward | GatedFeedForward) and heads.tap.kind == "masked"):
            return False
        plain = type(heads.score) in (Dot, ScaledDot) and part.activation in _NAMES
        linear = all(type(layer) is nn.Linear for layer in (heads.query_key_value, heads.out, _first(part), part.outer))
        return plain and linear and _knows(block.around_attention.norm) and _knows(block.around_feedforward.norm)

    def __call__(self, x: Tensor, cache: StaticKVCache, places: Tensor | None) -> Tensor:
        """One new position a row; `places` (N, 1) are for rotary heads."""
        seen, split_sums = self._attend_past(x, cache, places)
        x = self.out(seen, x, split_sums=split_sums)
        return self.outer(self.inner(x), x)

    def _attend_past(self, x: Tensor, cache: StaticKVCache, places: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """What a row sees of its past and of itself, on a GPU in parts that `out` merges."""
        heads = self.heads
        q, k, v = _split(self.project(x), heads)
        if heads.rotary is not None:
            q, k = (heads.rotary(x[:, :, None], positions=places)[:, :, 0] for x in (q, k))
        scale = heads.score.dot_scale(heads.d_head)
        assert scale is not None
        if _has_kernels(q.device):
            return attend_split_kv(q, k, v, cache=cache, scale=scale)
        return attend_past_explicitly(q, k, v, cache=cache, scale=scale).flatten(1), None


class GemvStep:
    """The step of a whole model: embeddings, blocks, and an output behind the last norm."""

    def __init__(self, table: Tensor, places: Tensor | None, *, stack: EncoderStack, output: Tensor) -> None:
        self.table, self.places = table, places
        self.blocks = [GemvBlock(block) for block in stack.blocks if isinstance(block, EncoderBlock)]
        self.output = GemvLayer(output, norm=None if stack.final_norm is None else _norm(stack.final_norm))
        self.is_rotary = any(block.heads.rotary is not None for block in self.blocks)

    @classmethod
    def of(
        cls, embedding: Embedding, positions: Learned | Sinusoidal | None, *, stack: EncoderStack, output: Tensor
    ) -> GemvStep | None:
        """The step of these parts, if the kernels know them all; they are in one precision then."""
        places = positions.table.weight if isinstance(positions, Learned) else None
        weights = [*stack.parameters(), embedding.weight, output, *([] if places is None else [places])]
        alike = all(weight.dtype == output.dtype and weight.is_contiguous() for weight in weights)
        narrow = all(weight.shape[-1] <= LONGEST for weight in weights if weight.ndim == 2)
        known = all(map(GemvBlock.suits, stack.blocks)) and (stack.final_norm is None or _knows(stack.final_norm))
        if isinstance(positions, Sinusoidal) or embedding.scale != 1.0 or not (alike and narrow and known):
            return None
        return cls(embedding.weight, places, stack=stack, output=output)

    def __call__(self, tokens: Tensor, cache: StaticDecoderCache) -> Tensor:
        """The last token of each row (N,) → logits of the next (N, V)."""
        places = cache.slots.positions[:, None] if self.is_rotary else None
        x = embed_step(tokens, cache.slots, table=self.table, places=self.places)
        for block, past in zip(self.blocks, cache.past, strict=True):
            x = block(x, past, places)
        return self.output(x)


def _has_kernels(device: torch.device) -> bool:
    return device.type == "cuda"


def _first(part: FeedForward | GatedFeedForward) -> nn.Linear:
    return part.gate_inner if isinstance(part, GatedFeedForward) else part.inner


def _layer(linear: nn.Linear, *, norm: nn.Module | None = None) -> GemvLayer:
    return GemvLayer(linear.weight, linear.bias, None if norm is None else _norm(norm))


def _knows(norm: nn.Module) -> bool:
    return type(norm) in (LayerNorm, RMSNorm) and norm.weight is not None and norm.eps is not None


def _norm(norm: nn.Module) -> GemvNorm:
    assert isinstance(norm, LayerNorm | RMSNorm)
    assert norm.eps is not None
    return GemvNorm(norm.weight, norm.bias if isinstance(norm, LayerNorm) else None, norm.eps, type(norm) is LayerNorm)


def _split(projected: Tensor, heads: MultiHeadAttention) -> tuple[Tensor, ...]:
    """Queries (N, H, E), keys and values (N, G, E), which stay where they are."""
    all_NHE = projected.view(len(projected), -1, heads.d_head)
    return torch.split(all_NHE, [heads.n_heads, heads.n_kv_heads, heads.n_kv_heads], dim=1)
