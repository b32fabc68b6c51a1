"""The thread of an engine: it begins requests, steps for those that are under way, and lets them go.

On a processor, where kernels of our own leave every row its bits, inputs are read by a second thread (`Reader`): as
batches of their own beside the steps, so that a long prompt holds nobody up.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

from regard.decoding.joint import Start, start_together
from regard.decoding.stepper import Stepper
from regard.serve.joining import Decoding, advance, begin
from regard.serve.limits import Limits
from regard.serve.tickets import Ask, StoppingError, Ticket, Watcher, outcome_name

log = logging.getLogger("regard.serve")
_MANY_ROWS = 16  # whose products are worth all threads
_GLANCE = 0.02  # seconds to wait for a reader before looking who has left


@dataclass(frozen=True)
class Room:
    """What it has: rows and tokens under way, requests begun between two steps, threads, and maybe a reader beside."""

    rows: int
    tokens: int
    starts: int
    threads: int
    reads_beside: bool = False


class Reader:
    """Reads inputs in a thread of its own, while steps are made for those whose inputs have been read.

    Whatever has come while it was reading is read next, all of it together.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._starts: list[tuple[Decoding, Start]] = []
        self._read: list[tuple[Decoding, Stepper | Exception]] = []
        self._begun: dict[Decoding, Start] = {}  # what is being read, or will be
        self._threads = 1
        # A daemon, unlike those of an executor: a process that ends does not wait for a long prompt.
        threading.Thread(target=self._run, name="regard-reader", daemon=True).start()

    @property
    def is_busy(self) -> bool:
        """Whether it reads."""
        return bool(self._begun)

    def wait(self) -> None:
        """Until it has read, or a moment: somebody may have left."""
        with self._changed:
            if not self._read:
                self._changed.wait(_GLANCE)

    def read(self, decodings: Sequence[Decoding], *, threads: int) -> None:
        """Let those go on whose inputs have been read, and begin with the others."""
        with self._changed:
            done, self._read = self._read, []
        for one, stepper in done:
            del self._begun[one]
            if not one.over:
                one.resume(stepper)
        waiting = {one: one.waiting for one in decodings if isinstance(one.waiting, Start)}
        new = [(one, start) for one, start in waiting.items() if one not in self._begun]
        self._begun |= dict(new)
        with self._changed:
            self._threads = 1 if len(waiting) < len(decodings) else threads
            self._starts += new
            self._changed.notify_all()

    @torch.inference_mode()
    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._starts:
                    self._changed.wait()
                taken, self._starts, threads = self._starts, [], self._threads
            if torch.get_num_threads() != threads:
                torch.set_num_threads(threads)
            steppers: Sequence[Stepper | Exception]
            try:
                steppers = start_together([start for _, start in taken])
            except Exception as problem:  # nobody's fault that is known: whoever comes next is read
                steppers = [problem] * len(taken)
            with self._changed:
                self._read += [(one, stepper) for (one, _), stepper in zip(taken, steppers, strict=True)]
                self._changed.notify_all()


@dataclass
class Desk:
    """What an engine and its thread have in common: who waits, and what is worked with."""

    predictor: Any
    joined: Any | None
    limits: Limits
    watcher: Watcher
    gathers: bool
    queue: deque[Ticket] = field(default_factory=deque)
    changed: threading.Condition = field(default_factory=threading.Condition)
    ended: bool = False


