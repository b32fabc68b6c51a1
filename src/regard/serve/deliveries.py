"""From an engine's thread to those who wait in the event loop: what a step has brought for many is handed over at once.

Waking the loop takes longer than handing a piece over, and a step for hundreds of streams has a piece for each.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any


class Deliveries:
    """Pieces on their way to queues of one event loop, in the order they came."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[asyncio.Queue[Any], Any]] = deque()
        self._called = False

    def add(self, loop: asyncio.AbstractEventLoop, queue: asyncio.Queue[Any], piece: Any) -> None:
        """Hand a piece over soon; from any thread."""
        self._waiting.append((queue, piece))
        if not self._called:  # seen false too often, it only wakes the loop once more
            self._called = True
            loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        self._called = False
        while self._waiting:
            queue, piece = self._waiting.popleft()
            queue.put_nowait(piece)
