"""Images so small and plain that a Vision Transformer learns them in seconds: shapes on noise, in any colour.

The classes differ in form alone: a disc, a cross, a ring and bars. Colour, place and size say nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

CLASSES = ("bars", "cross", "disc", "ring")


def shape(name: str, chance: np.random.Generator, size: tuple[int, int] = (16, 16)) -> np.ndarray:
    """One image, uint8 (H, W, 3)."""
    height, width = size
    y, x = np.mgrid[:height, :width].astype(float)
    radius = chance.uniform(3.5, 5.0)
    cy, cx = (chance.uniform(radius, n - 1 - radius) for n in size)
    dy, dx = y - cy, x - cx
    far = np.hypot(dy, dx)
    inside = {
        "disc": far < radius,
        "ring": (far < radius) & (far > radius * 0.55),
        "cross": (np.minimum(abs(dy), abs(dx)) < 1) & (np.maximum(abs(dy), abs(dx)) < radius),
        "bars": (abs(dx) < radius) & (abs(dy) < radius) & (np.floor(dy) % 3 == 0),
    }[name]
    colour, ground = chance.uniform(150, 255, 3), chance.uniform(0, 90, 3)
    image = np.where(inside[..., None], colour, ground) + chance.normal(0, 12, (height, width, 3))
    return image.clip(0, 255).astype(np.uint8)


def shapes(n: int, *, seed: int = 0, classes: tuple[str, ...] = CLASSES) -> tuple[np.ndarray, list[str]]:
    """n images (n, 16, 16, 3) and what they are."""
    chance = np.random.default_rng(seed)
    labels = [classes[i % len(classes)] for i in range(n)]
    return np.stack([shape(label, chance) for label in labels]), labels


def write_npz(path: Path, n: int = 400, *, seed: int = 0) -> Path:
    """Arrays with a train and a test part."""
    images, labels = shapes(n, seed=seed)
    others, answers = shapes(max(8, n // 4), seed=seed + 1)
    np.savez(path, train_images=images, train_labels=labels, test_images=others, test_labels=answers)
    return path


def write_folder(folder: Path, n: int = 40, *, seed: int = 0) -> Path:
    """A folder of class folders with PNG files."""
    images, labels = shapes(n, seed=seed)
    for number, (image, label) in enumerate(zip(images, labels, strict=True)):
        (folder / label).mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(folder / label / f"{number:03d}.png")
    return folder


QUICK = ["train.plan=off", "train.device=cpu", "train.n_samples=1", "train.log_every=1000", "train.evaluations=2"]
NANO = ["model.size=nano", "model.d_model=48", "model.d_feedforward=96", "model.n_layers=3", "model.stem_width=16"]


def images(folder: Path, n: int = 40) -> list[str]:
    """Arguments of `regard train` for a classifier of images."""
    place = write_folder(folder / "photos", n)
    return ["images", f'data.train=["{place}"]', *NANO, *QUICK, "train.epochs=2", "train.batch_examples=16"]


def train_images(folder: Path, *given: str, resume: bool = False) -> tuple[Path, dict[str, Any]]:
    """A run of a tiny classifier, made through the same functions as the command, and what it says of itself."""
    from regard.tasks.recipes import find_recipe, make_recipe
    from regard.tasks.training import train

    recipe = make_recipe(find_recipe("images"), [*QUICK, *given])
    facts = train(recipe, folder / "run", data_root=None, resume=resume, say=lambda _: None)
    return folder / "run", facts
