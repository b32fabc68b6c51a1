"""Which parts stand: a file that only grows, so that a kill at any instant costs at most the part under way.

    manifest.jsonl      first what was begun (`identity.py`), then a line a part; of two for one part the later holds
    part-000000 …       the outputs

A part is written under a hidden name, synced and renamed, and then listed with its hash, which is synced as well. Every
line has a hash of itself: one that was cut short, or changed later, is as if it were not there.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from regard.data.io.atomic import write_synced

NAME = "manifest.jsonl"
_DRAFT = ".draft-"


@dataclass(frozen=True)
class Record:
    """A part that stands: its inputs and how many failed, the hashes of inputs and outputs, and how it begins.

    `lead` is what stands before its first output because of what was taken to be before the part, None where it has no
    outputs; `separates`, `first_header` and `last_header` say what that has to be (`leads.py`).
    """

    number: int
    n: int
    failed: int
    inputs: str
    bytes: int = 0
    sha256: str = ""
    lead: str | None = None
    separates: bool = False
    first_header: str | None = None
    last_header: str | None = None


class Manifest:
    """The manifest of a folder, and the parts in it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path = folder, folder / NAME
        self.identity: dict[str, Any] | None = None
        self.records: dict[int, Record] = {}
        self.complete = False
        self._read()

    def begin(self, identity: dict[str, Any]) -> None:
        """Write what is begun, in a folder that has nothing yet."""
        self.identity = identity
        draft = self.folder / f"{_DRAFT}{NAME}"
        write_synced(draft, _line({"begun": identity}))
        draft.replace(self.path)
        self._sync_folder()

    def write_part(self, name: str, content: bytes, record: Record) -> None:
        """Put a part in its place, then list it with its hash."""
        record = replace(record, bytes=len(content), sha256=sha256(content))
        draft = self.folder / f"{_DRAFT}{name}"
        write_synced(draft, content)
        draft.replace(self.folder / name)
        self._sync_folder()
        self._append({"part": asdict(record)})
        self.records[record.number] = record

    def end(self) -> None:
        """Note that all parts stand as they are to be joined."""
        if not self.complete:
            self._append({"complete": len(self.records)})
            self.complete = True

    def stands(self, name: str, record: Record) -> bool:
        """Whether the file of a part is as it was written."""
        try:
            with open(self.folder / name, "rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest() == record.sha256
        except OSError:
            return False

    def forget(self, number: int) -> None:
        """A part is to be made again."""
        del self.records[number]
        self.complete = False

    def clear_drafts(self) -> None:
        """Remove what a kill has left; the lock is held."""
        for draft in self.folder.glob(f"{_DRAFT}*"):
            draft.unlink(missing_ok=True)

    def _read(self) -> None:
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return
        for facts in _facts(content):
            if "begun" in facts:
                self.identity = facts["begun"]
            elif "part" in facts:
                record = Record(**facts["part"])
                self.records[record.number] = record
                self.complete = False
            elif "complete" in facts:
                self.complete = facts["complete"] == len(self.records)

    def _append(self, facts: dict[str, Any]) -> None:
        with open(self.path, "r+b") as file:
            end = file.seek(0, os.SEEK_END)
            if end:
                file.seek(-1, os.SEEK_END)
            torn = bool(end) and file.read(1) != b"\n"  # a kill cut the last line short
            file.write(b"\n" * torn + _line(facts))
            file.flush()
            os.fsync(file.fileno())

    def _sync_folder(self) -> None:
        handle = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def sha256(content: bytes) -> str:
    """The hash that a part is listed with, as `sha256sum` has it."""
    return hashlib.sha256(content).hexdigest()


def _line(facts: dict[str, Any]) -> bytes:
    return (json.dumps(facts | {"check": _check(facts)}) + "\n").encode()


def _facts(content: bytes) -> Iterator[dict[str, Any]]:
    """The lines that are as they were written."""
    for line in content.split(b"\n"):
        try:
            facts = json.loads(line)
            if facts.pop("check") == _check(facts):
                yield facts
        except (ValueError, KeyError, AttributeError, TypeError):
            continue


def _check(facts: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]
