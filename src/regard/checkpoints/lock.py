"""The lock of a run folder: one training at a time. A folder of predicted parts has the same.

    with locked(folder):        `.lock` says who: the launcher's id, its host and process, and since when
        ...

It belongs to what launched the training, which is `torchrun` where that did: its processes share the lock, and so do
those that it starts again after one was lost. A lock is stale, and taken over, when its process is gone (of another
that got its number later the start differs), or, on another machine, when nothing was heard of it for a while: as long
as a training runs, it touches its lock every few seconds.
"""

from __future__ import annotations

import json
import os
import shlex
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Thread
from uuid import uuid4

from regard.errors import CheckpointError, EnvironmentProblem, UsageError

try:
    import fcntl
except ImportError:  # not a Unix
    fcntl = None  # type: ignore[assignment]

NAME = ".lock"
_BEAT, _SILENT = 5.0, 60.0  # seconds between two signs of life, and without one until nobody is believed to be there


class Busy(UsageError):  # noqa: N818 - nobody's mistake
    """Somebody else is at work in the folder, on this machine or `elsewhere`."""

    exit_code = 1
    elsewhere = False


class Gone(EnvironmentProblem):
    """The run folder is no longer there, or no longer ours."""


@dataclass(frozen=True)
class Holder:
    """Who holds a lock: `id` is the launcher's, `started` tells its process from another of the same number."""

    id: str
    host: str
    pid: int
    started: str
    since: str

    @classmethod
    def here(cls) -> Holder:
        """The launcher of this process: `torchrun`, or the process itself."""
        pid = os.getppid() if "TORCHELASTIC_RUN_ID" in os.environ else os.getpid()
        host, started = socket.gethostname(), start_of(pid) or ""
        named = os.environ.get("TORCHELASTIC_RUN_ID", "none")
        known = f"{host}-{pid}-{started}" if "TORCHELASTIC_RUN_ID" in os.environ else uuid4().hex
        since = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        return cls(known if named == "none" else named, host, pid, started, since)

    def alive(self, *, silent: float) -> bool:
        """Whether it still runs: by its process where that can be seen, else by the seconds without a sign of it."""
        if self.host != socket.gethostname():
            return silent < _SILENT
        return start_of(self.pid) == self.started if self.started else exists(self.pid)


class Lock:
    """A lock that this process holds."""

    def __init__(self, folder: Path, holder: Holder) -> None:
        self.folder, self.path, self.holder = folder, folder / NAME, holder
        self._ended = Event()

    def is_held(self) -> bool:
        """Whether the folder is there and its lock still ours."""
        there = read_lock(self.folder)
        return there is not None and there.id == self.holder.id

    def check(self) -> None:
        """Refuse to write where the folder is gone, or another's."""
        if not self.is_held():
            raise gone(self.folder)

    def beat(self) -> None:
        """Show every few seconds that somebody is there, until the lock is given back."""
        while not self._ended.wait(_BEAT):
            with suppress(OSError):
                os.utime(self.path)

    def release(self) -> None:
        """Give it back, if it is still ours."""
        self._ended.set()
        if self.is_held():
            self.path.unlink(missing_ok=True)


def gone(folder: Path) -> Gone:
    """The error for a folder that was removed, moved or unmounted under a training."""
    if folder.exists():
        return Gone(
            f"{folder}: the run folder is another's now: its lock was removed or replaced while training ran",
            hint=f"see what is in {folder}; the training that has it goes on",
        )
    return Gone(
        f"{folder}: the run folder is gone: it was removed, moved or unmounted while training ran",
        hint=f"put it back and go on: regard train --resume --out {shlex.quote(str(folder))}",
    )


@contextmanager
def locked(folder: Path, *, patient: bool = False, what: str = "training") -> Iterator[Lock]:
    """Hold the lock of a folder, which is made if it is not there; nothing is left where nothing was written.

    Who is `patient` waits for signs of life from another machine to cease. `what` is at work there, for messages.
    """
    made = _make(folder)
    lock = Lock(folder, Holder.here())
    try:
        _take_in_time(lock, what, patient=patient)
    except BaseException:
        _remove_empty(made)
        raise
    Thread(target=lock.beat, name="lock", daemon=True).start()
    try:
        yield lock
    finally:
        lock.release()
        _remove_empty(made)


