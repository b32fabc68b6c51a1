"""An engine of the driver that needs no process: workers answer in this one, and die when a test says so."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from regard.errors import RegardError
from regard.scale.engine import Death, Outcome, Ready
from regard.scale.parts import Part

Answer = Callable[[Part], Outcome]


class InlineEngine:
    """Workers whose answers are what `answer` makes of a part; `open` is what comes of starting one."""

    def __init__(self, answer: Answer, *, size: int = 2, open: Callable[[], Outcome] = Ready) -> None:
        self.answer, self.size, self.open = answer, size, open
        self.started = 0
        self.alive: set[int] = set()
        self.events: deque[tuple[int, Outcome]] = deque()

    def start(self) -> int:
        self.started += 1
        self.alive.add(self.started)
        assert len(self.alive) <= self.size
        self._tell(self.started, self.open())
        return self.started

    def submit(self, worker: int, part: Part) -> None:
        assert worker in self.alive
        self._tell(worker, self.answer(part))

    def wait(self) -> tuple[int, Outcome]:
        return self.events.pop()  # the last first, so that parts end out of order

    def _tell(self, worker: int, outcome: Outcome) -> None:
        if isinstance(outcome, Death):
            self.alive.remove(worker)
        self.events.append((worker, outcome))

    def __enter__(self) -> InlineEngine:
        return self

    def __exit__(self, *_: Any) -> None:
        self.alive.clear()


def working(request: Any, many: Any, *, size: int = 2) -> InlineEngine:
    """An engine whose workers do the real work."""
    import torch

    from regard.scale.worker import Assignment, Worker

    worker = Worker(Assignment(request, many, "cpu", torch.get_num_threads()))

    def answer(part: Part) -> Outcome:
        try:
            return worker.run(part)
        except RegardError as problem:
            return problem

    return InlineEngine(answer, size=size)
