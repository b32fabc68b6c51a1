"""Benchmarks that consist of many runs: each part is measured in a process of its own and kept as one small JSON file.

    parts = Parts(Path("runs/glue"))
    parts.do([("ours", "rte", "1"), ...], one, jobs=12, command=...)    what is there already is not done again
    parts.read(("ours", "rte", "1"))                                    its figures, and where they come from

Several processes, or several machines one after the other, may fill one folder. A part that was measured by code that
has changed since is measured again. What is trained on the way stays under runs/, which nobody commits; the figures of
a part that would lie there lie under results/parts instead, so that what takes longer than a machine is there for goes
on with the next one. What parts rest on is kept once for all that rest on the same.
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

from inputs import ROOT, Inputs, changed, here, merged, short
from regard.checkpoints.provenance import commit, hardware, versions

RUNS, KEPT = ROOT / "runs", ROOT / "results" / "parts"

Part = tuple[str, ...]
Figures = dict[str, float]


class Parts:
    """A folder of parts."""

    def __init__(self, folder: Path, *, recipe: Callable[[Part], str | None] = lambda _: None) -> None:
        self.folder, self.recipe = folder, recipe
        folder.mkdir(parents=True, exist_ok=True)

    def path(self, part: Part) -> Path:
        """Where a part is kept."""
        return kept_place(self.folder / f"{'-'.join(part)}.json")

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
        return _read(self.path(part))

    def write(self, part: Part, figures: Figures, *, seconds: float, device: str) -> None:
        """Keep a part, whole or not at all."""
        facts = {
            "figures": figures,
            "seconds": round(seconds, 1),
            "hardware": hardware(torch.device(device)),
            "versions": versions(),
            "commit": commit(),
            "date": datetime.date.today().isoformat(),
        }
        _write(self.path(part), facts, here(self.recipe(part)))

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
        log = self.folder / f"{'-'.join(part)}.log"
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
    inputs = _read(path).get("inputs") if path.exists() else None
    return inputs is not None and not changed(inputs)


def kept_part(
    path: Path, one: Callable[[], dict[str, Any]], *, recipe: str | None, collect: bool
) -> dict[str, Any] | None:
    """What one run measured: from its file while that stands, else measured now, unless parts are only collected."""
    place = kept_place(path)
    if not collect and not stands(place):
        found = one()
        _write(place, found, here(recipe))
    return _read(place) if place.exists() else None


def kept_place(path: Path) -> Path:
    """Where the figures of a part are kept: what would lie under runs/ is committed."""
    absolute = path.absolute()
    return KEPT / absolute.relative_to(RUNS) if absolute.is_relative_to(RUNS) else path


def _write(path: Path, facts: dict[str, Any], inputs: Inputs) -> None:
    """Keep figures and what they rest on, whole or not at all."""
    table = json.dumps(inputs, indent=1, sort_keys=True) + "\n"
    for place, text in (
        (_table_of(path, short(table)), table),
        (path, json.dumps(facts | {"inputs": short(table)}, indent=1) + "\n"),
    ):
        place.parent.mkdir(parents=True, exist_ok=True)
        draft = place.with_suffix(f".{os.getpid()}.draft")
        draft.write_text(text)
        draft.replace(place)


def _read(path: Path) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads(path.read_text())
    if isinstance(digest := facts.get("inputs"), str):
        facts["inputs"] = json.loads(_table_of(path, digest).read_text())
    return facts


def _table_of(path: Path, digest: str) -> Path:
    """Where a table of inputs is kept that this part rests on."""
    return path.parent / "inputs" / f"{digest}.json"


def inputs_of(found: Sequence[dict[str, Any]]) -> Inputs | None:
    """What parts rest on together."""
    return merged(part.get("inputs") for part in found)


def folder_of(benchmark: str, settings: Sequence[str]) -> Path:
    """Where a benchmark keeps its parts unless it is told: other settings, another folder."""
    return Path("runs") / "_".join([benchmark, *settings]).replace("/", "-")


def mean(values: Sequence[float]) -> float:
    """The mean, rounded as results are."""
    return round(statistics.fmean(values), 2)
