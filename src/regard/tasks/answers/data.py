"""Questions with passages as a task's data, and how answers are looked for.

`AnswerData` is the `[data]` section of a recipe: SQuAD files, plain or gzip. Without validation data the training file
is split by article, so that no passage is on both sides. `AnswerOptions` is the `[decode]` section.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256

from regard.data.io.lines import hash_file
from regard.errors import ConfigError
from regard.tasks.answers.squad import Question, read_squad, split_by_article
from regard.tasks.files import DataFiles, Say


@dataclass(frozen=True, kw_only=True)
class AnswerData:
    """The `[data]` section: files of questions.

    `split` are the shares of training, validation and (where there is a third) test articles, for want of a validation
    file. `ambiguous` also learns from answers that stand in several places, of which the first is given. Contexts are
    read in windows of `max_tokens`, question included, that share `overlap` tokens; questions keep `max_question`.
    """

    train: tuple[str, ...] = ()
    valid: tuple[str, ...] = ()
    test: dict[str, tuple[str, ...]] = field(default_factory=dict)
    split: tuple[float, ...] = (0.8, 0.1, 0.1)
    split_seed: int = 0
    ambiguous: bool = True
    max_tokens: int = 384
    overlap: int = 128
    max_question: int = 64

    def __post_init__(self) -> None:
        wrong = [
            f"data.{k} is {getattr(self, k)}, at least 1" for k in ("overlap", "max_question") if getattr(self, k) < 1
        ]
        if self.max_tokens < 8:
            wrong.append(f"data.max_tokens is {self.max_tokens}, at least 8")
        if not 2 <= len(self.split) <= 3 or min(self.split) <= 0:
            wrong.append(f"data.split is {list(self.split)}; allowed are two or three shares above 0")
        if wrong:
            raise ConfigError("; ".join(wrong))


@dataclass(frozen=True, kw_only=True)
class AnswerOptions:
    """The `[decode]` section: how answers are looked for.

    `n_best` answers are given, of at most `max_answer` tokens each. With `no_answer` the model may say that there is
    none: where [CLS] scores higher than the best answer by more than `threshold` (Devlin et al., 2019).
    """

    n_best: int = 1
    max_answer: int = 30
    no_answer: bool = False
    threshold: float = 0.0

    def __post_init__(self) -> None:
        wrong = [
            f"decode.{k} is {getattr(self, k)}, at least 1" for k in ("n_best", "max_answer") if getattr(self, k) < 1
        ]
        if wrong:
            raise ConfigError("; ".join(wrong))


@dataclass(frozen=True)
class QuestionSets:
    """All the data of a run, read and checked."""

    train: list[Question]
    valid: list[Question]
    tests: dict[str, list[Question]]


class AnswerFiles(DataFiles[AnswerData]):
    """The questions of a recipe."""

    def read(self, *, say: Say = lambda _: None) -> QuestionSets:
        """Read everything; what has no answer to learn from is left out of the training data."""
        data = self.data
        given = self.questions(data.train, what="train", say=say)
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

    def questions(self, files: Sequence[str], *, what: str = "test", say: Say = lambda _: None) -> list[Question]:
        """The questions of some files."""
        return [question for path in self.find(files, what=what) for question in read_squad(path, say=say)]

    def fingerprints(self) -> dict[str, str]:
        """A SHA-256 of the files of every set, and of how they are split."""
        hashes = {
            name: [hash_file(path) for path in self.find(files, what=name)] for name, files in self.sets().items()
        }
        how = () if self.data.valid else (self.data.split, self.data.split_seed)
        return {name: sha256(repr((several, how)).encode()).hexdigest() for name, several in hashes.items()}
