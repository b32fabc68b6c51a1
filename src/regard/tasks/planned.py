"""What tasks that go by a plan of batches have in common: how the trainer may treat these."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from regard.data.packing import PackedPlan


class Plan(Protocol):
    """Which examples go together, epoch by epoch."""

    def epoch(self, number: int) -> Iterable[Any]:
        """The batches of an epoch."""
        ...


class Planned:
    """Batches of a plan; unless a task knows better, packed ones have one shape and others have many."""

    plan: Any  # a Plan; each task has one of its own kind

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
        """Whether a GPU's work can be recorded: where all batches have one shape."""
        return self.static_shapes

    def compile(self) -> None:
        """Nothing: where shapes differ from batch to batch it would not pay."""
