"""Values whose gradients are computed along with them, a part of the rows at a time.

differentiable(value, gradients, inputs)    the value, from now on a function of the inputs
parts(n_rows, chunk)                        slices of equal size, at most `chunk` rows each
rows_at_once(n_classes, device)             how many rows of float32 scores (n, V) make a good chunk
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

# Scores that are used at once, while a processor's cache still holds most of them; a GPU wants few, large products.
_CPU_BYTES, _GPU_BYTES = 32 * 2**20, 2 * 2**30


class KnownGradients(torch.autograd.Function):
    """Keeps gradients that were made in the forward pass, and scales them on the way back."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, gradients: Sequence[Tensor | None], *inputs: Tensor | None) -> Tensor:
        """The value; `inputs` are what the gradients belong to, one each."""
        ctx.save_for_backward(*gradients)
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """The kept gradients, times that of the value."""
        return None, None, *(None if kept is None else kept * grads[0].to(kept.dtype) for kept in ctx.saved_tensors)


def differentiable(value: Tensor, gradients: Sequence[Tensor | None], inputs: Sequence[Tensor | None]) -> Tensor:
    """The value as a function of the inputs; a gradient is None where nobody asks for it."""
    if all(gradient is None for gradient in gradients):
        return value
    result: Tensor = KnownGradients.apply(value, tuple(gradients), *inputs)  # type: ignore[no-untyped-call]
    return result


def parts(n_rows: int, chunk: int) -> Iterator[slice]:
    """Rows in equal parts of at most `chunk`. Their number is a power of two, so that a compiler sees few of them."""
    n_parts = 1
    while n_parts * chunk < n_rows:
        n_parts *= 2
    size = -(-n_rows // n_parts)
    for i in range(n_parts):
        yield slice(min(i * size, n_rows), min((i + 1) * size, n_rows))


def rows_at_once(n_classes: int, device: torch.device) -> int:
    """How many rows of float32 scores over that many classes to hold at once."""
    return max(1, (_CPU_BYTES if device.type == "cpu" else _GPU_BYTES) // (4 * n_classes))
