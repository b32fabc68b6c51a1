"""Questions with passages as a task's data: SQuAD files, plain or gzip.

Without validation data the training file is split by article, so that no passage is on both sides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from regard.data.io.paths import find_data
from regard.data.text.pairs import hash_file
from regard.errors import ConfigError
from regard.tasks.answers.config import AnswerData
from regard.tasks.answers.squad import Question, read_squad, split_by_article

Say = Callable[[str], None]


@dataclass(frozen=True)
class QuestionSets:
    """All the data of a run, read and checked."""

    train: list[Question]
    valid: list[Question]
    tests: dict[str, list[Question]]

    @property
    def unanswerable(self) -> bool:
        """Whether some questions have no answer."""
        return any(not question.answers for question in self.train)


@dataclass(frozen=True)
class AnswerFiles:
    """The files of a recipe, found: relative names are looked for here, then under the data root."""

    data: AnswerData
    root: Path | None = None

    def read(self, *, say: Say = lambda _: None) -> QuestionSets:
        """Read everything; what has no answer to learn from is left out of the training data."""
        data = self.data
        if not data.train:
            raise ConfigError("data.train names no file", hint='give one with --train FILE, or data.train = ["FILE"]')
        given = self.questions(data.train, say=say)
        tests = {name: self.questions(files, say=say) for name, files in data.test.items()}
        if data.valid:
            train, valid = given, self.questions(data.valid, say=say)
        else:
            train, valid, *rest = split_by_article(given, data.split, seed=data.split_seed)
            tests = ({"test": rest[0]} if rest else {}) | tests
        usable = [q for q in train if not q.answers or q.learnable(ambiguous=data.ambiguous)]
        if len(usable) < len(train):
            say(f"{len(train) - len(usable):,} of {len(train):,} training questions left out: no answer to point at")
        return QuestionSets(usable, valid, tests)

    def questions(self, files: Sequence[str], *, say: Say = lambda _: None) -> list[Question]:
        """The questions of some files."""
        return [question for name in files for question in read_squad(find_data(name, self.root), say=say)]

    def fingerprints(self) -> dict[str, str]:
        """A SHA-256 of the files of every set, and of how they are split."""
        sets = {"train": self.data.train, "valid": self.data.valid} | self.data.test
        hashes = {name: [hash_file(find_data(file, self.root)) for file in files] for name, files in sets.items()}
        how = () if self.data.valid else (self.data.split, self.data.split_seed)
        return {name: sha256(repr((some, how)).encode()).hexdigest() for name, some in hashes.items() if some}
