"""Attention over an image: it shows wherever it is, on black as on white, in one hue."""

import colorsys

import numpy as np
import pytest
from PIL import Image

from regard.inspection.overlay import STRENGTH, full_hue, image_facts, overlaid, png_of, shaded, spread
from regard.inspection.plots.colours import DARK, LIGHT

THEMES = pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])


def digit() -> np.ndarray:
    """A white stroke on black, (28, 28, 3)."""
    image = np.zeros((28, 28, 3), np.uint8)
    image[4:24, 12:16] = 255
    return image


def cells(pixels: np.ndarray) -> np.ndarray:
    """The mean colour of each of 7 × 7 cells, (7, 7, 3)."""
    return pixels.astype(float).reshape(7, 4, 7, 4, 3).mean((1, 3))


def saturation(pixels: np.ndarray) -> np.ndarray:
    return pixels.max(-1) - pixels.min(-1)


@THEMES
@pytest.mark.parametrize("place", [(0, 0), (6, 6), (3, 3), (1, 5)], ids=str)
def test_a_white_digit_on_black_shows_attention_where_it_is_largest(theme, place):
    weights = np.random.default_rng(0).uniform(0, 0.01, (7, 7))
    weights[place] = 0.02
    drawn = cells(overlaid(digit(), weights, theme=theme))
    assert np.unravel_index(saturation(drawn).argmax(), (7, 7)) == place, "the most saturated cell"
    if theme is LIGHT:
        assert np.unravel_index(drawn.mean(-1).argmin(), (7, 7)) == place, "the darkest cell"


@THEMES
def test_more_weight_is_more_colour_whatever_is_below(theme):
    ramp = np.linspace(0, 1, 49).reshape(7, 7)
    for image in (np.zeros((28, 28, 3), np.uint8), np.full((28, 28, 3), 255, np.uint8)):
        assert (np.diff(saturation(cells(overlaid(image, ramp, theme=theme))).reshape(-1)[::3]) > 0).all()
    even = overlaid(digit(), np.full((7, 7), 1 / 49), theme=theme)
    assert saturation(cells(even)).std() < 25, "what is looked at evenly is coloured all over"


@THEMES
def test_there_is_one_hue(theme):
    photo = np.random.default_rng(1).integers(0, 256, (28, 28, 3), dtype=np.uint8)
    weights = np.random.default_rng(2).uniform(0, 1, (7, 7))
    pixels = overlaid(photo, weights, theme=theme).reshape(-1, 3) / 255
    hues = [colorsys.rgb_to_hsv(*pixel)[0] for pixel in pixels if pixel.max() - pixel.min() > 0.1]
    assert len(hues) > 300
    assert max(hues) - min(hues) < 0.03
    assert np.mean(hues) == pytest.approx(colorsys.rgb_to_hsv(*full_hue(theme))[0], abs=0.02)


def test_greys_and_strength_are_exact():
    weights = np.zeros((2, 2))
    weights[1, 1] = 0.3
    drawn = overlaid(digit(), weights)
    np.testing.assert_array_equal(drawn[0, 0], np.full(3, round(255 * 0.78)))
    expected = (1 - STRENGTH) * shaded(digit(), LIGHT)[27, 27] + STRENGTH * full_hue(LIGHT)
    np.testing.assert_allclose(drawn[27, 27], 255 * expected, atol=0.51)
    half = overlaid(digit(), weights, most=0.6)
    expected = (1 - STRENGTH / 2) * shaded(digit(), LIGHT)[27, 27] + STRENGTH / 2 * full_hue(LIGHT)
    np.testing.assert_allclose(half[27, 27], 255 * expected, atol=0.51)


def test_cells_have_edges_or_none():
    weights = np.array([[1.0, 0.0], [0.0, 0.0]])
    assert spread(weights, (8, 6), smooth=False).sum() == 12
    smooth = spread(weights, (8, 8), smooth=True)
    assert smooth.max() == smooth[0, 0] == 1
    assert 0.3 < smooth[2, 3] < 0.6
    assert (overlaid(np.zeros((5, 7, 3), np.uint8), np.zeros((2, 3))) == round(255 * 0.78)).all(), "nothing looked at"


def test_a_png_of_our_own_is_read_by_others(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (5, 7, 3), dtype=np.uint8)
    (tmp_path / "a.png").write_bytes(png_of(pixels))
    np.testing.assert_array_equal(np.asarray(Image.open(tmp_path / "a.png")), pixels)
    assert image_facts(pixels)["png"].startswith("data:image/png;base64,iVBOR")
