"""The run folder: all there is of a run, and all that is needed to use or continue it.

    config.toml             the resolved recipe: fed back to `train`, it reproduces the run
    model.json              what the weights are weights of: the model's name and all its options
    model.safetensors       the weights to use: averaged and best, as the recipe says
    tokenizer.json          text to ids; source.json and target.json where the two sides of a pair differ
    labels.json             the classes, or the scale of numbers, where texts are labelled
    run.json                format version, task, date, metrics with signatures, seed, fingerprints, commit, versions
    README.md               what all this comes to, in words
    metrics.jsonl           one line a report
    checkpoints/step-N/     everything an exact continuation needs

A checkpoint is written under a temporary name, synced and renamed: a kill at any instant leaves a loadable one.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torch import Tensor

from regard.checkpoints.spec import ModelSpec
from regard.checkpoints.weights import read_tensors, write_tensors
from regard.config.bounded import read_json, read_toml
from regard.config.toml import write_toml
from regard.data.io.atomic import write_synced
from regard.errors import CheckpointError, EnvironmentProblem, kind_of

FORMAT = 1
_STEP = re.compile(r"step-(\d{8,})")
_DRAFT = ".draft-"


class RunFolder:
    """A run on disk."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    @property
    def weights(self) -> Path:
        """The weights to use."""
        return self.path / "model.safetensors"

    @property
    def metrics(self) -> Path:
        """One line of JSON a report."""
        return self.path / "metrics.jsonl"

    @property
    def checkpoints(self) -> Path:
        """Where the states to continue from lie."""
        return self.path / "checkpoints"

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
        self.path.mkdir(parents=True, exist_ok=True)
        draft = self.path / f"{_DRAFT}{name}"
        try:
            write_synced(draft, text.encode())
            draft.replace(self.path / name)
        except OSError as problem:
            raise EnvironmentProblem(
                f"{self.path / name}: cannot be written ({problem.strerror})", hint="free some disk space"
            ) from problem

    def write_weights(self, tensors: Mapping[str, Tensor]) -> None:
        """Write model.safetensors whole or not at all."""
        draft = self.path / f"{_DRAFT}model.safetensors"
        write_tensors(draft, tensors)
        draft.replace(self.weights)

    def save(self, step: int, *, files: Mapping[str, Mapping[str, Tensor]], facts: Mapping[str, Any]) -> Path:
        """Write a checkpoint: tensors by file name, and a JSON of facts, all or nothing."""
        folder = self.checkpoints / f"step-{step:08d}"
        draft = self.checkpoints / f"{_DRAFT}{folder.name}"
        shutil.rmtree(draft, ignore_errors=True)
        try:
            draft.mkdir(parents=True)
            for name, tensors in files.items():
                write_tensors(draft / f"{name}.safetensors", tensors)
            write_synced(draft / "state.json", json.dumps(dict(facts)).encode())
            _drop(folder)
            draft.rename(folder)
            _sync_folder(self.checkpoints)
        except OSError as problem:
            shutil.rmtree(draft, ignore_errors=True)
            raise EnvironmentProblem(
                f"{folder}: cannot be written ({problem.strerror})",
                hint="free some disk space; the checkpoint before is untouched: go on with --resume",
            ) from problem
        return folder

    def steps(self) -> list[int]:
        """The steps that have a checkpoint, oldest first."""
        if not self.checkpoints.is_dir():
            return []
        matches = (_STEP.fullmatch(entry.name) for entry in self.checkpoints.iterdir())
        return sorted(int(match[1]) for match in matches if match)

    def read(self, step: int, names: Iterable[str]) -> tuple[dict[str, dict[str, Tensor]], dict[str, Any]]:
        """The tensors and facts of a checkpoint."""
        folder = self.checkpoints / f"step-{step:08d}"
        try:
            facts: dict[str, Any] = read_json(folder / "state.json")
        except (OSError, ValueError) as problem:
            raise CheckpointError(f"{folder}: not a whole checkpoint ({problem})") from problem
        if not isinstance(facts, dict):
            raise CheckpointError(f"{folder}: not a whole checkpoint (state.json holds {kind_of(facts)})")
        return {name: read_tensors(folder / f"{name}.safetensors") for name in names}, facts

    def keep(self, steps: Iterable[int]) -> None:
        """Remove every checkpoint but these, and what a kill left half written or half removed."""
        kept = set(steps)
        for rest in self.checkpoints.glob(f"{_DRAFT}*"):
            shutil.rmtree(rest, ignore_errors=True)
        for step in self.steps():
            if step not in kept:
                _drop(self.checkpoints / f"step-{step:08d}")


def _drop(folder: Path) -> None:
    """Remove a folder so that a kill in the middle leaves nothing that looks whole."""
    if folder.exists():
        grave = folder.with_name(f"{_DRAFT}old-{folder.name}")
        shutil.rmtree(grave, ignore_errors=True)
        folder.rename(grave)
        shutil.rmtree(grave, ignore_errors=True)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
