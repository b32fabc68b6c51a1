"""One decoding step of several decodings through the same blocks: products are shared, attention is each one's own.

    hidden (N, 1, D) → (N, 1, D)        N rows, those of one decoding side by side

Every decoding keeps its caches, its mask and its positions. Linear layers and norms see all rows at once; attention and
activations are computed decoding by decoding, on the very tensors that it would have alone. So where a product leaves
rows alone, bit for bit, so does the step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.attention import Cache, Mask
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
    for number, block in enumerate(stack.blocks):
        assert isinstance(block, EncoderBlock)
        hidden = block.around_attention(hidden, _attention(block, number, parts))
        hidden = block.around_feedforward(hidden, _feedforward(block.feedforward, parts))
    return hidden if stack.final_norm is None else stack.final_norm(hidden)


def _attention(block: EncoderBlock, number: int, parts: Sequence[StackRows]) -> Callable[[Tensor], Tensor]:
    heads = block.attention

    def attend(x: Tensor) -> Tensor:
        rows = heads.query_key_value(x).split([part.n_rows for part in parts])
        seen = [
            heads.look_back(own, mask=part.mask, cache=part.caches[number], positions=part.positions)
            for own, part in zip(rows, parts, strict=True)
        ]
        output: Tensor = heads.out(torch.cat(seen))
        return output

    return attend


def _feedforward(layer: nn.Module, parts: Sequence[StackRows]) -> Callable[[Tensor], Tensor]:
    assert isinstance(layer, FeedForward | GatedFeedForward)

    def compute(x: Tensor) -> Tensor:
        rows = layer.first(x).split([part.n_rows for part in parts])
        output: Tensor = layer.outer(torch.cat([layer.activate(own) for own in rows]))
        return output

    return compute
