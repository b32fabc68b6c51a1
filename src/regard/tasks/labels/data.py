"""Labelled texts as a task's data: where they are, and what is kept of them.

A file, or a folder with `train.*`, `dev.*` (or `valid.*`) and `test.*`
in it, as GLUE's folders have them:

    train = ["glue/CoLA"]                       the folder's train file; its dev file is the validation data
    train = ["reviews.csv"]                     a share of it is held out, the same every time
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from regard.data.io.paths import find_data
from regard.data.text.label_space import LabelSpace
from regard.data.text.labelled import Example, LabelSource, read_examples
from regard.errors import ConfigError, DataError
from regard.tasks.labels.config import LabelData

Say = Callable[[str], None]
_PARTS = {"train": ("train",), "valid": ("dev", "valid", "validation", "val"), "test": ("test",)}


@dataclass(frozen=True)
class LabelledSets:
    """All the data of a run, read and checked."""

    space: LabelSpace
    train: list[Example]
    valid: list[Example]
    tests: dict[str, list[Example]]


@dataclass(frozen=True)
class LabelFiles:
    """The files of a recipe, found: relative names are looked for here, then under the data root."""

    data: LabelData
    root: Path | None = None

    @cached_property
    def train(self) -> list[LabelSource]:
        """Where the examples to learn from are."""
        if not self.data.train:
            raise ConfigError("data.train names no file", hint='give one with --train FILE, or data.train = ["FILE"]')
        return self._sources(self.data.train, "train")

    @cached_property
    def valid(self) -> list[LabelSource]:
        """Where the examples to choose by are; none if they are to be held out of the training data."""
        if self.data.valid:
            return self._sources(self.data.valid, "valid")
        return self._beside_train("valid")

    @cached_property
    def tests(self) -> dict[str, list[LabelSource]]:
        """Where the examples to report on are, by name."""
        if self.data.test:
            return {name: self._sources(files, "test") for name, files in self.data.test.items()}
        beside = [source for source in self._beside_train("test") if _has_labels(source)]
        return {"test": beside} if beside else {}

    @property
    def numbers(self) -> bool:
        """Whether labels are numbers rather than classes."""
        if self.data.labels != "auto":
            return self.data.labels == "numbers"
        return self.train[0].layout.numbers

    def read(self, *, say: Say = lambda _: None) -> LabelledSets:
        """Read and check everything; labels that training never shows are an error elsewhere."""
        train = self._read(self.train, known=None, say=say)
        if self.valid:
            space = LabelSpace.of(train, numbers=self.numbers)
            valid = self.read_known(self.valid, space, say=say)
        else:
            train, valid = _held_out(train, share=self.data.valid_share)
            space = LabelSpace.of([*train, *valid], numbers=self.numbers)
        tests = {name: self.read_known(sources, space, say=say) for name, sources in self.tests.items()}
        return LabelledSets(space, train, valid, tests)

    def read_known(
        self, sources: Sequence[LabelSource], space: LabelSpace, *, say: Say = lambda _: None
    ) -> list[Example]:
        """The examples of some sources, whose labels have to be known."""
        return self._read(sources, known=None if space.numeric else space.names, say=say)

    def fingerprints(self) -> dict[str, list[str]]:
        """A SHA-256 of every file and the way it is read."""
        sets = {"train": self.train, "valid": self.valid} | self.tests
        return {name: [source.fingerprint() for source in sources] for name, sources in sets.items() if sources}

    def sources(self, files: Sequence[str], part: str = "test") -> list[LabelSource]:
        """Other files, read in the same way: of a folder, its `part`."""
        return self._sources(files, part)

    def _read(self, sources: Sequence[LabelSource], *, known: Sequence[str] | None, say: Say) -> list[Example]:
        options = {"numbers": self.numbers, "known": known, "bad": self.data.bad, "say": say}
        return [example for source in sources for example in read_examples(source, **options)]  # type: ignore[arg-type]

    def _sources(self, files: Sequence[str], part: str) -> list[LabelSource]:
        data = self.data
        paths = [path for name in files for path in _files_of(find_data(name, self.root), part)]
        return [LabelSource(path, data.text, data.label, data.pair, data.format) for path in paths]

    def _beside_train(self, part: str) -> list[LabelSource]:
        """The part of the training data's folder, where a folder is what the recipe names."""
        folders = [name for name in self.data.train if Path(find_data(name, self.root)).is_dir()]
        held = [name for name in folders if _files_of(find_data(name, self.root), part, needed=False)]
        return self._sources(held, part)


def _files_of(path: str, part: str, *, needed: bool = True) -> list[str]:
    """A file as it is; of a folder, the file that is called as its part."""
    if not Path(path).is_dir():
        return [path]
    found = [entry for name in _PARTS[part] for entry in sorted(Path(path).glob(f"{name}.*")) if entry.is_file()]
    if not found and needed:
        names = ", ".join(sorted(entry.name for entry in Path(path).iterdir())[:8]) or "nothing"
        raise DataError(f"{path}: no file is called {_PARTS[part][0]}.*; it holds {names}", hint="name the file itself")
    return [str(entry) for entry in found[:1]]


def _has_labels(source: LabelSource) -> bool:
    """GLUE gives its test files away without labels: they are nothing to measure on."""
    try:
        return source.layout is not None
    except DataError:
        return False


def _held_out(examples: list[Example], *, share: float) -> tuple[list[Example], list[Example]]:
    """What is left to learn from, and what is held out: chosen at random, the same every time."""
    n = max(1, round(share * len(examples)))
    if n >= len(examples):
        raise DataError(f"{len(examples)} examples are too few to hold some out", hint="give validation data, or more")
    chosen = set(np.random.default_rng(0).permutation(len(examples))[:n].tolist())
    kept = [example for i, example in enumerate(examples) if i not in chosen]
    return kept, [examples[i] for i in sorted(chosen)]
