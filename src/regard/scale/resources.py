"""How many workers there are, and what each of them has: a GPU, or its share of the processor's threads.

`auto` is one worker a GPU, or one a core, as long as there is memory for a model each: small models gain more by
several processes than by several threads.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import torch

from regard.config.bounded import free_memory
from regard.config.devices import choose_device
from regard.errors import UsageError
from regard.scale.worker import Assignment
from regard.tasks.predicting.inputs import Inputs
from regard.tasks.predicting.request import Request

AUTO = "auto"
_OWN = 1 << 30  # bytes that a worker takes besides its model, at most
_COPIES = 2  # of the weights: as they were read, and as they are computed with


def read_workers(text: str) -> int | None:
    """How many workers: a number, or None for `auto`."""
    if text == AUTO:
        return None
    if not text.isdecimal() or int(text) == 0:
        raise UsageError(f"--workers {text}: allowed is a number from 1, or auto")
    return int(text)


def assignments(request: Request, many: Inputs, workers: int | None, *, cluster: bool = False) -> list[Assignment]:
    """What each worker has on this machine; in a `cluster`, where whoever starts them chooses the GPU."""
    device = choose_device(request.device)
    if device.type == "cuda":
        named = request.device.startswith("cuda:")
        devices = [str(device)] if named else [f"cuda:{i}" for i in range(torch.cuda.device_count())]
        n = workers or len(devices)
        names = ["cuda" if cluster else devices[i % len(devices)] for i in range(n)]
    else:
        n = workers or _fitting((request.run, *request.ensemble))
        names = ["cpu"] * n
    threads = max(1, min(torch.get_num_threads(), cores() // n))  # OMP_NUM_THREADS is heard
    return [Assignment(request, many, name, threads) for name in names]


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _fitting(runs: Sequence[Path]) -> int:
    """A worker a core, or as many as there is memory for."""
    size = sum(map(_size, runs))
    return max(1, min(cores(), free_memory() // (_OWN + _COPIES * size)))


def _size(run: Path) -> int:
    files = [run] if run.is_file() else [path for path in run.iterdir() if path.is_file()]
    return sum(path.stat().st_size for path in files)
