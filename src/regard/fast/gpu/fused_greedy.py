"""Greedy decoding on a GPU: the same paths, each step one CUDA graph, the choice of its token included.

It stands in for `Paths` where the stepper can write by itself, and nothing is filtered but what may never come and a
minimum length.
"""

from __future__ import annotations

from regard.decoding.paths import Paths
from regard.decoding.plan import Plan
from regard.fast.gpu.graph_stepper import GraphStepper
from regard.fast.gpu.lookback import Lookback, always_looking


class FusedPaths(Paths):
    """The paths that `paths` describes; what they hold lies with the stepper until they leave the batch."""

    def __init__(self, stepper: GraphStepper, plan: Plan) -> None:
        super().__init__(stepper, always_looking(plan))
        self._graphs, self._sync = stepper, plan.sync
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
        if self.step < self.plan.n_steps and not self._lookback.is_to_look(self.done, step=self.step):
            return False
        self._bring_over()
        n = len(self.paths)
        if super().is_over():
            return True
        if len(self.paths) < n:
            self._begin()
        return False

    def _begin(self) -> None:
        plan, self._begun, self._lookback = self.plan, self.step, Lookback(self._sync)
        self._state = self._graphs.begin_greedy(
            self.tokens,
            self.limits,
            marks=plan.marks,
            step=self.step,
            min_length=plan.options.min_length,
        )
        self.done = self._state.done[: len(self.paths)]

    def _bring_over(self) -> None:
        """Take what was written since the last time to the tables of all paths."""
        state, n, new = self._state, len(self.paths), slice(self._begun, self.step)
        self.chosen[new, self.paths] = state.chosen[new, :n]
        self.log_probs[new, self.paths] = state.log_probs[new, :n]
        self.tokens, self._begun = state.tokens[:n], self.step
