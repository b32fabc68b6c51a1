"""Opens mutants one after another in a process of its own, which may not take long or take much memory, and may die.

    for finding in try_format("GGUF", 40): finding.verdict       "clean", "correct", or what must not be

A child is forked from this process, once everything that readers import is imported. Its address space is limited to
what it has and `MEMORY` more; a mutant that computes longer than `SECONDS`, or waits three times as long, kills it.
What it finds comes through a pipe, so that after a death the next child goes on with the next mutant.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from mutations import Mutant, mutants
from seeds import FORMATS, Format, Wrong

MEMORY = 1 << 30
SECONDS = 10.0
_ALARMS = (signal.SIGPROF, signal.SIGALRM)
GOOD = ("clean", "correct")
_MEMORY_WORDS = (
    "can't allocate",
    "unable to allocate",
    "memoryerror",
    "not enough memory",
    "bad_alloc",
    "out of memory",
)


@dataclass(frozen=True)
class Finding:
    """What became of a mutant: "clean" (an error of ours), "correct" (it was used), or the fault; and what was said."""

    format: str
    mutant: str
    verdict: str
    said: str
    seconds: float


def prepare() -> None:
    """Import what the readers import, so that children need not; nothing is run that would start threads."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    import gguf.quants
    import matplotlib
    import PIL.Image
    import pyarrow.parquet
    import soundfile
    import tokenizers
    import torch
    import torch.fx.experimental.symbolic_shapes  # what the first broadcast imports

    import regard.checkpoints.foreign.header
    import regard.checkpoints.foreign.hub
    import regard.data.synthetic.digits
    import regard.inspection.record
    import regard.tasks.facts.summary
    import regard.tasks.opening
    from regard.models.registry import OURS, entry
    from regard.tasks.registry import task_names, task_spec

    for name in OURS:
        entry(name)
    for task in task_names():
        regard.tasks.opening.predictor_of(task_spec(task).name)
    torch.set_num_threads(1)
    used = (gguf.quants, matplotlib, PIL.Image, pyarrow.parquet, soundfile, tokenizers)
    assert all(used)


def try_format(name: str, n: int) -> Iterator[Finding]:
    """What becomes of the first `n` mutants of a format."""
    format = FORMATS[name]
    with tempfile.TemporaryDirectory(prefix="regard-fuzz-") as place:
        folder = Path(place) / "seed"
        folder.mkdir()
        _in_child(lambda write: _seed(format, folder))
        path = folder / format.file
        data = path.read_bytes()
        done = 0
        while done < n:
            before = done
            for line in _in_child(lambda write, done=done: _open_all(name, format, path, data, (done, n), write)):  # type: ignore[misc]
                if "verdict" in line:
                    yield Finding(**line)
                    done += 1
                else:
                    begun = line
            if done < n:  # the child died, or ended with one that is to be the last of a child
                if begun.get("mutant") is not None and begun["number"] == done:
                    fault = "too slow" if begun.get("signal") in _ALARMS else f"crash (signal {begun.get('signal')})"
                    yield Finding(name, begun["mutant"], fault, "", SECONDS)
                    done += 1
                assert done > before, f"{name}: nothing was tried"


def _seed(format: Format, folder: Path) -> None:
    format.make(folder)
    format.use(folder)  # a seed that cannot be opened tests nothing


def _open_all(name: str, format: Format, path: Path, data: bytes, span: tuple[int, int], write: object) -> None:
    _limit()
    for number, mutant in enumerate(mutants(data, name=path.name, n=span[1])):
        if number < span[0]:
            continue
        write({"number": number, "mutant": mutant.what})  # type: ignore[operator]
        _remove(path)
        mutant.place(path)
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        signal.setitimer(signal.ITIMER_REAL, 3 * SECONDS)
        begun = time.monotonic()
        verdict, said = _verdict(format, path, mutant)
        seconds = time.monotonic() - begun
        for timer in (signal.ITIMER_PROF, signal.ITIMER_REAL):
            signal.setitimer(timer, 0)
        write(Finding(name, mutant.what, verdict, said, round(seconds, 2)).__dict__)  # type: ignore[operator]
    _remove(path)
    path.write_bytes(data)


def _verdict(format: Format, path: Path, mutant: Mutant) -> tuple[str, str]:
    from regard.errors import RegardError

    folder = path
    for _ in Path(format.file).parts:
        folder = folder.parent
    try:
        format.use(folder)
    except RegardError as problem:
        said = str(problem)
        if any(word in said.lower() for word in _MEMORY_WORDS) and "--max-memory" not in (problem.hint or ""):
            return "too much memory", said[:300]
        return "clean", said[:300]
    except Wrong as problem:
        return "wrong success", str(problem)
    except MemoryError as problem:
        return "too much memory", _last(problem)
    except BaseException as problem:
        return f"traceback ({type(problem).__name__})", _last(problem)
    return "correct", ""


def _last(problem: BaseException) -> str:
    frames = traceback.extract_tb(problem.__traceback__)
    ours = [frame for frame in frames if "/regard/" in frame.filename] or list(frames)
    where = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else "?"
    return f"{where}: {str(problem)[:200]}"


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _limit() -> None:
    """No more address space than there is now and `MEMORY`; no core files."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MEMORY,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for alarm in _ALARMS:
        signal.signal(alarm, signal.SIG_DFL)


def _in_child(work: object) -> list[dict[str, object]]:  # type: ignore[type-arg]
    """What a child writes, line by line, until it ends; the signal that ended it is added to the last line."""
    out, into = os.pipe()
    sys.stdout.flush()
    pid = os.fork()
    if not pid:
        os.close(out)
        _child(work, into)
    os.close(into)
    with os.fdopen(out, "rb") as lines:
        said = [json.loads(line) for line in lines]
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status) and said:
        said[-1]["signal"] = os.WTERMSIG(status)
    elif status:
        raise RuntimeError(f"the child ended with status {status}")
    return said


def _child(work: object, into: int) -> NoReturn:
    def write(line: object) -> None:
        os.write(into, json.dumps(line).encode() + b"\n")

    silent = os.open(os.devnull, os.O_RDWR)
    if os.environ.get("FUZZ_LOUD") is None:
        os.dup2(silent, 1)
    try:
        keep = os.dup(2)
        os.dup2(silent, 2)
        work(write)  # type: ignore[operator]
    except BaseException:
        os.dup2(keep, 2)
        traceback.print_exc()
        os._exit(3)
    os._exit(0)
