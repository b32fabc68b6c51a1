"""A question and a passage as rows that a model can read: windows over the passage that overlap.

    [CLS] question [SEP] tokens 0 … 319 [SEP]
    [CLS] question [SEP] tokens 192 … 511 [SEP]          128 in common

An answer is tokens `first` to `last` of the passage. A window that holds all of it points there; any other points to
its own first token, [CLS], which stands for "not here". The characters of the passage that a token covers come from the
tokenizer, so that an answer is always an exact piece of the passage.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from regard.config.recipe import Recipe
from regard.data.text.templates import TemplatedIds
from regard.data.text.tokenizers import Tokenizer
from regard.errors import UsageError
from regard.tasks.answers.squad import Answer, Question
from regard.tasks.backbones import template_for
from regard.tasks.templates import TextTemplate

NOT_HERE = 0  # the row's first token: [CLS]


class Window(NamedTuple):
    """A framed row: its passage stands from token `start` on, and begins with token `offset` of the whole passage."""

    row: TemplatedIds
    start: int
    offset: int
    n_context: int

    def target(self, span: tuple[int, int] | None) -> tuple[int, int]:
        """Where in the row tokens `first` to `last` of the passage stand, if all of them do."""
        if span is None or span[0] < self.offset or span[1] >= self.offset + self.n_context:
            return NOT_HERE, NOT_HERE
        return self.start + span[0] - self.offset, self.start + span[1] - self.offset


@dataclass(frozen=True)
class Passage:
    """A question's windows, and the characters (from, to) that each token of the passage covers."""

    windows: list[Window]
    spans: list[tuple[int, int]]

    def tokens_of(self, answer: Answer) -> tuple[int, int] | None:
        """The first and the last token that hold characters of an answer; None where none does."""
        if answer.start is None or not answer.text:
            return None
        end = answer.start + len(answer.text)
        touched = [i for i, (low, high) in enumerate(self.spans) if low < end and high > answer.start and high > low]
        return (touched[0], touched[-1]) if touched else None


class Windows:
    """Cuts questions and passages into windows of at most the template's `max_tokens`."""

    def __init__(self, template: TextTemplate, *, overlap: int = 128, max_question: int = 64) -> None:
        room = template.room(pair=True)
        if room < 2:
            raise UsageError(f"{template.max_tokens} tokens have no room for a question and a passage")
        self.template, self.overlap, self.room = template, overlap, room
        self.max_question = min(max_question, room // 2)  # a long question must not leave the passage without room

    @classmethod
    def of(cls, tokenizer: Tokenizer, options: Mapping[str, Any], recipe: Recipe) -> Windows:
        """How questions and passages become rows for the backbone that a model's options name."""
        template = template_for(tokenizer, options, recipe)
        return cls(template, overlap=recipe.data.overlap, max_question=recipe.data.max_question)

    def __call__(self, questions: Sequence[Question]) -> Iterator[Passage]:
        """The windows of each question, in order."""
        tokenizer = self.template.tokenizer
        asked = tokenizer.encode_batch([question.question for question in questions])
        known: dict[str, tuple[list[int], list[tuple[int, int]]]] = {}
        for question, ids in zip(questions, asked, strict=True):
            if question.context not in known:
                # Neighbouring questions share their passage; only the last is kept, whatever the number of passages.
                known = {question.context: (tokenizer.encode(question.context), tokenizer.spans(question.context))}
            context, spans = known[question.context]
            yield Passage(list(self._cut(ids[: self.max_question], context)), spans)

    def _cut(self, question: list[int], context: list[int]) -> Iterator[Window]:
        size = self.room - len(question)
        step = size - min(self.overlap, size // 2)  # where questions leave little room, windows still move on
        for offset in range(0, max(1, len(context) - size + step), step):
            part = context[offset : offset + size]
            row = self.template.frame(question, part)
            yield Window(row, row.starts[1], offset, len(part))
