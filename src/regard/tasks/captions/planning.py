"""What suits some images with captions: how large they are seen, a captioner by how many there are, how they change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from regard.config.recipe import Recipe
from regard.config.wording import several
from regard.data.images.captions import without_punctuation
from regard.data.synthetic.shapes import SIDE
from regard.tasks.captions.data import CaptionFiles
from regard.training.plan import Plan, within
from regard.training.setup import RunContext

Settings = dict[str, dict[str, Any]]
_SIDES = {"left", "right"}  # words that a mirrored image makes wrong


def plan_captions(recipe: Recipe, context: RunContext) -> Plan:
    """The plan for a recipe's images."""
    data = recipe.data
    if data.synthetic:
        return _plan(data.n_train, data.n_valid, f"{data.n_train:,} drawn images", _DRAWN, epochs=12)
    source = CaptionFiles(data, context.data_root, context.data).source(data.train, what="train")
    examples = source.examples(bad=data.bad)  # of the table; no image is read
    captions = [caption for example in examples for caption in example.captions]
    held_out = max(data.held_out, min(0.5, 1 / len(examples)))  # one image at least
    n_valid = max(1, round(held_out * len(examples)))
    n = len(examples) if data.valid else max(1, len(examples) - n_valid)
    settings = _settings(n, captions, gpu=context.device.type == "cuda")
    if held_out > data.held_out and not data.valid:
        settings["data"]["held_out"] = round(held_out, 4)
    what = f"{several(len(examples), 'image', 'images')}, {several(len(captions), 'caption', 'captions')}"
    return _plan(n, n_valid, what, settings, epochs=within(5, 25 * (6000 / n) ** 0.3, 60))


_DRAWN: Settings = {
    "data": {"image_size": SIDE},
    "model": {"name": "captioner", "size": "tiny"},
    "train": {"batch_images": 32, "captions_each": 2, "lr": 0.003, "label_smoothing": 0.0, "weight_decay": 0.01},
    "decode": {"max_length": 20},
}


def _plan(n: int, n_valid: int, what: str, settings: Settings, *, epochs: float) -> Plan:
    batch = settings["train"]["batch_images"]
    return Plan(
        data=what,
        steps=max(50, round(epochs * n / batch)),
        evaluations=10,
        patience=5,
        warmup=200,
        cost=1.5 * n_valid / batch,
        settings=settings,
    )


def _settings(n: int, captions: Sequence[str], *, gpu: bool) -> Settings:
    """The more images, the larger they are seen, the larger the model, and the rarer the words that are left out."""
    words = [without_punctuation(caption).lower().split() for caption in captions]
    longest = int(np.percentile([len(some) for some in words], 99))
    mirrored = not any(_SIDES & set(some) for some in words)
    size = "base" if gpu and n >= 3000 else "small" if n >= 500 else "tiny"
    return {
        "data": {"image_size": 80 if gpu or n >= 3000 else 64, "max_tokens": max(4, longest + 1)},
        "model": {"name": "captioner", "size": size},
        "tokenizer": {"min_frequency": 5 if n >= 3000 else 2 if n >= 500 else 1},
        "train": {
            "batch_images": 64 if n >= 3000 else 32 if n >= 300 else 8,
            "lr": 0.001 if n >= 1000 else 0.002,
            "label_smoothing": 0.1,
            "crop": 0.5 if n >= 500 else 0.8,
            "flip": mirrored,
            "jitter": 0.3,
        },
        "decode": {"strategy": "beam", "beam": 4, "max_length": longest + 4},
    }
