"""What an engine and its threads have in common: who waits, and what is worked with."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from regard.serve.limits import Limits
from regard.serve.tickets import Ticket, Watcher


@dataclass
class Desk:
    """Requests come here, and whoever has something for the engine's thread wakes it here."""

    predictor: Any
    joined: Any | None
    limits: Limits
    watcher: Watcher
    gathers: bool
    queue: deque[Ticket] = field(default_factory=deque)
    changed: threading.Condition = field(default_factory=threading.Condition)
    ended: bool = False

    def wake(self) -> None:
        """There is something for the engine's thread to do."""
        with self.changed:
            self.changed.notify_all()
