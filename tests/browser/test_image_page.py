"""The page of an image in a real browser: the image is coloured where it was looked at, on black as on white."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_page import CHROMIUM, Shown, a_map, browser

from regard.inspection.overlay import overlaid
from regard.inspection.plots.colours import DARK, LIGHT
from regard.inspection.record import About, Axis, Outputs
from regard.tasks.images.look import ImageLook
from regard.tasks.images.look import Shown as ShownImage

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium found")
assert browser  # the fixture


def digit() -> np.ndarray:
    """A white stroke on black, (12, 16, 3)."""
    pixels = np.zeros((12, 16, 3), np.uint8)
    pixels[2:10, 6:9] = 255
    return pixels


def image_look(pixels: np.ndarray) -> ImageLook:
    """A record of a 3 × 4 grid with a class token, and a learned query."""
    labels = ["class", *(f"{row},{column}" for row in range(3) for column in range(4))]
    return ImageLook(
        {"image": Axis(labels, "patches"), "label": Axis(["label"], "labels")},
        {
            "self": a_map("self", "image", "image", (2, 3, 13, 13), seed=0),
            "pool": a_map("pool", "label", "image", (1, 1, 1, 13), seed=1),
        },
        Outputs("label", "label", [["</script><b>cat", "dog"]], [[0.9, 0.1]]),
        "a & b.jpg",
        ShownImage(pixels, (3, 4), 1),
        about=About("images", "vit", "a & b.jpg"),
    )


@pytest.fixture
def page(browser, tmp_path):
    """The record of a digit, opened; errors and requests fail the test."""
    look = image_look(digit())
    shown = Shown(browser, look.page(tmp_path / "seen.html"))
    yield shown, look
    assert (shown.problems, shown.asked) == ([], [])
    shown.context.close()


def drawn(shown: Shown, selector: str = "#image") -> np.ndarray:
    """The pixels of a canvas, (H, W, 3)."""
    width, height, data = shown.page.evaluate(
        """selector => { const c = document.querySelector(selector);
        return [c.width, c.height, [...c.getContext("2d").getImageData(0, 0, c.width, c.height).data]]; }""",
        selector,
    )
    return np.array(data, np.uint8).reshape(height, width, 4)[..., :3]


def strongest(shown: Shown) -> int:
    """The patch of the most saturated colour."""
    pixels = drawn(shown).astype(int)
    cells = (pixels.max(-1) - pixels.min(-1)).reshape(3, 4, 4, 4).mean((1, 3))
    return int(cells.argmax())


def select(shown: Shown, cell: str) -> None:
    shown.page.click(f'[id="{cell}"]')
    shown.settle()


def test_colour_is_strongest_where_the_model_looked(page):
    shown, look = page
    assert shown.text("h1") == "a & b.jpg"
    assert shown.text("#kicker") == "images · vit", "the file is named once"
    assert shown.text("#wrote") == "</script><b>cat (90%), dog (10%)"
    assert shown.text("#where") == "Through all layers"
    assert strongest(shown) == int(look.rolled_out().argmax())
    select(shown, "g1.-1")
    assert strongest(shown) == int(look.weights["self"][1].mean(0)[0, 1:].argmax())
    for head in range(3):
        select(shown, f"g1.{head}")
        assert strongest(shown) == int(look.looked_at(layer=1, head=head).argmax())
    assert shown.text("#told").startswith("The class token looked most at row")
    assert shown.text("#told").endswith("layer 1, head 2.")
    shown.page.click("#kinds button:nth-child(2)")
    shown.settle()
    assert strongest(shown) == int(look.pooled().argmax())


@pytest.mark.parametrize(("scheme", "theme"), [("light", LIGHT), ("dark", DARK)])
def test_the_page_draws_as_the_picture_does(browser, tmp_path, scheme, theme):
    look = image_look(digit())
    shown = Shown(browser, look.page(tmp_path / "seen.html"), color_scheme=scheme)
    select(shown, "g0.2")
    weights = look.weights["self"][0, 2, 0, 1:].reshape(3, 4)
    np.testing.assert_allclose(drawn(shown).astype(int), overlaid(digit(), weights, theme=theme).astype(int), atol=2)
    np.testing.assert_array_equal(drawn(shown, "#plain"), digit())
    assert shown.text("#most") == f"{weights.max():#.2g}"
    assert shown.text("#scale span") == "0"
    bar = drawn(shown, "#bar").astype(int)[0]
    assert (np.diff((bar.max(-1) - bar.min(-1))[::8]) > 0).all(), "one hue, from none of it to all"
    shown.context.close()


def test_patches_are_asked_by_pointer_and_by_key(page):
    shown, look = page
    select(shown, "g0.-1")
    box = shown.page.locator("#image").bounding_box()
    shown.page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + box["height"] * 0.5)
    shown.settle()
    assert shown.text("#told").startswith("The patch in row 1, column 2 looked most at")
    assert strongest(shown) == int(look.weights["self"][0].mean(0)[1 + 6, 1:].argmax())
    assert shown.page.is_visible("#frame")
    shown.page.mouse.move(2, 2)
    shown.settle()
    assert "The class token" in shown.text("#told")
    shown.page.focus("#image")
    shown.press("ArrowRight", "ArrowRight", "ArrowDown", "ArrowUp", "ArrowUp")
    assert "row 0, column 1 looked" in shown.text("#told"), "there is nothing above the first row"
    shown.press("Escape")
    assert "The class token" in shown.text("#told")


def test_layers_and_heads_in_one_grid(page):
    shown, look = page
    shown.view("heads")
    assert len(shown.page.query_selector_all("#small button")) == 6
    assert shown.text("#most") == "each head’s largest"
    largest = [f"{one:#.2g}" for one in look.weights["self"][:, :, 0, 1:].max(-1).reshape(-1)]
    assert [span.inner_text() for span in shown.page.query_selector_all("#small div > span")] == largest
    pixels: Any = drawn(shown, '[id="s1.1"] canvas').astype(int)
    cells = (pixels.max(-1) - pixels.min(-1)).reshape(3, 4, 4, 4).mean((1, 3))
    assert int(cells.argmax()) == int(look.looked_at(layer=1, head=1).argmax())
    select(shown, "s1.1")
    assert shown.text("#where") == "Layer 1, head 1"
    assert shown.page.is_visible("#image")
    shown.page.click("#through")
    shown.settle()
    assert shown.text("#where") == "Through all layers"
