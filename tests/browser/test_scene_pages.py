"""One frame for every sense, in a real browser: each page opens offline, obeys its controls, and can be read."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from test_image_page import digit, drawn, image_look
from test_page import CHROMIUM, Shown, a_map, axis, browser, translation

from regard.inspection.record import About, Axis, Look
from regard.tasks.captions.look import CaptionLook
from regard.tasks.series.look import SeriesLook, ShownForecast
from regard.tasks.speech.look import Sound, SpeechLook

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium found")
assert browser  # the fixture
RATE = 8000


def wait_until(page, expression: str, *, seconds: float = 30.0) -> None:
    """Wait for an expression to be true: the page's policy forbids what playwright would have it evaluate by itself."""
    until = time.monotonic() + seconds
    while not page.evaluate(expression):
        assert time.monotonic() < until, expression
        page.wait_for_timeout(50)


def caption_look() -> CaptionLook:
    """A photo's record: 4 × 4 places, two layers of two heads."""
    side, caption = 4, axis(6)
    axes = {"image": Axis([str(i) for i in range(side**2)], "patches"), "caption": caption, "fed": axis(6, end=False)}
    maps = {
        "cross": a_map("cross", "caption", "image", (2, 2, 6, 16), seed=3),
        "masked": a_map("masked", "caption", "fed", (2, 2, 6, 6), seed=4),
    }
    image = np.random.default_rng(0).integers(0, 256, (3, 64, 64), dtype=np.uint8)
    return CaptionLook(axes, maps, None, "a dog", image, about=About("captions", "captioner", "dog.jpg"))


def series_look(*, patches: bool = False) -> SeriesLook:
    """A wave: 24 steps are read, 6 are forecast with bounds, and what came is known."""
    n, T = 24, 6
    wave = np.sin(np.arange(n + T) / 3)
    times = [f"2021-01-{day:02}" for day in range(1, n + T + 1)]
    future, band = Axis(times[n:], "steps"), np.stack([wave[n:] - 0.4, wave[n:] + 0.4], 1)
    if patches:
        spans = np.stack([np.arange(0, 20, 4), np.arange(8, 28, 4)], 1)
        past = Axis([f"{times[a]} … {times[b - 1]}" for a, b in spans], "steps")
        maps = {"self": a_map("self", "past", "past", (2, 3, 5, 5), seed=6)}
    else:
        spans, past = np.stack([np.arange(n), np.arange(n) + 1], 1), Axis(times[:n], "steps")
        maps = {
            "cross": a_map("cross", "future", "past", (2, 3, T, n), seed=6),
            "masked": a_map("masked", "future", "future", (2, 3, T, T), seed=7),
        }
    shown = ShownForecast("height", wave[:n], wave[n:] + 0.1, band, times, spans, n, truth=wave[n:])
    axes = {"past": past, "future": future}
    return SeriesLook(axes, maps, None, "height: 6 steps", shown, about=About("series", "patches", "a.csv"))


def speech_look(seconds: float = 2.0, texts: tuple[str, ...] = ("top", "low", "high")) -> SpeechLook:
    """A recording of some words, spoken one after the other: attention goes along the diagonal."""
    n, each = 50, len(texts)
    labels = [*(f"▁{text}" for text in texts), "</s>"]
    centres = (np.arange(each + 1) + 0.5) / (each + 1) * n
    scores = -0.5 * ((np.arange(n) - centres[:, None]) / 3) ** 2
    weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    cross = a_map("cross", "target", "source", (2, 2, each + 1, n), seed=8)
    cross.weights[:] = weights
    samples = np.sin(np.arange(int(seconds * RATE)) / 5).astype(np.float32)
    mel = np.random.default_rng(0).normal(size=(100, 8)).astype(np.float32)
    groups = [(text, [i]) for i, text in enumerate(texts)]
    sound = Sound(mel, seconds / 100, seconds / n, samples, RATE, groups)
    axes = {"source": Axis([f"{i}" for i in range(n)], "frames"), "target": Axis(labels)}
    return SpeechLook(axes, {"cross": cross}, None, "a.wav", sound, about=About("speech", "las", "a.wav"))


LOOKS = {
    "image": lambda: image_look(digit()),
    "captions": caption_look,
    "series": series_look,
    "series of patches": lambda: series_look(patches=True),
    "speech": speech_look,
    "text": translation,
}


