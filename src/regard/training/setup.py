"""What `train` asks of a job, and what it tells the job about the place it runs in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import torch
from torch import nn

from regard.checkpoints.run import RunFolder
from regard.checkpoints.spec import ModelSpec
from regard.config.recipe import Recipe
from regard.training.distributed import ProcessGroup
from regard.training.protocol import Trainable

Say = Callable[[str], None]
Made = TypeVar("Made")


@dataclass(frozen=True)
class RunContext:
    """Where a job runs: its folder, where recipes find data, the device, the other processes, and who listens."""

    run: RunFolder
    data_root: Path | None
    device: torch.device
    group: ProcessGroup
    say: Say

    def first(self, prepare: Callable[[Say], Made]) -> Made:
        """Let the first process prepare data under the run folder and say so; the others then find it ready."""
        if not self.group.first:
            self.group.wait()
            return prepare(lambda _: None)
        made = prepare(self.say)
        self.group.wait()
        return made


class TaskSetup(Protocol):
    """A task's data and a model for it."""

    @property
    def task(self) -> Trainable:
        """What is trained."""
        ...

    @property
    def model(self) -> nn.Module:
        """The model, untrained."""
        ...

    @property
    def described(self) -> ModelSpec:
        """What the model is, with all its options: what a run keeps of it beside the weights."""
        ...

    def introduction(self) -> str:
        """What is going to be trained on what, in one line."""
        ...

    def facts(self) -> dict[str, Any]:
        """What run.json should know about the data."""
        ...

    def measure(self, say: Say) -> dict[str, dict[str, Any]]:
        """Figures of the trained model: test set → metric → its value and how it was computed."""
        ...


Begin = Callable[[Recipe, RunContext], TaskSetup]
