"""What suits some pairs of texts: the more there are, the larger the model, its vocabulary and its batches."""

from __future__ import annotations

from itertools import islice
from math import sqrt
from typing import Any

from regard.config.recipe import Recipe
from regard.data.text.grams import has_spaces
from regard.tasks.translation.data import PairFiles
from regard.training.plan import Plan, within
from regard.training.setup import RunContext

_LOOKED_AT = 2_000  # pairs that lengths are taken from


def plan_translation(recipe: Recipe, context: RunContext) -> Plan:
    """The plan for a recipe's pairs."""
    files = PairFiles(recipe.data, context.data_root, context.data)
    n, n_valid = (sum(1 for _ in source.pairs()) for source in (files.train, files.valid))
    first = list(islice(files.train.pairs(), _LOOKED_AT))
    targets = [pair.target for pair in first]
    lengths = [len(text.split()) if has_spaces(targets) else len(text) for text in targets]
    pieces = 1.3 * sum(lengths) / max(1, len(lengths))  # a word is a little more than a piece
    gpu = context.device.type == "cuda"
    batch = 2048 if not gpu or n < 20_000 else 4096 if n < 200_000 else 16_384
    steps = int(within(2000, 4000 * sqrt(n / 3000), 100_000))
    return Plan(
        data=f"{n:,} pairs",
        steps=steps,
        evaluations=20,
        patience=5,
        warmup=200 if n < 100_000 else 2000,
        cost=1.2 * n_valid * pieces / batch,
        settings={
            "model": _model(recipe, n, gpu=gpu),
            "tokenizer": {"size": _vocabulary(n)},
            "train": {
                "batch_tokens": batch,
                "lr": 0.003 if n < 100_000 else 0.001,
                "schedule": "cosine",
                "ema": 0.995 if n < 100_000 else 0.999,
                "clip": 1.0,
            },
            "decode": {"strategy": "beam", "beam": 4, "max_ratio": 2.0, "max_extra": 10},
        },
    )


def _model(recipe: Recipe, n: int, *, gpu: bool) -> dict[str, Any]:
    """A named size, or one made for little data: wide and shallow learns from it sooner than narrow and deep."""
    if "start" in recipe.model:
        return {}
    if n >= 400_000 and gpu:
        return {"name": "transformer", "size": "base"}
    if n >= 100_000:
        return {"name": "transformer", "size": "small", "dropout": 0.1 if n >= 400_000 else 0.2}
    width = {"d_model": 192, "n_heads": 4, "d_feedforward": 768, "n_encoder_layers": 2, "n_decoder_layers": 2}
    return {"name": "transformer", **width, "dropout": 0.2}


def _vocabulary(n: int) -> int:
    """How many pieces so many pairs can teach."""
    for most, size in ((2_000, 2_000), (10_000, 4_000), (200_000, 8_000), (1_000_000, 16_000)):
        if n < most:
            return size
    return 32_000
