"""Greedy decoding on a GPU: the same paths, each step one CUDA graph, the choice of its token included.

It stands in for `Paths` where the stepper can write by itself, and nothing is filtered but what may never come and a
minimum length.
"""

from __future__ import annotations

from regard.decoding.paths import Paths
from regard.decoding.plan import Plan
from regard.fast.gpu.graph_stepper import GraphStepper


class FusedPaths(Paths):
    """The paths that `paths` describes; what they hold lies with the stepper until they leave the batch."""

    def __init__(self, stepper: GraphStepper, plan: Plan) -> None:
        super().__init__(stepper, plan)
        self._graphs = stepper
        self._begin()

    @staticmethod
    def suits(plan: Plan) -> bool:
        """Whether captured greedy steps do all that is asked."""
        options = plan.options
        plain = options.strategy == "greedy" and options.n_samples == 1 and plan.prefixes is None
        return plain and not options.no_repeat_ngram and plan.device.type == "cuda"

    def advance(self) -> None:
        """Add a token to every path that is not done."""
        self._graphs.greedy_step(self._state)
        self.step += 1

    def is_over(self) -> bool:
        """Whether every path is done; on the way, let finished ones leave the batch when it is time."""
        if self.plan.sync.is_due(self.step - 1) or self.step >= self.plan.n_steps:
            self._look()
            n = len(self.paths)
            if super().is_over():
                return True
            if len(self.paths) < n:
                self._begin()
        return False

    def _begin(self) -> None:
        plan, self._begun = self.plan, self.step
        self._state = self._graphs.begin_greedy(
            self.tokens,
            self.limits,
            marks=plan.marks,
            step=self.step,
            min_length=plan.options.min_length,
        )

    def _look(self) -> None:
        """Bring over what was written since the last look."""
        state, n, new = self._state, len(self.paths), slice(self._begun, self.step)
        self.chosen[new, self.paths] = state.chosen[new, :n]
        self.log_probs[new, self.paths] = state.log_probs[new, :n]
        self.done, self.tokens, self._begun = state.done[:n], state.tokens[:n], self.step
