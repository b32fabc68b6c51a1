"""How much memory opening a file may take: what is free, or what was allowed for a while.

    with at_most(read_size("8GB")):
        regard.load("weights/llama")
    require(n_bytes, "model.gguf: its weights")        an error that names both sizes, before anything is taken

What is free is the least of what the machine, the container and the limits of the process leave. The limit belongs to
the block that set it and to what is called in it; it is put back behind the block.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from regard.config.wording import file_size
from regard.errors import EnvironmentProblem, UsageError

_LIMIT: ContextVar[int | None] = ContextVar("max_memory", default=None)
_SMALL = 1 << 24  # bytes that are not worth asking the machine for
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kKmMgGtT]?)(i?)[bB]?")
_GROUP = Path("/sys/fs/cgroup")


def read_size(text: str) -> int:
    """Bytes, from what people write: 500MB, 8GB, 1.5GiB."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"{text!r} is not a size; sizes are written as 500MB, 8GB or 16GiB")
    return int(float(found[1]) * (1024 if found[3] else 1000) ** " kmgt".index(found[2].lower() or " "))


@contextmanager
def at_most(n_bytes: int | None) -> Iterator[None]:
    """Let what is opened in the block take this much; None: what is free."""
    token = _LIMIT.set(n_bytes)
    try:
        yield
    finally:
        _LIMIT.reset(token)


def allowed() -> int:
    """How many bytes may be taken: what was allowed, else what is free."""
    limit = _LIMIT.get()
    return free_memory() if limit is None else limit


def require(n_bytes: float, what: str) -> None:
    """Refuse what would take more memory than is allowed; `what` begins with the name of the file."""
    if n_bytes <= _SMALL and _LIMIT.get() is None:
        return
    if n_bytes > (most := allowed()):
        raise EnvironmentProblem(
            f"{what} would take {file_size(int(min(n_bytes, 2**62)))} of memory, and {file_size(most)} may be used",
            hint="if the file can be trusted, allow more: --max-memory SIZE",
        )


def free_memory() -> int:
    """Bytes that this process can still take."""
    return max(0, min(_of_machine(), _of_group(), _of_process()))


def _of_machine() -> int:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    except (OSError, ValueError, StopIteration):  # not a Linux machine
        return 2**62


def _of_group() -> int:
    """What the container leaves, if there is one."""
    try:
        most, used = ((_GROUP / name).read_text(encoding="ascii").strip() for name in ("memory.max", "memory.current"))
        return 2**62 if most == "max" else int(most) - int(used)
    except (OSError, ValueError):
        return 2**62


def _of_process() -> int:
    try:
        import resource

        most = resource.getrlimit(resource.RLIMIT_AS)[0]
        if most == resource.RLIM_INFINITY:
            return 2**62
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        return most - pages * resource.getpagesize()
    except (ImportError, OSError, ValueError):
        return 2**62
