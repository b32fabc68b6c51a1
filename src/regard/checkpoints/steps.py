"""The checkpoints of a run: everything an exact continuation needs, one folder a step.

    step-N/model.safetensors       and optimizer, average: whole, or in pieces with an index (see `sharded.py`)
    step-N/state.json              how far the run was
    step-N/hashes.json             what these files were when they were written

A checkpoint is written under a temporary name, synced and renamed: a kill at any instant leaves a loadable one. The one
before the newest is kept as well, for the case that the newest is damaged; that costs its size on the disk.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from torch import Tensor

from regard.checkpoints.lock import Gone
from regard.checkpoints.sharded import StoredTensor, open_tensors
from regard.checkpoints.weights import write_tensors
from regard.config.bounded import read_json, require
from regard.data.io.atomic import write_synced
from regard.data.io.hashes import Damaged, FileHash, check_hashes, hash_of, record_hashes, write_hashes
from regard.errors import EnvironmentProblem, kind_of

DRAFT = ".draft-"
_STEP = re.compile(r"step-(\d{8,})")
_ASIDE = ".aside-"
Made = TypeVar("Made")
Table = Mapping[str, Tensor | StoredTensor]


class Saved(NamedTuple):
    """A checkpoint that was opened: its step, tensors by table and name, and facts."""

    step: int
    tensors: Mapping[str, Table]
    facts: dict[str, Any]


class CheckpointFolder(ABC):
    """The part of a run's folder that holds its checkpoints."""

    def __init__(self, path: Path, *, check: bool) -> None:
        self.path, self.check = path, check

    @property
    def checkpoints(self) -> Path:
        """Where the states to continue from lie."""
        return self.path / "checkpoints"

    @property
    def metrics(self) -> Path:
        """One line of JSON a report."""
        return self.path / "metrics.jsonl"

    @abstractmethod
    def make_sure(self) -> None:
        """Let the folder be there: made where nobody holds it, an error where it is gone under a training."""

    def folder_of(self, step: int) -> Path:
        """The checkpoint of a step."""
        return self.checkpoints / f"step-{step:08d}"

    def draft_of(self, step: int) -> Path:
        """Where the checkpoint of a step is written before it gets its name."""
        return self.checkpoints / f"{DRAFT}step-{step:08d}"

    def save(self, step: int, *, files: Mapping[str, Mapping[str, Tensor]], facts: Mapping[str, Any]) -> Path:
        """Write a checkpoint: tensors by file name, and a JSON of facts, all or nothing."""
        self.note_metrics(step)
        return self.write_checkpoint(step, files=files, facts=facts)

    def write_checkpoint(
        self, step: int, *, files: Mapping[str, Mapping[str, Tensor]], facts: Mapping[str, Any]
    ) -> Path:
        """The same where the metrics are noted already: it touches nothing but the checkpoints."""
        self.begin_checkpoint(step)

        def write() -> None:
            paths = {name: self.draft_of(step) / f"{name}.safetensors" for name in files}
            known = {paths[name].name: write_tensors(paths[name], tensors) for name, tensors in files.items()}
            self.end_checkpoint(step, known, facts)

        self.writing(step, write)
        return self.folder_of(step)

    def note_metrics(self, step: int) -> None:
        """Note what the metrics are: before a checkpoint stands, so that what it knows is never without a hash."""
        self.make_sure()
        if self.metrics.exists():
            self.writing(step, lambda: record_hashes(self.path, [self.metrics.name]))

    def begin_checkpoint(self, step: int) -> None:
        """Make an empty draft for the checkpoint of a step."""
        self.make_sure()

        def make() -> None:
            shutil.rmtree(self.draft_of(step), ignore_errors=True)
            self.checkpoints.mkdir(exist_ok=True)
            self.draft_of(step).mkdir()

        self.writing(step, make)

    def end_checkpoint(self, step: int, known: Mapping[str, FileHash], facts: Mapping[str, Any]) -> None:
        """Give a draft whose tensors are written its facts, its hashes, and its name."""
        draft = self.draft_of(step)
        state = draft / "state.json"
        write_synced(state, json.dumps(dict(facts)).encode())
        several = {name: [hashed] for name, hashed in known.items()}
        write_hashes(draft, several | {state.name: [hash_of(state)]})
        self.make_sure()  # whoever took the folder over meanwhile has drafts of its own
        _replace(self.folder_of(step), draft)
        _sync_folder(self.checkpoints)

    def writing(self, step: int, write: Callable[[], Made]) -> Made:
        """What `write` makes for a checkpoint; if it cannot, nothing is left of it, and the error says what is."""
        folder, draft = self.folder_of(step), self.draft_of(step)
        try:
            return write()
        except (OSError, EnvironmentProblem) as problem:
            shutil.rmtree(draft, ignore_errors=True)
            self._put_back()
            if isinstance(problem, Gone):
                raise
            reason = problem.strerror if isinstance(problem, OSError) else str(problem).removeprefix(f"{draft}/")
            raise EnvironmentProblem(
                f"{folder}: cannot be written ({reason})",
                hint="free some disk space; the checkpoint before is untouched: go on with --resume",
            ) from problem

    def steps(self) -> list[int]:
        """The steps that have a checkpoint, oldest first."""
        if not self.checkpoints.is_dir():
            return []
        matches = (_STEP.fullmatch(entry.name) for entry in self.checkpoints.iterdir())
        return sorted(int(match[1]) for match in matches if match)

    def before(self, step: int) -> list[int]:
        """The newest checkpoint before a step, if there is one: it is kept for the case that a later one is damaged."""
        return [other for other in self.steps() if other < step][-1:]

    def open(self, step: int, names: Iterable[str], *, check: bool = True) -> Saved:
        """A checkpoint whose tensors are read when they are asked for; with `check`, its files are hashed first."""
        folder = self.folder_of(step)
        if self.check and check:
            check_hashes(folder)
        try:
            facts: dict[str, Any] = read_json(folder / "state.json")
        except (OSError, ValueError) as problem:
            raise Damaged(f"{folder}: not a whole checkpoint ({problem})") from problem
        if not isinstance(facts, dict):
            raise Damaged(f"{folder}: not a whole checkpoint (state.json holds {kind_of(facts)})")
        return Saved(step, {name: open_tensors(folder, name) for name in names}, facts)

    def open_newest(self, names: Iterable[str], *, say: Callable[[str], None] = lambda _: None) -> Saved | None:
        """The newest checkpoint that is whole; None where there is none at all. What is damaged on the way is said."""
        names, problems = list(names), []
        for step in reversed(self.steps()):
            try:
                saved = self.open(step, names)
            except Damaged as problem:
                problems.append(problem)
                continue
            for damage in problems:
                say(f"{damage}; going on from the checkpoint before it, of step {step}")
            return saved
        if problems:
            raise Damaged(
                f"{problems[0]}, and there is no other checkpoint that is whole",
                hint=problems[0].hint or "begin again, with another --out",
            )
        return None

    def read(self, step: int, names: Iterable[str]) -> tuple[dict[str, dict[str, Tensor]], dict[str, Any]]:
        """The tensors and facts of a checkpoint, in memory."""
        saved = self.open(step, names)
        return _in_memory(saved.tensors), saved.facts

    def read_newest(self, names: Iterable[str], *, say: Callable[[str], None] = lambda _: None) -> Saved | None:
        """The newest checkpoint that is whole, in memory."""
        saved = self.open_newest(names, say=say)
        return None if saved is None else saved._replace(tensors=_in_memory(saved.tensors))

    def keep(self, steps: Iterable[int]) -> None:
        """Remove every checkpoint but these, and what a kill left half written or half removed."""
        kept = set(steps)
        for rest in self.checkpoints.glob(f"{DRAFT}*"):
            shutil.rmtree(rest, ignore_errors=True)
        for step in self.steps():
            if step not in kept:
                _drop(self.checkpoints / f"step-{step:08d}")

    def _put_back(self) -> None:
        """A checkpoint that was set aside for another of its step takes its place again, if that never came."""
        for aside in self.checkpoints.glob(f"{_ASIDE}*"):
            folder = aside.with_name(aside.name.removeprefix(_ASIDE))
            if folder.exists():
                _drop(aside)
            else:
                aside.rename(folder)


def _in_memory(tables: Mapping[str, Table]) -> dict[str, dict[str, Tensor]]:
    """All tensors, if there is room for them."""
    for table, tensors in tables.items():
        require(float(sum(one.nbytes for one in tensors.values())), f"{table}: its tensors")
    return {
        table: {name: one.read() if isinstance(one, StoredTensor) else one for name, one in tensors.items()}
        for table, tensors in tables.items()
    }


def _replace(folder: Path, draft: Path) -> None:
    """Let a finished draft take a folder's place; the old one goes only when the new one stands."""
    aside = folder.with_name(f"{_ASIDE}{folder.name}")
    if folder.exists():
        _drop(aside)
        folder.rename(aside)
    draft.rename(folder)
    _drop(aside)


def _drop(folder: Path) -> None:
    """Remove a folder so that a kill in the middle leaves nothing that looks whole."""
    if folder.exists():
        grave = folder.with_name(f"{DRAFT}old-{folder.name}")
        shutil.rmtree(grave, ignore_errors=True)
        folder.rename(grave)
        shutil.rmtree(grave, ignore_errors=True)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
