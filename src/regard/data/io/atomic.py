"""Folders and files that are whole or absent: written under a hidden name beside their place, then renamed."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import Any, TypeVar

from regard.config.bounded import read_json
from regard.errors import CheckpointError, DataError

Read = TypeVar("Read")


@contextmanager
def whole_or_absent(folder: Path, *, files: Collection[str], what: str) -> Iterator[Path]:
    """A draft to write `files` into; it takes the place of `folder` once the block ends without an error.

    An older folder there is replaced, but only one that holds nothing except such files.
    """
    _check_replaceable(folder, files=files, what=what)
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = _new_folder_beside(folder)
    try:
        yield draft
        _install(draft, folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


@contextmanager
def whole_or_absent_file(path: Path) -> Iterator[Path]:
    """A draft to write; it takes the place of `path` once the block ends without an error."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{token_hex(6)}")
    try:
        yield draft
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def write_synced(path: Path, content: bytes) -> None:
    """Write a file and wait until the disk has it."""
    with open(path, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def read_facts(path: Path, parse: Callable[[dict[str, Any]], Read], *, what: str, hint: str) -> Read:
    """What `parse` makes of a JSON file that `write_whole` wrote; a run without it, or with another, is refused."""
    try:
        facts = read_json(path)
        if not isinstance(facts, dict):
            raise TypeError(f"a JSON object was expected, not {type(facts).__name__}")
        return parse(facts)
    except FileNotFoundError:
        raise CheckpointError(f"{path}: there is no such file", hint=hint) from None
    except (OSError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as problem:
        raise CheckpointError(f"{path}: {what} ({problem!r})") from problem


def write_whole(path: Path, facts: Mapping[str, Any]) -> None:
    """Write facts as JSON, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".draft-{path.name}")
    draft.write_text(json.dumps(facts, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    draft.replace(path)


def _new_folder_beside(folder: Path) -> Path:
    """A hidden folder in the same place, so that a rename stays on one disk; with the user's usual permissions."""
    made = folder.parent / f".{folder.name}.{token_hex(6)}"
    made.mkdir()
    return made


def _install(draft: Path, folder: Path) -> None:
    """Rename the finished draft to its place; an older one there is moved aside first, and deleted last."""
    aside = None
    if folder.exists():
        aside = _new_folder_beside(folder)
        os.rename(folder, aside / "old")
    os.rename(draft, folder)
    if aside is not None:
        shutil.rmtree(aside, ignore_errors=True)


def _check_replaceable(folder: Path, *, files: Collection[str], what: str) -> None:
    if folder.exists() and not folder.is_dir():
        raise DataError(f"{folder}: is a file, a folder for {what} was expected")
    others = sorted(entry.name for entry in folder.iterdir() if entry.name not in files) if folder.exists() else []
    if others:
        message = f"{folder}: holds other files ({', '.join(others[:4])}), it will not be replaced by {what}"
        raise DataError(message, hint="name a new folder")
