"""One step for several decodings at once: each keeps its own state, and none knows of the others.

    logits = step_together(steppers, tokens)        one of each a decoding: tokens (N_i,) → logits (N_i, V)

A stepper that can share its products with others of its model says so by `step_with`, a function of their joint step;
others step one after another. Either way a decoding gets, bit for bit, what its own `step` would have given it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from torch import Tensor

from regard.decoding.stepper import Stepper


@runtime_checkable
class JointStepper(Protocol):
    """A stepper that can step together with others like it."""

    def joins(self, other: object) -> bool:
        """Whether a step of both at once gives each what its own would."""

    def step_with(self, others: Sequence[Stepper], tokens: Sequence[Tensor]) -> list[Tensor]:
        """The logits of this one and the others, which it joins, in their order; the first tokens are its own."""

    def check_step(self, tokens: Tensor) -> None:
        """Refuse tokens that cannot come next, before anything is changed."""


def step_together(steppers: Sequence[Stepper], tokens: Sequence[Tensor]) -> list[Tensor | Exception]:
    """The logits of each, or why it has none: what fails for one leaves the others as they are."""
    results: list[Tensor | Exception] = [_UNSTEPPED] * len(steppers)
    for group in _groups(steppers):
        first = steppers[group[0]]
        able = group
        if isinstance(first, JointStepper) and len(group) > 1:
            able = [i for i in group if _is_fine(steppers[i], tokens[i], results, i)]
        if isinstance(first, JointStepper) and len(able) > 1:
            joined = _joint_step([steppers[i] for i in able], [tokens[i] for i in able])
        else:
            joined = [_own_step(steppers[i], tokens[i]) for i in able]
        for i, logits in zip(able, joined, strict=True):
            results[i] = logits
    return results


_UNSTEPPED = RuntimeError("this decoding was not stepped")


def _groups(steppers: Sequence[Stepper]) -> list[list[int]]:
    """Which can step together, each once, in their order."""
    groups: list[list[int]] = []
    for i, stepper in enumerate(steppers):
        for group in groups:
            first = steppers[group[0]]
            if isinstance(first, JointStepper) and first.joins(stepper):
                group.append(i)
                break
        else:
            groups.append([i])
    return groups


def _is_fine(stepper: Stepper, tokens: Tensor, results: list[Tensor | Exception], place: int) -> bool:
    assert isinstance(stepper, JointStepper)
    try:
        stepper.check_step(tokens)
    except Exception as problem:
        results[place] = problem
        return False
    return True


def _joint_step(steppers: Sequence[Stepper], tokens: Sequence[Tensor]) -> list[Tensor | Exception]:
    first = steppers[0]
    assert isinstance(first, JointStepper)
    try:
        return list(first.step_with(steppers[1:], tokens))
    except Exception as problem:  # half a step cannot be taken back
        return [problem] * len(steppers)


def _own_step(stepper: Stepper, tokens: Tensor) -> Tensor | Exception:
    try:
        return stepper.step(tokens)
    except Exception as problem:
        return problem
