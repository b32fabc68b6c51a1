"""What an exhibit is: an idea that can be run, and what running it finds.

    finding = exhibit.run(Scale())              the whole of it, under a minute on two cores
    finding = exhibit.run(Scale(small=True))    the same claim in a second or two, for tests
    finding.figures, finding.text, finding.draw("seen.png")

The same scale gives the same figures, but for those that are times.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import torch

from regard.config.process import unchanged
from regard.inspection.plots.panels import Panel, draw_panels

T = TypeVar("T")


@dataclass(frozen=True)
class Scale:
    """How much of an exhibit to run, and from which random numbers."""

    small: bool = False
    seed: int = 0

    def of(self, full: T, small: T) -> T:
        """One thing for the whole exhibit, another for the small version."""
        return small if self.small else full


@dataclass(frozen=True)
class Finding:
    """What was measured, what it means in a few lines of Markdown, and the panels that show it."""

    figures: Mapping[str, float]
    text: str
    panels: Sequence[Panel]
    title: str
    columns: int = 2
    height: float = 3.7

    def draw(self, path: Path | str) -> Path:
        """Save the picture."""
        return draw_panels(self.panels, path, title=self.title, columns=self.columns, height=self.height)


@dataclass(frozen=True)
class Exhibit:
    """An idea of the lectures: its name, its title, what it claims in one sentence, and how to run it."""

    name: str
    title: str
    claim: str
    measure: Callable[[Scale], Finding]

    def run(self, scale: Scale) -> Finding:
        """Run it, and leave everybody's random numbers as they were."""
        with unchanged(torch.device("cpu")):
            return self.measure(scale)
