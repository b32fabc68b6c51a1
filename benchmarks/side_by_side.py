"""Measure several ways of doing one thing in one run, turn by turn, so that drift hits all of them alike."""

from __future__ import annotations

import gc
import random
import statistics
import time
from collections.abc import Callable

import torch


def time_in_turns(ways: dict[str, Callable[[], object]], *, rounds: int, device: str) -> dict[str, float]:
    """Median seconds of one call of each way; the order is turned round by round."""
    return {
        name: statistics.median(values) for name, values in rounds_in_turns(ways, rounds=rounds, device=device).items()
    }


def rounds_in_turns(ways: dict[str, Callable[[], object]], *, rounds: int, device: str) -> dict[str, list[float]]:
    """Seconds of one call of each way, round by round: element i of each list was measured side by side."""
    for call in ways.values():
        for _ in range(3):
            call()
    # As many calls for all: a device that has to start up costs each of them the same.
    repeats = max(_repeats(call, device) for call in ways.values())
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    order = random.Random(0)
    gc.collect()
    for _ in range(rounds):
        for name in order.sample(list(ways), len(ways)):  # no way always follows the same other one
            ways[name]()  # what the one before left behind is settled before the clock starts
            seconds[name].append(_seconds(ways[name], repeats, device))
    return seconds


def _repeats(call: Callable[[], object], device: str) -> int:
    """Enough calls for about 20 ms, so that the clock's grain does not show."""
    return max(1, min(200, round(0.02 / max(_seconds(call, 1, device), 1e-6))))


def _seconds(call: Callable[[], object], repeats: int, device: str) -> float:
    if device == "cuda":
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda.synchronize()
        start.record()
        for _ in range(repeats):
            call()
        end.record()
        torch.cuda.synchronize()
        return start.elapsed_time(end) / 1000 / repeats
    begin = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - begin) / repeats
