"""Several decodings at once: each keeps its own state, and none knows of the others.

    steppers = start_together(starts)               what is to be read: sources, prompts
    logits = step_together(steppers, tokens)        one of each a decoding: tokens (N_i,) → logits (N_i, V)
    step_together(steppers, tokens, walks=walks)    the same, with a step for `Walk`s, whose tokens are chosen at once

A model that can read several inputs at once is a `JointModel`, a stepper that can share its products with others of its
model is a `JointStepper`; others begin and step one after another. Either way a decoding gets, bit for bit, what its
own `start` and `step` would have given it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol, cast

import torch
from torch import Tensor

from regard.config.twins import twin
from regard.decoding.plan import Plan
from regard.decoding.stepper import Stepper
from regard.decoding.walks import Walk, likeliest_tokens


class JointStepper(Stepper, Protocol):
    """A stepper that can step together with others like it."""

    def joins(self, other: object) -> bool:
        """Whether a step of both at once gives each what its own would."""

    def step_with(self, others: Sequence[Any], tokens: Sequence[Tensor]) -> list[Tensor]:
        """The logits of this one and the others, which it joins, in their order; the first tokens are its own."""

    def check_step(self, tokens: Tensor) -> None:
        """Refuse tokens that cannot come next, before anything is changed."""


@dataclass(frozen=True)
class Written:
    """What a row has written since it was last looked at, and how likely each token was.

    `n_steps` were made since anybody was looked at.
    """

    tokens: list[int]
    log_probs: list[float]
    n_steps: int


class WritingStepper(JointStepper, Protocol):
    """A joint stepper whose device chooses tokens by itself, several before anybody looks."""

    @property
    def n_rows(self) -> int:
        """How many rows it has."""

    def writes(self, plan: Plan) -> bool:
        """Whether it can do what is planned."""

    def begin_writing(self, plan: Plan) -> None:
        """The rows write by themselves from now on."""

    def write_with(self, others: Sequence[Any], *, launch: bool) -> list[list[Written]]:
        """What each row of this one and of others, which it joins, has written; an empty list is nothing yet."""

    def close(self) -> None:
        """Its rows are for others."""


class JointModel(Protocol):
    """A model that can begin several decodings at once."""

    def start(self, inputs: Any, *, capacity: int) -> Stepper:
        """Stand ready to decode some inputs, one row each."""

    def start_each(self, inputs: Sequence[Any], *, capacities: Sequence[int]) -> Sequence[Stepper]:
        """What `start` gives to each of several."""


@dataclass(frozen=True)
class Start:
    """A decoding that is to begin: with what model, on which inputs, and with room for so many steps."""

    model: Any
    inputs: Any
    capacity: int

    def alone(self) -> Stepper | Exception:
        """The stepper, or why there is none."""
        try:
            stepper: Stepper = self.model.start(self.inputs, capacity=self.capacity)
        except Exception as problem:
            return problem
        return stepper


def start_together(starts: Sequence[Start]) -> list[Stepper | Exception]:
    """The stepper of each, or why it has none: what fails for one leaves the others as they are."""
    results: dict[int, Stepper | Exception] = {}
    by_model: dict[int, list[int]] = {}
    for i, start in enumerate(starts):
        by_model.setdefault(id(start.model), []).append(i)
    for group in by_model.values():
        results |= dict(zip(group, _start_group([starts[i] for i in group]), strict=True))
    return [results[i] for i in range(len(starts))]


def _start_group(starts: Sequence[Start]) -> Sequence[Stepper | Exception]:
    """Those of one model."""
    model = starts[0].model
    if not hasattr(model, "start_each"):
        return [one.alone() for one in starts]
    joint = cast(JointModel, model)
    try:
        return joint.start_each([one.inputs for one in starts], capacities=[one.capacity for one in starts])
    except Exception:  # whose fault it is shows when each begins by itself
        return [one.alone() for one in starts]


def step_together(
    steppers: Sequence[Stepper], tokens: Sequence[Tensor], *, walks: Sequence[Walk] = ()
) -> list[Tensor | Exception]:
    """The logits of each, or why it has none: what fails for one leaves the others as they are.

    Those that walk are stepped along, and choose; one that fails is over, with a `problem`.
    """
    results: dict[int, Tensor | Exception] = {}
    everybody = [*steppers, *(walk.stepper for walk in walks)]
    for group in _groups(everybody):
        own = [i for i in group if i < len(steppers)]
        walking = [walks[i - len(steppers)] for i in group[len(own) :]]
        stepped = _step_group([steppers[i] for i in own], [tokens[i] for i in own], walking)
        results |= dict(zip(own, stepped, strict=True))
    return [results[i] for i in range(len(steppers))]


def write_together(steppers: Sequence[WritingStepper], *, launch: bool) -> list[list[Written] | Exception]:
    """What each row of each has written since it was last asked, which may be nothing yet.

    `launch` has the device go on; else what is on its way is waited for.
    """
    results: dict[int, list[Written] | Exception] = {}
    for group in _groups(steppers):
        first, others = steppers[group[0]], [steppers[i] for i in group[1:]]
        try:
            results |= dict(zip(group, first.write_with(others, launch=launch), strict=True))
        except Exception as problem:  # what a launch has done cannot be told apart
            results |= dict.fromkeys(group, problem)
    return [results[i] for i in range(len(steppers))]


def _groups(steppers: Sequence[Stepper]) -> list[list[int]]:
    """Which can step together, each once, in their order."""
    groups: list[tuple[JointStepper | None, list[int]]] = []
    for i, stepper in enumerate(steppers):
        for first, group in groups:
            if first is not None and first.joins(stepper):
                group.append(i)
                break
        else:
            groups.append((_joint(stepper), [i]))
    return [group for _, group in groups]


def _step_group(
    steppers: Sequence[Stepper], tokens: Sequence[Tensor], walks: Sequence[Walk]
) -> list[Tensor | Exception]:
    """Of those that step and then of those that walk: all of them joined, or a single one."""
    fast = twin("walk_together")
    if walks and fast is not None and fast(walks, joined=bool(steppers)):
        return []
    members = [*steppers, *(walk.stepper for walk in walks)]
    fed = [*tokens, *torch.tensor([[walk.token] for walk in walks], device=members[0].device)]
    with _threads(members[0]):
        if len(members) == 1:
            results = [_own_step(members[0], fed[0])]
        else:
            results = _step_joined([cast(JointStepper, one) for one in members], fed)
        _choose(walks, results[len(steppers) :])
    return results[: len(steppers)]


def _threads(stepper: Stepper) -> AbstractContextManager[None]:
    """Who gets the processors: for steppers that can be joined, whoever multiplies for all rows."""
    joint, fast = _joint(stepper), twin("joint_threads")
    given: AbstractContextManager[None] = nullcontext() if fast is None else fast()
    return given if joint is not None and joint.joins(stepper) else nullcontext()


def _step_joined(members: Sequence[JointStepper], tokens: Sequence[Tensor]) -> list[Tensor | Exception]:
    problems = {i: problem for i, one in enumerate(members) if (problem := _problem(one, tokens[i])) is not None}
    able = [i for i in range(len(members)) if i not in problems]
    joined = _joint_step([members[i] for i in able], [tokens[i] for i in able]) if able else []
    results = problems | dict(zip(able, joined, strict=True))
    return [results[i] for i in range(len(members))]


def _choose(walks: Sequence[Walk], results: Sequence[Tensor | Exception]) -> None:
    """Let walks go on with the likeliest tokens, all of them found at once."""
    going: list[tuple[Walk, Tensor]] = []
    for walk, result in zip(walks, results, strict=True):
        problem = result if isinstance(result, Exception) else walk.check_vocabulary(result.shape[-1])
        if problem is not None:
            walk.fail(problem)
        elif isinstance(result, Tensor):
            going.append((walk, result))
    if not going:
        return
    chosen = likeliest_tokens(torch.cat([logits for _, logits in going]).float())
    for (walk, _), token, log_prob in zip(going, *chosen, strict=True):
        walk.go(token, log_prob)


def _joint(stepper: Stepper) -> JointStepper | None:
    """The stepper, if it is one of these; `isinstance` would look at every method each time."""
    return cast(JointStepper, stepper) if hasattr(stepper, "step_with") else None


def _problem(stepper: JointStepper, tokens: Tensor) -> Exception | None:
    try:
        stepper.check_step(tokens)
    except Exception as problem:
        return problem
    return None


def _joint_step(steppers: Sequence[JointStepper], tokens: Sequence[Tensor]) -> list[Tensor | Exception]:
    try:
        return list(steppers[0].step_with(steppers[1:], tokens))
    except Exception as problem:  # half a step cannot be taken back
        return [problem] * len(steppers)


def _own_step(stepper: Stepper, tokens: Tensor) -> Tensor | Exception:
    try:
        return stepper.step(tokens)
    except Exception as problem:
        return problem
