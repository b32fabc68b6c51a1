"""A store in shards: files of bounded size that several processes write, and that a kill leaves whole or absent.

The input is cut into units, such as a few files each, which follow from the input alone. A unit becomes one shard, or
several where one is full; so the bytes do not depend on how many processes there are. While they are written:

    .NAME.shards/plan.json          what is being made: shards of anything else are thrown away
    .NAME.shards/00003-001/         a shard: its files and facts.json, synced and renamed in one piece
    .NAME.shards/.draft-…           one that is being written, or was when a kill came

Started again, a unit goes on after its last shard. In the end the files lie side by side in NAME/: `stream.ids` is the
first one's, `stream-00001.ids` the second one's.
"""

from __future__ import annotations

import json
import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from secrets import token_hex
from time import monotonic
from typing import Any, NamedTuple

from regard.config.bounded import read_json
from regard.data.io.atomic import write_synced
from regard.data.io.hashes import FileHash, hash_of
from regard.data.io.workers import cores, each

Say = Callable[[str], None]
Facts = Mapping[str, Any]
_FACTS, _PLAN, _DRAFT = "facts.json", "plan.json", ".draft-"
_SILENCE = 10.0  # seconds between two lines of progress


class Workshop(NamedTuple):
    """How a store is made: by how many processes (None: one a core), and how many bytes of ids a shard has at most."""

    workers: int | None = 1
    shard_bytes: int = 2**27

    @property
    def processes(self) -> int:
        """How many processes there may be."""
        return cores() if self.workers is None else max(1, self.workers)

    def plan(self) -> dict[str, Any]:
        """What of it decides where shards end."""
        return {"shard_bytes": self.shard_bytes}


class ShardWriter(ABC):
    """Writes the files of one shard into a folder; closed, it says what they hold."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Bytes of ids so far; -1 while the shard cannot end here."""

    @abstractmethod
    def write(self, chunk: Any) -> None:
        """Write some examples."""

    @abstractmethod
    def close(self, *, last: bool) -> Facts:
        """End the files, on the disk; what they hold. `last` of its unit or not."""


class ShardJob(ABC):
    """Units of examples and how they are written; it travels to other processes. Called with a unit, it makes it."""

    work: Path
    shard_bytes: int

    @abstractmethod
    def chunks(self, unit: int) -> Iterator[Any]:
        """The examples of a unit, some at a time; the same ones every time."""

    @abstractmethod
    def open(self, folder: Path) -> ShardWriter:
        """A writer of a shard."""

    def __call__(self, unit: int) -> list[Facts]:
        """Write the shards of a unit that do not stand yet; the facts of all."""
        made = list(standing(self.work, unit))
        if made and made[-1]["last"]:
            return made
        chunks = islice(self.chunks(unit), sum(facts["chunks"] for facts in made), None)
        following = next(chunks, None)
        while not (made and made[-1]["last"]):
            with _draft_in(self.work) as draft:
                writer, n = self.open(draft), 0
                while following is not None and (not n or writer.size < self.shard_bytes):
                    writer.write(following)
                    following, n = next(chunks, None), n + 1
                facts = dict(writer.close(last=following is None)) | {"chunks": n, "last": following is None}
                facts["hashes"] = {file.name: hash_of(file) for file in sorted(draft.iterdir())}
                write_synced(draft / _FACTS, json.dumps(facts).encode())
                os.rename(draft, self.work / shard_name(unit, len(made)))
            made.append(facts)
        return made


@contextmanager
def _draft_in(work: Path) -> Iterator[Path]:
    """A new folder for a shard; what is still called so in the end is removed."""
    draft = work / f"{_DRAFT}{token_hex(6)}"
    draft.mkdir()
    try:
        yield draft
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def shard_name(unit: int, number: int) -> str:
    """What a shard is called while the others are made."""
    return f"{unit:05d}-{number:03d}"


def standing(work: Path, unit: int) -> Iterator[Facts]:
    """The facts of a unit's shards that stand, up to the first that does not."""
    number = 0
    while (path := work / shard_name(unit, number) / _FACTS).exists():
        facts: Facts = read_json(path)
        if any((path.parent / name).stat().st_size != size for name, (size, _) in facts["hashes"].items()):
            shutil.rmtree(path.parent)  # another is written in its place
            return
        yield facts
        number += 1


def work_folder(folder: Path) -> Path:
    """Where the shards of a store stand until all are there."""
    return folder.parent / f".{folder.name}.shards"


def make_shards(
    job: ShardJob, n_units: int, *, plan: Facts, workers: int, name: str = "", say: Say = lambda _: None
) -> list[Facts]:
    """Make what does not stand yet; the facts of all shards, in order. A `plan` that is another begins anew."""
    _prepare(job.work, plan)
    begin = said = monotonic()
    made: dict[int, list[Facts]] = {}

    def done(unit: int, facts: list[Facts]) -> None:
        nonlocal said
        made[unit] = facts
        if n_units > 1 and (monotonic() - said > _SILENCE or len(made) == n_units > workers):
            said = monotonic()
            n = sum(len(several) for several in made.values())
            part = f"{len(made) / n_units:.0%} of the files"
            say(f"{name}: {part} in {n:,} shards of ids, {monotonic() - begin:.0f} s, {workers} at a time")

    each(job, range(n_units), workers=workers, done=done)
    return [{**facts, "folder": shard_name(unit, i)} for unit in range(n_units) for i, facts in enumerate(made[unit])]


def _prepare(work: Path, plan: Facts) -> None:
    """A folder for shards of this plan: others, and drafts, are removed."""
    try:
        same = read_json(work / _PLAN) == json.loads(json.dumps(plan))
    except (OSError, ValueError):
        same = False
    if not same:
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        write_synced(work / _PLAN, json.dumps(plan).encode())
    for draft in work.glob(f"{_DRAFT}*"):
        shutil.rmtree(draft, ignore_errors=True)


def file_name(name: str, number: int) -> str:
    """What a file of a shard is called in the store: that of the first has no number."""
    stem, _, ending = name.rpartition(".")
    return name if not number else f"{stem}-{number:05d}.{ending}"


def put_together(work: Path, shards: Sequence[Facts], draft: Path) -> dict[str, list[FileHash]]:
    """Let the files of all shards be in one folder, too; their hashes by name. They are not copied where links work."""
    known = {}
    for number, facts in enumerate(shards):
        for name, said in facts["hashes"].items():
            target = draft / file_name(name, number)
            try:
                os.link(work / facts["folder"] / name, target)
            except OSError:  # a file system without links
                shutil.copyfile(work / facts["folder"] / name, target)
            known[target.name] = [FileHash(*said)]
    return known


def group_files(sizes: Sequence[int], most: int) -> list[tuple[int, int]]:
    """Which files make a unit, as ranges: neighbours that have at most so many bytes together, or one that has more."""
    groups, start, total = [], 0, 0
    for number, size in enumerate(sizes):
        if number > start and total + size > most:
            groups.append((start, number))
            start, total = number, 0
        total += size
    return [*groups, (start, len(sizes))]
