"""Whether the other processes of a training are still there, watched by a thread of its own.

What waits for another process is told by its backend when the connection ends; but a machine without power or network
ends no connection, and a backend may itself be stuck. So every process shows each second that it is there, by the
processes of its own machine seen as such, by others through the store at which all have met:

    gone     its process has ended (same machine), or nothing was heard of it for a minute (another one)

The thread that trains then has some seconds to notice and say so itself. If it does not, it is stuck for good: the
watch says what happened in its place, and ends the process.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import NamedTuple, Protocol

from regard.checkpoints.lock import start_of

_BEAT, _SILENT, _GRACE = 1.0, 60.0, 8.0  # seconds


class Store(Protocol):
    """Where processes leave small values for one another."""

    def set(self, key: str, value: str) -> None:
        """Leave a value."""

    def get(self, key: str) -> bytes:
        """The value that is there; it waits for one."""


class Peer(NamedTuple):
    """A process of the training; those of one `machine` see one another's numbers, `started` tells two of a number."""

    rank: int
    machine: str
    pid: int
    started: str

    @classmethod
    def here(cls, rank: int) -> Peer:
        """This process."""
        try:
            namespace = os.readlink("/proc/self/ns/pid")
            machine = f"{Path('/proc/sys/kernel/random/boot_id').read_text(encoding='utf-8').strip()} {namespace}"
        except OSError:  # not Linux: nobody's number is believed to be of the same machine
            machine = f"{rank}"
        return cls(rank, machine, os.getpid(), start_of(os.getpid()) or "")


def end_process() -> None:
    """Say that another process is gone, and end: what trains is stuck and will not say it."""
    sys.stderr.write("error: another process of this training is gone (killed, or out of reach): it cannot go on\n")
    sys.stderr.flush()
    os._exit(1)


@dataclass(frozen=True)
class Pace:
    """Seconds between two signs of life, without one until a process counts as gone, and to notice it otherwise."""

    beat: float = _BEAT
    silent: float = _SILENT
    grace: float = _GRACE


class PeerWatch:
    """Watches the other processes until it is closed."""

    def __init__(
        self,
        peers: Sequence[Peer],
        rank: int,
        *,
        store: Store | None,
        on_lost: Callable[[], None] = end_process,
        pace: Pace = Pace(),  # noqa: B008 - frozen
    ) -> None:
        """`peers` are all processes, by rank. `store` is the watch's own; without one, only this machine is seen."""
        mine = peers[rank]
        self._near = [peer for peer in peers if peer.machine == mine.machine and peer.rank != rank]
        self._far = [peer for peer in peers if peer.machine != mine.machine] if store is not None else []
        self._rank, self._store, self._on_lost, self._pace = rank, store, on_lost, pace
        self._heard = {peer.rank: (b"", time.monotonic()) for peer in self._far}
        self._beats, self._ended = 0, Event()
        self._show()
        Thread(target=self._watch, name="liveness", daemon=True).start()

    def close(self) -> None:
        """Watch no longer."""
        self._ended.set()

    def _watch(self) -> None:
        while not self._ended.wait(self._pace.beat):
            if not self._all_there():
                if not self._ended.wait(self._pace.grace):
                    self._on_lost()
                return

    def _all_there(self) -> bool:
        if any(peer.started and start_of(peer.pid) != peer.started for peer in self._near):
            return False
        try:
            self._show()
            return all(self._hears(peer.rank) for peer in self._far)
        except RuntimeError:  # the store is gone with the process that keeps it
            return False

    def _show(self) -> None:
        self._beats += 1
        if self._far:
            assert self._store is not None
            self._store.set(_key(self._rank), str(self._beats))

    def _hears(self, rank: int) -> bool:
        """Whether there was a sign of a process lately."""
        assert self._store is not None
        said, before = self._store.get(_key(rank)), self._heard[rank]
        if said != before[0]:
            self._heard[rank] = before = (said, time.monotonic())
        return time.monotonic() - before[1] < self._pace.silent


def _key(rank: int) -> str:
    return f"regard-alive-{rank}"
