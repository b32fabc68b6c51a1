"""Prediction in parts from beginning to end: a folder that is begun or gone on with, filled, and perhaps joined.

done = predict_in_parts(job, folder, LocalEngine, listener)
join(folder, Path("out.txt"))
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

from regard.checkpoints.lock import Gone, Lock, locked
from regard.errors import DataError, RegardError, UsageError
from regard.scale.driver import Driver
from regard.scale.engine import Engine
from regard.scale.identity import Other, check_same, identity
from regard.scale.leads import fit_together
from regard.scale.manifest import NAME, Manifest, Record, sha256
from regard.scale.parts import Part, cut
from regard.scale.worker import PartOutput
from regard.tasks.predicting.inputs import Inputs
from regard.tasks.predicting.request import Request

Say = Callable[[str], None]


@dataclass(frozen=True)
class PartsJob:
    """What is predicted: a request, its inputs, how these were named, and how many a part has at least."""

    request: Request
    many: Inputs
    words: Sequence[str]
    lines: str | None
    size: int

    def identity(self) -> dict[str, object]:
        """What decides about the bytes of all parts."""
        return identity(self.request, self.many, words=self.words, lines=self.lines, size=self.size)


@dataclass
class Listener:
    """Who is told: what users should know, what is wrong with inputs, and how many inputs are done."""

    say: Say
    explain: Callable[[RegardError], object]
    progress: Callable[[int], None]


@dataclass
class Outcome:
    """What came of it: inputs, those without an output, the names of all parts in order, and those given up."""

    n: int = 0
    failed: int = 0
    names: list[str] = field(default_factory=list)
    given_up: list[str] = field(default_factory=list)
    stood: int = 0


class PartsFolder:
    """A folder of parts that is being filled; its lock is held."""

    def __init__(self, lock: Lock, job: PartsJob, listener: Listener) -> None:
        self.lock, self.folder, self.job, self.listener = lock, lock.folder, job, listener
        self.manifest = Manifest(self.folder)
        self.outcome = Outcome()
        self._hint: str | None = None

    def begin(self) -> None:
        """Go on with what was begun, if it is the same; else begin, in an empty folder."""
        found = self.job.identity()
        self.manifest.clear_drafts()
        if self.manifest.identity is not None and self.manifest.records:
            check_same(self.folder, self.manifest.identity, found)
            return
        others = sorted(path.name for path in self.folder.iterdir() if not path.name.startswith("."))
        if others and self.manifest.identity is None:
            message = f"{self.folder}: holds other files ({', '.join(others[:4])}), and no parts with their {NAME}"
            raise UsageError(message, hint="give a new folder as --out")
        self.manifest.begin(found)

    def missing(self) -> Iterator[Part]:
        """The parts that do not stand, in order; the input is read on for each."""
        for part in cut(self.job.many, self.job.size):
            self.outcome.names.append(part.name)
            record = self.manifest.records.get(part.number)
            if record is not None and self._stands(part, record):
                self.outcome.stood += part.n
                self._count(record)
            else:
                yield part

    def take(self, part: Part, made: PartOutput) -> None:
        """Write a part, and pass on what is said about its inputs."""
        if not self.lock.is_held():
            message = f"{self.folder}: the folder is gone, or another's: it was moved, or its lock was removed"
            raise Gone(message, hint="put it back; the same command goes on")
        for remark in made.remarks:
            self.listener.say(remark)
        for problem in made.problems:
            self._explain(problem)
        record = Record(
            part.number,
            n=made.n,
            failed=made.failed,
            inputs=part.digest(files=self.job.many.files),
            lead=made.lead,
            separates=made.separates,
            first_header=made.first_header,
            last_header=made.last_header,
        )
        self.manifest.write_part(part.name, made.content, record)
        self._count(record)
        self.listener.progress(part.n)

    def give_up(self, part: Part, why: str) -> None:
        """Say which part is left out, and go on."""
        self.outcome.given_up.append(part.name)
        self.outcome.n += part.n
        problem = f"{self.folder / part.name}: {part.range} are left out: the process that predicts for them {why}"
        self._explain(RegardError(problem, hint="look at these inputs; the same command tries them again"))

    def _stands(self, part: Part, record: Record) -> bool:
        if record.inputs != part.digest(files=self.job.many.files):
            what = self.job.lines or " ".join(self.job.words)
            anew = f"rm -r {shlex.quote(str(self.folder))}"
            message = f"{self.folder}: {what} has changed since it was begun ({part.range})"
            raise Other(message, hint=f"put it back, give another --out, or begin anew: {anew}")
        if self.manifest.stands(part.name, record):
            return True
        self.listener.say(f"{self.folder / part.name}: is not as it was written, and is made again")
        self.manifest.forget(part.number)
        return False

    def _count(self, record: Record) -> None:
        self.outcome.n += record.n
        self.outcome.failed += record.failed

    def _explain(self, problem: RegardError) -> None:
        """Say what is wrong; the same hint is given once."""
        hint = None if problem.hint == self._hint else problem.hint
        self._hint = problem.hint or self._hint
        self.listener.explain(RegardError(str(problem), hint=hint))


def predict_in_parts(job: PartsJob, folder: Path, engine: Callable[[], Engine], listener: Listener) -> Outcome:
    """Make all parts that do not stand; those that do are checked and left."""
    with locked(folder, what="prediction") as lock:
        parts = PartsFolder(lock, job, listener)
        parts.begin()
        missing = parts.missing()
        first = next(missing, None)
        if first is not None:
            with engine() as workers:
                Driver(workers, chain([first], missing), take=parts.take, give_up=parts.give_up).run()
        if not parts.outcome.given_up:
            fit_together(parts.manifest, parts.outcome.names)
            parts.manifest.end()
    return parts.outcome


def join(folder: Path, names: Sequence[str], write: Callable[[bytes], object]) -> None:
    """All parts one after the other, each compared with its hash."""
    manifest = Manifest(folder)
    for number, name in enumerate(names):
        content = (folder / name).read_bytes()
        record = manifest.records.get(number)
        if record is None or sha256(content) != record.sha256:
            raise DataError(f"{folder / name}: is not as it was written", hint="the same command makes it again")
        write(content)


def without_inputs(many: Inputs) -> Inputs:
    """What inputs are, for workers, which are given them part by part."""
    return replace(many, each=())
