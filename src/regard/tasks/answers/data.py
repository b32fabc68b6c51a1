"""Questions with passages as a task's data: SQuAD files, or tables of questions.

Without validation data the training file is split by article, so that no passage is on both sides; where there are too
few articles for that, by question.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

from regard.data.io.lines import hash_file
from regard.data.io.saved import saved_part
from regard.tasks.answers.config import AnswerData
from regard.tasks.answers.squad import Question, read_squad, split_by_article, split_by_question
from regard.tasks.files import DataFiles, Say, Sets

QuestionSets = Sets[list[Question]]


class AnswerFiles(DataFiles[AnswerData]):
    """The questions of a recipe."""

    def read(self, *, say: Say = lambda _: None) -> QuestionSets:
        """Read everything; what has no answer to learn from is left out of the training data."""
        data = self.data
        given = self.questions(data.train, what="train", say=say)
        tests = {name: self.questions(files, say=say) for name, files in data.test.items()}
        saved = [saved_part(path, "valid") for path in self.find(data.train, what="train")]
        if data.valid or all(saved):
            train, valid = given, self.questions(data.valid or data.train, what="valid", say=say)
        else:
            train, valid, *rest = self._divided(given, say=say)
            tests = ({"test": rest[0]} if rest else {}) | tests
        usable = [q for q in train if not q.answers or q.learnable(ambiguous=data.ambiguous)]
        if len(usable) < len(train):
            say(f"{len(train) - len(usable):,} of {len(train):,} training questions left out: no answer to point at")
        return QuestionSets(usable, valid, tests)

    def _divided(self, questions: Sequence[Question], *, say: Say) -> tuple[list[Question], ...]:
        """The parts to learn from, to choose by and, where there is enough, to report on."""
        data, articles = self.data, len({question.article for question in questions})
        if articles >= len(data.split):
            return split_by_article(questions, data.split, seed=data.split_seed)
        parts = split_by_question(questions, data.split, seed=data.split_seed)
        few = "one article is" if articles == 1 else f"{articles} articles are"
        say(f"{few} too few to split by article: split by question, so that passages are on both sides")
        return parts

    def questions(self, files: Sequence[str], *, what: str = "test", say: Say = lambda _: None) -> list[Question]:
        """The questions of some files."""
        found = [saved_part(path, what) or path for path in self.find(files, what=what)]
        return [question for path in found for question in read_squad(path, say=say)]

    def fingerprints(self) -> dict[str, str]:
        """A SHA-256 of the files of every set, and of how they are split."""
        hashes = {
            name: [hash_file(saved_part(path, name) or path) for path in self.find(files, what=name)]
            for name, files in self.sets().items()
        }
        how = () if self.data.valid else (self.data.split, self.data.split_seed)
        return {name: sha256(repr((several, how)).encode()).hexdigest() for name, several in hashes.items()}
