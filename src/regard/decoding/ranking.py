"""How hypotheses of different lengths compare.

    score = log P(y | x) / penalty(|y|) + β · Σₛ log min(Σₜ aₜₛ, 1)

|y| counts every scored token, the end mark included, so that the default (power, α = 1) is the average log-probability.
The GNMT penalty ((5 + |y|) / 6)^α and the coverage term are those of Wu et al. 2016 (arXiv 1609.08144, eq. 14).
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.decoding.options import DecodeOptions, LengthRule
from regard.errors import RegardError


@dataclass(frozen=True)
class Hypothesis:
    """One decoded sequence.

    tokens            ids, without start and end marks
    score             what hypotheses are ranked by: length-normalised, with coverage where that is asked for
    log_prob          the model's own log-probability of the tokens, and of the end mark where there is one
    finished          whether it ends with the end mark, rather than at the length limit
    token_log_probs   the terms of log_prob, one a token, and last the end mark's where there is one
    """

    tokens: list[int]
    score: float
    log_prob: float
    finished: bool
    token_log_probs: list[float]


@dataclass(frozen=True)
class Ranking:
    """The rule that turns log-probabilities into scores."""

    rule: LengthRule = "power"
    alpha: float = 1.0
    beta: float = 0.0

    @classmethod
    def of(cls, options: DecodeOptions) -> "Ranking":
        """The ranking that the options ask for."""
        return cls(options.length_rule, options.length_penalty, options.coverage_penalty)

    def penalty(self, length: float) -> float:
        """What a log-probability over this many tokens is divided by."""
        base = length if self.rule == "power" else (5.0 + length) / 6.0
        return float(base**self.alpha)

    def score(self, log_prob: float, length: int) -> float:
        """The score of a sequence, coverage aside; an empty one has nothing to normalise."""
        return log_prob / self.penalty(length) if length else log_prob

    def penalties(self, lengths: Tensor) -> Tensor:
        """`penalty` of many lengths: (...) → (...) float32."""
        base = lengths.double() if self.rule == "power" else (5.0 + lengths.double()) / 6.0
        return base.pow(self.alpha).float()

    def bound(self, log_probs: Tensor, *, now: int, at_limit: Tensor) -> Tensor:
        """The best score that live hypotheses can still reach when they end after `now` tokens or later: (...) → (...).

        Log-probabilities are at most 0 and only fall as tokens are added, and coverage is at most 0, so no score is
        better than the present log-probability over the largest penalty ahead. Penalties are monotone in the length:
        the largest is the one of the shortest length, or `at_limit`, that of the longest.
        """
        return log_probs / at_limit.clamp(min=self.penalty(now))

    def coverage(self, attended: Tensor) -> Tensor:
        """The coverage term of attention summed over steps: (..., S) → (...).

        A source position nobody looked at at all is padding (softmax leaves nothing else at exactly zero) and adds
        nothing, so that the term does not depend on how far a batch was padded.
        """
        logs = torch.where(attended > 0, attended.clamp(max=1.0), 1.0).log()
        return self.beta * logs.sum(-1)


def hypothesis(tokens: list[int], log_probs: list[float], *, score: float, finished: bool) -> Hypothesis:
    """A hypothesis, if the model's numbers are numbers."""
    log_prob = math.fsum(log_probs)
    if math.isnan(log_prob):
        raise RegardError(
            f"the model's logits are NaN within the first {len(log_probs)} steps; allowed are numbers and -inf",
            hint="the weights may be damaged, or a reduced precision may overflow: try float32",
        )
    return Hypothesis(tokens, score, log_prob, finished, log_probs)