@pytest.fixture(scope="module")
def paths(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    return {name: make().page(folder / f"{name}.html") for name, make in LOOKS.items()}


def opened(browser, look: Look, folder: Path, **options) -> Shown:
    return Shown(browser, look.page(folder / "seen.html"), **options)


@pytest.mark.parametrize("width", [1440, 375])
@pytest.mark.parametrize("name", LOOKS)
def test_every_page_is_quiet_offline_and_readable(browser, paths, name, width):
    shown = Shown(browser, paths[name], viewport={"width": width, "height": 800})
    for view in shown.page.evaluate("[...document.querySelectorAll('[data-view]')].map(tab => tab.dataset.view)"):
        shown.view(view)
        assert shown.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, view
        smallest = shown.page.evaluate(
            """Math.min(...[...document.querySelectorAll("body *")].filter(e => e.checkVisibility() &&
            [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim())).map(e =>
            parseFloat(getComputedStyle(e).fontSize)))"""
        )
        assert smallest >= 12, view
    assert (shown.problems, shown.asked) == ([], [])
    shown.context.close()


@pytest.mark.parametrize("name", LOOKS)
def test_light_and_dark_differ_and_can_be_switched(browser, paths, name):
    papers, pictures = {}, {}
    for scheme in ("light", "dark"):
        shown = Shown(browser, paths[name], color_scheme=scheme)
        paper = "getComputedStyle(document.documentElement).backgroundColor"
        papers[scheme], pictures[scheme] = shown.page.evaluate(paper), shown.page.screenshot()
        shown.page.click("#theme")
        shown.settle()
        assert shown.page.evaluate(paper) != papers[scheme]
        shown.context.close()
    assert papers["light"] != papers["dark"]
    assert pictures["light"] != pictures["dark"]


@pytest.mark.parametrize("name", LOOKS)
def test_there_is_a_scale_from_nothing_to_the_most(browser, paths, name):
    shown = Shown(browser, paths[name])
    assert shown.page.is_visible("#scale")
    assert re.fullmatch(r"0\s+(1|0\.\d+( and more)?)", shown.text("#scale"))
    bar = drawn(shown, "#bar").astype(int)[0]
    assert (np.diff(bar.mean(-1)[::16]) < 0).all(), "lighter to darker, in even steps"
    assert shown.page.get_attribute("#scale", "aria-label").startswith("Colour scale: from 0 to")
    shown.context.close()


@pytest.mark.parametrize("name", LOOKS)
def test_heads_and_layers_change_what_is_shown(browser, paths, name):
    shown = Shown(browser, paths[name])
    canvas = {"text": "#strings", "series": "#series", "series of patches": "#series", "speech": "#sound"}.get(
        name, "#image"
    )
    before, where = drawn(shown, canvas), shown.text("#where")
    shown.press("ArrowRight", "ArrowRight", "ArrowDown" if "ayer 0" in where else "ArrowUp")
    assert shown.text("#where") != where
    after = drawn(shown, canvas)
    changed = before.shape != after.shape or (before != after).any()
    assert changed or name == "speech", "in the record of speech all heads are the same"
    shown.context.close()


@pytest.mark.parametrize("name", LOOKS)
def test_a_page_stays_small(paths, name):
    assert paths[name].stat().st_size < 1e6


# ---- captions


def test_words_of_a_caption_are_pointed_at_and_held(browser, tmp_path):
    look = caption_look()
    shown = opened(browser, look, tmp_path)
    assert shown.text("#kicker") == "captions · captioner"
    assert (shown.text("#read"), shown.text("#wrote")) == ("dog.jpg", "a dog")
    words = shown.page.query_selector_all("#strip b")
    assert [word.inner_text() for word in words] == look.words
    assert "All words, on average," in shown.text("#told")
    shown.page.hover("#strip button:nth-child(3)")
    shown.settle()
    layer = int(shown.text("#where")[6])
    weights = look.weights["cross"][layer].mean(0)[2]
    best = divmod(int(weights.argmax()), 4)
    said = (
        f"“{look.words[2]}” looked most at row {best[0]}, column {best[1]} of 4 × 4 places (weight {weights.max():.3f})"
    )
    assert shown.text("#told").startswith(said)
    pixels = drawn(shown).astype(int)
    cells = (pixels.max(-1) - pixels.min(-1)).reshape(4, 16, 4, 16)[:, 6:10, :, 6:10].mean((1, 3))
    assert divmod(int(cells.argmax()), 4) == best
    shown.page.mouse.move(2, 2)
    shown.settle()
    assert "All words" in shown.text("#told")
    shown.page.focus("#strip button:nth-child(1)")
    shown.press("Enter", "Tab")
    assert f"“{look.words[0]}”" in shown.text("#told"), "a word that is held stays"
    assert shown.page.get_attribute("#strip button:nth-child(1)", "aria-pressed") == "true"
    shown.page.click("#kinds button:nth-child(2)")
    shown.settle()
    assert shown.page.is_visible("#view-lines"), "a caption's own past is no image"
    assert (shown.problems, shown.asked) == ([], [])
    shown.context.close()


# ---- series


def test_a_step_of_the_forecast_shows_its_weights(browser, tmp_path):
    look = series_look()
    shown = opened(browser, look, tmp_path)
    assert shown.text("#kicker") == "series · patches · a.csv"
    for name in ("known", "forecast", "its bounds", "what came"):
        assert name in shown.text(".key")
    before = drawn(shown, "#series")
    shown.page.click('[id="g1.2"]')
    shown.settle()
    shown.page.focus("#step")
    shown.press("Home", "ArrowRight", "ArrowRight")
    assert shown.text("#where") == "Layer 1, head 2", "the slider's arrows move the slider alone"
    weights, times = look.weights["cross"][1, 2, 2], look.axes["past"].labels
    told = shown.text("#told")
    assert told.endswith(f"It looked most at {times[int(weights.argmax())]} (weight {weights.max():.3f}).")
    low, high = look.forecast.band[2]
    assert f"({low:.5g} to {high:.5g})" in told
    assert f"it was {look.forecast.truth[2]:.5g}" in told
    assert shown.text("#most") == f"{weights.max():#.2g}"
    assert (drawn(shown, "#series") != before).any()
    shown.page.click("#all")
    shown.settle()
    box = shown.page.locator("#series").bounding_box()
    shown.page.mouse.move(box["x"] + box["width"] - 12, box["y"] + 60)
    shown.settle()
    assert shown.text("#told").startswith("2021-01-30: "), "the last step is under the pointer"
    shown.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 60)
    shown.settle()
    assert shown.text("#told").startswith("On average over all steps")
    assert (shown.problems, shown.asked) == ([], [])
    shown.context.close()


