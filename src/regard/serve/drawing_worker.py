"""The process that draws: it reads looks from its input, one after another, and writes each as a file's bytes.

    python -m regard.serve.drawing_worker

It steps back behind whoever decodes, and ends with its input. Signals are the server's business: what a terminal or a
service manager sends to all processes does not cut a picture short that the server still waits for.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from regard.errors import RegardError
from regard.inspection.record import Look
from regard.serve.packing import read, write

_NICE = 19


def main() -> None:
    """Draw until the input ends."""
    os.nice(_NICE)
    for one in (signal.SIGINT, signal.SIGTERM):
        signal.signal(one, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever prints does not get between the answers
    try:
        while (asked := read(sys.stdin.buffer)) is not None:
            write(answers, answered(*asked))
    except (BrokenPipeError, EOFError):
        pass  # the server is gone


def answered(look: Look, name: str) -> dict[str, Any]:
    """{"file": bytes as an array} or {"problem": text, "hint": text}; what nobody foresaw has no text."""
    import numpy as np

    try:
        return {"file": np.frombuffer(drawn(look, name), np.uint8)}
    except RegardError as problem:
        return {"problem": str(problem), "hint": problem.hint}
    except Exception:
        traceback.print_exc()
        return {"problem": None}


def drawn(look: Look, name: str) -> bytes:
    """A look as a file of the kind that the name says."""
    with TemporaryDirectory(prefix="regard-serve-") as folder:
        path = Path(folder, name)
        writers: dict[str, Callable[[Path], Any]] = {".json": look.save, ".html": look.page, ".png": look.plot}
        writers[path.suffix](path)
        return path.read_bytes()


if __name__ == "__main__":
    main()
