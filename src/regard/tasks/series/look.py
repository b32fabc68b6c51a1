"""What a forecaster looked at: the record of its attention over time, with the numbers it saw and said.

seen = model.look("prices.csv")
seen.weights["self"]        (L, H, P, P) between patches, or (L, H, S, S) between steps
seen.plot("seen.png")       history, forecast, quantile band, and how much each step was looked at
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from regard.errors import UsageError
from regard.inspection.record import Look, MapKind

Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Told:
    """One target: its past (S,) where it is known, its forecast (T,), the band (T, 2) if any, and the steps' names.

    `spans` (S', 2) are the first and the last step (exclusive) that each place of the past's axis stands for. `begin`
    is the step the forecast begins at: S, or before it where it is told of steps at which others are known. Where the
    target's own past is not known, `read` (S, C) is what was, brought to its scale. `linear` (S,) is the share of each
    step in the linear model that the forecast begins with, if it does.
    """

    name: str
    past: Numbers
    forecast: Numbers
    band: Numbers | None
    times: list[str]
    spans: NDArray[np.int64]
    begin: int
    read: Numbers | None = None
    linear: Numbers | None = None


@dataclass(frozen=True, eq=False)
class SeriesLook(Look):
    """A record whose picture is one of a series."""

    told: Told | None = None

    def looked_at(self, *, kind: MapKind | None = None, layer: int | None = None) -> Numbers:
        """How much each step of the past was looked at, (S,): the mean over heads and over who asked; sums to 1."""
        if self.told is None:
            raise UsageError("this record was read from a file, and does not hold the series")
        found = self.of(kind)
        weights = found.weights.mean((0, 1, 2)) if layer is None else found.of_layer(layer).mean((0, 1))
        steps = np.zeros(int(self.told.spans.max()))
        for weight, (begin, end) in zip(weights.astype(np.float64), self.told.spans, strict=True):
            steps[begin:end] += weight / (end - begin)
        total: Numbers = steps / steps.sum()
        return total

    def own_picture(self, path: Path, *, layer: int | None, kind: MapKind | None, dark: bool) -> Path | None:
        """Draw the series and what was looked at."""
        if self.told is None or kind == "masked":
            return None
        from regard.tasks.series.plot import draw_series

        return draw_series(self.told, path, looked_at=self.looked_at(kind=kind, layer=layer), title=self.title)
