"""Pictures so small and plain that a captioner learns them in seconds: a left half and a right half of some colour."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import numpy as np
from PIL import Image

COLOURS = {"red": (220, 30, 30), "green": (30, 180, 60), "blue": (40, 60, 220), "white": (250, 250, 250)}
SIDE = 16
SHAPE = [
    f"data.image_size={SIDE}", "model.size=tiny", "model.widths=[8,12,16]", "model.d_embedding=16",
    "model.d_hidden=24", "model.dropout=0.0",
]  # fmt: skip
QUICK = [
    "train.plan=off", "train.device=cpu", "train.n_samples=1", "train.log_every=1000", "train.batch_images=8",
    "train.lr=0.01",
    "train.warmup=5", "train.label_smoothing=0.0", "train.weight_decay=0.0", "decode.max_length=12",
]  # fmt: skip


def halves(left: str, right: str, *, seed: int = 0) -> np.ndarray:
    """The pixels (16, 16, 3) of a picture, with a little noise."""
    pixels = np.zeros((SIDE, SIDE, 3))
    pixels[:, : SIDE // 2], pixels[:, SIDE // 2 :] = COLOURS[left], COLOURS[right]
    return (pixels + np.random.default_rng(seed).normal(0, 4, pixels.shape)).clip(0, 255).astype(np.uint8)


def captions_of(left: str, right: str) -> list[str]:
    """What can be said of it."""
    return [f"A {left} half and a {right} half .", f"{left} left , {right} right"]


def write_folder(folder: Path, *, format: str = "csv", copies: int = 2, name: str = "captions") -> Path:
    """Images in `pictures/`, and a table of captions beside them; every pair of colours, so many times."""
    (folder / "pictures").mkdir(parents=True, exist_ok=True)
    rows = []
    for copy, (left, right) in product(range(copies), product(COLOURS, COLOURS)):
        image = f"pictures/{left}-{right}-{copy}.png"
        Image.fromarray(halves(left, right, seed=copy)).save(folder / image)
        rows += [(image, caption) for caption in captions_of(left, right)]
    path = folder / f"{name}.{format}"
    if format == "jsonl":
        lines = [json.dumps({"image": image, "caption": caption}) for image, caption in rows]
    else:
        mark = "," if format == "csv" else "\t"
        lines = [mark.join(("image", "caption"))]
        lines += [mark.join((image, f'"{caption}"' if format == "csv" else caption)) for image, caption in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def captions(folder: Path) -> list[str]:
    """Arguments of `regard train` for a captioner."""
    table = write_folder(folder)
    given = [f'data.train=["{table}"]', f'data.valid=["{table}"]', f'data.test.here=["{table}"]']
    return ["captions", *given, *SHAPE, *QUICK, "train.epochs=12"]


def train_captions(folder: Path, *given: str) -> Path:
    """A run of a tiny captioner, made through the same functions as the command."""
    from regard.tasks.recipes import find_recipe, make_recipe
    from regard.tasks.training import train

    name, *settings = captions(folder)
    recipe = make_recipe(find_recipe(name), [*settings, *given])
    train(recipe, folder / "run", data_root=None, resume=False, say=lambda _: None)
    return folder / "run"
