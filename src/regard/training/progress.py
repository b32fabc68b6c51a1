"""How far a run is, and what has come together since its last report."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

import torch

from regard.data.batching.plan import Position
from regard.training.protocol import Batch, Losses


@dataclass
class Progress:
    """How far a run is, besides its tensors."""

    step: int = 0
    position: Position = field(default_factory=Position)
    tokens: int = 0
    best: dict[int, float] = field(default_factory=dict)  # step → score of the checkpoints kept as best
    since_best: int = 0
    seconds: float = 0.0
    done: bool = False
    examples: int = 0  # a digest of all that was learnt from, in its order: the same for any number of processes
    unreported: list[float] = field(default_factory=lambda: [0.0] * 4)  # loss, nll, tokens, seconds since a report

    def saw(self, batches: Iterable[Batch]) -> None:
        """Add this process's share of some batches to the digest of what was learnt from."""
        own = [getattr(batch, "examples", None) for batch in batches]
        self.examples = (self.examples + sum(one.digest() for one in own if one is not None)) % 2**64

    def examples_of_all(self, total: Callable[[int], float]) -> int:
        """The digest over all processes; `total` adds up numbers that are exact up to 2⁵³."""
        high, low = divmod(self.examples, 2**32)
        return (int(total(high)) * 2**32 + int(total(low))) % 2**64

    def facts(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self) | {"best": {str(step): score for step, score in self.best.items()}}

    @classmethod
    def of(cls, facts: dict[str, Any]) -> Progress:
        """From JSON."""
        best = {int(step): score for step, score in facts["best"].items()}
        return cls(**(facts | {"position": Position(**facts["position"]), "best": best}))


@dataclass
class Window:
    """What has come together since the last report; losses stay on the device until they are told or saved."""

    began: float
    sums: list[float] = field(default_factory=lambda: [0.0] * 3)
    losses: list[Losses] = field(default_factory=list)
    rate: float = 0.0

    def add(self, losses: Losses) -> None:
        """Take in what a batch lost; a copy, since a recorded pass writes its results to the same place each time."""
        self.losses.append(Losses(*(figure.detach().clone() for figure in losses)))

    def total(self) -> list[float]:
        """Loss, nll and tokens; added one by one, so that a checkpoint in between changes no bit of a sum."""
        columns = [torch.stack(values).tolist() for values in zip(*self.losses, strict=True)]
        for figures in zip(*columns, strict=True):
            self.sums = [before + figure for before, figure in zip(self.sums, figures, strict=True)]
        self.losses = []
        return self.sums
