"""The door that files of others come through: kind, size and depth are checked before anything is believed.

    with open_regular(path) as file: ...      a regular file, never a pipe or a device that would not end
    read_text(path), read_json(path), read_toml(path)
    parse_json(text), parse_toml(text)

What is wrong with a file is said as the standard library would say it, so that a reader which catches `OSError` and
`ValueError` names the file in its own words: a pipe is a `NotRegular`, which is an OSError; too large, too deep and
not JSON are ValueErrors. What is sound but larger than the memory that may be used is an `EnvironmentProblem`:

    with at_most(read_size("8GB")): ...             a limit for what is called in the block; it is put back behind it
    require(n_bytes, "model.gguf: its weights")     an error that names both sizes, before anything is taken

Without a limit that is what is free: the least of what the machine, the container and the process's own limits leave.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, BinaryIO

from regard.config.wording import file_size
from regard.errors import EnvironmentProblem, UsageError

MOST_JSON = 1 << 30  # bytes: the largest tokenizers have some hundred million
MOST_TOML = 4 << 20
DEEPEST = 64  # lists and objects within each other
_GROWTH = 24.0  # bytes of memory for a byte of JSON, at worst: a list of empty lists
_LONG_KEY = re.compile(r"""(?<![\w-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){2000}""")  # a.b.c…
_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}
_STREAMS = ("/dev/fd/", "/proc/self/fd/", "/dev/stdin")  # what a shell hands over in the place of a file
_LIMIT: ContextVar[int | None] = ContextVar("max_memory", default=None)
_SMALL = 1 << 24  # bytes that are not worth asking the machine for
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kKmMgGtT]?)(i?)[bB]?")
_GROUP = Path("/sys/fs/cgroup")


class NotRegular(OSError):  # noqa: N818 - said as the reasons of other OSErrors are
    """Something that is no file: reading it could wait for ever, or never end."""

    def __init__(self, kind: str) -> None:
        super().__init__(errno.EINVAL, f"it is {kind}, and a file was expected")

    def __str__(self) -> str:
        return str(self.strerror)


def regular_size(path: Path | str) -> int:
    """The bytes of a regular file; anything else is an OSError."""
    try:
        return _checked(os.stat(path), path)
    except ValueError:  # a zero byte in it
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path)) from None


def open_regular(path: Path | str, *, buffered: bool = True, streams: bool = False) -> BinaryIO:
    """A regular file, open for reading bytes; with `streams` also what a shell hands over, as in `<(zcat a.gz)`."""
    if streams and str(path).startswith(_STREAMS):
        return open(path, "rb", buffering=-1 if buffered else 0)
    regular_size(path)  # before it is opened: whoever writes to a pipe would notice
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        _checked(os.fstat(handle), path)
        return os.fdopen(handle, "rb", buffering=-1 if buffered else 0)
    except BaseException:
        os.close(handle)
        raise


def read_bytes(path: Path | str, *, most: int | None = None, grows: float = 1.0) -> bytes:
    """All of a regular file, if it is no larger than `most` and the memory for `grows` times its bytes is allowed."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if most is not None and size > most:
            raise ValueError(f"{file_size(size)}, and such a file has at most {file_size(most)}")
        require(size * grows, f"{path}: reading it")
        return file.read(size)


def read_text(path: Path | str, *, most: int | None = MOST_JSON, encoding: str = "utf-8") -> str:
    """The text of a regular file, lines ended by "\\n"."""
    text = read_bytes(path, most=most, grows=5.0).decode(encoding)
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def read_json(path: Path | str, *, most: int = MOST_JSON) -> Any:
    """What a JSON file holds."""
    return parse_json(read_bytes(path, most=most, grows=_GROWTH), deepest=DEEPEST)


def parse_json(text: str | bytes, *, deepest: int = DEEPEST) -> Any:
    """What a JSON text holds; what is nested too deeply is a ValueError."""
    try:
        held = json.loads(text.decode("utf-8") if isinstance(text, bytes) else text)
    except RecursionError:
        raise ValueError(_too_deep(deepest)) from None
    _refuse_deep(held, deepest)
    return held


def read_toml(path: Path | str) -> dict[str, Any]:
    """What a TOML file holds."""
    return parse_toml(read_text(path, most=MOST_TOML))


def parse_toml(text: str) -> dict[str, Any]:
    """What a TOML text holds; what is nested too deeply is a ValueError."""
    if _LONG_KEY.search(text):  # the library would take its time
        raise ValueError(_too_deep(DEEPEST))
    try:
        held = tomllib.loads(text)
    except RecursionError:
        raise ValueError(_too_deep(DEEPEST)) from None
    _refuse_deep(held, DEEPEST)
    return held


def _checked(about: os.stat_result, path: Path | str) -> int:
    if stat.S_ISDIR(about.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(about.st_mode):
        raise NotRegular(_KINDS.get(stat.S_IFMT(about.st_mode), "something else"))
    return about.st_size


def _refuse_deep(held: Any, deepest: int) -> None:
    """Go down level by level, through lists and objects only: a large vocabulary is one step."""
    level = [held] if isinstance(held, dict | list) else []
    for _ in range(deepest):
        if not level:
            return
        inner = (one for part in level for one in (part.values() if isinstance(part, dict) else part))
        level = [one for one in inner if isinstance(one, dict | list)]
    if level:
        raise ValueError(_too_deep(deepest))


def _too_deep(deepest: int) -> str:
    return f"its lists and objects are more than {deepest} deep"


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
