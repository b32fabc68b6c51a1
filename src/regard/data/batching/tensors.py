"""What batches have in common: tensors that move together, and facts about them that stay; ids as models read them."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from typing import Any, Self

import torch
from torch import Tensor

from regard.attention import Rows
from regard.data.batching.examples import BatchExamples

_NO_SHAPE = ("n_tokens", "examples")  # no work on a batch depends on these


@dataclass(frozen=True, kw_only=True)
class TensorBatch:
    """The base of frozen dataclasses whose fields are tensors, or facts about them."""

    examples: BatchExamples | None = None  # which ones of all that are learnt from together

    @property
    def n_rows(self) -> int | None:
        """How many rows or documents there are, where some hold no example; None where each holds one."""
        return None

    def to(self, device: torch.device) -> Self:
        """The batch on a device; copies run beside the computation where memory is pinned."""
        return self._with(lambda tensor: tensor.to(device, non_blocking=True))

    def pin_memory(self) -> Self:
        """The batch in memory that a GPU can read by itself."""
        return self._with(Tensor.pin_memory)

    def shape(self) -> Hashable:
        """All that work on a batch depends on besides its numbers: shapes, and facts; None if there is more to it."""
        facts = {name: value for name, value in vars(self).items() if name not in _NO_SHAPE}
        shape = tuple((name, v.shape if isinstance(v, Tensor) else v) for name, v in facts.items())
        try:
            hash(shape)
        except TypeError:  # lists: drawn or looked up for this batch alone
            return None
        return shape

    def fill(self, other: Self) -> None:
        """Take over the tensors of another batch of the same shape, in place."""
        others = other._tensors()
        for name, tensor in self._tensors().items():
            tensor.copy_(others[name], non_blocking=True)

    def _tensors(self) -> dict[str, Tensor]:
        return {name: value for name, value in vars(self).items() if isinstance(value, Tensor)}

    def _with(self, change: Callable[[Tensor], Tensor]) -> Self:
        changed: dict[str, Any] = {name: change(value) for name, value in self._tensors().items()}
        return replace(self, **changed)


def rows_of(ids: Tensor, lengths: Tensor, longest: int | None = None) -> Rows:
    """Ids as models read them: packed where `longest` is given."""
    return Rows(ids, lengths) if longest is None else Rows.packed(ids, lengths, longest=longest)
