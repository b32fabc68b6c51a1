"""Plain greedy decodings that go on from token to token without Python, beside all that needs it.

    loop = WalkLoop(desk, threads=2, over=..., lock=...)
    loop.takes(members) and loop.join(members)        all of these go on so, or none
    loop.run()                                the thread that steps, until `call_back`
    over(walks)                               called for those that have come to their end, within the lock

Who joins or takes back has the lock, and so has the loop's own thread that hands over: nobody is both at an end and
still under way.
They share each step, join and leave between two, and leave when they are cancelled or late; those who wait for an
answer, or for the lock of Python, hold nobody up.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from regard.config.twins import twin
from regard.decoding.walks import Walk
from regard.serve.joining import Decoding, Request
from regard.serve.threads.desk import Desk
from regard.serve.tickets import Ticket

log = logging.getLogger("regard.serve")

Members = Mapping[Decoding, tuple[Ticket, Request]]


class WalkLoop:
    """The walks, and the thread that hands over those that are done."""

    def __init__(
        self, desk: Desk, *, threads: int, many: int, over: Callable[[list[Walk]], None], lock: threading.Condition
    ) -> None:
        self._desk, self._threads, self._many, self._over, self._lock = desk, threads, many, over, lock
        self._walkers: Any = None  # made for the model of the first walk that suits
        self._tickets: dict[Walk, Ticket] = {}

    def takes(self, members: Members) -> bool:
        """Whether all of these can go on by themselves."""
        return all(isinstance(request, Walk) and self._takes(request) for _, request in members.values())

    def join(self, members: Members) -> None:
        """Let them go on; `takes` has said that they can."""
        for ticket, walk in members.values():
            assert isinstance(walk, Walk)
            self._tickets[walk] = ticket
            row = self._walkers.join(walk, ticket.deadline)

            def leave(row: Any = row) -> None:
                row.leaves = 1

            ticket.leave = leave
            if ticket.cancelled:  # meanwhile
                leave()

    def share(self, *, alone: bool, others_compute: bool) -> None:
        """Say who else there is: one request alone, or a thread that is wanted elsewhere."""
        if self._walkers is not None:
            self._walkers.share(alone=alone, others_compute=others_compute)

    def run(self) -> None:
        """Step, until called back."""
        self._walkers.run()

    def call_back(self) -> None:
        """Have `run` return."""
        if self._walkers is not None:
            self._walkers.call_back()

    def take_back(self) -> None:
        """Those that are not over can be stepped otherwise: nobody runs the loop."""
        self._hand_over()
        self._begun(self._walkers.take_back())

    def let_go(self) -> None:
        """Nobody waits for these walks any more."""
        for ticket in list(self._tickets.values()):
            ticket.leave()

    def close(self) -> None:
        """Nobody will walk any more."""
        if self._walkers is not None:
            self._walkers.call_back(for_good=True)

    def free(self) -> None:
        """Nobody runs the loop any more."""
        if self._walkers is not None:
            self._thread.join(timeout=10.0)
            walkers, self._walkers = self._walkers, None
            if not self._thread.is_alive():
                walkers.free()

    def _takes(self, walk: Walk) -> bool:
        if self._walkers is None:
            make = twin("walkers")
            few = max(1, self._threads - 1)
            self._walkers = None if make is None else make(walk, threads=self._threads, few=few, many=self._many)
            if self._walkers is None:
                return False
            self._thread = threading.Thread(target=self._watch, name="regard-walks", daemon=True)
            self._thread.start()
        takes: bool = self._walkers.takes(walk)
        return takes

    def _watch(self) -> None:
        """Hand over walks as they end."""
        while self._walkers.wait():
            with self._lock:
                self._hand_over()

    def _hand_over(self) -> None:
        """Say which walks are over, and count what was done meanwhile."""
        ended = self._walkers.collect()
        if ended.n_steps:
            self._count(self._desk.watcher.stepped, ended.n_tokens, ended.seconds / ended.n_steps)
        if ended.walks:
            self._begun(ended.walks)
            self._over([walk for walk, _ in ended.walks])

    def _begun(self, walks: Sequence[tuple[Walk, float | None]]) -> None:
        """Note when their first tokens came."""
        for ticket, first in [(self._tickets.pop(walk), first) for walk, first in walks]:
            if first is not None:
                self._count(ticket.stepped, first, self._desk.watcher)

    @staticmethod
    def _count(count: Callable[..., None], *figures: Any) -> None:
        """Nobody's answer depends on what is counted, nor does the thread that steps."""
        try:
            count(*figures)
        except Exception:
            log.exception("steps were not counted")
