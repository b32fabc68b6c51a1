"""Paths whose tokens are chosen where the model is, several at a time: as `paths`, for a stepper that writes by itself.

Whoever runs the decoding hands over what was written since it was last looked at. All of it is plain numbers by then.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from regard.decoding.joint import WritingStepper, Written
from regard.decoding.paths import path_hypotheses
from regard.decoding.plan import Plan
from regard.decoding.ranking import Hypothesis


class WrittenPaths:
    """One path a sample, `n_samples` for each row of the plan; `written` waits for what comes next."""

    def __init__(self, stepper: WritingStepper, plan: Plan, written: Callable[[], list[Written]]) -> None:
        self.plan, self._written, self._close = plan, written, stepper.close
        n_each, n_paths = plan.options.n_samples, plan.n_rows * plan.options.n_samples
        if n_each > 1:
            stepper.select(torch.arange(n_paths) // n_each, same_source=False)
        self._tokens: list[list[int]] = [[] for _ in range(n_paths)]
        self._log_probs: list[list[float]] = [[] for _ in range(n_paths)]
        self._limits = [limit for limit in plan.row_limits for _ in range(n_each)]
        self._latest: list[Written] = []
        stepper.begin_writing(plan)

    def advance(self) -> None:
        """Take over what has come."""
        self._latest = self._written()
        for tokens, log_probs, new in zip(self._tokens, self._log_probs, self._latest, strict=True):
            tokens += new.tokens
            log_probs += new.log_probs

    def is_over(self) -> bool:
        """Whether every path has its end mark, or has come to its limit."""
        over = all(map(self._ended, self._tokens, self._limits))
        if over:
            self._close()
        return over

    def latest(self) -> list[int]:
        """The tokens that the first path got last, an end mark included."""
        return self._latest[0].tokens

    def hypotheses(self) -> list[list[Hypothesis]]:
        """What each row came to, its samples in the order they were drawn."""
        return path_hypotheses(self.plan, self._tokens, self._log_probs)

    def _ended(self, tokens: list[int], limit: int) -> bool:
        return len(tokens) >= limit or (bool(tokens) and tokens[-1] == self.plan.eos_id)
