"""Greedy decoding on a GPU: the same paths, each step one piece of recorded work, the choice of its token included.

It stands in for `Paths` where the stepper can write by itself, and nothing is filtered but a minimum length.
"""

from __future__ import annotations

from typing import cast

from regard.decoding.paths import Paths
from regard.decoding.plan import Plan
from regard.decoding.ranking import Hypothesis
from regard.decoding.stepper import Stepper, WritingStepper


class FusedPaths(Paths):
    """The paths that `paths` describes; what they hold lies with the stepper until they leave the batch."""

    def __init__(self, stepper: WritingStepper, plan: Plan) -> None:
        super().__init__(stepper, plan)
        self._writer = stepper
        self._begin()

    @staticmethod
    def suits(stepper: Stepper, plan: Plan) -> bool:
        """Whether the stepper does all that is asked."""
        options = plan.options
        plain = options.strategy == "greedy" and options.n_samples == 1 and plan.prefixes is None
        filtered = options.banned or options.no_repeat_ngram
        return plain and not filtered and hasattr(stepper, "write") and plan.device.type == "cuda"

    def advance(self) -> None:
        """Add a token to every path that is not done."""
        self._writer.follow(self._books)
        self.step += 1

    def is_over(self) -> bool:
        """Whether every path is done; on the way, let finished ones leave the batch when it is time."""
        if self.plan.pace.is_due(self.step - 1) or self.step >= self.plan.n_steps:
            self._look()
            n = len(self.paths)
            if super().is_over():
                return True
            if len(self.paths) < n:
                self._begin()
        return False

    def _begin(self) -> None:
        plan, self._begun = self.plan, self.step
        self._books = self._writer.write(
            self.tokens,
            self.limits,
            eos_id=plan.eos_id,
            pad_id=plan.pad_id,
            step=self.step,
            min_length=plan.options.min_length,
        )

    def _look(self) -> None:
        """Bring over what was written since the last look."""
        books, n, new = self._books, len(self.paths), slice(self._begun, self.step)
        self.chosen[new, self.paths] = books.chosen[new, :n]
        self.log_probs[new, self.paths] = books.log_probs[new, :n]
        self.done, self.tokens, self._begun = books.done[:n], books.tokens[:n], self.step


def follow(stepper: Stepper, plan: Plan) -> list[list[Hypothesis]]:
    """Decode one path, or `n_samples` of them, for every row."""
    suits = FusedPaths.suits(stepper, plan)
    paths = FusedPaths(cast(WritingStepper, stepper), plan) if suits else Paths(stepper, plan)
    paths.advance()
    while not paths.is_over():
        paths.advance()
    return paths.hypotheses()
