"""How the processes of a training hold its model: one alone, each a copy of it, or each a part.

    alone         one process: nothing is exchanged                                                     here
    replicated    each has the whole model; gradients are summed while they are still being computed    reduction.py
    sharded       each has a part of every weight, gradient and state of the optimizer (FSDP2)          sharding.py

The trainer asks all of them the same: to go through its batches, to make the gradients those of all processes, to clip
them, and for a whole model to evaluate.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from torch import nn

from regard.training.optimizers import clip_gradients
from regard.training.protocol import Batch, Losses, Trainable


class Pass(NamedTuple):
    """A batch to go through; one that does not count is there only because the other processes wait for a pass."""

    batch: Batch
    counts: bool = True


class Parallel:
    """A process alone, and what the others do otherwise."""

    def __init__(self, task: Trainable, model: nn.Module) -> None:
        """`model` is the one that is trained, and `plain` the one that a task can evaluate; here they are the same."""
        self.task, self.model, self.plain = task, model, model
        self.writes: bool | None = None  # whether this process writes its part; None: the first one writes all

    def passes(self, batches: Sequence[Batch]) -> Iterator[Pass]:
        """What this process has to go through in a step, of its shares of the step's batches."""
        for batch in batches:
            if batch.n_tokens:
                yield Pass(batch)

    def loss(self, batch: Any) -> Losses:
        """The summed loss of a batch."""
        return self.task.loss(self.model, batch)

    def finish_gradients(self) -> None:
        """Wait until the gradients are those of all processes."""

    def clip(self, max_norm: float) -> None:
        """Scale all gradients down together to a norm of at most `max_norm`."""
        clip_gradients(self.model.parameters(), max_norm)

    @contextmanager
    def gathered(self) -> Iterator[nn.Module]:
        """The plain model with the weights of now; where they are held in parts, in the first process only."""
        yield self.plain

    def close(self) -> None:
        """Training is over: leave a plain model that weights can be loaded into."""
