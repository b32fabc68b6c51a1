"""What batches have in common: tensors that move together, and facts about them that stay."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Self

import torch
from torch import Tensor


class TensorBatch:
    """The base of frozen dataclasses whose fields are tensors, or facts about them."""

    def to(self, device: torch.device) -> Self:
        """The batch on a device; copies run beside the computation where memory is pinned."""
        return self._with(lambda tensor: tensor.to(device, non_blocking=True))

    def pin_memory(self) -> Self:
        """The batch in memory that a GPU can read by itself."""
        return self._with(Tensor.pin_memory)

    def fill(self, other: Self) -> bool:
        """Take over the tensors of another batch, in place; False, and nothing done, where shapes differ."""
        own, others = self._tensors(), other._tensors()
        if {name: t.shape for name, t in own.items()} != {name: t.shape for name, t in others.items()}:
            return False
        for name, tensor in own.items():
            tensor.copy_(others[name], non_blocking=True)
        return True

    def _tensors(self) -> dict[str, Tensor]:
        return {name: value for name, value in vars(self).items() if isinstance(value, Tensor)}

    def _with(self, change: Callable[[Tensor], Tensor]) -> Self:
        changed: dict[str, Any] = {name: change(value) for name, value in self._tensors().items()}
        return replace(self, **changed)  # type: ignore[type-var]  # all that derive from it are dataclasses
