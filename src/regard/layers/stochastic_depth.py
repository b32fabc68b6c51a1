"""Stochastic depth (Huang et al., 2016): in training, a row goes around a part of a block now and then.

    x + keep · part(norm(x)) / (1 − p),    keep drawn for each row of the batch

Deep stacks drop more the further up they are: `depth_rates(7, 0.1)` rises from 0 to 0.1.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from regard.config.random_numbers import uniform
from regard.errors import UsageError
from regard.layers.blocks import EncoderBlock, Residual


class SkippedResidual(Residual):
    """A residual whose part is left out for some rows of a batch."""

    def __init__(self, around: Residual, p: float) -> None:
        super(Residual, self).__init__()
        if not 0 <= p < 1:
            raise UsageError(f"the share of rows that go around a part is from 0 to below 1, not {p}")
        self.norm, self.pre, self.dropout, self.p = around.norm, around.pre, around.dropout, p

    def forward(self, hidden: Tensor, part: Callable[[Tensor], Tensor]) -> Tensor:
        """(B, T, D) → (B, T, D)."""

        def skipped(x: Tensor) -> Tensor:
            made = part(x)
            if not self.training or self.p == 0:
                return made
            keep = uniform((len(made), *[1] * (made.ndim - 1)), made.device) >= self.p
            return made * (keep / (1 - self.p)).to(made.dtype)

        return super().forward(hidden, skipped)


def skip_at_random(block: EncoderBlock, p: float) -> EncoderBlock:
    """The block, with both of its parts left out for a share `p` of the rows in training."""
    if p:
        block.around_attention = SkippedResidual(block.around_attention, p)
        block.around_feedforward = SkippedResidual(block.around_feedforward, p)
    return block


def depth_rates(n_layers: int, last: float) -> list[float]:
    """The share for each layer: none in the first, `last` in the last, and evenly in between."""
    return [last * layer / max(1, n_layers - 1) for layer in range(n_layers)]