def read_lock(folder: Path) -> Holder | None:
    """Who holds the lock of a folder; None where nobody does, or it cannot be told."""
    try:
        return Holder(**json.loads((folder / NAME).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def _take_in_time(lock: Lock, what: str, *, patient: bool) -> None:
    """Take the lock; of a group that is started again, the first process may be on another machine than before."""
    until = time.monotonic() + _SILENT + 2 * _BEAT
    while True:
        try:
            return _take(lock, what)
        except Busy as busy:
            if not (patient and busy.elsewhere and time.monotonic() < until):
                raise
        time.sleep(_BEAT)


def _take(lock: Lock, what: str) -> None:
    with _one_at_a_time(lock.folder):
        if lock.path.exists():
            holder = read_lock(lock.folder)
            silent = _now(lock.folder) - lock.path.stat().st_mtime
            if holder is None and silent < _BEAT:
                raise Busy(f"{lock.folder}: another {what} just begins here", hint="give another --out")
            if holder is not None and holder.id != lock.holder.id and holder.alive(silent=silent):
                raise _busy(lock.folder, holder, what)
        draft = lock.path.with_name(f".draft-{NAME}-{os.getpid()}")
        try:
            draft.write_text(json.dumps(asdict(lock.holder)) + "\n", encoding="utf-8")
            draft.replace(lock.path)
        except OSError as problem:
            draft.unlink(missing_ok=True)
            raise EnvironmentProblem(
                f"{lock.folder}: cannot be written to ({problem.strerror or problem})",
                hint="check the rights of the folder and the space on the disk",
            ) from problem


def _busy(folder: Path, holder: Holder, what: str) -> Busy:
    elsewhere = holder.host != socket.gethostname()
    where = f"process {holder.pid} on {holder.host}, since {holder.since}"
    remove = f"if it no longer runs there: rm {shlex.quote(str(folder / NAME))}"
    busy = Busy(
        f"{folder}: another {what} is at work here ({where})",
        hint=remove if elsewhere else "give another --out, or wait until that one is done",
    )
    busy.elsewhere = elsewhere
    return busy


def _make(folder: Path) -> list[Path]:
    """Make a folder and those above it; which were made, innermost first."""
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    if folder.exists() and not folder.is_dir():
        raise CheckpointError(f"{folder}: is a file, a folder for a run was expected", hint="give another --out")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise EnvironmentProblem(
            f"{folder}: cannot be made ({problem.strerror or problem})", hint="give another --out"
        ) from problem
    return missing


def _remove_empty(folders: list[Path]) -> None:
    for folder in folders:
        try:
            folder.rmdir()
        except OSError:
            return


@contextmanager
def _one_at_a_time(folder: Path) -> Iterator[None]:
    """Two that look at a lock at once take turns; where the file system knows no such thing, they hope."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        if fcntl is not None:
            with suppress(OSError):
                fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _now(folder: Path) -> float:
    """The time by the clock that stamps the folder's files, which may be another machine's."""
    probe = folder / f".draft-clock-{os.getpid()}"
    try:
        probe.touch()
        return probe.stat().st_mtime
    except OSError:
        return time.time()
    finally:
        probe.unlink(missing_ok=True)


def start_of(pid: int) -> str | None:
    """When a process began, by the kernel's clock; None where there is none, or it has ended; "" if it is not said."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None if Path("/proc/self").exists() or not exists(pid) else ""
    except OSError:
        return ""
    return None if fields[0] in "ZX" else f"{_boot()}:{fields[19]}"


def _boot() -> str:
    """Which start of the machine this is: process numbers and clocks begin anew with each."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def exists(pid: int) -> bool:
    """Whether there is a process of that number, ended or not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
