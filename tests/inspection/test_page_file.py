"""The page as a file: whole, alone, and with every number in it, as far as can be told without a browser."""

import base64
import hashlib
import json
import re
import zlib
from dataclasses import replace

import numpy as np
import pytest

from looking_scenes import SCENES
from regard.inspection.look import look_at
from regard.inspection.page import Scene, fitting, page
from regard.inspection.record import Axis, Computed, Look, Map


def piece(text: str, name: str) -> bytes:
    found = re.search(f'<script type="text/plain" id="{re.escape(name)}">([^<]*)</script>', text)
    assert found, name
    return zlib.decompress(base64.b64decode(found[1]), -15)


def record(text: str) -> dict:
    return json.loads(re.search(r'<script type="application/json" id="record">(.*?)</script>', text, re.DOTALL)[1])


def test_every_weight_is_in_it_to_four_decimals():
    seen = look_at(SCENES["transformer"](), queries=True)
    text = page(seen)
    kinds = [found["kind"] for found in record(text)["maps"]]
    assert kinds == ["cross", "masked", "self"]
    for number, kind in enumerate(kinds):
        weights = seen.maps[kind].weights
        for layer, head in np.ndindex(*weights.shape[:2]):
            planes = np.frombuffer(piece(text, f"w{number}.{layer}.{head}"), np.uint8).astype(int).reshape(2, -1)
            kept = (planes[0] * 256 + planes[1]).reshape(weights.shape[2:]) / 10000
            np.testing.assert_allclose(kept, weights[layer, head], atol=5.1e-5)
    made = seen.maps["cross"].computed
    spec = record(text)["maps"][0]["computed"]
    numbers = np.frombuffer(piece(text, "q0.1.2"), "<i2") / 32767
    n_queries = made.queries[1, 2].size
    np.testing.assert_allclose(numbers[:n_queries] * spec["range"][1][2][0], made.queries[1, 2].ravel(), atol=1e-3)
    np.testing.assert_allclose(numbers[n_queries:] * spec["range"][1][2][1], made.keys[1, 2].ravel(), atol=1e-3)


@pytest.mark.parametrize("name", ["recurrent fed", "gpt", "bert without words", "classifier pooled", "span reader"])
def test_it_stands_alone_and_begins_with_what_is_shown_first(name):
    text = page(look_at(SCENES[name]()))
    assert not re.search(r"""(src|href)\s*=|https?:|@import|url\(""", text), "nothing is fetched from anywhere"
    assert "{{" not in text.replace("{{ ", "")
    start = record(text)["maps"][0]["start"][0]
    assert text.index(f'id="w0.{start}.0"') < text.index('"use strict"')
    assert text.rstrip().endswith("</html>")


def test_what_a_text_says_is_never_markup():
    bad = "</script><img src=x onerror=alert(1)>{{rest}}"
    found = Map("self", "text", "text", np.eye(2, dtype=np.float32)[None, None], (0,), (0,))
    text = page(Look({"text": Axis([bad, "b"])}, {"self": found}, None, bad))
    assert "<img" not in text
    assert record(text)["axes"]["text"]["shown"][0] == bad.replace(" ", "␣")
    assert text.count('id="w0.0.0"') == 1


def test_small_pictures_keep_the_strongest_of_what_falls_together():
    weights = np.zeros((1, 1, 100, 100), np.float32)
    weights[0, 0, 50, 99] = 1
    text = page(Look({"text": Axis(["a"] * 100)}, {"self": Map("self", "text", "text", weights, (0,), (0,))}))
    small = np.frombuffer(piece(text, "t0"), np.uint8).reshape(48, 48)
    assert small[24, 47] == 255
    assert small.sum() == 255


def many(kind: str, n_layers: int, n_heads: int, n: int) -> Map:
    weights = np.random.default_rng(0).dirichlet(np.full(n, 0.05), (n_layers, n_heads, n)).astype(np.float32)
    return Map(kind, "text", "text", weights, tuple(range(n_layers)), tuple(range(n_heads)))


def test_what_does_not_fit_is_left_out_and_said():
    large, small = many("cross", 6, 2, 20), many("self", 3, 2, 10)
    kept, notes = fitting([large, small], 10_000)
    assert (kept, notes) == ([large, small], [])
    kept, notes = fitting([large, small], 2_500)
    assert [one.layers for one in kept] == [(0, 2, 5)]
    np.testing.assert_array_equal(kept[0].weights, large.weights[[0, 2, 5]])
    assert notes == ["of cross-attention only layers 0, 2, 5 are kept", "self-attention is left out"]
    kept, notes = fitting([large], 5)
    assert (kept[0].layers, kept[0].heads) == ((5,), (0,)), "a page is never empty"
    assert notes == ["of cross-attention only layers 5 and heads 0 are kept"]


def test_what_is_computed_goes_with_the_layers_that_are_kept():
    seen = look_at(SCENES["recurrent fed"](), queries=True)
    attention = replace(seen.of("cross"), computed=seen.of("cross").computed)
    kept, notes = fitting([attention], attention.weights.size)
    assert (kept[0], notes) == (attention, [])
    large = many("self", 4, 3, 5)
    made = Computed("dot", 1.0, np.random.default_rng(1).random((4, 3, 5, 2), np.float32), large.weights[..., :2])
    [kept], _ = fitting([replace(large, computed=made)], 2 * 3 * 25)
    np.testing.assert_array_equal(kept.computed.queries, made.queries[[0, 3]])


@pytest.mark.parametrize("n", [197, 400])
def test_a_page_with_a_scene_stays_below_five_megabytes(n):
    scene = Scene("Image", "const sceneOf = null;", ("self",), read="a.png")
    text = page(Look({"text": Axis(["a"] * n)}, {"self": many("self", 12, 6, n)}), scene)
    assert 1e6 < len(text) < 5e6
    [note] = record(text)["notes"]
    assert note.startswith("of self-attention only layers ")


@pytest.mark.parametrize("scene", [None, Scene("own", "VIEWS.own = 1;", ("self",), "an input")])
def test_a_browser_may_run_the_frame_and_nothing_else(scene):
    found = Map("self", "text", "text", np.eye(2, dtype=np.float32)[None, None], (0,), (0,))
    text = page(Look({"text": Axis(["a", "b"])}, {"self": found}, None, "'; script-src *"), scene)
    meta = re.search(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', text)
    head, rules = text[: meta.start()], meta[1]
    assert "<script" not in head
    assert "<style" not in head
    allowed = dict(rule.split(" ", 1) for rule in rules.split("; "))
    own = {
        tag: [
            f"'sha256-{base64.b64encode(hashlib.sha256(one.encode()).digest()).decode()}'"
            for one in re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        ]
        for tag in ("script", "style")
    }
    assert allowed == {
        "default-src": "'none'",
        "script-src": " ".join(own["script"]),
        "style-src": " ".join(own["style"]),
        "img-src": "data:",
        "media-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    assert len(own["script"]) == len(own["style"]) == 1
    assert not re.search(r"""\s(style|on\w+)=["']""", text), "attributes would need to be allowed, too"
