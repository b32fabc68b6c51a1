"""Pictures, pages and records of looks, made in another process so that nobody who is being served waits for them.

The process is started when the first look is asked for, draws one at a time, and is started anew where it died or had
to be ended: a drawing that takes too long, or a look that is too large to be handed over, is refused.

    drawing = Drawing()
    data = await drawing.draw(look, "look.png")
    drawing.stop()
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import regard
from regard.config.wording import file_size
from regard.errors import RegardError, UsageError
from regard.inspection.record import Look
from regard.serve.engine import BusyError, LateError, StoppingError
from regard.serve.packing import n_bytes, read, write

COMMAND = (sys.executable, "-P", "-m", "regard.serve.drawing_worker")


class DrawingError(RegardError):
    """The process that draws has died over a look."""


class Drawing:
    """The process that draws, and those who wait for it.

    seconds    that one look may take
    most       bytes of the weights of one
    places     looks that may be under way, from the asking to the picture: each holds its weights in memory
    """

    def __init__(self, *, seconds: float = 60.0, most: int = 128 * 1024 * 1024, places: int = 8) -> None:
        self.seconds, self.most, self.places = seconds, most, places
        self._n_under_way = 0
        self._stopped = False
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="regard-drawing")

    @property
    def pid(self) -> int | None:
        """The number of the process, where there is one."""
        return None if self._process is None or self._process.poll() is not None else self._process.pid

    @contextmanager
    def place(self) -> Iterator[None]:
        """Be among those whose looks are under way, if there is room."""
        if self._stopped:
            raise StoppingError("the server is stopping", hint="ask again in a moment")
        if self._n_under_way >= self.places:
            raise BusyError(f"{self._n_under_way} looks are under way already", hint="ask again in a moment")
        self._n_under_way += 1
        try:
            yield
        finally:
            self._n_under_way -= 1

    async def draw(self, look: Look, name: str) -> bytes:
        """A look as a file of the kind that the name says: .json, .html or .png."""
        if (size := n_bytes(look)) > self.most:
            raise UsageError(
                f"the look has {file_size(size)} of weights; drawn are up to {file_size(self.most)}",
                hint="look at a shorter input",
            )
        answer = await asyncio.get_running_loop().run_in_executor(self._thread, self._answer, look, name)
        if "file" in answer:
            return bytes(answer["file"].tobytes())
        if answer["problem"] is None:
            raise DrawingError("the look could not be drawn")
        raise UsageError(answer["problem"], hint=answer["hint"])

    def stop(self, grace: float = 0.0) -> None:
        """Take no more, wait so long for what is under way, and end the process."""
        until = time.monotonic() + grace
        while self._n_under_way and time.monotonic() < until:
            time.sleep(0.02)
        self._stopped = True
        self._end()
        self._thread.shutdown(wait=True, cancel_futures=True)
        self._end()

    def _answer(self, look: Look, name: str) -> dict[str, Any]:
        """What the process makes of a look; runs in a thread of its own, one look after another."""
        if self._stopped:
            raise StoppingError("the server is stopping", hint="ask again in a moment")
        process = self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        timer = threading.Timer(self.seconds, process.kill)
        begin = time.monotonic()
        timer.start()
        try:
            write(process.stdin, (look, name))  # type: ignore[arg-type]
            answer: dict[str, Any] | None = read(process.stdout)  # type: ignore[arg-type]
        except (OSError, EOFError, ValueError):
            answer = None
        finally:
            timer.cancel()
        if answer is not None:
            return answer
        self._end()
        if time.monotonic() - begin >= self.seconds:
            raise LateError(f"drawing the look took longer than {self.seconds:g} seconds", hint="ask for less")
        raise DrawingError("the look could not be drawn: the process that draws has ended")

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
