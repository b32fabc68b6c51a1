"""What suits some images with captions: how large they are seen, a captioner by how many there are, how they change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from regard.config.recipe import Recipe
from regard.config.wording import several
from regard.data.images.captions import CaptionSource, Captioned, without_punctuation
from regard.data.synthetic.shapes import SIDE
from regard.tasks.captions.config import CaptionData
from regard.tasks.captions.data import CaptionFiles
from regard.training.plan import Plan, within
from regard.training.setup import RunContext

_SIDES = {"left", "right"}  # words that a mirrored image makes wrong


def plan_captions(recipe: Recipe, context: RunContext) -> Plan:
    """The plan for a recipe's images."""
    data, gpu = recipe.data, context.device.type == "cuda"
    if data.synthetic:
        return _plan(data.n_train, data.n_valid, recipe, gpu=gpu, data=f"{data.n_train:,} drawn images", more=_DRAWN)
    files = CaptionFiles(data, context.data_root, context.data)
    examples = _examples(files.source(data.train, what="train"), data)
    captions = [caption for example in examples for caption in example.captions]
    held_out = max(data.held_out, 1 / len(examples))  # one image at least
    n_valid = round(held_out * len(examples))
    n = len(examples) if data.valid else max(1, len(examples) - n_valid)
    what = f"{several(len(examples), 'image', 'images')}, {several(len(captions), 'caption', 'captions')}"
    more = _of_photos(n, captions, gpu=gpu)
    if not data.valid and held_out > data.held_out:
        more["data"]["held_out"] = round(held_out, 4)
    return _plan(n, n_valid, recipe, gpu=gpu, data=what, more=more)


_DRAWN: dict[str, dict[str, Any]] = {
    "data": {"image_size": SIDE},
    "model": {"name": "captioner", "size": "tiny"},
    "train": {"batch_images": 32, "captions_each": 2, "lr": 0.003, "label_smoothing": 0.0, "weight_decay": 0.01},
    "decode": {"max_length": 20},
}


def _plan(n: int, n_valid: int, recipe: Recipe, *, gpu: bool, data: str, more: dict[str, dict[str, Any]]) -> Plan:
    batch = more["train"]["batch_images"]
    epochs = within(5, 25 * (6000 / n) ** 0.3, 60)
    return Plan(
        data=data,
        steps=max(50, round(epochs * n / batch)),
        evaluations=10,
        patience=5,
        warmup=200,
        cost=1.5 * n_valid / batch,
        settings=more,
    )


def _examples(source: CaptionSource, data: CaptionData) -> list[Captioned]:
    """The rows of the table; no image is read."""
    return source.examples(bad=data.bad)


def _of_photos(n: int, captions: Sequence[str], *, gpu: bool) -> dict[str, dict[str, Any]]:
    words = [without_punctuation(caption).lower().split() for caption in captions]
    longest = int(np.percentile([len(some) for some in words], 99))
    mirrored = not any(_SIDES & set(some) for some in words)
    few = n < 1000
    size = "base" if gpu and n >= 3000 else "small" if n >= 500 else "tiny"
    return {
        "data": {"image_size": 80 if gpu or n >= 3000 else 64, "max_tokens": max(4, longest + 1)},
        "model": {"name": "captioner", "size": size},
        "tokenizer": {"min_frequency": 5 if n >= 3000 else 2 if n >= 500 else 1},
        "train": {
            "batch_images": 64 if n >= 3000 else 32 if n >= 300 else 8,
            "lr": 0.001 if not few else 0.002,
            "label_smoothing": 0.1,
            "crop": 0.5 if n >= 500 else 0.8,
            "flip": mirrored,
            "jitter": 0.3,
        },
        "decode": {"strategy": "beam", "beam": 4, "max_length": longest + 4},
    }
