"""Batches prepared ahead, in a thread, while the device computes.

Python lets a thread run for 5 ms before another one gets its turn, which is longer than a small model's whole step on
a GPU. While batches are prepared for one, threads take turns more often, so that it never waits for its next order; a
processor's steps are long enough. Afterwards turns are as long as before, unless somebody has changed them meanwhile.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from queue import Queue
from threading import Event, Thread

from regard.data.batching.plan import Position
from regard.training.protocol import Batch

_TURN = 2e-4  # seconds


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
