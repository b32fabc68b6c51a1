"""Coloured shapes: what is said of a picture is true of it."""

import numpy as np
import pytest

from regard.data.synthetic.shapes import CELLS, COLOURS, SIDE, shape_scenes, split_of
from regard.errors import UsageError


def test_the_same_seed_gives_the_same_scenes_and_splits_share_no_set_of_shapes():
    one, two = (shape_scenes(20, 1, split="train") for _ in range(2))
    assert all(np.array_equal(a.pixels, b.pixels) and a.captions == b.captions for a, b in zip(one, two, strict=True))
    kinds = {
        split: {frozenset(shape.words for shape in scene.shapes) for scene in shape_scenes(60, 1, split=split)}
        for split in ("train", "valid", "test")
    }
    assert not kinds["train"] & kinds["test"]
    assert not kinds["valid"] & kinds["test"]
    assert all(split_of(scene.shapes) == "test" for scene in shape_scenes(9, 3, split="test"))
    with pytest.raises(UsageError, match="split 'dev' is not known"):
        shape_scenes(1, 1, split="dev")


def test_captions_are_true_and_complete():
    for scene in shape_scenes(80, 2, split="train"):
        by_words = {shape.words: shape for shape in scene.shapes}
        assert len(by_words) == len(scene.shapes)
        distinct_rows = len({int(s.y // (SIDE / CELLS)) for s in scene.shapes}) == len(scene.shapes)
        assert len(scene.captions) == (4 if distinct_rows else 2)
        for caption in scene.captions:
            how = next(way for way in (" left of ", " right of ", " above ", " below ") if way in caption)
            said = [by_words[part.removeprefix("a ")] for part in caption.split(how)]
            assert len(said) == len(scene.shapes)
            axis, sign = (
                ("x" if how in (" left of ", " right of ") else "y"),
                (-1 if how in (" right of ", " below ") else 1),
            )
            places = [sign * getattr(shape, axis) for shape in said]
            assert places == sorted(places)


def test_a_shape_has_its_colour_where_it_stands():
    for scene in shape_scenes(40, 4, split="valid"):
        assert scene.pixels.shape == (3, SIDE, SIDE)
        assert scene.pixels.dtype == np.uint8
        for shape in scene.shapes:
            seen = scene.pixels[:, int(shape.y), int(shape.x)].astype(float)
            apart = {name: np.abs(seen / seen.max() - np.array(rgb) / max(rgb)).sum() for name, rgb in COLOURS.items()}
            assert min(apart, key=apart.get) == shape.colour
