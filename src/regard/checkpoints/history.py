"""The course of a run, as metrics.jsonl tells it: figures by name, step by step.

history = read_history(RunFolder("runs/de").metrics)
history.training["loss"]        {50: 4.1, 100: 3.2, …}      what was reported while it trained
history.validation["bleu"]      {500: 21.4, …}              what an evaluation found
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from regard.config.bounded import parse_json, read_text
from regard.data.io.hashes import check_hashes
from regard.errors import CheckpointError

Course = Mapping[int, float]  # step → value, in the order of steps
_RATE = "lr"  # a report of training says its rate, an evaluation has none
_NO_FIGURES = ("step", "epoch")


@dataclass(frozen=True)
class History:
    """What was reported of a run: figures of training and of evaluations by name, and the last step of all."""

    training: Mapping[str, Course] = field(default_factory=dict)
    validation: Mapping[str, Course] = field(default_factory=dict)
    last_step: int = 0

    def __bool__(self) -> bool:
        return bool(self.training or self.validation)


def read_history(path: Path) -> History:
    """What a metrics.jsonl holds; nothing where there is no such file.

    A line that a kill cut short is left out, and so is a value that is no number. Of two reports of a step the later
    one counts.
    """
    check_hashes(path.parent, [path.name], hint="take it from a copy, or remove it: figures are missing then")
    try:
        lines = read_text(path).splitlines()
    except FileNotFoundError:
        return History()
    except (OSError, ValueError) as problem:
        raise CheckpointError(f"{path}: cannot be read ({problem})") from problem
    training: dict[str, dict[int, float]] = {}
    validation: dict[str, dict[int, float]] = {}
    last = 0
    for line in lines:
        said = _report(line)
        if said is None:
            continue
        last = max(last, said["step"])
        for name, value in said.items():
            if name not in _NO_FIGURES and _is_number(value):
                part = training if _RATE in said else validation
                part.setdefault(name, {})[said["step"]] = float(value)
    return History(_ordered(training), _ordered(validation), last)


def _report(line: str) -> dict[str, int] | None:
    try:
        said = parse_json(line)
    except ValueError:
        return None
    step = said.get("step") if isinstance(said, dict) else None
    return said if isinstance(step, int) and not isinstance(step, bool) and step >= 0 else None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _ordered(figures: Mapping[str, Mapping[int, float]]) -> dict[str, dict[int, float]]:
    return {name: dict(sorted(course.items())) for name, course in figures.items()}
