"""What a run is going to do, by its data: how many steps, how often it looks at itself, and how long that will take.

    3,000 pairs → transformer tiny, 1.9M parameters, up to 6,000 steps, about 7 min on this CPU; stops when BLEU no
    longer rises

A task makes the `Plan`: from its data and the kind of device, so that the same data gives the same run on any day. What
the clock says goes into the announcement alone, and into the number of steps where somebody has only so many minutes.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from itertools import count
from statistics import median
from typing import Any, TypeVar

from torch import nn

from regard.config.training import TrainConfig
from regard.training.distributed import ProcessGroup
from regard.training.protocol import Trainable
from regard.training.setup import RunContext
from regard.training.trainer import Trainer

Train = TypeVar("Train", bound=TrainConfig)
_WARM, _FEWEST, _SECONDS = 2, 3, 3.0  # steps that are not counted, and that are at least; seconds of measuring
RESERVE = 0.9  # share of a budget that is planned with: what follows training, and a machine that gets busier


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What suits some data.

    data            what it is, in a few words: "3,000 pairs"
    steps           how many at most; 0 where a task has a loop of its own, and passes are among the settings
    evaluations     how many of them, evenly spaced; `patience` of them without a better score end the run
    warmup          steps of rising rate, a tenth of all at most
    cost            what an evaluation takes, as a number of steps
    settings        everything else, by section
    """

    data: str
    steps: int = 0
    evaluations: int = 20
    patience: int = 5
    warmup: int = 400
    cost: float = 1.0
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def course(self, steps: int) -> dict[str, int]:
        """The settings that follow from a number of steps."""
        every = max(1, -(-steps // self.evaluations))
        return {
            "warmup": max(1, min(self.warmup, steps // 10)),
            "eval_every": every,
            "save_every": every,
            "log_every": max(1, min(50, steps // 20)),
            "patience": self.patience,
        }

    def table(self, given: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        """All that is planned, section by section, where the `[train]` section that somebody gave may say how long."""
        steps = given.get("steps", self.steps)
        course = {} if given.get("epochs") or not self.steps else {"steps": steps} | self.course(steps)
        sections = {name: dict(options) for name, options in self.settings.items()}
        return sections | {"train": course | sections.get("train", {})}


@dataclass(frozen=True)
class Pace:
    """How quick a run is: seconds a step, and what an evaluation costs in steps."""

    seconds: float
    cost: float = 1.0

    def duration(self, config: TrainConfig) -> float:
        """Seconds that a training takes if nothing ends it early, with one evaluation more for the end."""
        return self.seconds * (config.steps + self.cost * (config.steps // config.eval_every + 1))

    def evaluations_in(self, seconds: float, *, most: int) -> int:
        """How many evaluations are worth a quarter of a budget; a few are needed whatever they cost."""
        return max(min(3, most), min(most, int(0.25 * seconds / self.seconds / max(self.cost, 1e-9))))

    def steps_in(self, seconds: float, *, evaluations: int) -> int:
        """How many steps fit into a budget beside the evaluations."""
        return max(1, int(RESERVE * seconds / self.seconds - self.cost * (evaluations + 1)))


def measure_pace(task: Trainable, model: nn.Module, config: TrainConfig, context: RunContext, *, cost: float) -> Pace:
    """Take a few steps with a copy of the model, and forget them."""
    trainer = Trainer(task, deepcopy(model), replace(config, compile="off"), replace(context, group=ProcessGroup()))
    timed: list[float] = []
    with trainer.rehearsal() as step:
        began = time.monotonic()
        for number in count():
            start = time.monotonic()
            step()
            timed += [time.monotonic() - start] if number >= _WARM else []
            late = time.monotonic() - began > _SECONDS
            if len(timed) >= 4 * _FEWEST or (late and len(timed) >= _FEWEST):
                return Pace(median(timed) / context.group.size, cost)
    raise AssertionError  # the loop ends by returning


def shortened(config: Train, plan: Plan, steps: int, given: Mapping[str, Any]) -> Train:
    """The same with so many steps, and what follows from them unless somebody `given` it."""
    course: dict[str, Any] = {name: value for name, value in plan.course(steps).items() if name not in given}
    return replace(config, steps=steps, **course)


def within(least: float, value: float, most: float) -> float:
    """The value, or the bound that it is beyond."""
    return max(least, min(value, most))
