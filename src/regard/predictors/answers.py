"""A reader that points at the answer to a question in a passage.

model = regard.load("runs/squad")
model("Who wrote it?\tIt was written by Ada Lovelace in 1843.")     → Answered: text, probability, start, end
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from torch import nn

from regard.errors import UsageError
from regard.inspection.look import Look, look_at_text
from regard.models.classifier import SpanReader
from regard.options import typed
from regard.predictors.base import Evaluation, Predictor, TestData, check_texts, test_sets
from regard.tasks.answer_metrics import answer_metrics
from regard.tasks.answerer import Answered, Answerer
from regard.tasks.answers import AnswerFiles, AnswerOptions
from regard.tasks.windows import Windows
from regard.training.recipe import Recipe


class AnswerPredictor(Predictor[Answered]):
    """A reader with its tokenizer."""

    def __init__(self, module: nn.Module, windows: Windows, config: Recipe) -> None:
        super().__init__(module, config)
        assert isinstance(module, SpanReader)
        self.windows, self.answerer = windows, Answerer(module, windows)

    def predict(self, texts: Sequence[str], *, keys: Sequence[int] | None = None, **options: Any) -> list[Answered]:
        """Answer each question, which stands before a tab and its passage; `options` are those of `AnswerOptions`."""
        return self.answerer([_parts(text) for text in texts], self.answer_options(options))

    def answer_options(self, overrides: dict[str, Any]) -> AnswerOptions:
        """The recipe's options, changed by the overrides."""
        return typed(AnswerOptions, asdict(self.config.decode) | overrides, where="decode")

    def look(self, text: str, **options: Any) -> Look:
        """Where each piece of question and passage looked; of a long passage, its first window."""
        check_texts([text])
        question, passage = _parts(text)
        framer = self.windows.framer
        framed = framer([(question, passage)])[0]
        return look_at_text(self.module, framer.tokenizer, framed.ids, segments=framed.segments)

    def evaluate(self, data: TestData, **options: Any) -> Iterator[Evaluation]:
        """Exact match and F1 on each test set, with 95 % intervals."""
        files = AnswerFiles(self.config.data, data.root)
        chosen = self.answer_options(options)
        if data.files:
            found = {data.files[0]: files.questions(data.files)}
        else:
            sets = files.read()
            found = sets.tests or {"valid": sets.valid}
        for name, questions in test_sets(found).items():
            said = [answer.text for answer in self.answerer.answer(questions, chosen)]
            yield Evaluation(name, len(questions), "questions", answer_metrics(said, questions), said)


def _parts(text: str) -> tuple[str, str]:
    question, tab, passage = text.partition("\t")
    if not tab:
        raise UsageError(
            f"there is no passage to {question[:40]!r}", hint="write the question, a tab, and the passage to look in"
        )
    return question, passage
