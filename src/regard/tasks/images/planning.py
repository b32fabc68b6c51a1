"""What suits some labelled images: their size, a compact model with convolutions first, and how they may be changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch

from regard.config.recipe import Recipe
from regard.data.images.sources import ImageExample
from regard.data.images.store import pixels_of
from regard.errors import DataError
from regard.tasks.images.data import ImageFiles
from regard.training.plan import Plan, within
from regard.training.setup import RunContext

_LOOKED_AT = 64  # images that sizes and colours are taken from
_GREY = 8  # levels that colours of a grey image may differ by
_TOKENS = 8  # a side of the grid that a model sees


def plan_images(recipe: Recipe, context: RunContext) -> Plan:
    """The plan for a recipe's images."""
    files = ImageFiles(recipe.data, context.data_root, context.data)
    counts, some = _sampled(files.train_examples())
    n_all, held_out = sum(counts.values()), not files.has_valid()
    n_valid = max(1, round(recipe.data.valid_share * n_all))
    n = max(1, n_all - n_valid if held_out else n_all)
    sides, coloured = _seen(some)
    gpu = context.device.type == "cuda"
    batch = 32 if n < 10_000 else 128
    side = min(recipe.data.sides or (_side(sides, most=224 if gpu else 64),))
    settings: dict[str, dict[str, Any]] = {
        "train": {
            "batch_examples": batch,
            "optimizer": "muon",
            "lr": 0.003,
            "flip": coloured,
            "operations": 1 if coloured else 0,
            "ema": 0.99 if n < 10_000 else 0.998,
        }
    }
    if len(set(sides)) > 1 or sides[0][0] != sides[0][1] or max(sides[0]) > side:
        settings["data"] = {"size": side}
    if "start" in recipe.model:
        settings["train"] |= {"optimizer": "adamw", "lr": 1e-4}
    else:
        settings["model"] = _model(n, side, gpu=gpu)
    epochs = within(5, 25 * (2000 / n) ** 0.3, 100)
    return Plan(
        data=f"{n:,} images of {len(counts):,} classes",
        steps=max(100, round(epochs * n / batch)),
        evaluations=20,
        patience=6,
        warmup=100 if n < 10_000 else 500,
        cost=0.4 * n_valid / batch,
        settings=settings,
    )


def _model(n: int, side: int, *, gpu: bool) -> dict[str, Any]:
    halvings = [2**i for i in range(1, 6) if side % 2**i == 0 and side // 2**i >= _TOKENS // 2]
    patch = min(halvings or [1], key=lambda halved: abs(side / halved - _TOKENS))
    if gpu and n >= 20_000 and patch >= 4:
        return {"name": "vit", "size": "hybrid", "patch": patch}
    return {"name": "vit", "size": "nano", "patch": patch}


def _sampled(examples: Iterable[ImageExample]) -> tuple[Counter[str], list[ImageExample]]:
    """How many images each class has, and a few of them from all over the place."""
    counts: Counter[str] = Counter()
    kept, stride = [], 1
    for number, example in enumerate(examples):
        counts[example.label] += 1
        if number % stride == 0:
            kept.append(example)
        if len(kept) > 2 * _LOOKED_AT:
            kept, stride = kept[::2], 2 * stride
    return counts, kept


def _seen(examples: Sequence[ImageExample]) -> tuple[list[tuple[int, int]], bool]:
    """The heights and widths of some images, and whether they have colours; those that cannot be read say nothing."""
    sides, coloured = [], False
    for example in examples:
        try:
            pixels = pixels_of(example, None).to(torch.int16)
        except DataError:
            continue
        sides.append((pixels.shape[1], pixels.shape[2]))
        coloured = coloured or bool((pixels.amax(0) - pixels.amin(0)).max() > _GREY)
    return sides or [(32, 32)], coloured


def _side(sides: Sequence[tuple[int, int]], *, most: int) -> int:
    """A side that most images have, as a number that patches divide."""
    usual = float(np.median([min(pair) for pair in sides]))
    return next((side for side in (224, 160, 128, 96, 64, 48, 32, 24) if side <= min(usual, most)), 16)
