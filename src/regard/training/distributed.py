"""More than one process: under `torchrun` each takes its share of every batch, and the gradients are summed.

    torchrun --nproc-per-node 2 -m regard train recipe.toml --out runs/de

The same recipe gives the same loss as one process: every batch is split over the processes, the loss is divided by
the tokens of the whole batch, and the sum over processes is the whole batch's gradient.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar
from uuid import uuid4

import torch
import torch.distributed as dist

from regard.errors import EnvironmentProblem, RegardError
from regard.training.liveness import Pace, Peer, PeerWatch, Store, end_process

Shared = TypeVar("Shared")
_PATIENCE = timedelta(
    hours=2
)  # while the first process evaluates, the others wait; one that is gone is noticed at once


def is_elastic() -> bool:
    """Whether `torchrun --max-restarts` starts all processes again when one is lost; the run then goes on by itself."""
    return int(os.environ.get("TORCHELASTIC_MAX_RESTARTS", "0")) > 0


GONE = "another process of this training is gone (killed, or out of memory): it cannot go on"


class Lost(EnvironmentProblem):
    """Another process of this training is gone: none can go on alone."""


@contextmanager
def together(*, computing: bool = False) -> Iterator[None]:
    """Where processes wait for one another; that one of them is gone is said as such.

    While they are `computing` besides, other things can go wrong, which are left as they are.
    """
    try:
        yield
    except RuntimeError as problem:  # what the backends raise when a connection ends
        if computing and not _of_a_backend(problem):
            raise
        raise Lost(GONE) from problem


def _of_a_backend(problem: RuntimeError) -> bool:
    return isinstance(problem, dist.DistError) or any(name in str(problem) for name in ("gloo", "NCCL", "nccl"))


def _find_launcher(seconds: float = 20.0) -> None:
    """Refuse to wait for others where the launcher that all would meet at was killed while they started."""
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        return
    place, until = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])), time.monotonic() + seconds
    while True:
        try:
            socket.create_connection(place, timeout=seconds).close()
            return
        except OSError as problem:
            if time.monotonic() > until:
                raise Lost("the launcher of this training is gone: nothing is begun") from problem
        time.sleep(0.2)


@dataclass(frozen=True)
class ProcessGroup:
    """Which of how many processes this is.

    `handle` is what PyTorch knows the group by, None for all there are; `background` is the same processes once more,
    for threads whose messages must not come between the others. `launcher` is the process that started this one.
    """

    rank: int = 0
    size: int = 1
    handle: dist.ProcessGroup | None = None
    background: dist.ProcessGroup | None = None
    launcher: int | None = None
    watch: PeerWatch | None = field(default=None, compare=False, repr=False)

    @classmethod
    def join(cls, device: torch.device, *, on_lost: Callable[[], None] = end_process) -> ProcessGroup:
        """Join the processes that `torchrun` started, or be alone.

        `on_lost` is called, in another thread, where one of the others is gone and this one is stuck for it: it ends.
        """
        if int(os.environ.get("WORLD_SIZE", "1")) < 2:
            return cls(launcher=os.getppid() if "TORCHELASTIC_RUN_ID" in os.environ else None)
        with together():
            if not dist.is_initialized():
                _find_launcher()
                backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
                dist.init_process_group(backend, timeout=_PATIENCE, **_meeting_place())
            background = dist.new_group(backend="gloo", timeout=_PATIENCE)
            rank, size = dist.get_rank(), dist.get_world_size()
            watch = PeerWatch(
                _peers(rank, size), rank, store=_own_store(timedelta(seconds=Pace().silent)), on_lost=on_lost
            )
        return cls(rank, size, background=background, launcher=os.getppid(), watch=watch)

    @property
    def abandoned(self) -> bool:
        """Whether the launcher is gone: nobody would start again what is lost now, or stop what is not wanted."""
        return self.launcher not in (None, os.getppid())

    @property
    def first(self) -> bool:
        """Whether this process speaks and writes for all."""
        return self.rank == 0

    def total(self, value: float | int) -> float:
        """The sum of a number over all processes."""
        return self.totals([value])[0]

    def totals(self, values: Sequence[float | int]) -> list[float]:
        """The sums of several numbers over all processes."""
        return Tally(self, values).wait()

    def from_first(self, make: Callable[[], Shared]) -> Shared:
        """What the first process makes, in all of them; what it cannot make, none of them can."""
        if self.size == 1:
            return make()
        box: list[Any] = [None]
        if self.first:
            try:
                box = [make()]
            except RegardError as problem:
                box = [problem]
        with together():
            dist.broadcast_object_list(box, group=self.handle, group_src=0)
        if isinstance(box[0], RegardError):
            raise box[0]
        shared: Shared = box[0]
        return shared

    def wait(self) -> None:
        """Wait until all processes are here."""
        if self.size > 1:
            with together():
                dist.barrier(self.handle)

    def leave(self, *, orderly: bool) -> None:
        """Take leave of the others: all together where the end is `orderly`, else without a word.

        To take a group apart whose other members are gone can take for ever: the end of the process does that.
        """
        if self.size == 1 or self.handle is not None or not dist.is_initialized():
            return
        if orderly:
            self.wait()
        if self.watch is not None:
            self.watch.close()
        if orderly:
            dist.destroy_process_group()


def _meeting_place() -> dict[str, Any]:
    """Where processes meet that `torchrun` may have started before: at keys of this start alone.

    Its store outlives a lost process, and so do addresses of those who are gone, which would be waited for in vain.
    """
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        return {}
    store: Any = _own_store(_PATIENCE)
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    return {"store": dist.PrefixStore(agree_on_start(store, rank, size), store), "rank": rank, "world_size": size}  # type: ignore[attr-defined]


def agree_on_start(store: Any, rank: int, size: int, *, pause: float = 0.02) -> str:
    """A name for this start that all its processes know, whatever those of earlier starts have left in the store.

    Each says hello by a word of its own. The first answers every hello with the name of the start; who finds its own
    word answered is one of this start, and says so. Words of those who are gone are answered, and nobody says so.
    """
    mine, launcher = uuid4().hex, os.getppid()
    waiting = set(range(1, size)) if rank == 0 else {rank}
    while waiting:
        if os.getppid() != launcher:
            raise Lost("the launcher of this training is gone: nothing is begun")
        for other in sorted(waiting):
            hello, answer = f"regard-hello-{other}", f"regard-answer-{other}"
            if rank == 0:
                if store.check([hello]):
                    store.set(answer, f"{store.get(hello).decode()} {mine}")
                if store.check([f"regard-here-{mine}-{other}"]):
                    waiting.discard(other)
            else:
                store.set(hello, mine)
                word, _, start = store.get(answer).decode().partition(" ") if store.check([answer]) else ("", "", "")
                if word == mine:
                    store.set(f"regard-here-{start}-{other}", "")
                    return start
        time.sleep(pause)
    return mine


def _peers(rank: int, size: int) -> list[Peer]:
    """All processes, by rank."""
    peers: list[Any] = [None] * size
    dist.all_gather_object(peers, tuple(Peer.here(rank)))
    return [Peer(*peer) for peer in peers]


def _own_store(most: timedelta) -> Store | None:
    """One more connection to where all have met: one that others wait at would make them wait for each other."""
    if "MASTER_ADDR" not in os.environ or "MASTER_PORT" not in os.environ:
        return None
    host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    store: Store = dist.TCPStore(host, port, is_master=False, wait_for_workers=False, timeout=most)  # type: ignore[attr-defined]
    return store


class Tally:
    """Sums of a few numbers over all processes, on their way while other work goes on."""

    def __init__(self, group: ProcessGroup, values: Sequence[float | int]) -> None:
        self._values, self._work = list(values), None
        if group.size > 1:
            self._tensor = torch.tensor(self._values, dtype=torch.float64)
            with together():
                self._work = dist.all_reduce(self._tensor, group=group.handle, async_op=True)

    def wait(self) -> list[float]:
        """The sums, as soon as they are there."""
        if self._work is not None:
            with together():
                self._work.wait()
            self._values, self._work = self._tensor.tolist(), None
        return self._values
