"""Workers as processes of this machine: one a GPU, or on processors with their share of the threads.

A worker ends when the process that started it is gone, in the middle of a part, too. Ctrl-C reaches all of a terminal's
processes: workers leave it to the driver.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import traceback
from collections.abc import Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from types import TracebackType
from typing import Self

from regard.errors import RegardError
from regard.scale.engine import Death, Outcome, Ready
from regard.scale.parts import Part
from regard.scale.worker import Assignment, Worker


class LocalEngine:
    """Processes, one for each assignment; a new one takes up the assignment of one that died."""

    def __init__(self, assignments: Sequence[Assignment]) -> None:
        self._free = list(enumerate(assignments))[::-1]
        self._taken: dict[int, tuple[Assignment, BaseProcess, Connection]] = {}
        self._size = len(assignments)

    @property
    def size(self) -> int:
        """How many workers there are to be."""
        return self._size

    def start(self) -> int:
        """Start a process; its number."""
        number, assignment = self._free.pop()
        context = multiprocessing.get_context("spawn")  # a fork would take locks of threads with it
        ours, theirs = context.Pipe()
        process = context.Process(target=_work, args=(theirs, assignment), name=f"worker-{number}", daemon=True)
        process.start()
        theirs.close()  # so that the end of the process is the end of the pipe
        self._taken[number] = assignment, process, ours
        return number

    def submit(self, worker: int, part: Part) -> None:
        """Send a part; one that cannot be sent is heard of as a death."""
        try:
            self._taken[worker][2].send(part)
        except OSError:
            return

    def wait(self) -> tuple[int, Outcome]:
        """The next that sends something, or ends."""
        heard = wait([pipe for _, _, pipe in self._taken.values()])[0]
        number = next(number for number, (_, _, pipe) in self._taken.items() if pipe is heard)
        try:
            outcome: Outcome = self._taken[number][2].recv()
        except (EOFError, OSError):  # cut short, or none at all
            return number, Death(self._bury(number))
        if isinstance(outcome, Death):
            self._bury(number)
        return number, outcome

    def _bury(self, number: int) -> str:
        assignment, process, pipe = self._taken.pop(number)
        pipe.close()
        process.join()
        self._free.append((number, assignment))
        code = process.exitcode or 0
        return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        for _, process, pipe in self._taken.values():
            pipe.close()
            process.kill()  # it has nothing to tidy up
        for _, process, _ in self._taken.values():
            process.join()
        self._taken.clear()


def _work(pipe: Connection, assignment: Assignment) -> None:
    """The life of a process: open, say so, and answer until nobody asks."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        worker = Worker(assignment)
        pipe.send(Ready())
        while True:
            pipe.send(_answer(worker, pipe.recv()))
    except RegardError as problem:
        pipe.send(problem)
    except (EOFError, BrokenPipeError):
        return
    except Exception as problem:
        pipe.send(Death(f"ended with {traceback.format_exception_only(problem)[-1].strip()}"))


def _answer(worker: Worker, part: Part) -> Outcome:
    try:
        return worker.run(part)
    except RegardError as problem:
        return problem


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
