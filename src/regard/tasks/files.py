"""The files of a recipe, found: relative names are looked for here, then under the data root.

What every task does about them: names become paths, standard input is kept, and a share may be held out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from regard.data.io.globs import expand_all, holds_something, is_pattern
from regard.data.io.lines import STDIN
from regard.data.io.paths import find_data, keep_stdin
from regard.data.io.shards import Workshop
from regard.errors import ConfigError, DataError

Data = TypeVar("Data")
Example = TypeVar("Example")
Examples = TypeVar("Examples")
Say = Callable[[str], None]


@dataclass(frozen=True)
class DataFiles(Generic[Data]):
    """Where the files of a `[data]` section are. What has to be made of them on the way is kept under `made`."""

    data: Data
    root: Path | None = None
    made: Path = Path("data")

    holds: ClassVar[str] = "file"  # what a set names, in messages
    example: ClassVar[str] = "FILE"
    ending: ClassVar[str] = ""  # of standard input, where it can be read

    def find(self, names: Sequence[str], *, what: str) -> list[str]:
        """The paths of what `data.what` names, each once; that it names nothing is the user's to change.

        Empty files that a pattern matches among others are passed over.
        """
        if not names:
            raise ConfigError(
                f"data.{what} names no {self.holds}",
                hint=f'give it with --{what} {self.example}, or as data.{what} = ["{self.example}"]',
            )
        paths = [find_data(self.keep(name, what), self.root) for name in expand_all(names, self.root)]
        if any(is_pattern(name, self.root) for name in names) and len(paths) > 1:
            named = {find_data(name, self.root) for name in names if not is_pattern(name, self.root) and name != STDIN}
            return [path for path in paths if path in named or holds_something(path)] or paths
        return paths

    def keep(self, name: str, what: str) -> str:
        """A file's name; standard input becomes a file, since it is read more than once."""
        kept = name == STDIN and self.ending
        return str(keep_stdin(self.made / f"stdin-{what}{self.ending}")) if kept else name

    @property
    def workshop(self) -> Workshop:
        """How ids are made of the data: by how many processes, in shards of what size."""
        section: Any = self.data
        return Workshop(section.workers, int(section.shard_mib * 2**20))

    def sets(self) -> dict[str, tuple[str, ...]]:
        """What the recipe names, by set: training, validation and every test set; sets without files are left out."""
        section: Any = self.data
        named = {"train": section.train, "valid": section.valid} | dict(section.test)
        return {name: files for name, files in named.items() if files}


@dataclass(frozen=True)
class Sets(Generic[Examples]):
    """All the data of a run, read and checked: what to learn from, to choose by, and to report on."""

    train: Examples
    valid: Examples
    tests: dict[str, Examples]


def report_sets(files: Any, *, say: Say = lambda _: None) -> Mapping[str, Any]:
    """The test sets that files read, else what was held out; none of a model that was trained elsewhere."""
    if not files.data.train:
        return {}
    sets = files.read(say=say)
    return sets.tests or {"valid": sets.valid}


def hold_some_out(examples: Sequence[Example], share: float, *, what: str, hint: str) -> tuple[list[Example], ...]:
    """What is left to learn from, and what is held out: chosen at random, the same every time."""
    kept, held = split_off(len(examples), share)
    if not kept:
        raise DataError(f"{len(examples)} {what} are too few to hold some out", hint=hint)
    return [examples[i] for i in kept], [examples[i] for i in held]


def split_off(n: int, share: float, *, seed: int = 0) -> tuple[list[int], list[int]]:
    """Which of `n` examples are left to learn from, and which are held out: at random, the same every time."""
    order = np.random.default_rng(seed).permutation(n)
    held = max(1, round(share * n))
    return np.sort(order[held:]).tolist(), np.sort(order[:held]).tolist()
