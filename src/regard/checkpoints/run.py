"""The run folder: all there is of a run, and all that is needed to use or continue it.

    config.toml             the resolved recipe: fed back to `train`, it reproduces the run
    model.json              what the weights are weights of: the model's name and all its options
    model.safetensors       the weights to use: averaged and best, as the recipe says
    tokenizer.json          text to ids; source.json and target.json where the two sides of a pair differ
    labels.json             the classes, or the scale of numbers, where texts are labelled
    shortlist.safetensors   likely translations of every source token, where a translator was asked to learn them
    run.json                format version, task, date, metrics with signatures, seed, fingerprints, commit, versions
    README.md               what all this comes to, in words
    metrics.jsonl           one line a report
    data.json               the data files that it was begun with: sizes, times and hashes
    hashes.json             what the files above were when they were written: a bit that changed since is noticed
    checkpoints/step-N/     everything an exact continuation needs, with hashes of its own
    .lock                   who trains here right now

A checkpoint is written under a temporary name, synced and renamed: a kill at any instant leaves a loadable one. The one
before the newest is kept as well, for the case that the newest is damaged; that costs its size on the disk.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torch import Tensor

from regard.checkpoints.lock import NAME as LOCK
from regard.checkpoints.lock import Lock
from regard.checkpoints.spec import ModelSpec
from regard.checkpoints.steps import DRAFT, CheckpointFolder
from regard.checkpoints.weights import read_tensors, write_tensors
from regard.config.bounded import read_json, read_toml
from regard.config.toml import write_toml
from regard.data.io.atomic import write_synced
from regard.data.io.hashes import NAME as HASHES
from regard.data.io.hashes import (
    check_hashes,
    hash_of,
    read_hashes,
    record_hashes,
    replacing,
)
from regard.errors import CheckpointError, EnvironmentProblem

FORMAT = 1
_DRAFTS = re.compile(r"\.draft(-.+)?|\..+\.(\d+|[0-9a-f]{12})")  # as `atomic.py` and tokenizers call theirs, too
_PEOPLE = ("README.md",)  # people may change it
_MADE = "take it from a copy; or go on with it as it is: --no-check"
_FULL = "free some disk space; what was saved before is untouched"


class RunFolder(CheckpointFolder):
    """A run on disk. With `check`, what is read is compared with the hashes that it was written with.

    While `lock` is held, nothing is written once the folder is gone or another's.
    """

    def __init__(self, path: Path | str, *, check: bool = True) -> None:
        super().__init__(Path(path), check=check)
        self.lock: Lock | None = None

    @property
    def weights(self) -> Path:
        """The weights to use."""
        return self.path / "model.safetensors"

    def exists(self) -> bool:
        """Whether a run was ever started here."""
        return (self.path / "config.toml").exists()

    def write_config(self, config: Mapping[str, Any]) -> None:
        """Write the resolved recipe."""
        self.write_text("config.toml", write_toml(config))

    def read_config(self) -> dict[str, Any]:
        """The resolved recipe of this run."""
        path = self.path / "config.toml"
        if not path.exists():
            raise CheckpointError(
                f"{self.path}: not a run folder (it has no config.toml)",
                hint="give the folder that `regard train` made",
            )
        try:
            return read_toml(path)
        except (OSError, ValueError) as problem:
            raise CheckpointError(f"{path}: not a TOML file ({problem})") from problem

    def write_model(self, spec: ModelSpec) -> None:
        """Write model.json: what the weights are weights of."""
        self.write_text("model.json", json.dumps(asdict(spec), indent=1, ensure_ascii=False) + "\n")

    def read_model(self) -> ModelSpec:
        """What model.json says."""
        path = self.path / "model.json"
        try:
            facts = read_json(path)
            labels = None if facts["labels"] is None else tuple(map(str, facts["labels"]))
            if not all(isinstance(facts[name], dict) for name in ("options", "decode")):
                raise TypeError("its options are no table")
            return ModelSpec(facts["task"], facts["model"], facts["options"], labels, facts["decode"])
        except FileNotFoundError as problem:
            raise CheckpointError(
                f"{path}: there is no such file", hint="it may be a run of another version"
            ) from problem
        except (OSError, ValueError, KeyError, TypeError) as problem:
            raise CheckpointError(f"{path}: not a description of a model ({problem!r})") from problem

    def write_facts(self, facts: Mapping[str, Any]) -> None:
        """Write run.json: what this run is and what it reached."""
        self.write_text("run.json", json.dumps({"format": FORMAT} | dict(facts), indent=1, ensure_ascii=False) + "\n")

    def read_facts(self) -> dict[str, Any]:
        """What run.json says."""
        path = self.path / "run.json"
        try:
            facts: dict[str, Any] = read_json(path)
        except FileNotFoundError as problem:
            raise CheckpointError(f"{path}: there is no such file") from problem
        except (OSError, ValueError) as problem:
            raise CheckpointError(f"{path}: not a JSON file ({problem})") from problem
        if not isinstance(facts, dict) or not isinstance(facts.get("format", 0), int):
            raise CheckpointError(f"{path}: not a regard run (an object with a format number was expected)")
        if facts.get("format", 0) > FORMAT:
            raise CheckpointError(
                f"{path}: written by a newer regard (format {facts['format']}, this one reads up to {FORMAT})",
                hint="upgrade regard",
            )
        return facts

    def write_text(self, name: str, text: str) -> None:
        """Write a small file whole or not at all."""
        self.make_sure()
        draft = self.path / f"{DRAFT}{name}"
        try:
            write_synced(draft, text.encode())
            self._install(draft, name)
        except OSError as problem:
            raise EnvironmentProblem(
                f"{self.path / name}: cannot be written ({problem.strerror})", hint="free some disk space"
            ) from problem
        finally:
            draft.unlink(missing_ok=True)

    def write_weights(self, tensors: Mapping[str, Tensor]) -> None:
        """Write model.safetensors whole or not at all."""
        self.write_tensors(self.weights.name, tensors)

    def write_tensors(self, name: str, tensors: Mapping[str, Tensor]) -> None:
        """Write a safetensors file whole or not at all."""
        self.make_sure()
        path, draft = self.path / name, self.path / f"{DRAFT}{name}"
        try:
            hashed = write_tensors(draft, tensors)
            with replacing(path, hashed):
                draft.replace(path)
        except OSError as problem:
            raise EnvironmentProblem(f"{path}: cannot be written ({problem.strerror})", hint=_FULL) from problem
        finally:
            draft.unlink(missing_ok=True)

    def check_weights(self) -> None:
        """Compare the weights to use with what was written."""
        if self.check:
            check_hashes(self.path, [self.weights.name])

    def read_weights(self) -> dict[str, Tensor]:
        """The weights to use, as they were written."""
        self.check_weights()
        return read_tensors(self.weights)

    def make_sure(self) -> None:
        """Let the folder be there: made where nobody holds it, an error where it is gone under a training."""
        if self.lock is None:
            self.path.mkdir(parents=True, exist_ok=True)
        else:
            self.lock.check()

    def check_files(self, *, made: bool = False) -> bool:
        """Compare all files but the weights and the checkpoints with their hashes; whether there are hashes.

        What the run `made` to learn from, of standard input or by itself, is needed to go on only.
        """
        known = read_hashes(self.path) if self.check else {}
        if made and self.check:
            check_hashes(self.path / "data", hint=_MADE)
        return known is not None and check_hashes(self.path, [name for name in known if name != self.weights.name])

    def seal(self) -> None:
        """Note what the files are that others wrote beside the weights."""
        self.make_sure()
        aside = (HASHES, LOCK, self.weights.name, *_PEOPLE)
        files = [entry.name for entry in self.path.iterdir() if entry.is_file() and _shown(entry)]
        record_hashes(self.path, [name for name in files if name not in aside])
        made = self.path / "data"
        if made.is_dir() and (drawn := [entry.name for entry in made.iterdir() if entry.is_file() and _shown(entry)]):
            record_hashes(made, [name for name in drawn if name != HASHES])

    def unseal(self) -> None:
        """Let all files beside the weights be what they are."""
        (self.path / HASHES).unlink(missing_ok=True)
        (self.path / "data" / HASHES).unlink(missing_ok=True)

    def clear_drafts(self) -> None:
        """Remove what a kill or a full disk left half written, and put back what was just being replaced.

        Only whoever holds the lock may.
        """
        for folder in (self.path, self.checkpoints, self.path / "data", *(self.path / "data").glob("*/")):
            for rest in folder.glob(".*") if folder.is_dir() else ():
                if _DRAFTS.fullmatch(rest.name):
                    _remove(rest)
        self._put_back()

    def _install(self, draft: Path, name: str) -> None:
        """Rename a finished draft to its place, and note what it is."""
        if name in _PEOPLE:
            draft.replace(self.path / name)
            return
        with replacing(self.path / name, hash_of(draft)):
            draft.replace(self.path / name)


def _shown(path: Path) -> bool:
    return not path.name.startswith(".")


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
