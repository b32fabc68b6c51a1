"""Extractive question answering as something to train: windows, their loss, and how good the answers are so far.

    loss of a window = ½ (−log p_start − log p_end)      each a softmax over the passage's tokens and [CLS]

A loss is summed over windows, and `n_tokens` counts windows: the trainer divides by it, so that accumulated batches are
one big batch. A window without the whole answer points to [CLS] (Devlin et al., 2019).

With `r_drop` α > 0 every window is read twice, with different dropout (Liang et al., 2021): α times the symmetric
divergence of the two readings, halved over starts and ends as above, is added to their mean loss.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention import Rows
from regard.config.keyed_draws import repeated
from regard.data.batching.plan import Indices, example_plan, pad
from regard.data.batching.tensors import TensorBatch
from regard.metrics.cross_entropy import Losses
from regard.models.span_reader import SpanReader
from regard.tasks.answers.answerer import Answerer
from regard.tasks.answers.config import AnswerOptions
from regard.tasks.answers.metrics import answer_figures
from regard.tasks.answers.squad import Question
from regard.tasks.answers.windows import NOT_HERE, Passage, Windows
from regard.tasks.templates import TemplatedRows
from regard.training.batching import BatchPlanMixin


@dataclass(frozen=True)
class AnswerBatch(TensorBatch):
    """Windows as tensors: `allowed` (B, T) are the places an answer may start and end at, `starts` and `ends` (B,)."""

    ids: Tensor
    lengths: Tensor
    segments: Tensor
    allowed: Tensor
    starts: Tensor
    ends: Tensor
    n_tokens: int


class AnswerTraining(BatchPlanMixin):
    """What the trainer asks of the task: batches in a fixed order, their loss, and an evaluation."""

    objective = "f1"
    unit = "windows"
    few_lengths = 64

    def __init__(
        self,
        windows: Windows,
        train: Sequence[Question],
        valid: Sequence[Question],
        *,
        budget_tokens: int,
        seed: int,
        batch_examples: int = 0,
        ambiguous: bool = True,
        r_drop: float = 0.0,
        options: AnswerOptions | None = None,
    ) -> None:
        self.windows, self.valid, self.r_drop = windows, list(valid), r_drop
        self.options = options or AnswerOptions(no_answer=any(not question.answers for question in train))
        places: list[tuple[int, int, int, int]] = []
        self.rows = TemplatedRows(_rows(windows(train), train, places, ambiguous=ambiguous))
        self.places = np.array(places, np.int64)  # (n, 4): the passage's first token and length, the answer's ends
        self.plan = example_plan(
            self.rows.lengths, budget_tokens=budget_tokens, batch_examples=batch_examples, seed=seed
        )

    def batch(self, indices: Indices) -> AnswerBatch:
        """The windows of these numbers as one batch; none are a batch without windows."""
        template, rows = self.windows.template, [self.rows.ids(int(i)) for i in indices]
        ids, lengths = pad(rows, template.tokenizer.pad_id, multiple_of=self.multiple_of, most=template.max_tokens)
        segments, _ = pad([self.rows.segments(int(i)) for i in indices], 0, length=ids.shape[1])
        first, n_context, starts, ends = torch.from_numpy(self.places[indices]).unbind(1)
        places = torch.arange(ids.shape[1])
        allowed = (places >= first[:, None]) & (places < (first + n_context)[:, None]) | (places == NOT_HERE)
        return AnswerBatch(ids, lengths, segments, allowed, starts, ends, len(indices))

    def loss(self, model: SpanReader, batch: AnswerBatch) -> Losses:
        """The summed loss of a batch's windows, with gradients."""
        n = 2 if self.r_drop else 1
        rows = Rows(torch.cat([batch.ids] * n), torch.cat([batch.lengths] * n))
        with repeated(n):
            scores = model(rows, segments=torch.cat([batch.segments] * n))
        full = torch.promote_types(scores.start.dtype, torch.float32)
        total = apart = torch.zeros((), device=rows.ids.device, dtype=full)
        for side, targets in zip(scores, (batch.starts, batch.ends), strict=True):
            log_p = side.to(full).masked_fill(~torch.cat([batch.allowed] * n), float("-inf")).log_softmax(-1)
            total = total + F.nll_loss(log_p, torch.cat([targets] * n), reduction="sum") / (2 * n)
            if self.r_drop:
                apart = apart + divergence(*log_p.chunk(2), allowed=batch.allowed) / 2
        plain = total.detach()
        return Losses(total + self.r_drop * apart, plain, torch.full((), batch.n_tokens, device=total.device))

    def evaluate(self, model: SpanReader) -> dict[str, float]:
        """Exact match and F1 on the validation questions, answered as they will be in use."""
        answers = [answer.text for answer in Answerer(model, self.windows).answer(self.valid, self.options)]
        return answer_figures(answers, self.valid)

    def samples(self, model: SpanReader, n: int) -> list[tuple[str, str, str]]:
        """The first few validation questions: question, one of the answers, and what the model says."""
        questions = self.valid[:n]
        answers = Answerer(model, self.windows).answer(questions, self.options)
        right = [question.answers[0].text if question.answers else "" for question in questions]
        return [(q.question, true, answer.text) for q, true, answer in zip(questions, right, answers, strict=True)]


def divergence(log_p: Tensor, log_q: Tensor, *, allowed: Tensor) -> Tensor:
    """½ [KL(p‖q) + KL(q‖p)] of places (B, T), summed; both are nothing where no answer may stand."""
    apart = torch.where(allowed, log_p - log_q, 0.0)
    return ((log_p.exp() - log_q.exp()) * apart).sum() / 2


def _rows(
    passages: Iterator[Passage],
    questions: Sequence[Question],
    places: list[tuple[int, int, int, int]],
    *,
    ambiguous: bool,
) -> Iterator[Any]:
    """The rows of all windows; where their passages and answers stand is written to `places`."""
    for passage, question in zip(passages, questions, strict=True):
        answer = question.learnable(ambiguous=ambiguous)
        span = None if answer is None else passage.tokens_of(answer)
        for window in passage.windows:
            places.append((window.start, window.n_context, *window.target(span)))
            yield window.row
