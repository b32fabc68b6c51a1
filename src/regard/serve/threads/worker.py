"""The thread of an engine: it begins requests, steps for those that are under way, and lets them go.

On a processor, where kernels of our own leave every row its bits, steps are made by a second thread (`stepping`): one
begins requests, reads their inputs and finishes them, the other steps. Long inputs are read by a third (`reading`), so
that a long prompt holds nobody up.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from regard.config.threads import take_threads
from regard.decoding.joint import Start
from regard.serve.joining import Decoding, advance, begin
from regard.serve.threads.desk import Desk
from regard.serve.threads.reading import Reader, are_short
from regard.serve.threads.stepping import Stepping
from regard.serve.tickets import Ask, StoppingError, Ticket, outcome_name

log = logging.getLogger("regard.serve")
_GLANCE = 0.02  # seconds after which it is looked at who has left, if nothing else happens


@dataclass(frozen=True)
class Room:
    """What it has: rows and tokens under way, requests begun between two steps, and threads to compute with.

    `steps_beside` says that steps are made by a thread of their own.
    """

    rows: int
    tokens: int
    starts: int
    threads: int
    steps_beside: bool = False


class Worker:
    """A thread, and the requests it works on."""

    def __init__(self, desk: Desk, room: Room) -> None:
        self.desk, self.room = desk, room
        self.live: dict[Ticket, Decoding] = {}
        self.beside = Beside(desk, room) if room.steps_beside else None
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
        if self.beside is not None:
            self.beside.stepping.stop()
        self._end_all(StoppingError("the server is stopping", hint="ask again in a moment"))

    def _work(self) -> None:
        """Let go, take on, and make one step, or have it made."""
        if self.beside is not None:
            self.beside.resume(self.live)
            self._settle()
        self._let_go()
        self._begin(self._admitted())
        if self.beside is not None:
            self.beside.go_on(self.live)
            self._settle()
        elif self.live:
            self._step()

    def _wait(self) -> None:
        """Until there is something to do; a model that decodes nothing then waits a moment longer for company."""
        with self.desk.changed:
            while not self._has_work():
                self.desk.changed.wait(_GLANCE if self.live else None)
                if self.live:  # somebody may have left
                    break
        if self.desk.gathers and len(self.desk.queue) < self.desk.limits.batch:
            time.sleep(self.desk.limits.gather)

    def _has_work(self) -> bool:
        if self.desk.ended or self.beside is None:
            return bool(self.desk.ended or self.desk.queue or self.live)
        return self.beside.has_news or bool(self.desk.queue and self._fits(self.desk.queue[0]))

    def _fits(self, ticket: Ticket) -> bool:
        """Whether there is room for one more."""
        rows = ticket.rows + sum(one.rows for one in self.live)
        tokens = ticket.tokens + sum(one.tokens for one in self.live)
        return not self.live or (rows <= self.room.rows and tokens <= self.room.tokens)

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
        if self.beside is None:
            begin(list(self.live.values()))
        self._settle()

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
            if decoding.has_stepped:
                ticket.stepped(now, self.desk.watcher)
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
            stepped = self.beside is not None and self.beside.stepping.has(
                decoding
            )  # between two steps it leaves itself
            if not stepped and (problem := ticket.problem(now)) is not None:
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
        if self.beside is not None:
            self.beside.stepping.clear()
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


class Beside:
    """The threads beside an engine's own: one that steps, and one that reads what is long."""

    def __init__(self, desk: Desk, room: Room) -> None:
        self.room = room
        self.stepping, self.reader = Stepping(desk, threads=room.threads), Reader(desk)

    @property
    def has_news(self) -> bool:
        """Whether somebody can go on."""
        return self.stepping.has_results or self.reader.has_read

    def resume(self, live: Mapping[Ticket, Decoding]) -> None:
        """Let those go on that can, and have more steps made for those that want some."""
        self.stepping.resume()
        self.reader.resume()
        self.stepping.put(live)

    def go_on(self, live: Mapping[Ticket, Decoding]) -> None:
        """Read the inputs of those that wait for that: at once what is short, unless somebody looks at every step."""
        waiting = {
            one: one.waiting for one in live.values() if isinstance(one.waiting, Start) and not self.reader.has(one)
        }
        if not waiting:
            self.stepping.others_compute = self.reader.is_busy
            return
        # Two computations are not made quicker by more threads than there are left.
        self.stepping.others_compute = True
        threads = 1 if self.stepping.n_members else self.room.threads
        if are_short(list(waiting.values())) and (self.stepping.only_walks or self.reader.is_busy):
            take_threads(threads)
            begin(list(waiting))
            self.stepping.others_compute = self.reader.is_busy
            self.stepping.put(live)
        else:
            self.reader.read(list(waiting), threads=threads)


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
