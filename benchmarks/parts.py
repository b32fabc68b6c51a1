"""Benchmarks that consist of many runs: each part is measured in a process of its own and kept as one small JSON file.

    parts = Parts(Path("runs/glue"))
    parts.do([("ours", "rte", "1"), ...], one, jobs=12, command=...)    what is there already is not done again
    parts.read(("ours", "rte", "1"))                                    its figures, and where they come from

Several processes, or several machines one after the other, may fill one folder. A part that was measured by code that
has changed since is measured again.
"""

from __future__ import annotations

import datetime
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch

from inputs import Inputs, changed, here, merged
from regard.checkpoints.provenance import commit, hardware, versions

Part = tuple[str, ...]
Figures = dict[str, float]


class Parts:
    """A folder of parts."""

    def __init__(self, folder: Path, *, recipe: Callable[[Part], str | None] = lambda _: None) -> None:
        self.folder, self.recipe = folder, recipe
        folder.mkdir(parents=True, exist_ok=True)

    def path(self, part: Part) -> Path:
        """Where a part is kept."""
        return self.folder / f"{'-'.join(part)}.json"

    def missing(self, wanted: Sequence[Part]) -> list[Part]:
        """What has still to be done."""
        return [part for part in wanted if not self.path(part).exists()]

    def due(self, wanted: Sequence[Part]) -> list[Part]:
        """What is missing, or no longer stands."""
        return [part for part in wanted if not stands(self.path(part))]

    def inputs(self, wanted: Sequence[Part]) -> Inputs | None:
        """What all of these rest on together."""
        return merged(self.read(part).get("inputs") for part in wanted)

    def read(self, part: Part) -> dict[str, Any]:
        """What is known of a part: its `figures`, and where, when and by which code they were measured."""
        facts: dict[str, Any] = json.loads(self.path(part).read_text())
        return facts

    def write(self, part: Part, figures: Figures, *, seconds: float, device: str) -> None:
        """Keep a part, whole or not at all."""
        facts = {
            "figures": figures,
            "seconds": round(seconds, 1),
            "hardware": hardware(torch.device(device)),
            "versions": versions(),
            "commit": commit(),
            "date": datetime.date.today().isoformat(),
            "inputs": here(self.recipe(part)),
        }
        draft = self.path(part).with_suffix(".draft")
        draft.write_text(json.dumps(facts, indent=1) + "\n")
        draft.replace(self.path(part))

    def do(
        self,
        wanted: Sequence[Part],
        one: Callable[[Part], Figures],
        *,
        device: str,
        jobs: int = 1,
        command: Callable[[Part], list[str]],
    ) -> None:
        """Do what is due: here, one after the other, or by `command`s of which `jobs` run at a time."""
        missing = self.due(wanted)
        if jobs > 1 and len(missing) > 1:
            with ThreadPoolExecutor(jobs) as pool:
                failed = [part for part in pool.map(lambda part: self._apart(part, command(part)), missing) if part]
            if failed:
                sys.exit("\n\n".join(failed))
            return
        for part in missing:
            began = time.perf_counter()
            figures = one(part)
            self.write(part, figures, seconds=time.perf_counter() - began, device=device)
            print(f"{'-'.join(part)}: {figures} in {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)

    def _apart(self, part: Part, arguments: list[str]) -> str | None:
        """Run one part in a process of its own; what went wrong, if it did."""
        log = self.path(part).with_suffix(".log")
        with log.open("w") as file:
            done = subprocess.run(
                [sys.executable, *arguments],
                stdout=file,
                stderr=file,
                env={"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"} | os.environ,
            )
        told = log.read_text()
        last = told.strip().splitlines()[-1:] or [""]
        print(f"{'-'.join(part)}: {'done' if done.returncode == 0 else 'FAILED'}  {last[0][:160]}", file=sys.stderr)
        return None if done.returncode == 0 else f"{' '.join(arguments)}\n{told[-1500:]}"


def stands(path: Path) -> bool:
    """Whether a part is there, and was measured by the code as it is now."""
    inputs = json.loads(path.read_text()).get("inputs") if path.exists() else None
    return inputs is not None and not changed(inputs)


def kept_part(
    path: Path, one: Callable[[], dict[str, Any]], *, recipe: str | None, collect: bool
) -> dict[str, Any] | None:
    """What one run measured: from its file while that stands, else measured now, unless parts are only collected."""
    if not collect and not stands(path):
        found = one()
        path.write_text(json.dumps(found | {"inputs": here(recipe)}))
    told: dict[str, Any] | None = json.loads(path.read_text()) if path.exists() else None
    return told


def inputs_of(found: Sequence[dict[str, Any]]) -> Inputs | None:
    """What parts rest on together."""
    return merged(part.get("inputs") for part in found)


def folder_of(benchmark: str, settings: Sequence[str]) -> Path:
    """Where a benchmark keeps its parts unless it is told: other settings, another folder."""
    return Path("runs") / "_".join([benchmark, *settings]).replace("/", "-")


def mean(values: Sequence[float]) -> float:
    """The mean, rounded as results are."""
    return round(statistics.fmean(values), 2)