def test_places_of_several_steps_share_their_weight(browser, tmp_path):
    look = series_look(patches=True)
    shown = opened(browser, look, tmp_path)
    assert "shares its weight among them" in shown.text("#how")
    shares = look.looked_at(layer=0)
    assert shown.text("#most") == f"{shares.max():#.2g}"
    box = shown.page.locator("#series").bounding_box()
    shown.page.mouse.move(box["x"] + 60, box["y"] + 60)
    shown.settle()
    assert shown.text("#told").startswith("2021-01-01 … 2021-01-08 looked most at")
    shown.context.close()


def test_columns_beside_a_series_are_shown_and_told(browser, tmp_path):
    bare = series_look()
    beside = (("promo", [float(i % 5 == 0) for i in range(30)]), ("weather", ["sun", "rain"] * 12 + [None] * 6))
    shown = opened(browser, replace(bare, forecast=replace(bare.forecast, beside=beside)), tmp_path)
    assert "columns beside the series" in shown.text("#how")
    shown.page.focus("#step")
    shown.press("Home", "ArrowRight")
    assert ", with promo 1." in shown.text("#told"), "what is not known in advance is not told"
    tall = shown.page.locator("#series").bounding_box()["height"]
    plain = opened(browser, bare, tmp_path)
    assert tall == plain.page.locator("#series").bounding_box()["height"] + 40
    assert (shown.problems, shown.asked) == ([], [])
    shown.context.close()
    plain.context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_shares_of_the_linear_model_are_seen_on_bars_of_any_shade(browser, tmp_path, scheme):
    """Dashes as pale as the highest bar lie on a ground of the page's own colour."""
    bare = series_look()
    weights = np.full((2, 3, 6, 24), 1 / 24, np.float32)
    maps = bare.maps | {"cross": replace(bare.maps["cross"], weights=weights)}
    pictures = []
    for linear in (None, np.full(24, 1 / 24)):
        look = replace(bare, maps=maps, forecast=replace(bare.forecast, linear=linear))
        shown = opened(browser, look, tmp_path, color_scheme=scheme)
        pictures.append(drawn(shown, "#series").astype(int))
        shown.context.close()
    changed = np.abs(pictures[0] - pictures[1]).sum(-1)
    assert (changed > 150).sum() > 200


