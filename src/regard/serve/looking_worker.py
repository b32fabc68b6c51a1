"""The process that looks: it opens models when they are first asked about, and draws what they looked at.

    python -m regard.serve.looking_worker

A request is a line of JSON, an answer is a line of JSON with the number of bytes that follow it. The process steps
back behind whoever is being served, ends with its input, and is the first to go where memory runs out. Signals are the
server's business: what a terminal or a service manager sends to all processes does not cut a look short that the
server still waits for.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO

import regard
from regard.config.bounded import free_memory, parse_json
from regard.config.wording import file_size
from regard.errors import EnvironmentProblem, RegardError, UsageError
from regard.inspection.record import Look

NICE = 10  # where a process cannot be told to run in idle time alone
MODELS = 2  # that are kept open
MOST_WEIGHTS = 256 * 1024 * 1024  # bytes of one look's weights


class Looker:
    """The models that are open, the last one asked last."""

    def __init__(self) -> None:
        self._models: OrderedDict[tuple[str, str], Any] = OrderedDict()

    def answer(self, asked: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
        """What is answered to a request: its kind, "file", "refused", "later" or "failed", and the file."""
        try:
            return {"kind": "file"}, self.drawn(**asked)
        except EnvironmentProblem as problem:
            return _told("later", problem), b""
        except RegardError as problem:
            return _told("refused", problem), b""
        except Exception:
            traceback.print_exc()
            return {"kind": "failed"}, b""

    def drawn(self, *, place: str, precision: str, input: str, target: str | None, name: str) -> bytes:
        """What a model looked at as a file of the kind that the name says: .json, .html or .png."""
        model = self._model(place, precision)
        look = next(iter(model.looks(input, target)))
        size = sum(one.weights.nbytes for one in look.maps.values())
        if size > MOST_WEIGHTS:
            raise UsageError(
                f"the look has {file_size(size)} of weights; drawn are up to {file_size(MOST_WEIGHTS)}",
                hint="look at a shorter input",
            )
        return as_file(look, name)

    def _model(self, place: str, precision: str) -> Any:
        key = place, precision
        model = self._models.pop(key, None)
        if model is None:
            while len(self._models) >= MODELS:
                self._models.popitem(last=False)
            model = regard.load(place, "cpu", precision=precision, check=False)
        self._models[key] = model
        return model


def as_file(look: Look, name: str) -> bytes:
    """A look as a file of the kind that the name says."""
    with TemporaryDirectory(prefix="regard-serve-") as folder:
        path = Path(folder, name)
        writers: dict[str, Callable[[Path], Any]] = {".json": look.save, ".html": look.page, ".png": look.plot}
        writers[path.suffix](path)
        return path.read_bytes()


def _told(kind: str, problem: RegardError) -> dict[str, Any]:
    return {"kind": kind, "problem": str(problem), "hint": problem.hint}


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer until the requests end."""
    looker = Looker()
    for line in requests:
        head, data = looker.answer(parse_json(line))
        answers.write(json.dumps(head | {"bytes": len(data)}).encode() + b"\n" + data)
        answers.flush()


def main() -> None:
    """Answer on the standard streams."""
    _step_back()
    for one in (signal.SIGINT, signal.SIGTERM):
        signal.signal(one, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever prints does not get between the answers
    try:
        serve(sys.stdin.buffer, answers)
    except BrokenPipeError:
        os._exit(0)  # the server is gone


def _step_back() -> None:
    """Leave processor and memory to the server: half of what is free may be taken, and less when it runs out."""
    with suppress(ImportError, AttributeError, OSError, ValueError):  # not everywhere, and not always allowed
        import resource

        os.nice(NICE)
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        Path("/proc/self/oom_score_adj").write_text("1000")
        resource.setrlimit(resource.RLIMIT_DATA, (free_memory() // 2, resource.RLIM_INFINITY))


if __name__ == "__main__":
    main()
