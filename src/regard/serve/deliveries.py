"""From an engine's thread to those who wait in an event loop: what a step has brought for many is handed over at once.

Waking the loop takes longer than handing a piece over, and a step for hundreds of streams has a piece for each.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any
from weakref import WeakKeyDictionary


class Deliveries:
    """Pieces on their way to queues, in the order they came: those of one event loop together."""

    def __init__(self) -> None:
        self._loops: WeakKeyDictionary[asyncio.AbstractEventLoop, _Pieces] = WeakKeyDictionary()

    def here(self) -> _Pieces:
        """Those of the loop that is running."""
        loop = asyncio.get_running_loop()
        if loop not in self._loops:
            self._loops[loop] = _Pieces(loop)
        return self._loops[loop]


class _Pieces:
    """Pieces for queues of one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[tuple[asyncio.Queue[Any], Any]] = deque()
        self._called = False

    def add(self, queue: asyncio.Queue[Any], piece: Any) -> None:
        """Hand a piece over soon; from any thread."""
        self._waiting.append((queue, piece))
        if not self._called:  # where two threads see that, the loop is woken once more than it has to be
            self._called = True
            self._loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        self._called = False
        while self._waiting:
            queue, piece = self._waiting.popleft()
            queue.put_nowait(piece)
