"""A reader that points at the answer to a question in a passage.

model = regard.load("runs/squad")
model("Who wrote it?\tIt was written by Ada Lovelace in 1843.")     → Answered: text, probability, start, end
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np
from torch import nn

from regard.checkpoints.spec import Pretrained
from regard.config.recipe import Recipe
from regard.errors import UsageError
from regard.inspection.forward_case import ForwardCase
from regard.inspection.invariants import Check, Given, Trial, measure_alone, measure_reading
from regard.inspection.look import text_case
from regard.metrics.comparing import Compared, Figures, paired
from regard.models.span_reader import SpanReader
from regard.tasks.answers.answerer import Answered, Answerer
from regard.tasks.answers.data import AnswerFiles
from regard.tasks.answers.metrics import answer_metrics, scores
from regard.tasks.answers.setup import windows_for
from regard.tasks.answers.squad import Question
from regard.tasks.answers.windows import Windows
from regard.tasks.backbones import longest
from regard.tasks.base import (
    Evaluation,
    Predictor,
    ScoreData,
    check_texts,
    first_of,
    random_texts,
    refuse_target,
    test_sets,
    tokenizer_of,
    varied,
)
from regard.tasks.templates import TemplatedRows, Text, padded


class AnswerPredictor(Predictor[Answered]):
    """A reader with its tokenizer."""

    def __init__(self, module: nn.Module, windows: Windows, config: Recipe) -> None:
        super().__init__(module, config)
        assert isinstance(module, SpanReader)
        self.windows, self.answerer = windows, Answerer(module, windows)

    @classmethod
    def open(cls, found: Pretrained, recipe: Recipe, module: nn.Module, *, precision: str) -> Self:
        """The predictor of an opened model."""
        return cls(module, windows_for(tokenizer_of(found), found.options, recipe), recipe)

    @classmethod
    def reading(cls, found: Pretrained) -> dict[str, Any]:
        """How long its rows may be."""
        return longest(found)

    def predict(self, texts: Sequence[str], *, keys: Sequence[int] | None = None, **options: Any) -> list[Answered]:
        """Answer each question, which stands before a tab and its passage; `options` are those of `AnswerOptions`."""
        return self.answerer([_parts(text) for text in texts], self.options(options))

    def case(self, text: str, target: str | None = None, **options: Any) -> ForwardCase:
        """A question and its passage, ready to be looked at."""
        check_texts([text])
        refuse_target(target)
        template = self.windows.template
        framed = template([_parts(text)])[0]
        return text_case(self.module, template.tokenizer, framed.ids, segments=framed.segments, says="span")

    def tests(self, data: ScoreData) -> Mapping[str, Sequence[Question]]:
        """The questions to score on, by name: those of the files given, else of every test set of the recipe."""
        files = AnswerFiles(self.config.data, data.root)
        if data.files:
            return {data.files[0]: files.questions(data.files)}
        if not self.config.data.train:  # it was trained elsewhere
            return test_sets({})
        sets = files.read()
        return test_sets(sets.tests or {"valid": sets.valid})

    def evaluate(self, data: ScoreData, **options: Any) -> Iterator[Evaluation]:
        """Exact match and F1 on each test set, with 95 % intervals."""
        chosen = self.options(options)
        for name, questions in self.tests(data).items():
            said = [answer.text for answer in self.answerer.answer(questions, chosen)]
            yield Evaluation(name, len(questions), "questions", answer_metrics(said, questions), said)

    def compare(
        self, other: Any, data: ScoreData, *, resamples: int = 1000, seed: int = 1, **options: Any
    ) -> Iterator[Compared]:
        """Exact match and F1 of both models' answers to the same questions."""
        self._check_same_task(other)
        for name, questions in self.tests(data).items():
            systems = (self._figures(questions, options), other._figures(questions, options))
            found = paired(systems, len(questions), resamples=resamples, seed=seed)
            yield Compared(name, len(questions), "questions", found, digits=2)

    def verify(self, data: ScoreData, *, n: int = 24) -> Iterator[Check]:
        """What this model promises, measured on questions of a test set, or on random pieces."""
        name, questions = first_of(lambda: self.tests(data), n)
        passages = varied([one.context for one in questions])
        asked: list[Text] = [(one.question, text) for one, text in zip(questions, passages, strict=True)]
        template = self.windows.template
        if len(asked) < 2:
            name, sides = "random pieces", [random_texts(template.tokenizer, n, seed=seed) for seed in (1, 2)]
            asked = list(zip(*sides, strict=True))
        self.say(f"on {len(asked)} questions of {name}")
        rows = TemplatedRows.of(template, asked)
        device = next(self.module.parameters()).device
        given, segments = padded(rows, range(len(rows)), template.tokenizer.pad_id, device=device)
        limit = self.answerer.model.config.backbone.get("n_positions")
        trial = Trial(self.module, Given((given,), segments), limit=limit)
        yield measure_alone(trial)
        yield from measure_reading(trial)

    def _figures(self, questions: Sequence[Question], options: Mapping[str, Any]) -> Figures:
        said = self.answerer.answer(questions, self.options(options))
        pairs = zip(said, questions, strict=True)
        table = 100 * np.array([scores(answer.text, question) for answer, question in pairs])  # (n, 2)
        return lambda drawn: dict(zip(("exact", "f1"), table[drawn].mean(0).tolist(), strict=True))


def _parts(text: str) -> tuple[str, str]:
    question, tab, passage = text.partition("\t")
    if not tab:
        raise UsageError(
            f"there is no passage to {question[:40]!r}", hint="write the question, a tab, and the passage to look in"
        )
    return question, passage
