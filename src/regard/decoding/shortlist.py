"""Choosing among some tokens only, known for each row before it begins (Jean et al., 2015; Marian's shortlists).

    shortlist = Shortlist.of([[2, 7, 9], [2, 5]])        tokens that row 0 may write, and those that row 1 may
    stepper = restricted(stepper, shortlist)             logits (N, V) of all others are −inf

A stepper that can leave out what no row may write offers `restrict(columns, allowed) -> bool`, and says whether it
does. For others `ShortlistStepper` hides what they compute: the readable twin, by which a token's logit is what it is
without. Either way a row's tokens are its own, whatever rows stand beside it, and its probabilities sum to one over
them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from regard.decoding.stepper import Stepper
from regard.errors import UsageError


@dataclass(frozen=True, eq=False)
class Shortlist:
    """Tokens `columns` (U,), ascending, that some row may write, and which of them each row may: `allowed` (B, U)."""

    columns: Tensor
    allowed: Tensor

    @classmethod
    def of(cls, rows: Sequence[Sequence[int] | npt.NDArray[Any]]) -> Shortlist:
        """Of the tokens of each row, in any order, each once or more often."""
        if not all(map(len, rows)):
            raise UsageError("a row of the shortlist has no tokens; allowed is 1 or more")
        tokens = np.concatenate(rows)
        allowed = np.zeros((len(rows), int(tokens.max()) + 1), np.bool_)
        allowed[np.repeat(np.arange(len(rows)), [len(row) for row in rows]), tokens] = True
        columns = np.flatnonzero(allowed.any(0))
        return cls(torch.from_numpy(columns), torch.from_numpy(allowed[:, columns]))


def restricted(stepper: Stepper, shortlist: Shortlist) -> Stepper:
    """A stepper that was started on the rows of a shortlist, and gives others than their tokens no chance."""
    restrict: Callable[[Tensor, Tensor], bool] | None = getattr(stepper, "restrict", None)
    if restrict is not None and restrict(shortlist.columns, shortlist.allowed):
        return stepper
    return ShortlistStepper(stepper, shortlist)


class ShortlistStepper:
    """A stepper whose logits are −inf outside the shortlist of each row."""

    def __init__(self, stepper: Stepper, shortlist: Shortlist) -> None:
        self.stepper, self.columns = stepper, shortlist.columns.to(stepper.device)
        self.allowed = shortlist.allowed.to(stepper.device)  # (N, U), row by row
        self._hidden: Tensor | None = None

    @property
    def device(self) -> torch.device:
        """The stepper's own."""
        return self.stepper.device

    def step(self, tokens: Tensor) -> Tensor:
        """The logits of the next tokens (N, V)."""
        logits = self.stepper.step(tokens)
        if self._hidden is None:
            self._hidden = torch.ones_like(logits, dtype=torch.bool)
            self._hidden[:, self.columns] = ~self.allowed
        return logits.masked_fill(self._hidden, -math.inf)

    def select(self, rows: Tensor, *, same_source: bool) -> None:
        """Go on with other rows; those that keep their source keep its tokens."""
        self.stepper.select(rows, same_source=same_source)
        if not same_source:
            self.allowed, self._hidden = self.allowed.index_select(0, rows), None

    def attention(self) -> Tensor | None:
        """What the stepper offers."""
        offer = getattr(self.stepper, "attention", None)
        weights: Tensor | None = offer() if callable(offer) else None
        return weights
