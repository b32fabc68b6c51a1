"""The page in a real browser: opened from disk with the network off, it shows what the record holds, and quickly.

It takes Chromium (`apt-get install chromium`, or its path in REGARD_CHROMIUM) and the Python package playwright.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.inspection.record import Axis, Computed, Look, Map, Outputs
from regard.inspection.words import Words

playwright = pytest.importorskip("playwright.sync_api", reason="the Python package playwright is not installed")
CHROMIUM = os.environ.get("REGARD_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium found: apt-get install chromium, or set REGARD_CHROMIUM to its path"
)
SLACK = float(os.environ.get("REGARD_SLACK", "1"))  # how much slower than promised a busy machine may be


def softmax(scores: np.ndarray) -> np.ndarray:
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return (weights / weights.sum(-1, keepdims=True)).astype(np.float32)


def axis(n: int, *, end: bool = True) -> Axis:
    """Words of two pieces now and then, and a mark at the end."""
    labels = [("ning" if i % 5 == 4 else f"▁word{i}") for i in range(n - end)] + ["</s>"] * end
    of_piece = (np.cumsum([label != "ning" for label in labels]) - 1).tolist()
    texts = [label.removeprefix("▁") for label in labels if label != "ning"]
    return Axis(labels, words=Words(texts, [*of_piece[:-1], -1] if end else of_piece))


def a_map(kind: Any, rows: str, columns: str, shape: tuple[int, ...], *, seed: int, computed: bool = False) -> Map:
    random = np.random.default_rng(seed)
    n_layers, n_heads, n_rows, n_columns = shape
    q, k = random.normal(size=(n_layers, n_heads, n_rows, 8)), random.normal(size=(n_layers, n_heads, n_columns, 8))
    scores = 1.5 * q @ k.swapaxes(-1, -2)
    if kind == "masked":
        scores = np.where(np.tri(n_rows, n_columns, dtype=bool), scores, -np.inf)
    made = Computed("dot", 1.5, q.astype(np.float32), k.astype(np.float32)) if computed else None
    return Map(kind, rows, columns, softmax(scores), tuple(range(n_layers)), tuple(range(n_heads)), made)


def translation(n_source: int = 64, n_target: int = 60) -> Look:
    axes = {"source": axis(n_source), "target": axis(n_target), "fed": axis(n_target, end=False)}
    maps = {
        "cross": a_map("cross", "target", "source", (3, 4, n_target, n_source), seed=0, computed=True),
        "masked": a_map("masked", "target", "fed", (3, 4, n_target, n_target), seed=1, computed=True),
        "self": a_map("self", "source", "source", (3, 4, n_source, n_source), seed=2),
    }
    tokens = [["▁this", "▁<b>that</b>", "more"] for _ in range(n_target)]
    shares = [[0.5, 0.25, 0.125] for _ in range(n_target)]
    given: list[tuple[str, float] | None] = [("more", 0.125), *[("▁rare", 0.001)] * (n_target - 1)]
    return Look(axes, maps, Outputs("target", "here", tokens, shares, given), "A translation")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as run:
        found = run.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


class Shown:
    """A page that was opened, with what went wrong on it and what it asked of the network."""

    def __init__(self, browser: Any, path: Path, **options: Any) -> None:
        self.problems: list[str] = []
        self.asked: list[str] = []
        self.context = browser.new_context(**({"viewport": {"width": 1280, "height": 860}} | options))
        self.page = self.context.new_page()
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("console", lambda message: self.problems.append(message.text) if message.type == "error" else None)
        self.page.route(re.compile("^https?:"), lambda route: (self.asked.append(route.request.url), route.abort()))
        self.page.goto(path.as_uri(), wait_until="commit")
        self.settle()

    def settle(self) -> None:
        self.page.wait_for_selector('html[data-ready="yes"]', timeout=20_000)

    def view(self, name: str) -> None:
        self.page.click(f"[data-view={name}]")
        self.settle()

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)
            self.settle()

    def text(self, selector: str) -> str:
        return str(self.page.inner_text(selector)).strip()

    def drawn_after(self) -> float:
        return float(self.page.evaluate("performance.getEntriesByName('drawn')[0].startTime")) / 1000


@pytest.fixture(scope="module")
def look() -> Look:
    return translation()


@pytest.fixture(scope="module")
def path(look: Look, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return look.page(tmp_path_factory.mktemp("page") / "a.html")


@pytest.fixture
def shown(browser: Any, path: Path) -> Iterator[Shown]:
    found = Shown(browser, path)
    yield found
    assert found.problems == []
    assert found.asked == [], "a page asks nothing of the network"
    found.context.close()


def listed(shown: Shown) -> list[tuple[str, str]]:
    items = shown.page.query_selector_all("#values li")
    return [
        (item.query_selector("span").get_attribute("title"), item.query_selector("em").inner_text()) for item in items
    ]


def test_a_word_pointed_at_shows_the_weights_of_the_record(shown, look):
    shown.page.click('[id="g1.2"]')
    shown.settle()
    assert shown.text("#where") == "Layer 1, head 2"
    shown.page.hover("#asks li:nth-child(7)")
    weights, labels = look.maps["cross"].weights[1, 2, 6], look.axes["source"].shown
    best = np.argsort(-weights, kind="stable")[:12]
    assert listed(shown)[:3] == [(labels[i], f"{weights[i]:.4f}") for i in best[:3]]
    assert shown.text("#values .head").startswith(look.axes["target"].shown[6])
    column = look.maps["cross"].weights[1, 2, :, 3]
    shown.page.hover("#seen li:nth-child(4)")
    top = int(column.argmax())
    assert listed(shown)[0] == (look.axes["target"].shown[top], f"{column[top]:.4f}")


def test_at_first_it_shows_the_mean_of_the_layer_that_aligns_best(shown, look):
    assert re.fullmatch(r"Layer \d, mean of its heads", shown.text("#where"))
    layer = int(shown.text("#where")[6])
    shown.page.hover("#asks li:nth-child(1)")
    weights = look.maps["cross"].weights[layer, :, 0].mean(0)
    best = int(weights.argmax())
    name, value = listed(shown)[0]
    assert name == look.axes["source"].shown[best]
    assert float(value) == pytest.approx(weights[best], abs=6e-4)
    assert shown.page.title() == "A translation"
    assert shown.text("#read") == look.axes["source"].text


def test_the_matrix_tells_the_value_under_the_pointer_and_comes_closer(shown, look):
    shown.page.click('[id="g2.3"]')
    shown.view("matrix")

    def value_at(x: float, y: float) -> tuple[float, int, int]:
        box = shown.page.locator("#matrix").bounding_box()
        shown.page.mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"])
        assert shown.page.is_visible("#tip")
        row, column = (int(sub.inner_text()) for sub in shown.page.query_selector_all("#tip sub"))
        return float(shown.text("#tip strong")), row, column

    weights = look.maps["cross"].weights[2, 3]
    seen = set()
    for x, y in ((0.3, 0.4), (0.45, 0.6), (0.2, 0.65)):
        value, row, column = value_at(x, y)
        assert f"{weights[row, column]:.4f}" == f"{value:.4f}"
        seen.add((row, column))
    assert len(seen) == 3
    before = value_at(0.3, 0.4)[1:]
    for _ in range(4):
        shown.page.mouse.wheel(0, -200)
    after = value_at(0.3, 0.4)
    assert abs(after[1] - before[0]) <= 1, "what is under the pointer stays there"
    near, far = value_at(0.3, 0.4)[2], value_at(0.4, 0.4)[2]
    assert 0 < far - near < 4, "cells are wider now"
    assert f"{weights[after[1], after[2]]:.4f}" == f"{after[0]:.4f}"
    shown.page.mouse.down()
    shown.page.mouse.move(300, 300)
    shown.page.mouse.up()
    shown.page.click("#fit")
    assert value_at(0.3, 0.4)[1:] == before


def test_keys_go_through_heads_layers_and_views(shown):
    shown.press("1")
    start = shown.text("#where")
    shown.press("ArrowRight")
    assert shown.text("#where") == start.replace("mean of its heads", "head 0")
    shown.press("ArrowRight", "ArrowRight", "ArrowRight", "ArrowRight")
    assert shown.text("#where").endswith("head 3"), "there is no fifth"
    shown.press("ArrowUp", "ArrowUp", "ArrowUp")
    assert shown.text("#where") == "Layer 0, head 3"
    shown.press("ArrowDown")
    assert shown.text("#where") == "Layer 1, head 3"
    for key, view in (("2", "matrix"), ("3", "heads"), ("4", "pair"), ("5", "output")):
        shown.press(key)
        assert shown.page.is_visible(f"#view-{view}")
        assert shown.page.get_attribute(f"[data-view={view}]", "aria-selected") == "true"


def test_everything_can_be_reached_with_tab_and_the_focus_is_seen(shown):
    reached = []
    for _ in range(6):
        shown.page.keyboard.press("Tab")
        reached.append(shown.page.evaluate("document.activeElement.id || document.activeElement.textContent"))
    assert reached[0] == "theme"
    assert "grid" in reached
    assert "Lines" in reached
    assert reached[-2:] == ["asks", "seen"]
    outline = shown.page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    shown.press("ArrowDown", "ArrowDown")
    assert shown.text("#values .head").endswith("is looked at by"), "arrows walk through the column"
    shown.press("Escape")
    assert not listed(shown)


def test_kinds_of_attention_and_all_their_heads(shown, look):
    shown.page.click("#kinds button:nth-child(2)")
    shown.settle()
    shown.page.click('[id="g0.1"]')
    shown.settle()
    shown.page.hover("#asks li:nth-child(3)")
    assert sum(float(value) for _, value in listed(shown)) == pytest.approx(1, abs=1e-3)
    assert len(listed(shown)) <= 3, "it looks back only"
    shown.view("heads")
    assert len(shown.page.query_selector_all("#small button")) == 12
    shown.page.click('[id="s2.3"]')
    shown.settle()
    assert shown.page.is_visible("#view-matrix")
    assert shown.text("#where") == "Layer 2, head 3"


def test_a_pair_is_computed_step_by_step_to_the_recorded_weight(shown, look):
    shown.page.click('[id="g1.0"]')
    shown.view("pair")
    shown.page.select_option("#pick-row", "5")
    shown.settle()
    shown.page.select_option("#pick-column", "9")
    shown.settle()
    weight = look.maps["cross"].weights[1, 0, 5, 9]
    assert float(shown.text("#computed")) == pytest.approx(weight, abs=2e-4)
    assert shown.text("#recorded") == f", recorded as {weight:.4f}"
    made = look.maps["cross"].computed
    total = float((made.queries[1, 0, 5] * made.keys[1, 0, 9]).sum())
    figures = [float(number) for number in re.findall(r"-?\d+\.\d+", shown.text(".steps li:nth-child(4) .figure"))]
    assert figures == pytest.approx([total, 1.5, 1.5 * total], abs=2e-3)
    shown.page.click("#kinds button:nth-child(3)")
    shown.settle()
    assert "queries=True" in shown.text("#pair"), "a record without queries says how to keep them"


def test_what_might_have_been_said_is_text_not_markup(shown):
    shown.view("output")
    first = shown.page.query_selector_all("#said li:first-child .options span")
    assert [span.inner_text().split() for span in first] == [
        ["this", "0.500"],
        ["<b>that</b>", "0.250"],
        ["·more", "0.125"],
    ]
    assert shown.text("#said li:first-child .given").startswith("·more")
    assert shown.text("#said li:nth-child(2) .given").split() == ["rare", "0.001"]
    assert shown.page.query_selector("#said .options b b") is None


def test_light_and_dark(browser, path):
    for scheme, paper in (("light", "rgb(253, 253, 251)"), ("dark", "rgb(19, 21, 25)")):
        shown = Shown(browser, path, color_scheme=scheme)
        assert shown.page.evaluate("getComputedStyle(document.documentElement).backgroundColor") == paper
        shown.page.click("#theme")
        shown.settle()
        assert shown.page.evaluate("getComputedStyle(document.documentElement).backgroundColor") != paper
        shown.context.close()


@pytest.mark.parametrize("width", [1280, 400])
def test_nothing_runs_out_at_the_side(browser, path, width):
    shown = Shown(browser, path, viewport={"width": width, "height": 800})
    for view in ("lines", "matrix", "heads", "pair", "output"):
        shown.view(view)
        assert shown.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, view
    assert shown.problems == []
    shown.context.close()


def test_a_translation_is_drawn_within_a_second(browser, path):
    shown = Shown(browser, path)
    assert shown.drawn_after() < 1 * SLACK
    shown.context.close()


@pytest.mark.slow
def test_a_long_text_with_many_heads_is_drawn_within_three_seconds_and_stays_quick(browser, tmp_path):
    n = 512
    found = a_map("self", "text", "text", (12, 12, n, n), seed=0)
    path = Look({"text": axis(n)}, {"self": found}).page(tmp_path / "long.html")
    assert path.stat().st_size < 40e6
    shown = Shown(browser, path)
    assert shown.drawn_after() < 3 * SLACK
    begin = time.perf_counter()
    shown.page.hover("#asks li:nth-child(20)")
    shown.view("heads")
    shown.view("matrix")
    shown.press("ArrowRight", "ArrowDown", "ArrowRight")
    assert time.perf_counter() - begin < 5 * SLACK
    assert shown.text("#where") == "Layer 1, head 1"
    shown.view("lines")
    shown.page.hover("#asks li:nth-child(3)")
    best = int(found.weights[1, 1, 2].argmax())
    assert listed(shown)[0][1] == f"{found.weights[1, 1, 2, best]:.4f}"
    assert shown.problems == []
    shown.context.close()


def test_a_notebook_shows_the_page_in_a_frame(browser, look, tmp_path):
    path = tmp_path / "notebook.html"
    path.write_text(f"<!DOCTYPE html><meta charset=utf-8><body>{look._repr_html_()}</body>", encoding="utf-8")
    page = browser.new_page()
    page.goto(path.as_uri())
    frame = page.frame_locator("iframe")
    frame.locator('html[data-ready="yes"]').wait_for(timeout=10_000)
    assert frame.locator("#read").inner_text() == look.axes["source"].text
    page.close()
