"""What tasks that go by a plan of batches have in common: how the trainer may treat these."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from regard.data.batching.packing import PackedPlan


class Plan(Protocol):
    """Which examples go together, epoch by epoch."""

    def epoch(self, number: int) -> Iterable[Any]:
        """The batches of an epoch."""
        ...


class BatchPlanMixin:
    """Batches of a plan; unless a task knows better, packed ones have one shape and others have many.

    A task whose batches get one of few shapes when their lengths are rounded up says to which multiple: `few_lengths`.
    Once it is to be recorded, `multiple_of` is that.
    """

    plan: Any  # a Plan; each task has one of its own kind
    few_lengths = 0
    multiple_of = 1

    @property
    def batches_an_epoch(self) -> int:
        """How many batches the first pass over the data takes."""
        plan: Plan = self.plan
        return sum(1 for _ in plan.epoch(0))

    @property
    def static_shapes(self) -> bool:
        """Whether all batches have one shape, so that compiling pays."""
        return isinstance(self.plan, PackedPlan)

    def record(self) -> bool:
        """Whether a GPU's work can be recorded: where batches have one shape, or from now on one of few."""
        self.multiple_of = self.few_lengths or 1
        return self.static_shapes or bool(self.few_lengths)

    def compile(self) -> None:
        """Nothing: where shapes differ from batch to batch it would not pay."""
