"""Whether a folder, and what lies in it, can have been written by nobody but this user.

    folder = make_private(path)       made if need be, and as it is on the disk: without links; else `Untrusted`
    check_file(folder / "a.so")       a plain file of this user's that no other can write; else `Untrusted`

A library that is loaded runs with all that the user may do, so what others could have put in its place is refused. The
folder is the user's alone (mode 0700). Nobody else may be able to move it, or a folder above it, out of the way: those
belong to the user or to root, and others cannot write to them, or may there only touch what is their own (as in /tmp).
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

_ROOT = 0


class Untrusted(Exception):  # noqa: N818 - said to the user as the reason, never raised to them
    """Somebody else could have written here; the message says who, or how."""


def make_private(folder: Path) -> Path:
    """The folder, made if need be, with every link above it followed; `Untrusted` or an OSError where it cannot be."""
    if not hasattr(os, "getuid"):
        raise Untrusted(f"{folder}: this system does not tell whose it is")
    _make_parents(folder.parent)
    folder = folder.parent.resolve(strict=True) / folder.name
    for above in folder.parents:
        _check_above(above)
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    _check_folder(folder)
    return folder


def check_file(path: Path) -> None:
    """Refuse a file that is a link, another user's, or one that others can write; one that is not there is none."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISREG(found.st_mode):
        raise Untrusted(f"{path} is {_kind(found.st_mode)}, a plain file was expected")
    _check_owner(path, found.st_uid)
    if found.st_mode & 0o022:
        raise Untrusted(f"others can write to {path} (mode {_mode(found.st_mode)})")


def _make_parents(folder: Path) -> None:
    """Folders that are missing, closed to others: `Path.mkdir` would leave those in between open."""
    if not folder.is_dir():
        _make_parents(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)


def _check_folder(folder: Path) -> None:
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise Untrusted(f"{folder} is {_kind(found.st_mode)}, a folder was expected")
    _check_owner(folder, found.st_uid)
    if found.st_mode & 0o077:
        raise Untrusted(f"{folder} is open to others (mode {_mode(found.st_mode)}; allowed is 0700)")


def _check_above(folder: Path) -> None:
    found = folder.stat()
    if found.st_uid not in (_ROOT, os.getuid()):
        raise Untrusted(f"{folder} belongs to {_user(found.st_uid)}, who could put another folder in its place")
    writable = found.st_mode & 0o002 or (found.st_mode & 0o020 and not _is_own_group(found.st_gid))
    if writable and not found.st_mode & stat.S_ISVTX:
        raise Untrusted(f"others can write to {folder} (mode {_mode(found.st_mode)})")


def _check_owner(path: Path, owner: int) -> None:
    if owner != os.getuid():
        raise Untrusted(f"{path} belongs to {_user(owner)}, not to {_user(os.getuid())}")


def _is_own_group(group: int) -> bool:
    """Whether a group is the one that many systems give each user alone: it has the user's name and no one else."""
    import grp
    import pwd

    try:
        name, found = pwd.getpwuid(os.getuid()).pw_name, grp.getgrgid(group)
    except KeyError:
        return False
    return found.gr_name == name and set(found.gr_mem) <= {name}


def _user(number: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"


def _mode(mode: int) -> str:
    return f"{stat.S_IMODE(mode):04o}"


def _kind(mode: int) -> str:
    kinds = {stat.S_ISLNK: "a link", stat.S_ISDIR: "a folder", stat.S_ISREG: "a plain file"}
    return next((name for is_one, name in kinds.items() if is_one(mode)), "no plain file")
