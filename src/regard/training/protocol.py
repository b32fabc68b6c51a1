"""What the trainer asks of a task: batches, a loss, an evaluation. It knows nothing else of it."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Any, Protocol, Self

import torch

from regard.data.batching.plan import Position
from regard.metrics.cross_entropy import Losses as Losses


class Batch(Protocol):
    """Tensors of a batch; `n_tokens` is how many predictions its loss sums over."""

    @property
    def n_tokens(self) -> int:
        """How many predictions the loss sums over."""

    def to(self, device: torch.device) -> Self:
        """The batch on a device."""

    def pin_memory(self) -> Self:
        """The batch in memory that a GPU can read by itself."""

    def shape(self) -> Hashable:
        """All that work on a batch depends on besides its numbers; None if there is more to it than can be said."""

    def fill(self, other: Self) -> None:
        """Take over the tensors of another batch of the same shape, in place."""


class Trainable(Protocol):
    """A task with its data."""

    objective: str  # the metric of `evaluate` that decides; more is better
    unit: str  # what `n_tokens` of a batch counts

    def batches(self, position: Position, *, rank: int = 0, world: int = 1) -> Iterator[tuple[Position, Any]]:
        """Batches without end from a position on, each with the position after it."""

    @property
    def batches_an_epoch(self) -> int:
        """How many batches the first pass over the data takes."""

    @property
    def static_shapes(self) -> bool:
        """Whether all batches have one shape, so that compiling pays."""

    def record(self) -> bool:
        """Whether a GPU's work can be recorded: from now on batches have few shapes, and the loss asks it nothing."""

    def compile(self) -> None:
        """Let the compiler fuse what the loss computes."""

    def loss(self, model: Any, batch: Any) -> Losses:
        """The summed loss of a batch."""

    def evaluate(self, model: Any) -> dict[str, float]:
        """Figures on the validation data."""

    def samples(self, model: Any, n: int) -> Sequence[tuple[str, str, str]]:
        """A few examples: input, reference, output."""
