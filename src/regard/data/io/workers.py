"""Numbered pieces of work, done by several processes: each takes the next number when it is through with one.

    each(job, range(n), workers=4)      {0: job(0), 1: job(1), …}, as JSON knows them

The processes are started afresh, so that no threads or locks are copied and a script needs no guard around its first
line, and without PyTorch, which takes longer to import than many a job takes; the job travels to them once, through
their standard input. They end with whoever asked: at Ctrl-C, with an error, and with a kill, which closes that input.
Nothing may depend on who did what.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from regard import errors
from regard.errors import DataError, EnvironmentProblem, RegardError

Job = Callable[[int], Any]
Done = Callable[[int, Any], None]


# The package without what its __init__ brings along: data needs no PyTorch.
_BEGIN = """
import sys, types
from importlib.util import find_spec
package = types.ModuleType("regard")
package.__path__ = list(find_spec("regard").submodule_search_locations)
sys.modules["regard"] = package
from regard.data.io.workers import serve
serve()
"""


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def each(job: Job, numbers: Iterable[int], *, workers: int, done: Done = lambda *_: None) -> dict[int, Any]:
    """What the job gives for each number; with one worker, or for one number, in this process.

    `done(number, answer)` is called in the order in which they come. The first error ends all of it.
    """
    left = list(numbers)
    workers = min(workers, len(left))
    if workers <= 1:
        answers = {}
        for number in left:
            answers[number] = job(number)
            done(number, answers[number])
        return answers
    return dict(_shared(pickle.dumps(job), left, workers, done))


def _shared(job: bytes, numbers: list[int], workers: int, done: Done) -> Iterator[tuple[int, Any]]:
    left, answers = queue.SimpleQueue[int](), queue.SimpleQueue[tuple[int, Any] | BaseException]()
    for number in numbers:
        left.put(number)
    processes = [_start(workers) for _ in range(workers)]

    def lead(process: subprocess.Popen[bytes]) -> None:
        """Give a process its job and numbers until none is left."""
        try:
            _tell(process, job)
            while not left.empty():
                with contextlib.suppress(queue.Empty):
                    number = left.get_nowait()
                    _tell(process, b"%d\n" % number)
                    answers.put((number, _answer(process)))
        except BaseException as problem:
            answers.put(problem)  # the first is raised; others may follow from it

    with ThreadPoolExecutor(workers) as leaders:
        for process in processes:
            leaders.submit(lead, process)
        try:
            for _ in numbers:
                answer = answers.get()
                if isinstance(answer, BaseException):
                    raise answer
                done(*answer)
                yield answer
        finally:
            for process in processes:
                process.kill()
                process.wait()


def _start(workers: int) -> subprocess.Popen[bytes]:
    told = {
        "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path),
        "RAYON_NUM_THREADS": str(max(1, cores() // workers)),  # threads of the tokenizers, in each process
    }
    return subprocess.Popen(
        [sys.executable, "-c", _BEGIN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ | told
    )


def _tell(process: subprocess.Popen[bytes], content: bytes) -> None:
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):  # that it ended is told by what it does not answer
        process.stdin.write(content)
        process.stdin.flush()


def _answer(process: subprocess.Popen[bytes]) -> Any:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line.endswith(b"\n"):
        raise EnvironmentProblem(
            f"a process that prepares data ended by itself (exit status {process.wait()})",
            hint="start again to go on where it was; with less memory in use: data.workers=1",
        )
    answer = json.loads(line)
    if "error" in answer:
        kind = getattr(errors, answer["error"], DataError)
        raise kind(answer["message"], hint=answer["hint"])
    if "crash" in answer:
        raise RuntimeError(f"in a process that prepares data:\n{answer['crash']}")
    return answer["result"]


def serve() -> None:
    """Do the job that stands on standard input for the numbers behind it, a line of JSON each."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever asked decides
    asked, stream = queue.SimpleQueue[int](), sys.stdin.buffer
    job: Job = pickle.load(stream)  # of the process that started this one

    def listen() -> None:
        for line in stream:
            asked.put(int(line))
        os._exit(0)  # nobody is left to be answered

    threading.Thread(target=listen, daemon=True).start()
    while True:
        number = asked.get()
        try:
            answer: dict[str, Any] = {"result": job(number)}
        except RegardError as problem:
            answer = {"error": type(problem).__name__, "message": str(problem), "hint": problem.hint}
        except Exception:
            answer = {"crash": traceback.format_exc()}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
