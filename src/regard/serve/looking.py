"""Looks at what a model looked at, computed and drawn in another process so that nobody who is being served waits.

The process has models of its own, opened when they are first looked at; for whoever decodes it steps back. It is
started when the first look is asked for, takes one at a time, and is started anew where it died or had to be ended
because a look took too long.

    looking = Looking()
    with looking.place():
        data = await looking.look(Asked(place, "int8", "A dog.", None), "look.png")
    looking.stop()
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import regard
from regard.errors import RegardError, UsageError
from regard.serve.tickets import BusyError, LateError, StoppingError

COMMAND = (sys.executable, "-P", "-m", "regard.serve.looking_worker")


class LookingError(RegardError):
    """The process that looks has died, or has no room for a model."""


@dataclass(frozen=True)
class Asked:
    """What is to be looked at: a model by its place and precision, an input, and what it has to say, if anything."""

    place: Path
    precision: str
    input: str
    target: str | None


class Looking:
    """The process that looks, and those who wait for it.

    seconds    that one look may take, and the start of the process with it
    places     looks that may be asked for at a time
    """

    def __init__(self, *, seconds: float = 120.0, places: int = 16) -> None:
        self.seconds, self.places = seconds, places
        self._n_asked = 0
        self._stopped = False
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="regard-looking")

    @property
    def pid(self) -> int | None:
        """The number of the process, where there is one."""
        return None if self._process is None or self._process.poll() is not None else self._process.pid

    @contextmanager
    def place(self) -> Iterator[None]:
        """Be among those who asked, if there is room."""
        if self._stopped:
            raise StoppingError("the server is stopping", hint="ask again in a moment")
        if self._n_asked >= self.places:
            raise BusyError(f"{self._n_asked} looks were asked for already", hint="ask again in a moment")
        self._n_asked += 1
        try:
            yield
        finally:
            self._n_asked -= 1

    async def look(self, asked: Asked, name: str) -> bytes:
        """A look as a file of the kind that the name says: .json, .html or .png. Cancelled, it is not begun."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._look, asked, name)

    def stop(self, grace: float = 0.0) -> None:
        """Take no more, wait so long for those who asked, and end the process."""
        until = time.monotonic() + grace
        while self._n_asked and time.monotonic() < until:
            time.sleep(0.02)
        self._stopped = True
        self._end()
        self._thread.shutdown(wait=True, cancel_futures=True)
        self._end()

    def _look(self, asked: Asked, name: str) -> bytes:
        """What the process makes of a request; runs in a thread of its own, one after another."""
        if self._stopped:
            raise StoppingError("the server is stopping", hint="ask again in a moment")
        begin, process = time.monotonic(), self._started()
        timer = threading.Timer(self.seconds, process.kill)
        timer.start()
        try:
            head, data = self._answer(process, asked, name)
        except (OSError, ValueError) as problem:
            self._end()
            if self._stopped:
                raise StoppingError("the server is stopping", hint="ask again in a moment") from problem
            if time.monotonic() - begin >= self.seconds:
                raise LateError(f"the look took longer than {self.seconds:g} seconds", hint="look at less") from problem
            raise LookingError("the look failed: the process that looks has ended") from problem
        finally:
            timer.cancel()
        if head["kind"] == "file":
            return data
        if head["kind"] == "refused":
            raise UsageError(head["problem"], hint=head["hint"])
        raise LookingError(head.get("problem") or "the look failed")

    def _answer(self, process: subprocess.Popen[bytes], asked: Asked, name: str) -> tuple[dict[str, Any], bytes]:
        assert process.stdin is not None
        assert process.stdout is not None
        given = {"place": str(asked.place.absolute()), "precision": asked.precision, "name": name}
        given |= {"input": asked.input, "target": asked.target}  # type: ignore[dict-item]
        process.stdin.write(json.dumps(given).encode() + b"\n")
        process.stdin.flush()
        head: dict[str, Any] = json.loads(process.stdout.readline())
        data = process.stdout.read(head["bytes"])
        if len(data) < head["bytes"]:
            raise ValueError("the answer has no end")
        return head, data

    def _started(self) -> subprocess.Popen[bytes]:
        """The process, which is started where there is none."""
        if self._process is not None and self._process.poll() is not None:
            self._end()
        if self._process is None:
            paths = [str(Path(regard.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
            told = {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "OMP_NUM_THREADS": "1", "MPLBACKEND": "agg"}
            self._process = subprocess.Popen(
                COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ | told
            )
        return self._process

    def _end(self) -> None:
        """End the process, if there is one, and forget it."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(OSError):  # what was left to be written has nobody to read it
                    pipe.close()
