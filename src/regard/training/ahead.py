"""Batches prepared ahead, in a thread, while the device computes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from queue import Queue
from threading import Event, Thread

from regard.data import Position
from regard.tasks.protocol import Batch


class Ahead:
    """Prepares batches in a thread while the device computes; the order is that of the plain iterator."""

    def __init__(
        self, batches: Callable[[], Iterator[tuple[Position, Batch]]], *, pinned: bool, depth: int = 4
    ) -> None:
        self._pinned = pinned
        self._queue: Queue[tuple[Position, Batch] | BaseException] = Queue(depth)
        self._closed = Event()
        self._thread = Thread(target=self._fill, args=(batches,), daemon=True)
        self._thread.start()

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
