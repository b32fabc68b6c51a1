"""What suits some questions: fine-tuning with small steps, or a small encoder where there is nothing to begin with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from regard.config.recipe import Recipe
from regard.config.wording import several
from regard.data.text.grams import has_spaces
from regard.tasks.answers.data import AnswerFiles
from regard.tasks.answers.squad import Question
from regard.training.plan import Plan, within
from regard.training.setup import RunContext

_LOOKED_AT = 2_000  # questions that lengths are taken from


def plan_answers(recipe: Recipe, context: RunContext) -> Plan:
    """The plan for a recipe's questions."""
    sets, tuned = AnswerFiles(recipe.data, context.data_root).read(), "start" in recipe.model
    n, everything = len(sets.train), [*sets.train, *sets.valid, *(q for some in sets.tests.values() for q in some)]
    articles = len({question.article for question in everything})
    batch = 32 if n >= 2000 else 16
    epochs = within(2, 12_000 / max(1, n), 10) if tuned else within(4, 20 * (2000 / max(1, n)) ** 0.3, 40)
    longest = 384 if tuned or context.device.type == "cuda" else 256
    settings = _tuned(batch) if tuned else _anew(n, sets.train)
    settings["data"] = _windows(sets.train, most=longest)
    if any(not question.answers for question in sets.train):
        settings["decode"] = {"no_answer": True}
    return Plan(
        data=f"{several(articles, 'article', 'articles')}, {several(len(everything), 'question', 'questions')}",
        steps=max(30, round(epochs * n / batch)),
        evaluations=10,
        patience=5,
        warmup=500,
        cost=0.4 * len(sets.valid) / batch,
        settings=settings,
    )


def _tuned(batch: int) -> dict[str, dict[str, Any]]:
    """What was trained before needs a small rate and a few passes."""
    return {"train": {"batch_examples": batch, "lr": 5e-5}}


def _anew(n: int, questions: Sequence[Question]) -> dict[str, dict[str, Any]]:
    """A small encoder of its own: it learns which words of a question stand near an answer, and not much more."""
    d_model, n_layers = (64, 2) if n < 2000 else (128, 2) if n < 50_000 else (256, 4)
    backbone = {
        "name": "bert",
        "d_model": d_model,
        "n_heads": d_model // 32,
        "n_layers": n_layers,
        "d_feedforward": 4 * d_model,
        "dropout": 0.2 if n < 50_000 else 0.1,
    }
    spaced = has_spaces([question.context for question in questions[:_LOOKED_AT]])
    return {
        "model": {"name": "span-reader", "dropout": 0.2, "backbone": backbone},
        "tokenizer": {"kind": "words" if spaced else "chars", "size": 30_000, "lowercase": True},
        "train": {"batch_examples": 32 if n >= 2000 else 16, "lr": 5e-4, "betas": [0.9, 0.99]},
    }


def _windows(questions: Sequence[Question], *, most: int) -> dict[str, int]:
    """Windows that hold nearly every passage with its question, and overlap by a third where they cannot."""
    some = questions[:_LOOKED_AT]
    spaced = has_spaces([question.context for question in some])
    lengths = [
        len(q.context.split()) + len(q.question.split()) if spaced else len(q.context + q.question) for q in some
    ]
    room = int(within(32, 1.5 * float(np.percentile(lengths or [0], 98)) + 8, most))
    return {"max_tokens": room, "overlap": room // 3}
