"""The other side of question answering: `BertForQuestionAnswering`, windows and answers as in transformers' example.

Windows come from the tokenizer itself (`stride`, `return_overflowing_tokens`); one that does not hold the whole answer
points to [CLS]; answers are looked for among the best twenty starts and ends of each window. The loop is that of
`glue_peer`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from glue_peer import fit, seed_all
from regard.config.training import TuningConfig
from regard.tasks.answers.config import AnswerData, AnswerOptions
from regard.tasks.answers.squad import Answer, Question

_BEST = 20
_TESTED_AT_ONCE = 64


class Window(NamedTuple):
    """A row of ids, the characters of the passage each token covers (None: not of the passage), and the target."""

    question: int
    ids: list[int]
    segments: list[int]
    offsets: list[tuple[int, int] | None]
    start: int
    end: int


def fine_tune_answers(
    folder: str,
    train: Sequence[Question],
    asked: Sequence[Question],
    *,
    data: AnswerData,
    config: TuningConfig,
    options: AnswerOptions,
    device: str,
) -> list[str]:
    """Fine-tune on `train`, and answer the questions that are `asked`."""
    from transformers import AutoTokenizer, BertForQuestionAnswering

    seed_all(config.seed)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model: Any = BertForQuestionAnswering.from_pretrained(folder)
    model.float().to(device)  # whatever precision the file has

    def batch(some: Sequence[Window]) -> dict[str, torch.Tensor]:
        return inputs_of(some, tokenizer.pad_token_id) | {
            "start_positions": torch.tensor([window.start for window in some]),
            "end_positions": torch.tensor([window.end for window in some]),
        }

    answers = [question.learnable(ambiguous=data.ambiguous) for question in train]
    fit(model, windows_of(tokenizer, train, answers, data=data), batch, train=config, device=device)
    windows = windows_of(tokenizer, asked, [None] * len(asked), data=data)
    return _answers(model, windows, asked, pad_id=tokenizer.pad_token_id, options=options, device=device)


def windows_of(
    tokenizer: Any, questions: Sequence[Question], answers: Sequence[Answer | None], *, data: AnswerData
) -> list[Window]:
    """All windows of all questions, in order."""
    found = []
    for number, (question, answer) in enumerate(zip(questions, answers, strict=True)):
        rows = tokenizer(
            question.question,
            question.context,
            truncation="only_second",
            max_length=data.max_tokens,
            stride=data.overlap,
            return_overflowing_tokens=True,
            return_offsets_mapping=True,
        )
        for i, ids in enumerate(rows["input_ids"]):
            of = rows.sequence_ids(i)
            offsets = [span if side == 1 else None for span, side in zip(rows["offset_mapping"][i], of, strict=True)]
            found.append(Window(number, ids, rows["token_type_ids"][i], offsets, *_target(offsets, answer)))
    return found


def inputs_of(windows: Sequence[Window], pad_id: int) -> dict[str, torch.Tensor]:
    """Windows padded to the longest of them."""
    width = max(len(window.ids) for window in windows)

    def padded(rows: Sequence[Sequence[int]], fill: int) -> torch.Tensor:
        return torch.tensor([[*row, *[fill] * (width - len(row))] for row in rows])

    return {
        "input_ids": padded([window.ids for window in windows], pad_id),
        "attention_mask": padded([[1] * len(window.ids) for window in windows], 0),
        "token_type_ids": padded([window.segments for window in windows], 0),
    }


def _target(offsets: Sequence[tuple[int, int] | None], answer: Answer | None) -> tuple[int, int]:
    """The first and the last token of the answer, or [CLS] where the window does not hold all of it."""
    if answer is None or answer.start is None:
        return 0, 0
    end = answer.start + len(answer.text)
    inside = [(i, *span) for i, span in enumerate(offsets) if span is not None]
    if inside[0][1] > answer.start or inside[-1][2] < end:
        return 0, 0
    touched = [i for i, low, high in inside if low < end and high > answer.start]
    return (touched[0], touched[-1]) if touched else (0, 0)


@torch.inference_mode()
def _answers(
    model: Any, windows: Sequence[Window], questions: Sequence[Question], *, pad_id: int, options: AnswerOptions,
    device: str,
) -> list[str]:  # fmt: skip
    best: list[tuple[float, str]] = [(-np.inf, "")] * len(questions)
    order = sorted(range(len(windows)), key=lambda i: len(windows[i].ids))
    for begin in range(0, len(order), _TESTED_AT_ONCE):
        some = [windows[i] for i in order[begin : begin + _TESTED_AT_ONCE]]
        found = model(**{name: tensor.to(device) for name, tensor in inputs_of(some, pad_id).items()})
        for window, start, end in zip(some, found.start_logits.cpu(), found.end_logits.cpu(), strict=True):
            context = questions[window.question].context
            for score, text in _spans(window, start.numpy(), end.numpy(), context, options.max_answer):
                best[window.question] = max(best[window.question], (score, text))
    return [text for _, text in best]


def _spans(window: Window, starts: Any, ends: Any, context: str, longest: int) -> list[tuple[float, str]]:
    """The spans between the best starts and the best ends."""
    found = []
    for i in np.argsort(-starts[: len(window.ids)])[:_BEST]:
        for j in np.argsort(-ends[: len(window.ids)])[:_BEST]:
            first, last = window.offsets[i], window.offsets[j]
            if first is not None and last is not None and i <= j < i + longest:
                found.append((float(starts[i] + ends[j]), context[first[0] : last[1]]))
    return found
