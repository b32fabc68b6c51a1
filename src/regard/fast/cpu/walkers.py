"""Greedy decodings of one row each that go on by themselves, by a packed decoder: `walking`, without anybody asking.

    walkers = Walkers.of(walk, threads=2, few=1, many=16)     None where its decoder has no such kernels
    walkers.takes(walk) and walkers.join(walk, deadline)      from any thread
    walkers.run()                                             the thread that steps: until it is called back
    walkers.wait() and walkers.collect()                      another: the walks that are over, as soon as there are any
    walkers.call_back(); walkers.take_back()                  those that are not over can step otherwise again

Between two tokens of a walk nobody has to have Python's lock: threads that read inputs and speak to users are not
waited for, and need not wait. Twin of `regard.decoding.joint.step_together`, made again and again.

One at a time may join, collect and take back. What has been taken back is nobody's but the caller's: who is over has
been collected by then, and of who joined too late to be stepped nothing is kept.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from regard.decoding.walks import Walk
from regard.fast.cpu.native.structures import COUNT, REAL, WalkCounts, WalkRow
from regard.fast.cpu.walking import WalkingModel, known_row, model_of, table_of

_MOST = 64  # walks that the kernels hand over at once


@dataclass(frozen=True)
class Ended:
    """Walks that nobody steps for any more, each with when its first token came, and what steps there were meanwhile.

    One that was let go is not over; it has no first token where it was let go before any.
    """

    walks: list[tuple[Walk, float | None]]
    n_tokens: int
    n_steps: int
    seconds: float


class Walkers:
    """Walks by one decoder, and the kernels that step them: by all `threads` where one is alone or there are `many`."""

    def __init__(self, model: WalkingModel, *, threads: int, few: int, many: int) -> None:
        self.model, self._kernels = model, model.fused.kernels
        self._native = self._kernels.walkers(ctypes.addressof(model.call), self._kernels.of_threads(threads), few, many)
        self._held: dict[int, tuple[Walk, WalkRow, Any]] = {}  # what the kernels know the addresses of
        self._tables: list[Any] = []

    @classmethod
    def of(cls, walk: Walk, *, threads: int, few: int, many: int) -> Walkers | None:
        """For walks like this one."""
        model = model_of(walk.stepper)
        return None if model is None else cls(model, threads=threads, few=few, many=many)

    def takes(self, walk: Walk) -> bool:
        """Whether a walk can join; it is described if it is new."""
        if model_of(walk.stepper) is not self.model:
            return False
        return (known_row(walk) is not None or self.model.describe(walk)) and not walk.over

    def join(self, walk: Walk, deadline: float) -> WalkRow:
        """Step for this one, too, until it is over, or late (by `time.monotonic`), or its row `leaves`."""
        row = known_row(walk)
        assert row is not None, "`takes` has described it"
        left = walk.limit - len(walk.tokens)
        tokens, log_probs = (COUNT * left)(), (REAL * left)()
        row.tokens, row.log_probs = ctypes.addressof(tokens), ctypes.addressof(log_probs)
        row.n_written, row.limit, row.eos = 0, left, walk.plan.eos_id
        row.deadline, row.leaves, row.over = deadline, 0, 0
        self._held[ctypes.addressof(row)] = walk, row, (tokens, log_probs)
        positions = None if self.model.positions is None else table_of(self.model.positions)
        if positions is not None and not any(positions is table for table in self._tables):
            self._tables.append(positions)  # who steps may still be at the one before
        address = None if positions is None else positions.data_ptr()
        self._kernels.walkers_join(self._native, ctypes.addressof(row), address)
        return row

    def share(self, *, alone: bool, others_compute: bool) -> None:
        """Say whether there is one request only, and whether a thread is wanted elsewhere."""
        self._kernels.walkers_share(self._native, alone, others_compute)

    def run(self) -> None:
        """Step for all there are, until called back."""
        self._kernels.walkers_run(self._native)

    def call_back(self, *, for_good: bool = False) -> None:
        """Have `run` return after the step it makes; and `wait` too, if nobody will come any more."""
        self._kernels.walkers_call_back(self._native, for_good)

    def take_back(self) -> list[tuple[Walk, float | None]]:
        """What was being stepped when `run` returned; it knows by now what it has written, and when that began.

        Whatever is over has been collected before.
        """
        self._kernels.walkers_forget(self._native)
        return self._all_told(list(self._held))

    def wait(self) -> bool:
        """Whether there is something to collect, as soon as there is; not where nobody will come any more."""
        return bool(self._kernels.walkers_wait(self._native))

    def collect(self) -> Ended:
        """All walks that are over or were let go."""
        found, counts, addresses = (ctypes.c_void_p * _MOST)(), WalkCounts(), list[int | None]()
        n_tokens, n_steps, seconds, n = 0, 0, 0.0, _MOST
        while n == _MOST:
            n = self._kernels.walkers_collect(self._native, ctypes.addressof(found), _MOST, ctypes.addressof(counts))
            addresses += found[:n]
            n_tokens, n_steps = n_tokens + counts.n_tokens, n_steps + counts.n_steps
            seconds += counts.seconds
        return Ended(self._all_told(addresses), n_tokens, n_steps, seconds)

    def free(self) -> None:
        """Nobody runs or waits any more."""
        self._kernels.walkers_free(self._native)

    def _all_told(self, addresses: Sequence[int | None]) -> list[tuple[Walk, float | None]]:
        return [self._told(address) for address in addresses if address is not None]

    def _told(self, address: int) -> tuple[Walk, float | None]:
        """A walk that the kernels let go, with all that they wrote, and when that began."""
        walk, row, (tokens, log_probs) = self._held.pop(address)
        for i in range(row.n_written):
            walk.go(tokens[i], log_probs[i])
        return walk, row.first if row.n_written else None
