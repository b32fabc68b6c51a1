"""Pictures to learn captioning from in minutes, without a download: coloured shapes, and where they stand.

    a red square left of a blue circle left of a green triangle

Two or three shapes stand in different columns of a noisy ground. Every caption that is true in these words is a
reference: from left to right, from right to left and, where no two shapes share a row, from top to bottom and back. The
kinds of shapes in a picture, as a set, are dealt out to train, valid and test by a hash: what is asked about in the
test was never seen together. Each picture also says where its shapes are, so that attention can be judged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from regard.errors import UsageError

Pixels = npt.NDArray[np.uint8]
COLOURS = {
    "red": (214, 48, 49),
    "green": (46, 160, 67),
    "blue": (52, 101, 216),
    "yellow": (241, 196, 15),
    "purple": (142, 68, 173),
    "white": (245, 245, 240),
}
SHAPES = ("square", "circle", "triangle", "cross")
SPLITS = ("train", "valid", "test")
SIDE, CELLS = 48, 3


class Shape(NamedTuple):
    """One shape: its colour and kind, and the middle and half the width of it in pixels."""

    colour: str
    kind: str
    x: float
    y: float
    half: float

    @property
    def words(self) -> str:
        """What it is called."""
        return f"{self.colour} {self.kind}"


@dataclass(frozen=True, eq=False)
class Scene:
    """A picture (3, 48, 48), its shapes from left to right, and all that can be said of it."""

    pixels: Pixels
    shapes: tuple[Shape, ...]
    captions: tuple[str, ...]


def shape_scenes(n: int, seed: int, *, split: str, n_shapes: Sequence[int] = (2, 3)) -> list[Scene]:
    """So many scenes of a split, the same for the same seed."""
    if split not in SPLITS:
        raise UsageError(f"split '{split}' is not known; allowed: {', '.join(SPLITS)}")
    chance = np.random.default_rng([seed, SPLITS.index(split)])
    return [_scene(chance, split, n_shapes) for _ in range(n)]


def _scene(chance: np.random.Generator, split: str, n_shapes: Sequence[int]) -> Scene:
    shapes = _shapes(chance, int(chance.choice(n_shapes)))
    while split_of(shapes) != split:
        shapes = _shapes(chance, len(shapes))
    return Scene(_drawn(shapes, chance), shapes, _captions(shapes))


def split_of(shapes: Sequence[Shape]) -> str:
    """The split that a set of shapes belongs to, wherever they stand: 80 % train, 10 % valid, 10 % test."""
    name = ", ".join(sorted(shape.words for shape in shapes))
    bucket = int.from_bytes(blake2b(name.encode(), digest_size=8).digest()) % 10
    return "train" if bucket >= 2 else "valid" if bucket == 1 else "test"


def _shapes(chance: np.random.Generator, n: int) -> tuple[Shape, ...]:
    """Different shapes in different columns, from left to right."""
    cell = SIDE / CELLS
    kinds = chance.permutation(len(COLOURS) * len(SHAPES))[:n]
    columns, rows = np.sort(chance.permutation(CELLS)[:n]), chance.integers(CELLS, size=n)
    result = []
    for kind, column, row in zip(kinds.tolist(), columns, rows, strict=True):
        half = chance.uniform(5.5, 7.5)
        slack = cell / 2 - half
        x, y = ((cell_index + 0.5) * cell + chance.uniform(-slack, slack) for cell_index in (column, row))
        result.append(Shape(list(COLOURS)[kind // len(SHAPES)], SHAPES[kind % len(SHAPES)], x, y, half))
    return tuple(result)


def _captions(shapes: tuple[Shape, ...]) -> tuple[str, ...]:
    ways = [(shapes, "left of"), (shapes[::-1], "right of")]
    rows = [int(shape.y // (SIDE / CELLS)) for shape in shapes]
    if len(set(rows)) == len(rows):
        down = tuple(sorted(shapes, key=lambda shape: shape.y))
        ways += [(down, "above"), (down[::-1], "below")]
    return tuple(f" {how} ".join(f"a {shape.words}" for shape in order) for order, how in ways)


def _drawn(shapes: Sequence[Shape], chance: np.random.Generator) -> Pixels:
    ground = chance.uniform(30, 70) + chance.normal(0, 6, (3, SIDE, SIDE))
    y, x = np.mgrid[:SIDE, :SIDE] + 0.5
    for shape in shapes:
        light = np.array(COLOURS[shape.colour], np.float64) * chance.uniform(0.85, 1.0)
        ground = np.where(_covered(shape, x, y), light[:, None, None] + chance.normal(0, 4, ground.shape), ground)
    return ground.round().clip(0, 255).astype(np.uint8)


def _covered(shape: Shape, x: npt.NDArray[np.float64], y: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """Which pixels a shape covers."""
    across, down, half = x - shape.x, y - shape.y, shape.half
    inside: npt.NDArray[np.bool_] = np.maximum(abs(across), abs(down)) <= half
    if shape.kind == "circle":
        inside = across**2 + down**2 <= half**2
    elif shape.kind == "triangle":
        inside = inside & (2 * abs(across) <= down + half)
    elif shape.kind == "cross":
        inside = inside & (np.minimum(abs(across), abs(down)) <= half / 3)
    return inside
