"""Labelled texts as a task's data: where they are, and what is kept of them.

A file, or a folder with `train.*`, `dev.*` (or `valid.*`) and `test.*`
in it, as GLUE's folders have them:

    train = ["glue/CoLA"]                       the folder's train file; its dev file is the validation data
    train = ["reviews.csv"]                     a share of it is held out, the same every time
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from regard.data.io.saved import is_saved, saved_part
from regard.data.text.label_space import LabelSpace
from regard.data.text.labelled import Example, LabelSource, read_examples
from regard.errors import DataError
from regard.tasks.files import DataFiles, Say, Sets, hold_some_out
from regard.tasks.labels.config import LabelData

_PARTS = {"train": ("train",), "valid": ("dev", "valid", "validation", "val"), "test": ("test",)}


@dataclass(frozen=True)
class LabelledSets(Sets[list[Example]]):
    """The examples of a run, and what labels they have."""

    space: LabelSpace


class LabelFiles(DataFiles[LabelData]):
    """The labelled texts of a recipe."""

    @cached_property
    def train(self) -> list[LabelSource]:
        """Where the examples to learn from are."""
        return self.sources(self.data.train, "train")

    @cached_property
    def valid(self) -> list[LabelSource]:
        """Where the examples to choose by are; none if they are to be held out of the training data."""
        if self.data.valid:
            return self.sources(self.data.valid, "valid")
        return self._beside_train("valid")

    @cached_property
    def tests(self) -> dict[str, list[LabelSource]]:
        """Where the examples to report on are, by name."""
        if self.data.test:
            return {name: self.sources(files, "test") for name, files in self.data.test.items()}
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
            hint = "give validation data, or more"
            train, valid = hold_some_out(train, self.data.valid_share, what="examples", hint=hint)
            space = LabelSpace.of([*train, *valid], numbers=self.numbers)
        tests = {name: self.read_known(sources, space, say=say) for name, sources in self.tests.items()}
        return LabelledSets(train, valid, tests, space)

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
        """Files, read in one way: of a folder, its `part`."""
        data = self.data
        paths = [path for name in self.find(files, what=part) for path in _files_of(name, part)]
        return [LabelSource(path, data.text, data.label, data.pair, data.format) for path in paths]

    def _read(self, sources: Sequence[LabelSource], *, known: Sequence[str] | None, say: Say) -> list[Example]:
        options = {"numbers": self.numbers, "known": known, "bad": self.data.bad, "say": say}
        return [example for source in sources for example in read_examples(source, **options)]  # type: ignore[arg-type]

    def _beside_train(self, part: str) -> list[LabelSource]:
        """The part of the training data's folder, where a folder is what the recipe names."""
        folders = [path for path in self.find(self.data.train, what="train") if Path(path).is_dir()]
        held = [path for path in folders if _files_of(path, part, needed=False)]
        return self.sources(held, part) if held else []


def _files_of(path: str, part: str, *, needed: bool = True) -> list[str]:
    """A file as it is; of a folder, the file that is called as its part."""
    if not Path(path).is_dir() or (needed and is_saved(path)):
        return [path]
    if saved := saved_part(path, part):
        return [saved]
    files = [entry for name in _PARTS[part] for entry in sorted(Path(path).glob(f"{name}.*")) if entry.is_file()]
    if not files and needed:
        names = ", ".join(sorted(entry.name for entry in Path(path).iterdir())[:8]) or "nothing"
        raise DataError(f"{path}: no file is called {_PARTS[part][0]}.*; it holds {names}", hint="name the file itself")
    return [str(entry) for entry in files[:1]]


def _has_labels(source: LabelSource) -> bool:
    """GLUE gives its test files away without labels: they are nothing to measure on."""
    try:
        return source.layout is not None
    except DataError:
        return False
