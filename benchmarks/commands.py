"""The commands that make the figures, most important first, with the minutes each takes: `commands.toml`, read.

    listed("cpu")       two cores without a GPU
    listed("cuda")      one H200, each command under ten minutes

A command marked `part` writes no rows: it makes what the next one that is not marked needs.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True)
class Listed:
    """One command."""

    run: str
    minutes: float
    part: bool = False
    writes: tuple[tuple[str, str], ...] = ()  # subject and how the names of its rows begin, where the script has many

    @property
    def words(self) -> list[str]:
        return self.run.split()


@cache
def listed(device: str) -> tuple[Listed, ...]:
    """The commands for one kind of machine, in order of importance."""
    told = tomllib.loads(Path(__file__).with_name("commands.toml").read_text(encoding="utf-8"))
    return tuple(
        Listed(c["run"], c["minutes"], c.get("part", False), tuple((s, b) for s, b in c.get("writes", [])))
        for c in told[device]
    )
