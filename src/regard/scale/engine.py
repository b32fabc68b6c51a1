"""What the driver asks of an engine: workers that are started, given parts, and heard of.

with engine:
    worker = engine.start()
    engine.wait()            (worker, Ready())
    engine.submit(worker, part)
    engine.wait()            (worker, PartOutput), or what went wrong
"""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

from regard.errors import RegardError
from regard.scale.parts import Part
from regard.scale.worker import PartOutput


@dataclass(frozen=True)
class Ready:
    """A worker has opened its model."""


@dataclass(frozen=True)
class Death:
    """A worker has ended; `why` is said after "its process"."""

    why: str


Outcome = Ready | PartOutput | RegardError | Death


class Engine(Protocol):
    """Starts and hears of workers, `size` of them at most at a time; one that died is gone."""

    @property
    def size(self) -> int:
        """How many workers there are to be."""

    def start(self) -> int:
        """Start a worker; its number. It is heard of when it is ready."""

    def submit(self, worker: int, part: Part) -> None:
        """Give a part to a worker that is ready and has none."""

    def wait(self) -> tuple[int, Outcome]:
        """The next worker that is heard of, and what."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End all workers at once."""
