"""An input cut into parts: the chunks that one process would predict for one after the other, some to a part.

A part ends where a chunk does, so every batch is the one that a single process makes, and outputs are the same where
they depend on the batch, too. The input is read once and as far as parts are asked for: memory holds those under way.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass

from regard.errors import UsageError
from regard.tasks.predicting.inputs import Given, Inputs

MOST = 999_999  # parts, so that their names sort as their numbers do


@dataclass(frozen=True)
class Part:
    """Some inputs one after the other: `start` is the number of the first, from 1."""

    number: int
    start: int
    chunks: tuple[list[Given], ...]

    @property
    def n(self) -> int:
        """How many inputs it has."""
        return sum(map(len, self.chunks))

    @property
    def name(self) -> str:
        """The name of its file; those of all parts sort in their order."""
        return f"part-{self.number:06d}"

    @property
    def range(self) -> str:
        """Which inputs it has, for people."""
        return f"inputs {self.start:,} to {self.start + self.n - 1:,}"

    def digest(self, *, files: bool) -> str:
        """A hash of its inputs; of files, of their names, sizes and times."""
        made = hashlib.sha256()
        for chunk in self.chunks:
            facts = [fact for one in chunk for fact in (one.value, one.told, str(one.problem or ""))]
            facts += [stamp for one in chunk for stamp in _stamps(one.value)] if files else []
            made.update("\0".join(facts).encode("utf-8", "surrogatepass"))
        return made.hexdigest()


def cut(many: Inputs, size: int) -> Iterator[Part]:
    """Inputs in parts of at least `size`, the last one aside; no inputs at all are one part of none."""
    number, start, chunks, n = 0, 1, list[list[Given]](), 0
    for some in many.chunks():
        chunks.append(some)
        n += len(some)
        if n >= size:
            yield Part(number, start, tuple(chunks))
            number, start, chunks, n = number + 1, start + n, [], 0
            if number > MOST:
                message = f"there are more than {MOST + 1:,} parts of {size:,} inputs"
                raise UsageError(message, hint=f"make them larger: --part-size {10 * size}, in a new folder")
    if chunks or number == 0:
        yield Part(number, start, tuple(chunks))


def _stamps(value: str) -> Iterator[str]:
    """The size and the time of a file, or of several that commas join; nothing of one that is not there."""
    for name in dict.fromkeys([value, *value.split(",")]):
        try:
            facts = os.stat(name)
        except (OSError, ValueError):
            continue
        yield f"{facts.st_size} {facts.st_mtime_ns}"
