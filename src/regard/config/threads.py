"""Work that several threads do side by side, each with its part of the processors.

    for result in in_threads(work, items, n=2): …        work(item) of each, in their order

Threads that share every product of a small matrix wait for one another dozens of times a step. Where the work falls
into pieces that have nothing to do with each other, each thread had better have pieces of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_threads(work: Callable[[Item], Result], items: Sequence[Item], *, n: int) -> Iterator[Result]:
    """What the work gives for each item, in their order, by n threads; by one, it is done here."""
    if n == 1 or len(items) < 2:
        yield from map(work, items)
        return
    available = torch.get_num_threads()
    pool = ThreadPoolExecutor(n, "regard-share", initializer=torch.set_num_threads, initargs=(max(1, available // n),))
    try:
        yield from pool.map(work, items)
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(available)  # what threads have that never say how many


def take_threads(n: int) -> None:
    """Let PyTorch compute with so many threads where this one calls it; setting them forgets what it has prepared."""
    if torch.get_num_threads() != n:
        torch.set_num_threads(n)
