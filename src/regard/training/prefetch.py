"""Batches prepared ahead, in a thread, while the device computes; and what a step takes of them.

    feed = StepFeed(group, accumulate=2, wishes=…)
    taken, n_tokens = feed.take(batches)         the batches of this process, the tokens of all
    feed.agreed()                                whether any process wishes something, after the step

Several processes have to know how many predictions their shares of a step come to, and whether one of them was asked to
stop. Nobody waits for that: the numbers of the next step travel while this one is computed.

Python lets a thread run for 5 ms before another one gets its turn, which is longer than a small model's whole step on
a GPU. While batches are prepared for one, threads take turns more often, so that it never waits for its next order; a
processor's steps are long enough. Afterwards turns are as long as before, unless somebody has changed them meanwhile.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from queue import Queue
from threading import Event, Thread

from regard.data.batching.plan import Position
from regard.training.distributed import ProcessGroup, Tally
from regard.training.protocol import Batch

_TURN = 2e-4  # seconds


Batches = Iterator[tuple[Position, Batch]]


class StepFeed:
    """The batches of one step after the other, with what all processes have to know of them."""

    def __init__(self, group: ProcessGroup, *, accumulate: int, wishes: Callable[[], Sequence[bool]]) -> None:
        self._group, self._accumulate, self._wishes = group, accumulate, wishes
        self._next: list[tuple[Position, Batch]] = []
        self._tally: Tally | None = None

    def take(self, batches: Batches) -> tuple[list[tuple[Position, Batch]], int]:
        """This process's batches of a step, and the tokens of all processes; of one alone, no more is taken."""
        if not self._next:
            self._send(batches)
        taken, n_tokens = self._next, int(self._sums()[0])
        self._next = []
        if self._group.size > 1:
            self._send(batches)
        return taken, n_tokens

    def agreed(self) -> list[bool]:
        """Which wishes some process had: by now, of one alone, or when the step began."""
        if self._group.size == 1:
            return list(self._wishes())
        return [total > 0 for total in self._sums()[1:]]

    def close(self) -> None:
        """Wait for what is still on its way."""
        if self._tally is not None:
            self._sums()

    def _send(self, batches: Batches) -> None:
        self._next = [next(batches) for _ in range(self._accumulate)]
        mine = sum(batch.n_tokens for _, batch in self._next)
        self._tally = Tally(self._group, [mine, *self._wishes()])

    def _sums(self) -> list[float]:
        assert self._tally is not None
        return self._tally.wait()


class Prefetcher:
    """Prepares batches in a thread while the device computes; the order is that of the plain iterator."""

    def __init__(
        self, batches: Callable[[], Iterator[tuple[Position, Batch]]], *, pinned: bool, depth: int = 4
    ) -> None:
        self._pinned = pinned
        self._queue: Queue[tuple[Position, Batch] | BaseException] = Queue(depth)
        self._closed = Event()
        self._thread = Thread(target=self._fill, args=(batches,), daemon=True)
        self._thread.start()
        self._usual_turn = self._turn = sys.getswitchinterval()
        if pinned and self._usual_turn > _TURN:
            sys.setswitchinterval(_TURN)
            self._turn = sys.getswitchinterval()

    def __iter__(self) -> Iterator[tuple[Position, Batch]]:
        return self

    def __next__(self) -> tuple[Position, Batch]:
        item = self._queue.get()
        if isinstance(item, BaseException):
            raise item
        return item

    def close(self) -> None:
        """Stop preparing."""
        self._closed.set()
        if sys.getswitchinterval() == self._turn != self._usual_turn:  # who came first puts it back
            sys.setswitchinterval(self._usual_turn)
        while not self._queue.empty():
            self._queue.get_nowait()
        self._thread.join(timeout=5)

    def _fill(self, batches: Callable[[], Iterator[tuple[Position, Batch]]]) -> None:
        try:
            for position, batch in batches():
                self._queue.put((position, batch.pin_memory() if self._pinned else batch))
                if self._closed.is_set():
                    return
        except BaseException as problem:  # told to the thread that waits for the batch
            self._queue.put(problem)
