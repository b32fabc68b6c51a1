"""One thread that owns one model, and everybody who asks it.

Requests wait in a bounded queue. Those that decode are begun a few at a time and then step together: between two steps
new ones join, and finished, cancelled and late ones leave (`joining`). Models that decode nothing answer one request
after another; on a GPU, or where the last digits do not matter, requests wait a moment for company and are predicted as
one batch. Each request has a deadline; one that fails takes no other with it.

    engine = Engine(predictor, Limits())
    ticket = engine.submit([Ask("A dog.", {"beam": 5}, finish=lambda output: output.record())])[0]
    ticket.result()
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, Protocol

import torch

from regard.config.twins import twin
from regard.decoding import DecodeOptions
from regard.errors import RegardError, UsageError
from regard.serve.joining import Decoding, JoinedModel, advance, begin
from regard.serve.limits import Limits

log = logging.getLogger("regard.serve")
Kind = Literal["predict", "stream", "embed"]


class BusyError(RegardError):
    """The queue is full."""


class LateError(RegardError):
    """A request took longer than it may."""


class StoppingError(RegardError):
    """The server is about to end."""


class CancelledError(RegardError):
    """Whoever asked has gone."""


@dataclass(frozen=True)
class Ask:
    """What is asked of a model: an input, and options as `regard predict` takes them.

    `finish` makes what is sent of what the model says; it runs where the model is. A stream hands each piece of its
    text to `tell` as it comes.
    """

    input: Any
    options: dict[str, Any] = field(default_factory=dict)
    kind: Kind = "predict"
    finish: Callable[[Any], Any] = lambda output: output
    tell: Callable[[str], None] = lambda piece: None


class Watcher(Protocol):
    """Who counts what an engine does."""

    def began(self, waited: float) -> None:
        """A request left the queue after so many seconds."""

    def first_token(self, seconds: float) -> None:
        """A request has its first token, so many seconds after it came."""

    def stepped(self, n_tokens: int, seconds: float) -> None:
        """Steps were made that brought so many tokens; each took so long."""

    def ended(self, outcome: str, seconds: float) -> None:
        """A request is over."""


class NobodyWatches:
    """Counts nothing."""

    def began(self, waited: float) -> None:
        """Nothing."""

    def first_token(self, seconds: float) -> None:
        """Nothing."""

    def stepped(self, n_tokens: int, seconds: float) -> None:
        """Nothing."""

    def ended(self, outcome: str, seconds: float) -> None:
        """Nothing."""


class Ticket:
    """A request under way. `future` is done when it is answered or refused."""

    def __init__(self, ask: Ask, *, rows: int, tokens: int, deadline: float) -> None:
        self.ask, self.rows, self.tokens = ask, rows, tokens
        self.came = time.monotonic()
        self.deadline = self.came + deadline
        self.future: Future[Any] = Future()
        self.future.set_running_or_notify_cancel()  # it ends when the engine says so, and not before
        self.cancelled = False
        self.n_steps = 0
        self.has_begun = False

    def cancel(self) -> None:
        """Whoever asked has gone: it leaves before the next step."""
        self.cancelled = True

    def result(self, timeout: float | None = None) -> Any:
        """The answer, or what was wrong, as an error."""
        return self.future.result(timeout)

    def problem(self, now: float) -> Exception | None:
        """Why it cannot go on, if it cannot."""
        if self.cancelled:
            return CancelledError("the request was cancelled")
        if now > self.deadline:
            return LateError(
                f"the request took longer than {self.deadline - self.came:g} seconds", hint="ask for less, or later"
            )
        return None


class Engine:
    """A model, its thread, and the requests it works on.

    `exact` keeps the bits of an answer from depending on the company: on a CPU, where that costs little, unless told
    otherwise, on a GPU only when told so.
    """

    def __init__(
        self, predictor: Any, limits: Limits, *, watcher: Watcher | None = None, exact: bool | None = None
    ) -> None:
        self.predictor, self.limits = predictor, limits
        self.watcher: Watcher = watcher or NobodyWatches()
        on_cpu = predictor.device.type == "cpu"
        self.exact = on_cpu if exact is None else exact
        self.joined = predictor.with_models(self._joined_model)
        self.gathers = self.joined is None and not self.exact
        self._starts = limits.starts if on_cpu else limits.batch
        self._most_tokens = limits.tokens or 1024 * limits.rows
        self._queue: deque[Ticket] = deque()
        self._live: dict[Ticket, Decoding] = {}
        self._changed = threading.Condition()
        self._ended = self._refuses = False
        self._thread = threading.Thread(target=self._run, name="regard-engine", daemon=True)
        self._thread.start()

    @property
    def n_waiting(self) -> int:
        """Requests in the queue."""
        return len(self._queue)

    @property
    def n_running(self) -> int:
        """Requests that are being decoded."""
        return len(self._live)

    def submit(self, asks: Sequence[Ask], *, deadline: float | None = None) -> list[Ticket]:
        """Let requests wait for their turn: all of them, or none where the queue has no room."""
        limit = self.limits.deadline if deadline is None else min(deadline, self.limits.deadline)
        tickets = [self._ticket(ask, limit) for ask in asks]
        with self._changed:
            if self._refuses:
                raise StoppingError("the server is stopping", hint="ask again in a moment")
            if len(self._queue) + len(tickets) > self.limits.queue:
                raise BusyError(f"{len(self._queue)} requests are waiting already", hint="ask again in a moment")
            self._queue.extend(tickets)
            self._changed.notify()
        return tickets

    def stop(self, grace: float) -> None:
        """Take nothing new, finish within so many seconds, and end the rest with an error."""
        with self._changed:
            self._refuses = True
        until = time.monotonic() + grace
        while (self._queue or self._live) and time.monotonic() < until:
            time.sleep(0.02)
        with self._changed:
            self._ended = True
            self._changed.notify()
        self._thread.join(timeout=10.0)

    def _joined_model(self, model: Any) -> JoinedModel:
        shared = twin("shared_model")
        rows = None if shared is None else shared(model, n_rows=self.limits.rows, exact=self.exact)
        return JoinedModel(model if rows is None else rows)

    # ---- what a request will take

    def _ticket(self, ask: Ask, deadline: float) -> Ticket:
        rows, length = 1, 1
        if ask.kind in ("predict", "stream"):
            rows, length = self._rows_and_length(ask.options)
        if rows > self.limits.rows:
            raise UsageError(f"{rows} hypotheses or samples were asked for; allowed are up to {self.limits.rows}")
        if length > self.limits.length:
            raise UsageError(f"decode.max_length is {length}; allowed is up to {self.limits.length}")
        return Ticket(ask, rows=rows, tokens=rows * length, deadline=deadline)

    def _rows_and_length(self, options: dict[str, Any]) -> tuple[int, int]:
        section = self.predictor.config.decode
        if not isinstance(section, DecodeOptions):
            return 1, 1
        known = {name: value for name, value in options.items() if hasattr(section, name)}
        chosen = self.predictor.options(known)
        return max(chosen.beam, chosen.n_samples), chosen.max_length

    # ---- the thread

    @torch.inference_mode()
    def _run(self) -> None:
        while not self._ended:
            self._wait()
            try:
                self._work()
            except Exception as problem:  # nobody's fault that is known: those under way end, and others are served
                log.exception("the engine failed")
                self._end_live(problem)
        self._end_all(StoppingError("the server is stopping", hint="ask again in a moment"))

    def _work(self) -> None:
        """Let go, take on, and make one step."""
        self._let_go()
        self._begin(self._admitted())
        if self._live:
            self._step()

    def _wait(self) -> None:
        """Until there is something to do; a model that decodes nothing then waits a moment longer for company."""
        with self._changed:
            while not (self._queue or self._live or self._ended):
                self._changed.wait()
        if self.gathers and len(self._queue) < self.limits.batch:
            time.sleep(self.limits.gather)

    def _admitted(self) -> list[Ticket]:
        """Those whose turn it is, in the order they came; the rest stay in the queue."""
        rows = sum(ticket.rows for ticket in self._live)
        tokens = sum(ticket.tokens for ticket in self._live)
        most = self.limits.batch if self.gathers else self._starts
        chosen: list[Ticket] = []
        with self._changed:
            while self._queue and len(chosen) < most:
                rows, tokens = rows + self._queue[0].rows, tokens + self._queue[0].tokens
                fits = rows <= self.limits.rows and tokens <= self._most_tokens
                if not (fits or (not chosen and not self._live)):
                    break
                chosen.append(self._queue.popleft())
        return self._predicted_together(chosen) if self.gathers else chosen

    def _begin(self, tickets: Sequence[Ticket]) -> None:
        """Start decodings, whose inputs are read together; what decodes nothing is answered at once."""
        for ticket in tickets:
            self.watcher.began(time.monotonic() - ticket.came)
            self._live[ticket] = decoding = Decoding(partial(self._answer, ticket.ask))
            decoding.start()
            self._settle(ticket, decoding)
        self._read_inputs()

    def _read_inputs(self) -> None:
        """For all who wait for that: who has just begun, or goes on with another input."""
        begin(list(self._live.values()))
        for ticket, decoding in list(self._live.items()):
            self._settle(ticket, decoding)

    def _answer(self, ask: Ask) -> Any:
        """What one request asks for, in full."""
        if ask.kind == "embed":
            return ask.finish(self.predictor.embed([ask.input])[0])
        model = self.joined or self.predictor
        if ask.kind == "stream":
            return ask.finish(_told(model.stream(ask.input, **ask.options), ask.tell))
        return ask.finish(model([ask.input], **ask.options)[0])

    def _step(self) -> None:
        """One step for everybody who is waiting for one."""
        before = time.monotonic()
        made = advance(list(self._live.values()))
        now = time.monotonic()
        self.watcher.stepped(made.n_tokens, (now - before) / made.n_steps)
        for ticket, decoding in list(self._live.items()):
            ticket.n_steps += 1
            if decoding.has_stepped and not ticket.has_begun:
                ticket.has_begun = True
                self.watcher.first_token(now - ticket.came)
            self._settle(ticket, decoding)

    def _settle(self, ticket: Ticket, decoding: Decoding) -> None:
        if decoding.over:
            del self._live[ticket]
            self._close(ticket, decoding.outcome)

    def _let_go(self) -> None:
        """End those that are cancelled or late, whether they wait or are being decoded."""
        now = time.monotonic()
        for ticket, decoding in list(self._live.items()):
            if (problem := ticket.problem(now)) is not None:
                decoding.stop(problem)
                self._settle(ticket, decoding)
        with self._changed:
            gone = [ticket for ticket in self._queue if ticket.problem(now) is not None]
            for ticket in gone:
                self._queue.remove(ticket)
        for ticket in gone:
            self._close(ticket, ticket.problem(now))

    def _close(self, ticket: Ticket, outcome: Any) -> None:
        seconds = time.monotonic() - ticket.came
        self.watcher.ended(outcome_name(outcome), seconds)
        if isinstance(outcome, BaseException):
            ticket.future.set_exception(outcome)
        else:
            ticket.future.set_result(outcome)

    def _end_live(self, problem: Exception) -> None:
        for ticket, decoding in list(self._live.items()):
            decoding.stop(problem)
            self._settle(ticket, decoding)

    def _end_all(self, problem: Exception) -> None:
        self._end_live(problem)
        with self._changed:
            left, self._queue = list(self._queue), deque()
        for ticket in left:
            self._close(ticket, problem)

    # ---- models on a GPU, and those that decode nothing where digits do not matter

    def _predicted_together(self, tickets: list[Ticket]) -> list[Ticket]:
        """Answer predictions with the same options as one batch; what is left is of another kind."""
        groups: dict[str, list[Ticket]] = {}
        for ticket in tickets:
            if ticket.ask.kind == "predict":
                groups.setdefault(repr(sorted(ticket.ask.options.items())), []).append(ticket)
        for group in groups.values():
            for ticket in group:
                self.watcher.began(time.monotonic() - ticket.came)
            for ticket, outcome in zip(group, self._batch(group), strict=True):
                self._close(ticket, outcome)
        return [ticket for ticket in tickets if ticket.ask.kind != "predict"]

    def _batch(self, group: list[Ticket]) -> list[Any]:
        """The answers of requests with the same options, or what is wrong with each."""
        try:
            outputs = self.predictor.attempt([ticket.ask.input for ticket in group], **group[0].ask.options)
        except Exception as problem:
            return [problem] * len(group)
        return [_finished(ticket.ask, output) for ticket, output in zip(group, outputs, strict=True)]


def _finished(ask: Ask, output: Any) -> Any:
    if isinstance(output, Exception):
        return output
    try:
        return ask.finish(output)
    except Exception as problem:
        return problem


def _told(pieces: Any, tell: Callable[[str], None]) -> Any:
    """Hand over pieces as they come; gives what the stream gives at its end."""
    while True:
        try:
            tell(next(pieces))
        except StopIteration as end:
            return end.value


def outcome_name(outcome: object) -> str:
    """One word for how a request ended."""
    names: dict[type, str] = {LateError: "late", CancelledError: "cancelled", StoppingError: "stopped"}
    if not isinstance(outcome, BaseException):
        return "answered"
    return names.get(type(outcome), "refused" if isinstance(outcome, RegardError) else "failed")
