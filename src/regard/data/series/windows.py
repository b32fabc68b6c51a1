"""Windows of a series: what is known up to a moment, and what comes after it.

    rows      … past past past past | future future future …
                     ├── context S ──┤├── horizon T ──┤

A window is named by the row its future begins at. A part of a series (training, validation, test) holds the windows
whose whole future lies in it; their past may reach back before it, as the literature has it. With a `lead` what is
known of the inputs reaches so many steps into the future: by T, one series is told from others at the same time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]
Numbers = NDArray[np.float32]


class Cut(NamedTuple):
    """Windows as arrays: past (B, S, C) and future (B, T, K) with their marks (B, S, M), (B, T, M)."""

    past: Numbers
    past_marks: Numbers
    future: Numbers
    future_marks: Numbers


@dataclass(frozen=True, eq=False)
class Windows:
    """All windows of one part. `values` (n, C) are scaled: the inputs first; `targets` are their columns' places.

    `held` windows before the first were not trained on either; None where nothing is known of them.
    """

    values: Numbers
    marks: Numbers
    places: Rows
    context: int
    horizon: int
    n_inputs: int
    targets: tuple[int, ...]
    lead: int = 0
    held: int | None = None

    def __len__(self) -> int:
        return len(self.places)

    def preceding(self) -> Windows:
        """The windows before the first that were not trained on."""
        first = int(self.places[0]) if len(self) else 0
        return replace(self, places=np.arange(first - (self.held or 0), first, dtype=np.int64))

    def cut(self, indices: Rows) -> Cut:
        """The windows of these numbers."""
        begins = self.places[indices][:, None]
        past, future = begins + self.lead + np.arange(-self.context, 0), begins + np.arange(self.horizon)
        known = self.values[past]
        return Cut(
            known[:, :, : self.n_inputs],
            self.marks[past],
            self.values[future][:, :, list(self.targets)],
            self.marks[future],
        )

    def known(self, indices: Rows, steps: int) -> Numbers:
        """The last `steps` values of the targets themselves before the future, (B, steps, K): for naive forecasts."""
        rows = self.places[indices][:, None] + np.arange(-steps, 0)
        known: Numbers = self.values[rows][:, :, list(self.targets)]
        return known


def places_in(begin: int, end: int, *, before: int, horizon: int) -> Rows:
    """Where the futures of a part's windows begin: all of it within [begin, end), with so many rows before it."""
    first = max(begin, before)
    return np.arange(first, max(first, end - horizon + 1), dtype=np.int64)
