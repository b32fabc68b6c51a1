"""Several models decoding as one.

    mean       log (1/M · Σₘ pₘ)      the average of probabilities: a token one model believes in stays possible
    product    1/M · Σₘ log pₘ        the average of log-probabilities: a token one model rules out is out

Both are handed on as logits (N, V); decoding normalises them.
"""

import math
from collections.abc import Sequence
from typing import Literal, get_args

import torch
from torch import Tensor

from regard.decoding.stepper import Stepper, next_logits
from regard.errors import ShapeError, UsageError

Combination = Literal["mean", "product"]


class EnsembleStepper:
    """A stepper made of steppers that share a vocabulary and were started on the same rows."""

    def __init__(self, steppers: Sequence[Stepper], combine: Combination = "mean") -> None:
        if not steppers:
            raise UsageError("an ensemble of 0 steppers was given; allowed is 1 or more")
        if combine not in get_args(Combination):
            raise UsageError(f"combine is {combine!r}; allowed are {', '.join(map(repr, get_args(Combination)))}")
        self.steppers = list(steppers)
        self.combine = combine

    @property
    def device(self) -> torch.device:
        """The first stepper's; the others' logits are brought there."""
        return self.steppers[0].device

    def step(self, tokens: Tensor) -> Tensor:
        """One step of every model, combined: (N,) → (N, V)."""
        each = [next_logits(one, tokens.to(one.device)).to(self.device) for one in self.steppers]
        for index, logits in enumerate(each):
            if logits.shape != each[0].shape:
                raise ShapeError(
                    f"stepper {index} of the ensemble has a vocabulary of {logits.shape[-1]} tokens and stepper 0 "
                    f"has {each[0].shape[-1]}; allowed is one and the same vocabulary"
                )
        log_probs = torch.stack([logits.log_softmax(-1) for logits in each])  # (M, N, V)
        if self.combine == "product":
            return log_probs.mean(0)
        return log_probs.logsumexp(0) - math.log(len(each))

    def select(self, rows: Tensor, *, same_source: bool) -> None:
        """The same rows in every model."""
        for one in self.steppers:
            one.select(rows.to(one.device), same_source=same_source)

    def attention(self) -> Tensor | None:
        """The average of the models' attention (N, S), where all of them offer it."""
        offers = [getattr(one, "attention", lambda: None)() for one in self.steppers]
        weights = [offer.to(self.device) for offer in offers if isinstance(offer, Tensor)]
        return torch.stack(weights).mean(0) if len(weights) == len(offers) else None
