"""How far a run came, whether it is over, and how to go on with it."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from regard.checkpoints.run import RunFolder
from regard.config.bounded import read_json
from regard.config.lenient import number, table, whole

StateName = Literal["finished", "stopped", "begun", "imported"]
RECENT = 120.0  # seconds: a run that was written to so lately may still be running


@dataclass(frozen=True)
class State:
    """How far a run came, and the command that goes on with it.

    finished     trained to its end: the steps are done, or nothing had improved for long enough
    stopped      there is a checkpoint to go on from
    begun        there is none yet
    imported     others trained it
    """

    name: StateName
    step: int | None
    go_on: str | None
    may_be_running: bool


def read_state(run: RunFolder, facts: Mapping[str, Any], reached: Mapping[str, Any]) -> State:
    """The state of a run, by what run.json says and what its newest checkpoint reached."""
    told = table(facts, "training")
    if facts and not told:
        return State("imported", None, None, False)
    if facts and not goes_beyond(reached, told):
        return State("finished", whole(told, "step"), None, False)
    step = whole(reached, "step")
    command = f"regard train --resume --out {shlex.quote(str(run.path))}"
    recent = time.time() - last_change(run) < RECENT
    return State("begun" if step is None else "stopped", step, command, recent)


def read_reached(run: RunFolder) -> dict[str, Any]:
    """What the newest checkpoint says of how far it is, with its step; nothing where there is no checkpoint."""
    steps = run.steps()
    if not steps:
        return {}
    path = run.checkpoints / f"step-{steps[-1]:08d}" / "state.json"
    try:
        said = read_json(path)
    except (OSError, ValueError):
        said = {}
    said = said if isinstance(said, dict) else {}
    return said | dict(table(said, "told")) | {"step": steps[-1]}  # word vectors tell it in a table of its own


def goes_beyond(reached: Mapping[str, Any], told: Mapping[str, Any]) -> bool:
    """Whether a checkpoint is later than what run.json tells: the run was finished once, and went on."""
    return (number(reached, "step") or 0) > (number(told, "step") or float("inf"))


def last_change(run: RunFolder) -> float:
    """When the run was last written to, in seconds since 1970."""
    files = [run.path / name for name in ("run.json", "metrics.jsonl", "model.safetensors", "config.toml")]
    files += [run.checkpoints / f"step-{step:08d}" for step in run.steps()[-1:]]
    return max((path.stat().st_mtime for path in files if path.exists()), default=0.0)
