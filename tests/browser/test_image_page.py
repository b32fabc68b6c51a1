"""The page of an image in a real browser, opened from disk with the network off."""

from __future__ import annotations

import numpy as np
import pytest
from test_page import CHROMIUM, a_map, playwright

from regard.inspection.record import Axis, Outputs
from regard.tasks.images.look import ImageLook, Shown

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium found")


@pytest.fixture
def page(tmp_path):
    """A record of a 3 × 4 grid with a class token, opened; script errors fail the test."""
    labels = ["class", *(f"{row},{column}" for row in range(3) for column in range(4))]
    pixels = np.random.default_rng(0).integers(100, 256, (12, 16, 3), dtype=np.uint8)
    look = ImageLook(
        {"image": Axis(labels, "patches"), "label": Axis(["label"], "labels")},
        {"self": a_map("self", "image", "image", (2, 3, 13, 13), seed=0)},
        Outputs("label", "label", [["</script><b>cat", "dog"]], [[0.9, 0.1]]),
        "a & b.jpg",
        Shown(pixels, (3, 4), 1),
    )
    errors: list[str] = []
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        opened = browser.new_context(offline=True).new_page()
        opened.on("pageerror", lambda error: errors.append(str(error)))
        opened.goto(look.page(tmp_path / "seen.html").as_uri())
        yield opened, look
        browser.close()
    assert errors == []


def brightest(opened):
    """The patch that is brightest on the canvas, as a number."""
    return opened.evaluate("""() => {
      const c = document.getElementById("image"), d = c.getContext("2d").getImageData(0, 0, 16, 12).data, sums = {};
      for (let y = 0; y < 12; y++) for (let x = 0; x < 16; x++) {
        const p = Math.floor(y / 4) * 4 + Math.floor(x / 4), at = (y * 16 + x) * 4;
        sums[p] = (sums[p] || 0) + (d[at] + d[at + 1] + d[at + 2]) / (pixels[(y * 16 + x) * 3] +
          pixels[(y * 16 + x) * 3 + 1] + pixels[(y * 16 + x) * 3 + 2]);
      }
      return Number(Object.entries(sums).sort((a, b) => b[1] - a[1])[0][0]);
    }""")


def test_light_falls_where_the_model_looked(page):
    opened, look = page
    assert "a & b.jpg" in opened.inner_text("h1")
    assert opened.inner_text("#said tr:first-child td:first-child") == "</script><b>cat"
    assert brightest(opened) == int(look.rolled_out().argmax())
    opened.select_option("#layer", "1")
    assert brightest(opened) == int(look.looked_at(layer=1).argmax())
    opened.click("#heads button:nth-child(3)")  # the second head
    assert brightest(opened) == int(look.looked_at(layer=1, head=1).argmax())
    assert "The class token, layer 1, head 1." in opened.inner_text("#told")


def test_patches_are_asked_by_pointer_and_by_key(page):
    opened, _ = page
    opened.select_option("#layer", "0")
    box = opened.locator("#image").bounding_box()
    opened.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + box["height"] * 0.5)
    assert "Patch in row 1, column 2, layer 0" in opened.inner_text("#told")
    opened.mouse.move(2, 2)
    assert "The class token" in opened.inner_text("#told")
    opened.focus("#image")
    for key in ("ArrowRight", "ArrowRight", "ArrowDown", "ArrowUp", "ArrowUp"):
        opened.keyboard.press(key)
    assert "row 0, column 1" in opened.inner_text("#told"), "there is nothing above the first row"
    opened.keyboard.press("Escape")
    assert "The class token" in opened.inner_text("#told")
