"""What the files of a folder were when they were written, so that a bit that changed later is noticed.

    record_hashes(folder, ["stream.ids"])      into hashes.json
    check_hashes(folder)                       a file that is not as it was written is an error with its name

A hash is a SHA-256: of the file where it has at most 4 MiB, as `sha256sum` has it; of a larger one, of the SHA-256s of
its parts of 4 MiB end to end, so that several threads share the work. `hashes.json` holds a hash of itself, too. A file
that is about to be replaced has two hashes there, so that a kill at any instant leaves one that is right; and a file
that only grows, such as metrics.jsonl, may be longer than it was.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from regard.data.io.atomic import write_synced
from regard.errors import CheckpointError

NAME = "hashes.json"
GROWING = ("metrics.jsonl",)
_PART = 2**22  # bytes that are hashed at once
_THREADS = 4
_TRIES = 3  # a file may be replaced while it is looked at


class Damaged(CheckpointError):  # noqa: N818 - a state of a file
    """A file that is not as it was written."""


class FileHash(NamedTuple):
    """How many bytes a file has, and their hash."""

    bytes: int
    sha256: str


Known = dict[str, list[FileHash]]
_ABSENT = FileHash(-1, "")  # there is no file yet


def hash_of(path: Path, *, size: int | None = None) -> FileHash:
    """The hash of a file, or of its first `size` bytes; memory holds a few parts of it."""
    with path.open("rb") as file:
        total = os.fstat(file.fileno()).st_size if size is None else size
        if total <= _PART:
            content = file.read(total)
            return FileHash(len(content), hashlib.sha256(content).hexdigest())
        handle = file.fileno()

        def part(offset: int) -> tuple[int, bytes]:
            content = os.pread(handle, min(_PART, total - offset), offset)
            return len(content), hashlib.sha256(content).digest()

        with ThreadPoolExecutor(min(_THREADS, os.cpu_count() or 1)) as threads:
            parts = list(threads.map(part, range(0, total, _PART)))
    return FileHash(sum(size for size, _ in parts), hashlib.sha256(b"".join(part for _, part in parts)).hexdigest())


def hash_synced(path: Path) -> FileHash:
    """The hash of a file that was just written, taken while the disk is waited for."""
    with path.open("rb") as file, ThreadPoolExecutor(1) as other:
        synced = other.submit(os.fsync, file.fileno())
        made = hash_of(path)
        synced.result()
    return made


def read_hashes(folder: Path) -> Known | None:
    """What hashes.json says; None where there is none: an older version wrote the folder, or a model is one file."""
    path = folder / NAME
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
        known = {name: [FileHash(*one) for one in several] for name, several in said["files"].items()}
        if said["self"] != _own(known):
            raise ValueError("its own hash does not fit")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as problem:
        raise Damaged(
            f"{path}: damaged ({problem}); it says what the other files were when they were written",
            hint="take it from a copy, or use the rest without a check: --no-check",
        ) from problem
    return known


def record_hashes(folder: Path, names: Iterable[str]) -> None:
    """Note what these files of a folder are; those that are no longer there are forgotten."""
    known = read_hashes(folder) or {}
    for name in names:
        known.pop(name, None)
        if (folder / name).is_file():
            known[name] = [hash_of(folder / name)]
    write_hashes(folder, known)


def write_hashes(folder: Path, known: Mapping[str, list[FileHash]]) -> None:
    """Write hashes.json, whole or not at all."""
    draft = folder / f".draft-{NAME}"
    content = {"self": _own(known), "files": known}
    write_synced(draft, (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode())
    draft.replace(folder / NAME)


def forget_hashes(folder: Path, names: Iterable[str]) -> None:
    """Let these files be what they are: they are about to be changed on purpose."""
    known = read_hashes(folder)
    if known is not None and set(names) & set(known):
        write_hashes(folder, {name: several for name, several in known.items() if name not in set(names)})


@contextmanager
def replacing(path: Path, new: FileHash) -> Iterator[None]:
    """While a file is replaced by one of that hash, or first comes, both states are right; then the new one is."""
    known = read_hashes(path.parent) or {}
    before = known.get(path.name) or [hash_of(path) if path.exists() else _ABSENT]
    write_hashes(path.parent, known | {path.name: [new, *before]})
    yield
    write_hashes(path.parent, known | {path.name: [new]})


def check_hashes(folder: Path, names: Iterable[str] | None = None, *, hint: str | None = None) -> bool:
    """Compare files with their hashes, all that have one or those named; whether there were any hashes."""
    known = read_hashes(folder)
    if known is None:
        return False
    for name in known if names is None else [name for name in names if name in known]:
        _check(folder, name, hint)
    return True


def _check(folder: Path, name: str, hint: str | None) -> None:
    path = folder / name
    for _ in range(_TRIES):
        allowed = (read_hashes(folder) or {}).get(name, [])
        try:
            if not allowed or any(_fits(path, one, grown=name in GROWING) for one in allowed):
                return
        except FileNotFoundError:
            if _ABSENT in allowed:
                return
            raise Damaged(f"{path}: there is no such file, and there was one", hint=hint or _HINT) from None
        except OSError as problem:
            raise Damaged(f"{path}: cannot be read ({problem.strerror or problem})", hint=hint or _HINT) from problem
    raise Damaged(f"{path}: damaged: not as it was written (its SHA-256 is another)", hint=hint or _HINT)


_HINT = "take it from a copy; or use it as it is: --no-check"


def _fits(path: Path, one: FileHash, *, grown: bool) -> bool:
    size = path.stat().st_size
    return (size == one.bytes or (grown and size > one.bytes)) and hash_of(path, size=one.bytes) == one


def _own(known: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()
