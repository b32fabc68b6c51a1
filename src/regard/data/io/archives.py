"""Files inside a tar or zip archive, read where they are: nothing is unpacked beside it.

A folder that everything in the archive is in (`photos/cat/1.jpg`) is left out of the names (`cat/1.jpg`).
"""

from __future__ import annotations

import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple

from regard.config.bounded import regular_size
from regard.config.wording import file_size
from regard.errors import DataError

DAMAGED = (OSError, EOFError, ValueError, LookupError, ArithmeticError, RuntimeError, tarfile.TarError,
           zipfile.BadZipFile, zlib.error, lzma.LZMAError)  # fmt: skip
LARGEST = 1 << 28  # bytes of a file in an archive: an image, or a recording
MOST = 20_000_000  # files in an archive
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
            return [PurePosixPath(member.name) for member in _members(tar)]


def _read_zip(archive: Path) -> Iterator[tuple[PurePosixPath, bytes | None]]:
    with zipfile.ZipFile(archive) as held:
        for entry in held.infolist():
            yield PurePosixPath(entry.filename), None if entry.is_dir() else _read_entry(held, entry)


def _read_entry(held: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    with held.open(entry) as file:
        return read_member(file, entry.filename, entry.file_size)


def _read_tar(archive: Path) -> Iterator[tuple[PurePosixPath, bytes | None]]:
    with tarfile.open(archive) as tar:
        for member in _members(tar):
            file = tar.extractfile(member) if member.isfile() else None
            if file is not None or member.isdir():
                content = None if file is None else read_member(file, member.name, member.size)
                yield PurePosixPath(member.name), content


def read_member(file: IO[bytes], name: str, size: int) -> bytes:
    """The content of a file in an archive, if it is as large as the archive says, and no larger than they are."""
    if size > LARGEST:
        raise ValueError(
            f"{name} has {file_size(size)} unpacked, and a file in an archive has at most {file_size(LARGEST)}"
        )
    content = file.read(size + 1)
    if len(content) != size:
        raise ValueError(f"{name} is not as large as the archive says")
    return content


def _members(tar: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """The members of a tape, as long as there are not more than anybody packs."""
    for number, member in enumerate(tar):
        if number > MOST:
            raise ValueError(f"it lists more than {MOST:,} files")
        yield member


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
        regular_size(archive)
        yield
    except FileNotFoundError:
        raise DataError(f"{archive}: no such file") from None
    except DAMAGED as error:
        raise DataError(
            f"{archive}: not an archive that can be read ({error})", hint="it may be cut short; fetch it again"
        ) from None
