"""What labels there are: a closed list of classes, or numbers on a scale. Kept in a run as `labels.json`.

    space = LabelSpace.of(examples)              classes, in order; whole numbers by size
    space = LabelSpace.of(examples, numbers=True)    numbers, with the mean and the scale that training sees them on
    space.encode("positive"), space.decode(1)    to what a model learns and back

Numbers are centred and scaled, so that a new head starts near them whatever their unit is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

import numpy as np

from regard.data.io.atomic import read_facts, write_whole
from regard.data.text.labelled import Example, is_number
from regard.errors import DataError

FILE = "labels.json"
_MANY = 200


@dataclass(frozen=True)
class LabelSpace:
    """The classes' `names` in order, or none for numbers, which are `mean + scale · output`."""

    names: tuple[str, ...] = ()
    mean: float = 0.0
    scale: float = 1.0

    @property
    def numeric(self) -> bool:
        """Whether labels are numbers."""
        return not self.names

    @property
    def n_outputs(self) -> int:
        """How many outputs a head needs."""
        return len(self.names) or 1

    @classmethod
    def of(cls, examples: Iterable[Example], *, numbers: bool = False) -> Self:
        """The labels of training examples."""
        labels = [example.label for example in examples]
        if numbers:
            values = np.array([float(label) for label in labels])
            if values.std() == 0:
                raise DataError(f"all {len(values):,} labels are {values[0]:g}: there is nothing to learn")
            return cls((), float(values.mean()), float(values.std()))
        names = sorted(set(labels), key=_rank)
        if len(names) < 2:
            raise DataError(f"there is one label only, {names[0]!r}: there is nothing to tell apart")
        if len(names) > _MANY and all(is_number(name) for name in names):
            raise DataError(
                f"there are {len(names):,} different labels, all of them numbers",
                hint='if they are measurements rather than classes, say data.labels="numbers"',
            )
        return cls(tuple(names))

    def encode(self, label: str) -> float:
        """A label as a model learns it: the number of its class, or a number on the learnt scale."""
        return (float(label) - self.mean) / self.scale if self.numeric else self.names.index(label)

    def decode(self, output: float) -> str | float:
        """The class of that number, or the number that an output stands for."""
        return self.mean + self.scale * float(output) if self.numeric else self.names[int(output)]

    def save(self, folder: Path) -> None:
        """Write `labels.json`, whole or not at all."""
        write_whole(folder / FILE, asdict(self))

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read what `save` wrote."""
        return read_facts(
            folder / FILE,
            lambda facts: cls(tuple(map(str, facts["names"])), float(facts["mean"]), float(facts["scale"])),
            what="not a list of labels",
            hint="a run that labels keeps its labels",
        )


def _rank(label: str) -> tuple[bool, float, str]:
    """Numbers by size, then everything else by its letters."""
    return (True, 0.0, label) if not is_number(label) else (False, float(label), label)