# ---- speech


def test_words_light_up_while_the_sound_plays_and_lead_to_their_place(browser, tmp_path):
    look = speech_look()
    assert [word.word for word in look.words] == ["top", "low", "high"]
    assert [word.start for word in look.words] == sorted(word.start for word in look.words)
    shown = opened(browser, look, tmp_path)
    page = shown.page
    wait_until(page, "document.getElementById('player').readyState > 1")
    assert page.evaluate("document.getElementById('player').duration") == pytest.approx(2, abs=0.01)
    page.click("#words button:nth-child(2)")
    page.wait_for_selector("#words button:nth-child(2).now")
    start, end = look.words[1].start, look.words[1].end
    assert page.evaluate("document.getElementById('player').currentTime") == pytest.approx(start, abs=0.01)
    weights = look.weights["cross"][0, 0, 1]
    told = f"“low”, said from {start:.2f} to {end:.2f} s, looked most at {weights.argmax() * 0.04:.2f} s"
    assert shown.text("#told").startswith(told)
    assert shown.text("#most") == f"{weights.max():#.2g}"
    page.evaluate("document.getElementById('player').muted = true; document.getElementById('player').play()")
    page.wait_for_selector("#words button:nth-child(3).now", timeout=8000)
    assert len(page.query_selector_all("#words .now")) == 1
    page.evaluate("document.getElementById('player').pause()")
    assert (shown.problems, shown.asked) == ([], [])
    shown.context.close()


def test_sound_that_is_too_long_is_not_put_in_and_said(browser, tmp_path):
    look = speech_look(seconds=90)
    path = look.page(tmp_path / "long.html")
    assert path.stat().st_size < 1e6
    shown = Shown(browser, path)
    assert shown.page.query_selector("#player") is None
    assert "lasts 90 s. Sound of up to 75 s is put into a page" in shown.text("#too-long")
    shown.page.click("#words button:nth-child(1)")
    shown.settle()
    assert "“top”" in shown.text("#told")
    assert shown.problems == []
    shown.context.close()


def test_a_page_with_all_the_sound_it_may_hold_stays_below_five_megabytes(tmp_path):
    assert 1.5e6 < speech_look(seconds=74.9).page(tmp_path / "a.html").stat().st_size < 5e6


def test_a_recording_without_words_is_shown_all_the_same(browser, tmp_path):
    shown = opened(browser, speech_look(texts=()), tmp_path)
    assert shown.text("#wrote") == "(nothing was written)"
    assert shown.text("#told").startswith("The model wrote no words.")
    assert shown.problems == []
    shown.context.close()


INTRUDERS = """
<script>document.title = "intruded"</script>
<img src="x" onerror="document.title = 'intruded'">
<p id="coloured" style="color: rgb(255, 0, 0)">a</p>
<style>#coloured { font-size: 99px }</style>
<img src="https://nowhere.example/a.png"><link rel="stylesheet" href="https://nowhere.example/a.css">
<iframe src="https://nowhere.example/"></iframe><form id="form" action="https://nowhere.example/"></form>
<base href="https://nowhere.example/">
"""


@pytest.mark.parametrize("make", [translation, caption_look, series_look, speech_look])
def test_markup_that_got_into_a_page_does_nothing(browser, tmp_path, make):
    """Whatever found its way in: it cannot run, load, send or look like the page, and the page itself works."""
    path = make().page(tmp_path / "a.html")
    text = Path(path).read_text(encoding="utf-8")
    Path(path).write_text(text.replace("<body>", f"<body>{INTRUDERS}"), encoding="utf-8")
    shown = Shown(browser, path)
    title = shown.page.title()
    shown.page.evaluate("fetch('https://nowhere.example/').catch(() => 0)")
    shown.page.wait_for_timeout(200)
    assert shown.page.title() == title != "intruded"
    styled = shown.page.evaluate("(({color, fontSize}) => [color, fontSize])(getComputedStyle(coloured))")
    assert styled[0] != "rgb(255, 0, 0)"
    assert styled[1] != "99px"
    assert shown.asked == []
    assert len(shown.problems) >= 6, "the browser says what it refused"
    assert all("Content Security Policy" in one for one in shown.problems), shown.problems
    shown.view("heads")
    shown.context.close()
