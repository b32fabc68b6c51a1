"""All runs below a folder, newest first, and those that cannot be read with what is wrong with them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from regard.checkpoints.run import RunFolder
from regard.errors import RegardError
from regard.tasks.facts.summary import RunSummary, summarise


class RunList(NamedTuple):
    """The runs that can be read, and a problem for each of the others."""

    runs: list[RunSummary]
    problems: list[RegardError]


def list_runs(folder: Path | str) -> RunList:
    """Every run at or below a folder."""
    runs: list[RunSummary] = []
    problems: list[RegardError] = []
    for path in run_folders(Path(folder)):
        try:
            runs.append(summarise(path))
        except RegardError as problem:
            problems.append(problem)
        except OSError as problem:
            problems.append(RegardError(f"{path}: cannot be read ({problem.strerror})"))
    return RunList(sorted(runs, key=lambda run: (-run.moment, str(run.path))), problems)


def run_folders(folder: Path) -> Iterator[Path]:
    """The folders of runs; nothing within a run, or hidden, is looked at, and nothing twice."""
    seen: set[str] = set()
    for place, inside, _ in os.walk(folder, followlinks=True):
        real = os.path.realpath(place)
        if real in seen:
            inside.clear()
        elif RunFolder(place).exists():
            inside.clear()
            yield Path(place)
        else:
            inside[:] = sorted(name for name in inside if not name.startswith("."))
        seen.add(real)
