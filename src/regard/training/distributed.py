"""More than one process: under `torchrun` each takes its share of every batch, and the gradients are summed.

    torchrun --nproc-per-node 2 -m regard train recipe.toml --out runs/de

The same recipe gives the same loss as one process: every batch is split over the processes, the loss is divided by
the tokens of the whole batch, and the sum over processes is the whole batch's gradient.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from regard.errors import EnvironmentProblem, RegardError

Shared = TypeVar("Shared")


class Lost(EnvironmentProblem):
    """Another process of this training is gone: none can go on alone."""


@contextmanager
def _together() -> Iterator[None]:
    """Where processes wait for one another; that one of them is gone is said as such."""
    try:
        yield
    except RuntimeError as problem:  # what the backends raise when a connection ends
        raise Lost("another process of this training is gone (killed, or out of memory): it cannot go on") from problem


@dataclass(frozen=True)
class ProcessGroup:
    """Which of how many processes this is."""

    rank: int = 0
    size: int = 1

    @classmethod
    def join(cls, device: torch.device) -> ProcessGroup:
        """Join the processes that `torchrun` started, or be alone."""
        if int(os.environ.get("WORLD_SIZE", "1")) < 2:
            return cls()
        if not dist.is_initialized():
            with _together():
                dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
        return cls(dist.get_rank(), dist.get_world_size())

    @property
    def first(self) -> bool:
        """Whether this process speaks and writes for all."""
        return self.rank == 0

    def total(self, value: float | int) -> float:
        """The sum of a number over all processes."""
        if self.size == 1:
            return value
        tensor = torch.tensor(float(value), dtype=torch.float64)
        tensor = tensor.cuda() if dist.get_backend() == "nccl" else tensor
        with _together():
            dist.all_reduce(tensor)
            return float(tensor)

    def sum_gradients(self, parameters: Iterable[Tensor]) -> None:
        """Add up every process's gradients, in one message a data type."""
        if self.size == 1:
            return
        by_type: dict[torch.dtype, list[Tensor]] = {}
        for parameter in parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            by_type.setdefault(parameter.grad.dtype, []).append(parameter.grad)
        for gradients in by_type.values():
            flat = torch.cat([gradient.flatten() for gradient in gradients])
            with _together():
                dist.all_reduce(flat)
            for gradient, part in zip(gradients, flat.split([g.numel() for g in gradients]), strict=True):
                gradient.copy_(part.view_as(gradient))

    def from_first(self, make: Callable[[], Shared]) -> Shared:
        """What the first process makes, in all of them; what it cannot make, none of them can."""
        if self.size == 1:
            return make()
        box: list[Any] = [None]
        if self.first:
            try:
                box = [make()]
            except RegardError as problem:
                box = [problem]
        with _together():
            dist.broadcast_object_list(box)
        if isinstance(box[0], RegardError):
            raise box[0]
        shared: Shared = box[0]
        return shared

    def wait(self) -> None:
        """Wait until all processes are here."""
        if self.size > 1:
            with _together():
                dist.barrier()

    def leave(self) -> None:
        """Take leave of the others."""
        if self.size > 1 and dist.is_initialized():
            dist.destroy_process_group()
