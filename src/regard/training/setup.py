"""What a run trains, and where it does so: a task's data and a model for it; the folder, device and other processes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import nn

from regard.checkpoints.lock import gone, locked
from regard.checkpoints.run import RunFolder
from regard.checkpoints.spec import ModelSpec
from regard.config.devices import choose_device
from regard.config.recipe import Recipe
from regard.errors import RegardError
from regard.models.flops import count_parameters
from regard.training.distributed import ProcessGroup, is_elastic
from regard.training.liveness import end_process
from regard.training.protocol import Trainable

Say = Callable[[str], None]
Made = TypeVar("Made")
CPU, ALONE = torch.device("cpu"), ProcessGroup()


@dataclass(frozen=True)
class RunContext:
    """Where a run takes place: its folder, where recipes find data, the device, the other processes, who listens."""

    run: RunFolder
    data_root: Path | None = None
    device: torch.device = CPU
    group: ProcessGroup = ALONE
    say: Say = lambda _: None

    @classmethod
    def join(
        cls,
        run: RunFolder,
        *,
        device: str,
        data_root: Path | None = None,
        say: Say = lambda _: None,
        on_lost: Callable[[], None] = end_process,
    ) -> RunContext:
        """On the device of that name, with the processes that `torchrun` started: the one place that chooses them."""
        chosen = choose_device(device)
        return cls(run, data_root, chosen, ProcessGroup.join(chosen, on_lost=on_lost), say)

    @property
    def data(self) -> Path:
        """Where a run keeps what it makes of its data."""
        return self.run.path / "data"

    def first(self, prepare: Callable[[Say], Made]) -> Made:
        """Let the first process prepare data under the run folder and say so; the others then find it ready."""
        if not self.group.first:
            self.group.wait()
            return prepare(lambda _: None)
        made = prepare(self.say)
        self.group.wait()
        return made

    def keep(self, save: Callable[[Path], None]) -> None:
        """Let the first process write something beside the weights."""
        if self.group.first:
            self.run.make_sure()
            save(self.run.path)


@contextmanager
def holding(context: RunContext) -> Iterator[None]:
    """Hold the lock of a run's folder, cleared of what kills left half made; if it vanishes, that is said."""
    run = context.run
    with ExitStack() as stack:

        def begin() -> None:
            run.lock = stack.enter_context(locked(run.path, patient=is_elastic()))
            run.clear_drafts()

        context.group.from_first(begin)
        try:
            yield
        except (OSError, RegardError) as problem:
            if run.lock is not None and not run.lock.is_held():
                raise gone(run.path) from problem
            raise
        finally:
            run.lock = None


class TaskSetup(ABC):
    """A task's data and a model for it, made of a recipe: what is trained, and what a run says of it.

    `model` is untrained; `spec` is what it is, with all its options: what a run keeps of it beside the weights.
    """

    task: Trainable
    model: nn.Module
    spec: ModelSpec
    files: Any  # what knows the fingerprints of the data

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe

    @property
    def title(self) -> str:
        """What the model is called in the introduction."""
        return str(self.recipe.model["name"])

    def introduction(self) -> str:
        """What is going to be trained on what, in one line."""
        return f"{self.title}: {count_parameters(self.model):,} parameters; {self.about()}"

    @abstractmethod
    def about(self) -> str:
        """What it is trained on, in a few words."""

    def remarks(self) -> Iterable[str | None]:
        """What a user should know of the data before training, a sentence each."""
        return ()

    @abstractmethod
    def counts(self) -> dict[str, Any]:
        """How much there is to learn from, for run.json."""

    def facts(self) -> dict[str, Any]:
        """What run.json should know about the data."""
        return self.counts() | {"fingerprints": self.files.fingerprints()}

    @abstractmethod
    def measure(self, say: Say) -> dict[str, dict[str, Any]]:
        """Figures of the trained model: test set → metric → its value and how it was computed."""


Begin = Callable[[Recipe, RunContext], TaskSetup]
