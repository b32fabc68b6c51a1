"""What tasks that go by a plan of batches have in common: batches in order, and how the trainer may treat them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch

from regard.config.twins import resolve
from regard.data.batching.examples import BatchExamples
from regard.data.batching.packing import PackedPlan
from regard.data.batching.plan import Indices, Position
from regard.data.batching.tensors import TensorBatch


class BatchPlanMixin:
    """Batches of a plan; unless a task knows better, packed ones have one shape and others have many.

    `fixed_shape` says that all of them have one. A task whose batches get one of few shapes when their lengths are
    rounded up says to which multiple: `few_lengths`; once its work is to be recorded, `multiple_of` is that.
    `unit` is what a batch's `n_tokens` counts. `_loss` is what the compiler may fuse: tensors in, tensors out.
    """

    unit = "tokens"
    plan: Any  # each task has one of its own kind
    fixed_shape = False
    few_lengths = 0
    multiple_of = 1
    same_draws = False
    _loss: Callable[..., Any] | None = None

    def batches(self, position: Position, *, rank: int = 0, world: int = 1) -> Iterator[tuple[Position, Any]]:
        """Batches without end from a position on; each of `world` processes gets its share of every batch."""
        before = position
        for after, examples in self.plan.iterate(position):
            batch = self.share(examples, epoch=before.epoch, rank=rank, world=world)
            if isinstance(batch, TensorBatch):
                beside = self.beside(len(examples), rank=rank, world=world)
                own = BatchExamples.share(self.numbers(examples), before, rank=rank, world=world, beside=beside)
                batch = replace(batch, examples=own)
            yield after, batch
            before = after

    def numbers(self, examples: Any) -> Any:
        """The numbers of a plan's examples in the data, (n,)."""
        return examples

    def beside(self, n: int, *, rank: int, world: int) -> Indices | None:
        """The places in a whole batch of n of the examples that a share holds besides its own; None: none."""
        return None

    def draw_by_example(self) -> None:
        """From now on an example's share of a batch draws what it would in the whole."""
        self.same_draws = True

    def share(self, examples: Any, *, epoch: int, rank: int, world: int) -> Any:
        """One process's share of a batch; an empty one is a batch without tokens."""
        return self.batch(examples[rank::world])  # type: ignore[attr-defined]

    @property
    def batches_an_epoch(self) -> int:
        """How many batches the first pass over the data takes."""
        return sum(1 for _ in self.plan.epoch(0))

    @property
    def static_shapes(self) -> bool:
        """Whether all batches have one shape, so that compiling pays."""
        return self.fixed_shape or isinstance(self.plan, PackedPlan)

    def record(self) -> bool:
        """Whether a GPU's work can be recorded: where batches have one shape, or from now on one of few."""
        self.multiple_of = self.few_lengths or 1
        return self.static_shapes or bool(self.few_lengths)

    def compile(self) -> None:
        """Let the compiler fuse what the loss computes, for the shapes it is called with, where a task allows it."""
        if self._loss is not None:
            resolve()  # twins are looked up here, where no compiler traces it
            self._loss = torch.compile(self._loss, dynamic=False)
