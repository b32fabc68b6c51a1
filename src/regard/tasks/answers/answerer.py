"""Answers as pieces of a passage: the best spans over all windows, and whether there is an answer at all.

    score(i, j) = start(i) + end(j)     i ≤ j < i + max_answer, both in the passage; the best of all windows that see it
    none        = start(0) + end(0)     at [CLS], the least of all windows: none of them may have seen an answer

Probabilities are exact: a softmax over every span that is allowed and, with `no_answer`, over having none.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from regard.models.span_reader import SpanReader
from regard.tasks.answers.config import AnswerOptions
from regard.tasks.answers.squad import Question
from regard.tasks.answers.windows import NOT_HERE, Passage, Windows
from regard.tasks.templates import TemplatedRows, batches

Scores = npt.NDArray[np.float64]
_AT_ONCE = 256  # questions in memory together


@dataclass(frozen=True)
class Answered:
    """A piece of the context, how probable it is, and which characters it is; empty where there is no answer."""

    text: str
    probability: float = 0.0
    start: int | None = None
    end: int | None = None
    alternatives: list[Answered] = field(default_factory=list)

    def plain(self) -> str:
        """As one line of text."""
        return " ".join(self.text.split())

    def record(self) -> dict[str, Any]:
        """As a JSON object."""
        own = {"answer": self.text, "probability": self.probability, "start": self.start, "end": self.end}
        return own | ({"alternatives": [one.record() for one in self.alternatives]} if self.alternatives else {})


class Answerer:
    """Answers questions with one model."""

    def __init__(self, model: SpanReader, windows: Windows, *, batch_tokens: int = 16_384) -> None:
        self.model, self.windows, self.batch_tokens = model, windows, batch_tokens

    def __call__(self, asked: Sequence[tuple[str, str]], options: AnswerOptions | None = None) -> list[Answered]:
        """The answer to each (question, context), the others that come next as its alternatives."""
        return self.answer([Question("", question, context) for question, context in asked], options)

    def answer(self, questions: Sequence[Question], options: AnswerOptions | None = None) -> list[Answered]:
        """The answer to each question."""
        options = options or AnswerOptions()
        answers = []
        for first in range(0, len(questions), _AT_ONCE):
            chunk = questions[first : first + _AT_ONCE]
            passages = list(self.windows(chunk))
            scores = iter(self._scores(TemplatedRows(window.row for passage in passages for window in passage.windows)))
            for question, passage in zip(chunk, passages, strict=True):
                rows = [next(scores) for _ in passage.windows]
                answers.append(best_answer(question.context, passage, rows, options=options))
        return answers

    @torch.inference_mode()
    def _scores(self, rows: TemplatedRows) -> list[Scores]:
        """The scores of starts and of ends at every token of every row: (2, length) each."""
        device = self.model.output.weight.device
        scores_of: list[Scores] = [np.zeros((2, 0))] * len(rows)
        pad_id = self.windows.template.tokenizer.pad_id
        for chunk, given, segments in batches(
            rows, self.model, budget_tokens=self.batch_tokens, pad_id=pad_id, device=device
        ):
            scores = torch.stack(self.model(given, segments=segments)).double().cpu().numpy()  # (2, B, T)
            if given.documents is not None:
                each = np.split(scores[:, 0], rows.lengths[chunk].cumsum()[:-1], axis=1)
            else:
                each = [scores[:, index, : rows.lengths[i]] for index, i in enumerate(chunk)]
            for i, own in zip(chunk, each, strict=True):
                scores_of[i] = own
        return scores_of


def best_answer(context: str, passage: Passage, rows: Sequence[Scores], *, options: AnswerOptions) -> Answered:
    """The best of all spans of a passage, given the scores (2, length) of its windows."""
    table = _span_scores(context, passage, rows, longest=options.max_answer)
    none = min(float(row[0, NOT_HERE] + row[1, NOT_HERE]) for row in rows)
    every = np.append(table.ravel(), none) if options.no_answer else table.ravel()
    peak = float(every.max(initial=-np.inf))
    if not np.isfinite(peak):  # a passage without a word
        return Answered("", 1.0)
    total = float(np.exp(every - peak).sum())
    several = _largest(table.ravel(), 4 * options.n_best + 12)  # pieces of one character cover the same text
    shares = np.exp(table.ravel()[several] - peak) / total
    best = _distinct(context, passage, several, shares, longest=table.shape[1])
    if options.no_answer:
        silence = Answered("", float(np.exp(none - peak) / total))
        best = [silence, *best] if none - float(table.max(initial=-np.inf)) > options.threshold else [*best, silence]
    best = best[: options.n_best]
    return replace(best[0], alternatives=best[1:])


def _span_scores(context: str, passage: Passage, rows: Sequence[Scores], *, longest: int) -> Scores:
    """The score of the span of l + 1 tokens from token i on, (tokens, longest): the best of all windows."""
    n = len(passage.spans)
    table = np.full((n, longest), -np.inf)
    for window, (starts, ends) in zip(passage.windows, rows, strict=True):
        inside = slice(window.start, window.start + window.n_context)
        start, end = starts[inside], ends[inside]  # (n_context,)
        own = table[window.offset : window.offset + window.n_context]
        for more in range(min(longest, window.n_context)):
            reach = window.n_context - more
            np.maximum(own[:reach, more], start[:reach] + end[more:], out=own[:reach, more])
    blank = np.array([not context[low:high].strip() for low, high in passage.spans], bool)
    table[blank] = -np.inf  # an answer neither begins nor ends with nothing
    for more in range(longest):
        table[: max(0, n - more), more][blank[more:]] = -np.inf
    return table


def _largest(values: Scores, n: int) -> list[int]:
    """The places of the `n` largest finite values, largest first; of equal ones, the earlier."""
    n = min(n, len(values))
    candidates_at = np.argpartition(-values, n - 1)[:n] if n < len(values) else np.arange(len(values))
    floor = values[candidates_at].min(initial=np.inf)
    candidates = np.flatnonzero((values >= floor) & np.isfinite(values))
    order = candidates[np.argsort(-values[candidates], kind="stable")][:n]
    return [int(index) for index in order]


def _distinct(context: str, passage: Passage, places: Sequence[int], shares: Scores, *, longest: int) -> list[Answered]:
    """The spans at these places of the table, each piece of text once, with its largest share."""
    answers: dict[tuple[int, int], Answered] = {}
    for index, share in zip(places, shares, strict=True):
        first, more = divmod(index, longest)
        start, end = passage.spans[first][0], _with_marks(context, passage.spans[first + more][1])
        answers.setdefault((start, end), Answered(context[start:end], float(share), start, end))
    return list(answers.values())


def _with_marks(context: str, end: int) -> int:
    """An end behind the accents that follow as characters of their own, which tokenizers that join them lose."""
    while end < len(context) and unicodedata.combining(context[end]):
        end += 1
    return end