class Worker:
    """A thread, and the requests it works on."""

    def __init__(self, desk: Desk, room: Room) -> None:
        self.desk, self.room = desk, room
        self.live: dict[Ticket, Decoding] = {}
        self.reader = Reader() if room.reads_beside else None
        self._thread = threading.Thread(target=self._run, name="regard-engine", daemon=True)

    def start(self) -> None:
        """Begin to work."""
        self._thread.start()

    def join(self) -> None:
        """Until the thread is over."""
        self._thread.join(timeout=10.0)

    @torch.inference_mode()
    def _run(self) -> None:
        torch.set_num_threads(self.room.threads)  # of this thread, and of those that never say how many
        while not self.desk.ended:
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
        busy = self.reader is not None and self.reader.is_busy
        self._take_threads(self._share(busy))
        if self.reader is not None and busy and not any(one.n_rows for one in self.live.values()):
            self.reader.wait()
        elif self.live:
            self._step()

    def _share(self, reading: bool) -> int:
        """The threads of a step: all for one request alone, or for many rows; else one is left to who reads and speaks.

        Few rows are multiplied no cheaper by several threads, which wait for one another at every layer.
        """
        alone = len(self.live) + len(self.desk.queue) == 1
        many = sum(one.n_rows for one in self.live.values()) >= _MANY_ROWS
        return self.room.threads if (alone or many) and not reading else max(1, self.room.threads - 1)

    def _take_threads(self, n: int) -> None:
        if torch.get_num_threads() != n:  # setting them forgets what PyTorch has prepared
            torch.set_num_threads(n)

    def _wait(self) -> None:
        """Until there is something to do; a model that decodes nothing then waits a moment longer for company."""
        with self.desk.changed:
            while not (self.desk.queue or self.live or self.desk.ended):
                self.desk.changed.wait()
        if self.desk.gathers and len(self.desk.queue) < self.desk.limits.batch:
            time.sleep(self.desk.limits.gather)

    def _admitted(self) -> list[Ticket]:
        """Those whose turn it is, in the order they came; the rest stay in the queue."""
        rows = sum(ticket.rows for ticket in self.live)
        tokens = sum(ticket.tokens for ticket in self.live)
        most = self.desk.limits.batch if self.desk.gathers else self.room.starts
        chosen: list[Ticket] = []
        with self.desk.changed:
            while self.desk.queue and len(chosen) < most:
                rows, tokens = rows + self.desk.queue[0].rows, tokens + self.desk.queue[0].tokens
                fits = rows <= self.room.rows and tokens <= self.room.tokens
                if not (fits or (not chosen and not self.live)):
                    break
                chosen.append(self.desk.queue.popleft())
        return self._predicted_together(chosen) if self.desk.gathers else chosen

    def _begin(self, tickets: Sequence[Ticket]) -> None:
        """Start decodings, whose inputs are read together; what decodes nothing is answered at once."""
        for ticket in tickets:
            self.desk.watcher.began(time.monotonic() - ticket.came)
            self.live[ticket] = decoding = Decoding(partial(self._answer, ticket.ask))
            decoding.start()
        self._read_inputs()
        self._settle()

    def _read_inputs(self) -> None:
        """For all who wait for that: who has just begun, or goes on with another input."""
        if self.reader is None:
            begin(list(self.live.values()))
        else:
            self.reader.read(list(self.live.values()), threads=self.room.threads)

    def _answer(self, ask: Ask) -> Any:
        """What one request asks for, in full."""
        if ask.kind == "embed":
            return ask.finish(self.desk.predictor.embed([ask.input])[0])
        model = self.desk.joined or self.desk.predictor
        if ask.kind == "stream":
            return ask.finish(_told(model.stream_ids(ask.input, **ask.options), ask.tell))
        return ask.finish(model([ask.input], **ask.options)[0])

    def _step(self) -> None:
        """One step for everybody who is waiting for one."""
        before = time.monotonic()
        made = advance(list(self.live.values()))
        now = time.monotonic()
        self.desk.watcher.stepped(made.n_tokens, (now - before) / made.n_steps)
        for ticket, decoding in self.live.items():
            ticket.n_steps += 1
            if not ticket.has_begun and decoding.has_stepped:
                ticket.has_begun = True
                self.desk.watcher.first_token(now - ticket.came)
        self._settle()

    def _settle(self) -> None:
        """Answer those that are over."""
        for ticket, decoding in [(ticket, one) for ticket, one in self.live.items() if one.over]:
            del self.live[ticket]
            self._close(ticket, decoding.outcome)

    def _let_go(self) -> None:
        """End those that are cancelled or late, whether they wait or are being decoded."""
        now = time.monotonic()
        for ticket, decoding in self.live.items():
            if (problem := ticket.problem(now)) is not None:
                decoding.stop(problem)
        self._settle()
        with self.desk.changed:
            gone = [ticket for ticket in self.desk.queue if ticket.problem(now) is not None]
            for ticket in gone:
                self.desk.queue.remove(ticket)
        for ticket in gone:
            self._close(ticket, ticket.problem(now))

    def _close(self, ticket: Ticket, outcome: Any) -> None:
        seconds = time.monotonic() - ticket.came
        self.desk.watcher.ended(outcome_name(outcome), seconds)
        if isinstance(outcome, BaseException):
            ticket.future.set_exception(outcome)
        else:
            ticket.future.set_result(outcome)

    def _end_live(self, problem: Exception) -> None:
        for decoding in self.live.values():
            decoding.stop(problem)
        self._settle()

    def _end_all(self, problem: Exception) -> None:
        self._end_live(problem)
        with self.desk.changed:
            left = list(self.desk.queue)
            self.desk.queue.clear()
        for ticket in left:
            self._close(ticket, problem)

    # ---- models that decode nothing, where digits do not matter

    def _predicted_together(self, tickets: list[Ticket]) -> list[Ticket]:
        """Answer predictions with the same options as one batch; what is left is of another kind."""
        groups: dict[str, list[Ticket]] = {}
        for ticket in tickets:
            if ticket.ask.kind == "predict":
                groups.setdefault(repr(sorted(ticket.ask.options.items())), []).append(ticket)
        for group in groups.values():
            for ticket in group:
                self.desk.watcher.began(time.monotonic() - ticket.came)
            for ticket, outcome in zip(group, self._batch(group), strict=True):
                self._close(ticket, outcome)
        return [ticket for ticket in tickets if ticket.ask.kind != "predict"]

    def _batch(self, group: list[Ticket]) -> list[Any]:
        """The answers of requests with the same options, or what is wrong with each."""
        try:
            outputs = self.desk.predictor.attempt([ticket.ask.input for ticket in group], **group[0].ask.options)
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


def _told(pieces: Any, tell: Callable[[list[int]], None]) -> Any:
    """Hand over tokens as they come; gives what the stream gives at its end."""
    while True:
        try:
            tell(next(pieces))
        except StopIteration as end:
            return end.value
