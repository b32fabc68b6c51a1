"""A stream in pieces that fit into memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")


def chunks(items: Iterable[Item], full: int, *, size: Callable[[Item], int] = lambda _: 1) -> Iterator[list[Item]]:
    """Lists of items, each given out once the sizes of its items come to `full`: by default, so many items."""
    chunk: list[Item] = []
    total = 0
    for item in items:
        chunk.append(item)
        total += size(item)
        if total >= full:
            yield chunk
            chunk, total = [], 0
    if chunk:
        yield chunk
