"""Decodings that wait for one another at every step, so that one step of the model serves them all.

A predictor decodes one input as it always does, by the same code as `regard predict`. Only its models are wrapped:
where a decoding asks for its input to be read, or for a step, it is set aside, and goes on when the engine has done it
for all who wait.
Setting aside a call halfway, without a thread for each, is what greenlets do: all of them run in the engine's thread.

    decoding = Decoding(lambda: predictor(text, beam=5))
    decoding.start()                            until it asks for something
    begin([decoding, others])                   inputs are read for all; now they ask for their first step
    advance([decoding, others])                 one step for all; whoever is done has an outcome
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from greenlet import getcurrent, greenlet
from torch import Tensor

from regard.decoding.joint import Start, WritingStepper, Written, start_together, step_together, write_together
from regard.decoding.plan import Plan
from regard.decoding.stepper import Stepper
from regard.decoding.walks import Walk
from regard.decoding.written import WrittenPaths


@dataclass(frozen=True)
class StepRequest:
    """A decoding that waits: its stepper, and the last token of each of its rows (N,)."""

    stepper: Stepper
    tokens: Tensor


@dataclass(frozen=True)
class WriteRequest:
    """A decoding that waits for what its stepper has written by itself."""

    stepper: WritingStepper


# What a decoding can wait for: to begin, one step, all steps of a plain path, or what was written without it.
Request = Start | StepRequest | Walk | WriteRequest


class JoinedModel:
    """A model whose steppers are stepped together with those of others; all else is the model's own."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def start(self, inputs: Any, *, capacity: int = 64, watched: bool = False) -> Stepper:
        """Stand ready to decode the inputs; watched steps are taken alone, for their attention is kept."""
        if watched:
            alone: Stepper = self._model.start(inputs, capacity=capacity, watched=watched)
            return alone
        stepper = _handed_over(Start(self._model, inputs, capacity))
        return JoinedStepper(cast(Stepper, stepper))


class JoinedStepper:
    """A stepper whose steps are made by whoever runs the decoding."""

    def __init__(self, stepper: Stepper) -> None:
        self.stepper = stepper

    @property
    def device(self) -> torch.device:
        """The model's."""
        return self.stepper.device

    def step(self, tokens: Tensor) -> Tensor:
        """The logits of the next tokens, when the engine has them."""
        return cast(Tensor, _handed_over(StepRequest(self.stepper, tokens)))

    def walk(self, walk: Walk) -> Walk:
        """The walk, when it is over."""
        walk.stepper = self.stepper
        return cast(Walk, _handed_over(walk))

    def select(self, rows: Tensor, *, same_source: bool) -> None:
        """Go on with other rows."""
        self.stepper.select(rows, same_source=same_source)

    def paths(self, plan: Plan) -> WrittenPaths | None:
        """What is planned, written by the device itself, where it can."""
        writing = cast(WritingStepper, self.stepper)
        if not hasattr(writing, "writes") or not writing.writes(plan):
            return None
        return WrittenPaths(writing, plan, lambda: cast(list[Written], _handed_over(WriteRequest(writing))))

    def restrict(self, columns: Tensor, allowed: Tensor) -> bool:
        """Whether the model's own stepper leaves out what no row may write."""
        restrict = getattr(self.stepper, "restrict", None)
        return restrict is not None and bool(restrict(columns, allowed))

    def attention(self) -> Tensor | None:
        """What the model's own stepper offers."""
        offer = getattr(self.stepper, "attention", None)
        weights: Tensor | None = offer() if callable(offer) else None
        return weights


def _handed_over(request: Request) -> Any:
    """What whoever runs the decoding makes of a request."""
    hub = getcurrent().parent
    assert hub is not None, "joined models are used inside a `Decoding`"
    given = hub.switch(request)
    if isinstance(given, Exception):
        raise given
    return given


class Decoding:
    """A call that is made bit by bit; `outcome` is what it gave or raised, once it is over."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._greenlet = greenlet(call)
        self.waiting: Request | None = None
        self.outcome: Any = None
        self.over = False
        self._n_steps = 0
        self._steppers: list[Any] = []

    def start(self) -> None:
        """Run until something is asked for."""
        self._run(self._greenlet.switch)

    @property
    def has_stepped(self) -> bool:
        """Whether it has a first token."""
        return self._n_steps > 0 or (isinstance(self.waiting, Walk) and bool(self.waiting.tokens))

    def resume(self, given: Stepper | Tensor | Walk | list[Written] | Exception) -> None:
        """Go on with what was asked for, until more is."""
        if isinstance(self.waiting, Start):
            self._steppers.append(given)
        else:
            self._n_steps += 1
        self._run(lambda: self._greenlet.switch(given))

    def stop(self, problem: Exception) -> None:
        """End it here and now: what it asked for is not coming."""
        if not self.over:
            self._run(lambda: self._greenlet.throw(problem))
        if not self.over:  # it went on all the same
            self.over, self.waiting, self.outcome = True, None, problem
            self._close()

    def _run(self, switch: Callable[[], Any]) -> None:
        try:
            given = switch()
        except Exception as problem:
            given = problem
        self.over = self._greenlet.dead
        self.waiting = None if self.over else given
        self.outcome = given if self.over else None
        if self.over:
            self._close()

    def _close(self) -> None:
        """Give back what its steppers hold that is shared."""
        for stepper in self._steppers:
            if hasattr(stepper, "close"):
                stepper.close()
        self._steppers = []


def begin(decodings: Sequence[Decoding]) -> None:
    """Read the inputs of all that wait for that, and of several models in turn where there are several."""
    while waiting := {one: one.waiting for one in decodings if isinstance(one.waiting, Start)}:
        for one, stepper in zip(waiting, start_together(list(waiting.values())), strict=True):
            one.resume(stepper)


@dataclass(frozen=True)
class Progress:
    """What an `advance` has brought: tokens of all rows, and for how many steps it stands."""

    n_tokens: int
    n_steps: int


def computed(waiting: Mapping[Decoding, Request | None]) -> tuple[dict[Decoding, Any], Progress]:
    """What one step brings to those that wait for one, for each to go on with.

    Who walks has nothing before the walk is over, and those that write by themselves only if there is something.
    """
    stepping = {one: request for one, request in waiting.items() if isinstance(request, StepRequest)}
    walking = {one: request for one, request in waiting.items() if isinstance(request, Walk)}
    writing = {one: request for one, request in waiting.items() if isinstance(request, WriteRequest)}
    requests = list(stepping.values())
    logits = step_together(
        [each.stepper for each in requests], [each.tokens for each in requests], walks=list(walking.values())
    )
    written = write_together([each.stepper for each in writing.values()], launch=not (stepping or walking))
    results: dict[Decoding, Any] = dict(zip(stepping, logits, strict=True))
    results |= {one: walk.problem or walk for one, walk in walking.items() if walk.over}
    results |= {one: pieces for one, pieces in zip(writing, written, strict=True) if pieces}
    n_rows = sum(len(each.tokens) for each in requests) + len(walking)
    new = [row for pieces in written if isinstance(pieces, list) for row in pieces]
    n_steps = max((row.n_steps for row in new), default=1)
    return results, Progress(n_rows + sum(len(row.tokens) for row in new), n_steps)


def advance(decodings: Sequence[Decoding]) -> Progress:
    """One step for all that wait for one; those that have what they asked for go on."""
    results, made = computed({one: one.waiting for one in decodings})
    for one, result in results.items():
        one.resume(result)
    return made
