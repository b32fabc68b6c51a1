"""Windows of a series: what is known up to a moment, and what comes after it.

    rows      … past past past past | future future future …
                     ├── context S ──┤├── horizon T ──┤

A window is named by the row its future begins at. A part of a series (training, validation, test) holds the windows
whose whole future lies in it; their past may reach back before it, as the literature has it. With a `lead` what is
known of the inputs reaches so many steps into the future: by T, one series is told from others at the same time.

Features of dates and of columns beside the others, `marks`, are known of the future as well, but for those that are
`hidden`: these are 0 there. Several series may stand one below the other; then each row has an owner and a time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

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

    `held` windows before the first were not trained on either; None where nothing is known of them. The last
    `n_covariates` marks are columns beside the others. Of several series, `owners` (n,) and `times` (n,) are those of
    each row, `series` the names of the owners, and `earlier` the windows that were held, by place.
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
    n_covariates: int = 0
    hidden: tuple[int, ...] = ()
    owners: Rows | None = None
    times: Rows | None = None
    series: tuple[str, ...] = ()
    earlier: Rows | None = None

    def __len__(self) -> int:
        return len(self.places)

    def preceding(self) -> Windows:
        """The windows before the first that were not trained on."""
        if self.earlier is not None:
            return replace(self, places=self.earlier, earlier=None)
        first = int(self.places[0]) if len(self) else 0
        return replace(self, places=np.arange(first - (self.held or 0), first, dtype=np.int64))

    def cut(self, indices: Rows) -> Cut:
        """The windows of these numbers."""
        begins = self.places[indices][:, None]
        past, future = begins + self.lead + np.arange(-self.context, 0), begins + np.arange(self.horizon)
        known, ahead = self.values[past], self.marks[future]
        ahead[:, :, list(self.hidden)] = 0
        return Cut(
            known[:, :, : self.n_inputs],
            self.marks[past],
            self.values[future][:, :, list(self.targets)],
            ahead,
        )

    @property
    def covariates(self) -> Numbers:
        """The features of the columns beside the others, (n, F)."""
        return self.marks[:, self.marks.shape[1] - self.n_covariates :]

    @property
    def span(self) -> tuple[Rows, Rows] | None:
        """When each window's future begins and ends, where series stand one below the other."""
        if self.times is None:
            return None
        return self.times[self.places], self.times[self.places + self.horizon - 1]

    def without(self, effects: NDArray[np.floating[Any]]) -> Windows:
        """The same with what the columns beside the others add to each target, (F, K), taken away."""
        values = self.values.copy()
        values[:, list(self.targets)] -= (self.covariates @ effects).astype(np.float32)
        return replace(self, values=values)

    def added(self, indices: Rows, effects: NDArray[np.floating[Any]]) -> Numbers:
        """What the columns beside the others add to the future of these windows, as far as is known, (B, T, K)."""
        ahead = self.cut(indices).future_marks
        added: Numbers = (ahead[:, :, ahead.shape[2] - self.n_covariates :] @ effects).astype(np.float32)
        return added

    def known(self, indices: Rows, steps: int) -> Numbers:
        """The last `steps` values of the targets themselves before the future, (B, steps, K): for naive forecasts."""
        rows = self.places[indices][:, None] + np.arange(-steps, 0)
        known: Numbers = self.values[rows][:, :, list(self.targets)]
        return known


def places_in(begin: int, end: int, *, before: int, horizon: int) -> Rows:
    """Where the futures of a part's windows begin: all of it within [begin, end), with so many rows before it."""
    first = max(begin, before)
    return np.arange(first, max(first, end - horizon + 1), dtype=np.int64)


def in_order(places: Rows, times: Rows) -> Rows:
    """Places in the order of time, those of one time in their own order."""
    ordered: Rows = places[np.argsort(times[places], kind="stable")]
    return ordered
