"""The five tasks of GLUE at hand: where their files are, how they are judged, and smaller copies of them."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class GlueTask:
    """A task: its title and folder under `glue`, and the figures GLUE reports, the one that decides first."""

    title: str
    figures: tuple[str, ...]


TASKS = {  # the longest to train first, so that many at a time end together
    "sst2": GlueTask("SST-2", ("accuracy",)),
    "cola": GlueTask("CoLA", ("matthews",)),
    "stsb": GlueTask("STS-B", ("pearson", "spearman")),
    "mrpc": GlueTask("MRPC", ("f1", "accuracy")),
    "rte": GlueTask("RTE", ("accuracy",)),
}


def thinned(task: GlueTask, root: Path, target: Path, *, n_train: int, n_dev: int | None = None) -> Path:
    """A folder with evenly spaced lines of the task's files: so many to train on, and to measure on (None: all)."""
    folder = target / f"{task.title}-{n_train}-{n_dev or 'all'}"
    folder.mkdir(parents=True, exist_ok=True)
    for part, n in (("train", n_train), ("dev", n_dev)):
        lines = gzip.decompress((root / "glue" / task.title / f"{part}.tsv.gz").read_bytes()).splitlines(keepends=True)
        head = 0 if task.title == "CoLA" else 1  # which has no header
        body = lines[head:]
        kept = body if n is None or n >= len(body) else [body[i * len(body) // n] for i in range(n)]
        draft = folder / f".draft-{part}-{id(kept)}"
        draft.write_bytes(b"".join([*lines[:head], *kept]))
        draft.replace(folder / f"{part}.tsv")
    return folder
