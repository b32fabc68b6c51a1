"""How a model reads images and what its classes are, kept in a run and exchanged with others."""

import json

import numpy as np
import pytest
import torch

from regard.data.images.files import Fit
from regard.data.images.space import ImageSpace
from regard.errors import CheckpointError

SPACE = ImageSpace(("cat", "dog"), (6, 5), (0.1, 0.2, 0.3), (0.5, 0.6, 0.7), Fit("cover", "bilinear", 8))


def test_pixels_are_scaled_channel_by_channel():
    pixels = torch.randint(0, 256, (2, 3, 6, 5), dtype=torch.uint8)
    expected = (pixels.numpy() / 255 - np.array(SPACE.mean)[:, None, None]) / np.array(SPACE.std)[:, None, None]
    np.testing.assert_allclose(SPACE.normalised(pixels).numpy(), expected, rtol=1e-5, atol=1e-6)


def test_it_comes_back(tmp_path):
    SPACE.save(tmp_path)
    assert ImageSpace.load(tmp_path) == SPACE
    (tmp_path / "images.json").write_text('{"names": ["a"]}')
    with pytest.raises(CheckpointError, match="does not say how images are read"):
        ImageSpace.load(tmp_path)
    with pytest.raises(CheckpointError, match="there is no such file"):
        ImageSpace.load(tmp_path / "none")


@pytest.mark.parametrize(
    ("facts", "fit", "mean"),
    [
        ({"size": {"height": 6, "width": 5}, "resample": 2}, Fit("stretch", "bilinear"), (0.5, 0.4, 0.3)),
        ({"size": 6, "resample": 3}, Fit("stretch", "bicubic"), (0.5, 0.4, 0.3)),
        ({"size": {"shortest_edge": 8}, "resample": 3, "do_center_crop": True}, Fit("cover", "bicubic", 8), None),
        ({"size": {"height": 6, "width": 6}, "do_normalize": False}, Fit("stretch", "bilinear"), (0.0, 0.0, 0.0)),
    ],
)
def test_what_others_say(facts, fit, mean, tmp_path):
    given = {"image_mean": [0.5, 0.4, 0.3], "image_std": [0.1, 0.2, 0.3]} | facts
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(given))
    space = ImageSpace.of_others(tmp_path, ("a", "b"), (6, 6))
    assert space.fit == fit
    assert space.mean == (mean or (0.5, 0.4, 0.3))


def test_what_others_say_wrongly(tmp_path):
    assert ImageSpace.of_others(tmp_path, ("a",), (6, 6)).mean == (0.5, 0.5, 0.5)
    for text, reason in [("[]", "a JSON object was expected"), ("{", "JSONDecodeError"), ("{}", "image_mean")]:
        (tmp_path / "preprocessor_config.json").write_text(text)
        with pytest.raises(CheckpointError, match=reason):
            ImageSpace.of_others(tmp_path, ("a",), (6, 6))
