"""Steps in a thread of their own, beside the one that begins and finishes requests.

    stepping = Stepping(desk, threads=2)
    stepping.put(live)              those that wait for a step are in its hands from now on
    stepping.resume()               those that have one go on, until they ask for more

Between two steps requests join, and those that are cancelled or late leave. Walks go on from token to token without
being asked, and without Python where kernels can (`walk_loop`), while there is nobody else; whoever looks at every step
is waited for, so that all of them step together again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from regard.config.threads import take_threads
from regard.decoding.walks import Walk
from regard.serve.joining import Decoding, Request, StepRequest, computed
from regard.serve.threads.desk import Desk
from regard.serve.threads.walk_loop import WalkLoop
from regard.serve.tickets import Ticket

log = logging.getLogger("regard.serve")
_MANY_ROWS = 16  # whose products are worth all threads


class Stepping:
    """The thread, and what is in its hands."""

    def __init__(self, desk: Desk, *, threads: int) -> None:
        self._desk, self._threads = desk, threads
        self._changed = threading.Condition()
        self._members: dict[Decoding, tuple[Ticket, Request]] = {}
        self._results: dict[Decoding, Any] = {}
        self._awaited: set[Decoding] = set()  # they have been given a step, and will ask for the next in a moment
        self._n_live = 0  # requests under way, those whose inputs are being read included
        self._ended = self._others_compute = False
        self._loop = WalkLoop(desk, threads=threads, many=_MANY_ROWS, over=self._walked, lock=self._changed)
        self._looping = False  # all members are walks, and go on by themselves
        self._thread = threading.Thread(target=self._run, name="regard-steps", daemon=True)
        self._thread.start()

    @property
    def has_results(self) -> bool:
        """Whether somebody can go on."""
        return bool(self._results)

    @property
    def others_compute(self) -> bool:
        """Whether somebody reads: a thread is left to them."""
        return self._others_compute

    @others_compute.setter
    def others_compute(self, others: bool) -> None:
        if others != self._others_compute:
            self._others_compute = others
            self._share_loop()

    @property
    def n_members(self) -> int:
        """How many requests it makes steps for."""
        return len(self._members)

    @property
    def only_walks(self) -> bool:
        """Whether nobody looks at every step."""
        return not self._awaited and all(isinstance(request, Walk) for _, request in list(self._members.values()))

    def has(self, decoding: Decoding) -> bool:
        """Whether steps are being made for this one."""
        return decoding in self._members

    def put(self, live: Mapping[Ticket, Decoding]) -> None:
        """Make steps for those that wait for one; those with a result have yet to go on."""
        with self._changed:
            new = {
                one: (ticket, one.waiting)
                for ticket, one in live.items()
                if isinstance(one.waiting, StepRequest | Walk) and one not in self._members and one not in self._results
            }
            self._members |= new
            self._awaited &= self._results.keys()
            self._n_live = len(live)
            self._share_loop()
            if self._looping and self._loop.takes(new):
                self._loop.join(new)
            elif self._looping:
                self._loop.call_back()
            self._changed.notify_all()

    def resume(self) -> None:
        """Let those go on that have got what they asked for; a problem ends them."""
        with self._changed:
            results, self._results = self._results, {}
        for one, result in results.items():
            if one.over:
                continue
            if isinstance(result, _Left):
                one.stop(result.problem)
            else:
                one.resume(result)

    def clear(self) -> None:
        """Make steps for nobody."""
        with self._changed:
            self._members, self._results, self._awaited = {}, {}, set()
            self._loop.let_go()

    def stop(self) -> None:
        """No more steps."""
        with self._changed:
            self._ended = True
            self._loop.close()
            self._changed.notify_all()
        self._thread.join(timeout=10.0)
        if not self._thread.is_alive():
            self._loop.free()

    @torch.inference_mode()
    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._ended and (self._awaited or not self._members):
                    self._changed.wait()
                if self._ended:
                    return
                members = dict(self._members)
                self._looping = self._loop.takes(members)
                if self._looping:
                    self._loop.join(members)
            if self._looping:
                self._walk()
                continue
            now = time.monotonic()
            results: dict[Decoding, Any] = {
                one: _Left(problem) for one, (ticket, _) in members.items() if (problem := ticket.problem(now))
            }
            going = {one: member for one, member in members.items() if one not in results}
            if going:
                results |= self._stepped(going)
            self._give_back(results)

    def _walk(self) -> None:
        """Let walks go on by themselves, until somebody comes who does not walk."""
        self._loop.run()
        with self._changed:
            self._looping = False
            self._loop.take_back()

    def _walked(self, walks: Sequence[Walk]) -> None:
        """Walks are over, or were let go."""
        now = time.monotonic()
        with self._changed:
            by_walk = {request: (one, ticket) for one, (ticket, request) in self._members.items()}
            for walk in walks:
                if walk not in by_walk:  # nobody waits for it any more
                    continue
                one, ticket = by_walk[walk]
                del self._members[one]
                self._results[one] = (walk.problem or walk) if walk.over else _left(ticket, now)
        self._desk.wake()

    def _share_loop(self) -> None:
        alone = self._n_live + len(self._desk.queue) == 1
        self._loop.share(alone=alone, others_compute=self._others_compute)

    def _stepped(self, going: Mapping[Decoding, tuple[Ticket, Request]]) -> dict[Decoding, Any]:
        """One step for all; those whose walk is not over have nothing to go on with yet."""
        take_threads(self._share(going))
        before = time.monotonic()
        try:
            results, made = computed({one: request for one, (_, request) in going.items()})
            now = time.monotonic()
            self._desk.watcher.stepped(made.n_tokens, now - before)
            for ticket, _ in going.values():
                ticket.stepped(now, self._desk.watcher)
        except Exception as problem:  # nobody's fault that is known: those under way end, and others are served
            log.exception("a step failed")
            return {one: _Left(problem) for one in going}
        return results

    def _share(self, going: Mapping[Decoding, tuple[Ticket, Request]]) -> int:
        """The threads of a step: all for one request alone, or for many rows; else one is left to who reads and speaks.

        Few rows are multiplied no cheaper by several threads, which wait for one another at every layer.
        """
        alone = self._n_live + len(self._desk.queue) == 1
        many = sum(_n_rows(request) for _, request in going.values()) >= _MANY_ROWS
        return self._threads if (alone or many) and not self.others_compute else max(1, self._threads - 1)

    def _give_back(self, results: Mapping[Decoding, Any]) -> None:
        with self._changed:
            given = {one: result for one, result in results.items() if one in self._members}
            for one in given:
                if isinstance(self._members.pop(one)[1], StepRequest):
                    self._awaited.add(one)
            self._results |= given
        if given:
            self._desk.wake()


def _n_rows(request: Request) -> int:
    return len(request.tokens) if isinstance(request, StepRequest) else 1


class _Left:
    """A request that ends for a reason of its own."""

    def __init__(self, problem: Exception) -> None:
        self.problem = problem


def _left(ticket: Ticket, now: float) -> _Left:
    problem = ticket.problem(now)
    assert problem is not None, "a walk is let go when it is cancelled or late"
    return _Left(problem)
