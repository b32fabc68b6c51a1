"""Files inside a tar or zip archive, read where they are: nothing is unpacked beside it.

A folder that everything in the archive is in (`photos/cat/1.jpg`) is left out of the names (`cat/1.jpg`).
"""

from __future__ import annotations

import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from regard.errors import DataError

SUFFIXES = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".zip")


class Member(NamedTuple):
    """A file in an archive with its content, or a folder, which has none."""

    name: PurePosixPath
    content: bytes | None


def is_archive(path: Path) -> bool:
    """Whether a file is called as archives are."""
    return path.name.lower().endswith(SUFFIXES)


def names_in(archive: Path) -> list[PurePosixPath]:
    """Everything in an archive by name, folders included; hidden files are left out."""
    names = _all_names(archive)
    outer = _common(names)
    return [name for name in (_within(name, outer) for name in names) if name is not None]


def members_of(archive: Path) -> Iterator[Member]:
    """Everything in an archive with its content, in the archive's own order: it is read from front to back."""
    outer = _common(_all_names(archive))
    with _reading(archive):
        for name, content in _read_zip(archive) if _is_zip(archive) else _read_tar(archive):
            inner = _within(name, outer)
            if inner is not None:
                yield Member(inner, content)


def _all_names(archive: Path) -> list[PurePosixPath]:
    with _reading(archive):
        if _is_zip(archive):
            with zipfile.ZipFile(archive) as held:
                return [PurePosixPath(name) for name in held.namelist()]
        with tarfile.open(archive) as tar:
            return [PurePosixPath(name) for name in tar.getnames()]


def _read_zip(archive: Path) -> Iterator[tuple[PurePosixPath, bytes | None]]:
    with zipfile.ZipFile(archive) as held:
        for entry in held.infolist():
            yield PurePosixPath(entry.filename), None if entry.is_dir() else held.read(entry)


def _read_tar(archive: Path) -> Iterator[tuple[PurePosixPath, bytes | None]]:
    with tarfile.open(archive) as tar:
        for member in tar:
            file = tar.extractfile(member) if member.isfile() else None
            if file is not None or member.isdir():
                yield PurePosixPath(member.name), None if file is None else file.read()


def _common(names: list[PurePosixPath]) -> str | None:
    """The one folder that everything is in, if it is not a class by itself."""
    first = {name.parts[0] for name in names if name.parts}
    deep = max((len(name.parts) for name in names), default=0) > 2
    return first.pop() if len(first) == 1 and deep else None


def _within(name: PurePosixPath, outer: str | None) -> PurePosixPath | None:
    parts = name.parts[1:] if outer is not None and name.parts[:1] == (outer,) else name.parts
    hidden = any(part.startswith(".") for part in parts)
    return None if not parts or hidden else PurePosixPath(*parts)


def _is_zip(archive: Path) -> bool:
    return archive.name.lower().endswith(".zip")


@contextmanager
def _reading(archive: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise DataError(f"{archive}: no such file") from None
    except (OSError, EOFError, tarfile.TarError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(
            f"{archive}: not an archive that can be read ({error})", hint="it may be cut short; fetch it again"
        ) from None
