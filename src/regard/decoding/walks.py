"""Greedy decoding of one row, with nothing to forbid, whose steps somebody else makes.

    walk = Walk.of(stepper, plan)           None where the plan asks for more than that
    while not walk.over:
        walk.go(token, log_prob)            what a step for many rows came to for this one
    walk.hypothesis()                       what `Paths` would have come to

So simple a path needs no tensors of its own: whoever steps for many chooses the tokens of all at once
(`regard.decoding.joint`). A stepper that is run by somebody offers `walk(walk)`, which gives it back when it is over.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from regard.decoding.paths import path_hypothesis
from regard.decoding.plan import Plan
from regard.decoding.ranking import Hypothesis
from regard.decoding.stepper import Stepper, log_probs_of, top_1
from regard.errors import UsageError


@dataclass(eq=False)
class Walk:
    """A path under way: its last token, and what was chosen so far."""

    stepper: Stepper
    plan: Plan
    token: int
    limit: int
    tokens: list[int] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)
    over: bool = False
    problem: Exception | None = None

    @classmethod
    def of(cls, stepper: Stepper, plan: Plan) -> Walk | None:
        """The path of a plan for one row, if it is greedy and nothing is forbidden or forced."""
        options = plan.options
        free = not (options.min_length or options.no_repeat_ngram or options.banned or plan.prefixes)
        if plan.n_rows != 1 or options.strategy != "greedy" or not free:
            return None
        return cls(stepper, plan, plan.start_ids[0], plan.row_limits[0])

    def check_vocabulary(self, n_tokens: int) -> Exception | None:
        """What is wrong with the plan, seen at the first step."""
        try:
            if not self.tokens:
                self.plan.check_vocabulary(n_tokens)
        except UsageError as problem:
            return problem
        return None

    def go(self, token: int, log_prob: float) -> None:
        """Add a token."""
        self.tokens.append(token)
        self.log_probs.append(log_prob)
        self.token = token
        self.over = token == self.plan.eos_id or len(self.tokens) >= self.limit

    def fail(self, problem: Exception) -> None:
        """End it for a reason."""
        self.problem, self.over = problem, True

    def hypothesis(self) -> Hypothesis:
        """What it came to."""
        return path_hypothesis(self.plan, self.tokens, self.log_probs)


def likeliest_tokens(logits: Tensor) -> tuple[list[int], list[float]]:
    """The likeliest token of each row (N, V), and its log-probability."""
    chosen = top_1(logits)
    return chosen.tolist(), log_probs_of(logits, chosen[:, None])[:, 0].tolist()
