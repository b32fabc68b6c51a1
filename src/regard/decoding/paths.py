"""One path a row: greedy decoding and sampling, which differ only in how a token is chosen.

P paths are decoded, N of them still in the batch: at first all, later those that are not done. What they hold is
written to tables (steps, P) on the device, and read once at the end.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from regard.decoding.filters import Filters, Moment
from regard.decoding.plan import Plan
from regard.decoding.ranking import Hypothesis, Ranking, hypothesis
from regard.decoding.sampling import draw, stream_keys
from regard.decoding.stepper import Stepper, log_probs_of, next_logits, top_1

Chooser = Callable[[Tensor, Tensor, int], Tensor]  # logits (N, V), paths (N,), step → tokens (N,)

NOTHING = -1  # in a table: the path was over


def likeliest(logits: Tensor, paths: Tensor, step: int) -> Tensor:
    """Greedy: the token with the largest logit, the first of several."""
    return top_1(logits)


def drawn(plan: Plan) -> Chooser:
    """Sampling: a token drawn from the stream of its path."""
    streams = stream_keys(plan.keys, seed=plan.options.seed, n_samples=plan.options.n_samples)
    return lambda logits, paths, step: draw(logits, streams[paths], step=step)


class Paths:
    """Paths in flight, `n_samples` for each row of the plan."""

    def __init__(self, stepper: Stepper, plan: Plan) -> None:
        n_each = plan.options.n_samples
        self.stepper, self.plan = stepper, plan
        self.choose: Chooser = drawn(plan) if plan.options.strategy == "sample" else likeliest
        self.filters = Filters(plan.options, eos_id=plan.eos_id, device=plan.device, prefixes=plan.prefixes)
        self.paths = torch.arange(plan.n_rows * n_each, device=plan.device)
        self.inputs = self.paths // n_each
        if n_each > 1:
            stepper.select(self.inputs, same_source=False)
        self.tokens, self.limits = plan.starts[self.inputs], plan.limits[self.inputs]
        self.done = torch.zeros_like(self.paths, dtype=torch.bool)
        self.chosen = torch.full((plan.n_steps, len(self.paths)), NOTHING, device=plan.device)
        self.log_probs = torch.zeros((plan.n_steps, len(self.paths)), device=plan.device)
        self.step = 0

    def advance(self) -> None:
        """Add a token to every path that is not done."""
        logits = next_logits(self.stepper, self.tokens)
        if self.step == 0:
            self.plan.check_vocabulary(logits.shape[-1])
        chosen = self.choose(self.filters(logits, self._moment()), self.paths, self.step)
        log_probs = log_probs_of(logits, chosen[:, None])[:, 0]
        self.chosen[self.step].index_copy_(0, self.paths, chosen.masked_fill(self.done, NOTHING))
        self.log_probs[self.step].index_copy_(0, self.paths, log_probs)
        self.step += 1
        self.done = self.done | (chosen == self.plan.eos_id) | (self.limits <= self.step)
        self.tokens = chosen.masked_fill(self.done, self.plan.pad_id)

    def is_over(self) -> bool:
        """Whether every path is done; on the way, let finished ones leave the batch when it is time."""
        if self.step >= self.plan.n_steps:
            return True
        if not self.plan.sync.is_due(self.step - 1):
            return False
        going = (~self.done).nonzero()[:, 0]
        if len(going) and self.plan.sync.drops_finished(len(going), len(self.done)):
            self.stepper.select(going, same_source=False)
            self.paths, self.inputs, self.limits = self.paths[going], self.inputs[going], self.limits[going]
            self.tokens, self.done = self.tokens[going], self.done[going]
        return len(going) == 0

    def hypotheses(self) -> list[list[Hypothesis]]:
        """What each row came to, its samples in the order they were drawn."""
        chosen = [_before_nothing(tokens) for tokens in self.chosen[: self.step].T.tolist()]
        return path_hypotheses(self.plan, chosen, self.log_probs[: self.step].T.tolist())

    def latest(self) -> list[int]:
        """The token that the first path got last."""
        return [int(self.chosen[self.step - 1, 0])]

    def _moment(self) -> Moment:
        known = self.step if self.filters.needs_history else 0
        return Moment(self.step, self.inputs, self.chosen[:known, self.paths].T.clamp(min=0))


def path_hypotheses(plan: Plan, chosen: list[list[int]], log_probs: list[list[float]]) -> list[list[Hypothesis]]:
    """What each row of a plan came to: the tokens of its paths, side by side, and how likely each was."""
    pairs = zip(chosen, log_probs, strict=True)
    each = [path_hypothesis(plan, tokens, terms[: len(tokens)]) for tokens, terms in pairs]
    n_each = plan.options.n_samples
    return [each[start : start + n_each] for start in range(0, len(each), n_each)]


def path_hypothesis(plan: Plan, tokens: list[int], log_probs: list[float]) -> Hypothesis:
    """A path as a hypothesis, from all its tokens, the end mark included, and their log-probabilities."""
    finished = tokens[-1] == plan.eos_id
    score = Ranking.of(plan.options).score(sum(log_probs), len(tokens))
    return hypothesis(tokens[:-1] if finished else tokens, log_probs, score=score, finished=finished)


def _before_nothing(tokens: list[int]) -> list[int]:
    return tokens[: tokens.index(NOTHING)] if NOTHING in tokens else tokens
