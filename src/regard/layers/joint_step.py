"""Several decodings through the same blocks at once: products are shared, attention is each one's own.

    joint_step    hidden (N, 1, D) → (N, 1, D)        a position a row, N rows, those of one decoding side by side
    joint_read    hidden (1, T, D) → (1, T, D)        prompts of a row each, one after another

Every decoding keeps its caches, its mask and its positions. Linear layers and norms see all rows at once; attention and
activations are computed decoding by decoding, on the very tensors that it would have alone, or by a twin that looks at
each one's past by itself. So where a product leaves rows alone, bit for bit, so does the step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from regard.attention import Cache, Mask, MultiHeadAttention
from regard.config.twins import twin
from regard.layers.blocks import EncoderBlock, EncoderStack
from regard.layers.feedforward import FeedForward, GatedFeedForward


@dataclass(frozen=True)
class StackRows:
    """The rows of one decoding on their way through a stack: (n_rows, 1, D), with a cache a block."""

    n_rows: int
    caches: Sequence[Cache]
    mask: Mask | None
    positions: Tensor | None


def takes_joint_steps(stack: EncoderStack) -> bool:
    """Whether `joint_step` knows all parts of the blocks."""
    blocks = (block for block in stack.blocks)
    return all(
        isinstance(block, EncoderBlock) and isinstance(block.feedforward, FeedForward | GatedFeedForward)
        for block in blocks
    )


def joint_step(stack: EncoderStack, hidden: Tensor, parts: Sequence[StackRows]) -> Tensor:
    """One new position a row."""
    fast = twin("causal_step")
    stepped: Tensor | None = None if fast is None else fast(stack, hidden, parts)
    if stepped is not None:
        return stepped
    return _through(stack, hidden, parts, _Cut([part.n_rows for part in parts], 0))


def joint_read(stack: EncoderStack, hidden: Tensor, parts: Sequence[StackRows], lengths: Sequence[int]) -> Tensor:
    """The first positions of decodings of one row, so many of each."""
    return _through(stack, hidden, parts, _Cut(list(lengths), 1))


class _Cut(NamedTuple):
    """Where what belongs to one decoding ends and what belongs to the next begins."""

    sizes: list[int]
    dim: int

    def apart(self, joined: Tensor) -> Sequence[Tensor]:
        parts: Sequence[Tensor] = joined.split(self.sizes, self.dim)
        return parts

    def joined(self, parts: Sequence[Tensor]) -> Tensor:
        return torch.cat(list(parts), self.dim)


def _through(stack: EncoderStack, hidden: Tensor, parts: Sequence[StackRows], cut: _Cut) -> Tensor:
    for number, block in enumerate(stack.blocks):
        assert isinstance(block, EncoderBlock)
        hidden = block.around_attention(hidden, _attention(block, number, parts, cut))
        hidden = block.around_feedforward(hidden, _feedforward(block.feedforward, cut))
    return hidden if stack.final_norm is None else stack.final_norm(hidden)


def _attention(block: EncoderBlock, number: int, parts: Sequence[StackRows], cut: _Cut) -> Callable[[Tensor], Tensor]:
    heads = block.attention

    def attend(x: Tensor) -> Tensor:
        projected: Tensor = heads.query_key_value(x)
        seen = _looked_back(heads, projected, number, parts) if cut.dim == 0 else None
        if seen is None:
            each = zip(cut.apart(projected), parts, strict=True)
            seen = cut.joined([_look_back(heads, own, number, part) for own, part in each])
        output: Tensor = heads.out(seen)
        return output

    return attend


def _look_back(heads: MultiHeadAttention, own: Tensor, number: int, part: StackRows) -> Tensor:
    """Of one decoding, by itself."""
    return heads.look_back(own, mask=part.mask, cache=part.caches[number], positions=part.positions)


def _looked_back(
    heads: MultiHeadAttention, projected: Tensor, number: int, parts: Sequence[StackRows]
) -> Tensor | None:
    """Of all decodings at once, where there is a twin for it; those to whom something is hidden look by themselves."""
    fast = twin("look_back")
    free = [i for i, part in enumerate(parts) if part.mask is None]
    if fast is None or not free:
        return None
    rows = list(projected.split([part.n_rows for part in parts]))
    turned = projected if len(free) == len(parts) else torch.cat([rows[i] for i in free])
    if heads.rotary is not None:
        turned = torch.cat([heads.turn(rows[i], parts[i].positions, parts[i].caches[number].length) for i in free])
    counts = [parts[i].n_rows for i in free]
    seen: Tensor | None = fast(heads, turned, [parts[i].caches[number] for i in free], counts)
    if seen is None or len(free) == len(parts):
        return seen
    each = dict(zip(free, seen.split(counts), strict=True))
    alone = {i: _look_back(heads, rows[i], number, part) for i, part in enumerate(parts) if i not in each}
    return torch.cat([(each | alone)[i] for i in range(len(parts))])


def _feedforward(layer: nn.Module, cut: _Cut) -> Callable[[Tensor], Tensor]:
    assert isinstance(layer, FeedForward | GatedFeedForward)

    def compute(x: Tensor) -> Tensor:
        output: Tensor = layer.outer(cut.joined([layer.activate(own) for own in cut.apart(layer.first(x))]))
        return output

    return compute
