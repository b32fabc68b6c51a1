"""What suits labelled texts: from nothing, a linear model of words with a small encoder beside it; or fine-tuning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from regard.config.recipe import Recipe
from regard.data.text.grams import has_spaces, words
from regard.data.text.labelled import Example
from regard.tasks.labels.data import LabelFiles
from regard.training.plan import Plan, within
from regard.training.setup import RunContext

_LOOKED_AT = 20_000  # examples that lengths are taken from
_FREE = 2**22  # most weights of the linear model


def plan_labels(recipe: Recipe, context: RunContext) -> Plan:
    """The plan for a recipe's examples."""
    sets = LabelFiles(recipe.data, context.data_root).read()
    n, n_valid, space = max(1, len(sets.train)), len(sets.valid), sets.space
    what = "numbers" if space.numeric else f"{len(space.names):,} classes"
    tuned = bool({"start", "vectors"} & recipe.model.keys())
    longest = 512 if context.device.type == "cuda" else 256
    settings = _tuned(n) if "start" in recipe.model else _anew(n, space.n_outputs, sets.train)
    if not tuned:
        settings["data"] = {"max_tokens": _room(sets.train, most=longest)}
    batch = settings["train"]["batch_examples"]
    epochs = within(3, 16_000 / n, 10) if "start" in recipe.model else within(3, 8 * (5000 / n) ** 0.4, 30)
    return Plan(
        data=f"{n:,} examples, {what}",
        steps=max(40, round(epochs * n / batch)),
        evaluations=10 if "start" in recipe.model else 16,
        patience=6,
        warmup=500,
        cost=0.4 * n_valid / batch,
        settings=settings,
    )


def _anew(n: int, n_outputs: int, examples: Sequence[Example]) -> dict[str, dict[str, Any]]:
    """A model of its own: the more examples, the more of them for the encoder."""
    d_model, n_layers = (64, 1) if n < 20_000 else (128, 2) if n < 200_000 else (256, 4)
    backbone = {
        "name": "bert",
        "d_model": d_model,
        "n_heads": max(1, d_model // 32),
        "n_layers": n_layers,
        "d_feedforward": 4 * d_model,
        "dropout": 0.3 if n < 200_000 else 0.1,
    }
    buckets = min(2**17, 2 ** int(np.log2(max(1, _FREE // n_outputs))))
    spaced = has_spaces([example.text for example in examples[:_LOOKED_AT]])
    return {
        "model": {
            "name": "classifier",
            "pooling": "mean",
            "transform": "none",
            "dropout": 0.3 if n < 200_000 else 0.1,
            "grams": buckets if buckets >= 2**12 else 0,
            "backbone": backbone,
        },
        "tokenizer": {"kind": "words" if spaced else "chars", "size": 30_000, "lowercase": True},
        "train": {
            "batch_examples": 64,
            "lr": 1e-3,
            "betas": [0.9, 0.99],
            "label_smoothing": 0.1 if n_outputs > 1 else 0.0,
        },
    }


def _tuned(n: int) -> dict[str, dict[str, Any]]:
    """What was trained before needs a small rate and a few passes."""
    return {"train": {"batch_examples": 32 if n > 1000 else 16, "lr": 5e-5}}


def _room(examples: Sequence[Example], *, most: int) -> int:
    """Tokens that nearly all examples fit into, special ones included."""
    texts = [" ".join(filter(None, (example.text, example.pair))) for example in examples[:_LOOKED_AT]]
    lengths = [max(len(words(text)), 1) for text in texts]
    return int(within(16, float(np.percentile(lengths, 99)) * 1.2 + 4, most))
