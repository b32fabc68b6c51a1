"""One test over all kinds of models: the record holds what the explicit computation gives, and comes back."""

import numpy as np
import pytest
import torch

import regard
from looking_scenes import IDS, SCENES
from regard.inspection.look import Look, look_at, look_at_points
from regard.inspection.record import Computed, Map
from regard.models.nadaraya_watson import NadarayaWatson


def explicit(found: Map, made: Computed) -> np.ndarray:
    """The weights from the queries and keys alone, in double precision: (L, H, T, S)."""
    q, k = made.queries.astype(np.float64)[..., :, None, :], made.keys.astype(np.float64)[..., None, :, :]
    v = None if made.vector is None else made.vector.astype(np.float64)[:, None, None, None]
    terms = {
        "dot": lambda: q * k,
        "tanh": lambda: v * np.tanh(q + k),
        "relu": lambda: v * np.maximum(0, q + k),
        "gaussian": lambda: -((q - k) ** 2) / 2,
    }[made.form]()
    scores = made.scale * terms.sum(-1)
    if found.kind == "masked":
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


@pytest.mark.parametrize("name", SCENES)
def test_weights_are_those_of_the_explicit_computation(name):
    case = SCENES[name]()
    with torch.inference_mode():
        plain = case.run()
    seen = look_at(case, queries=True)
    with torch.inference_mode():
        after = case.run()
    torch.testing.assert_close(plain, after, rtol=0, atol=0, msg="looking leaves nothing behind")
    assert seen.maps
    for found in seen.maps.values():
        assert found.computed is not None
        np.testing.assert_allclose(found.weights, explicit(found, found.computed), atol=2e-6)
        np.testing.assert_allclose(found.weights.sum(-1), 1, atol=1e-5)
        assert np.ptp(found.weights) > 0.01, "an even map would fit anything"
    if name == "bert without words":
        assert seen.outputs is None
    else:
        assert all(row == sorted(row, reverse=True) for row in seen.outputs.probabilities)
        assert len(seen.outputs.tokens) == len(seen.axes[seen.outputs.axis])


@pytest.mark.parametrize("name", SCENES)
def test_a_record_round_trips(name, tmp_path):
    seen = look_at(SCENES[name](), queries=True)
    for again in (Look.from_json(seen.to_json()), Look.load(seen.save(tmp_path / "a.npz"))):
        assert again.to_json() == seen.to_json()


@pytest.mark.parametrize("name", ["transformer", "gpt", "bert", "classifier pooled"])
def test_one_layer_is_that_layer_of_all(name):
    case = SCENES[name]()
    whole = look_at(case)
    kind = next(iter(whole.maps))
    last = whole.maps[kind].layers[-1]
    alone = look_at(case, layers=[last], kinds=[kind])
    assert list(alone.maps) == [kind]
    np.testing.assert_array_equal(alone.maps[kind].of_layer(last), whole.maps[kind].of_layer(last))


def test_pooling_asks_from_the_label_and_spans_begin_and_end():
    pooled = look_at(SCENES["classifier pooled"]())
    assert {kind: (found.rows, found.columns) for kind, found in pooled.maps.items()} == {
        "self": ("text", "text"),
        "pool": ("label", "text"),
    }
    assert pooled.maps["pool"].weights.shape == (1, 1, 1, len(IDS))
    assert sorted(pooled.outputs.tokens[0]) == ["no", "perhaps", "yes"]
    assert sum(pooled.outputs.probabilities[0]) == pytest.approx(1, abs=1e-5)
    spans = look_at(SCENES["span reader"](), alternatives=len(IDS))
    assert spans.axes["answer"].labels == ["begins", "ends"]
    assert sorted(spans.outputs.tokens[1]) == sorted(spans.axes["text"].shown)


def test_a_checkpoint_of_others_is_looked_at_like_our_own(data_root):
    file = data_root / "stories260k" / "stories260K.bin"
    if not file.exists():
        pytest.skip(f"{file} is absent")
    seen = regard.load(file, "cpu").look("Once upon a time", " there was a girl", queries=True)
    found = seen.maps["masked"]
    assert found.weights.shape[:2] == (5, 8)
    np.testing.assert_allclose(found.weights, explicit(found, found.computed), atol=2e-6)
    assert seen.axes["text"].text == "Once upon a time there was a girl"
    token, probability = seen.outputs.given[2]
    assert (token, seen.outputs.tokens[2][0]) == ("▁a", "▁a")
    assert probability > 0.9, "it has read stories"


@pytest.mark.parametrize("features", [1, 4])
def test_nadaraya_watson_is_a_record_too(features, tmp_path):
    random = np.random.default_rng(0)
    X, y = random.normal(size=(12, features)), random.normal(size=12)
    model = NadarayaWatson(bandwidth=[0.5] * features).fit(X, y)
    asked = random.normal(size=(3, features))
    seen = look_at_points(model, asked, queries=True)
    found = seen.maps["kernel"]
    np.testing.assert_allclose(found.weights[0, 0], model.weights(asked), atol=1e-6)
    np.testing.assert_allclose(found.weights, explicit(found, found.computed), atol=1e-5)
    np.testing.assert_allclose(found.weights[0, 0] @ y, model.predict(asked), atol=1e-5)
    assert len(seen.axes["points"]) == 12
    assert seen.axes["queries"].kind == "points"
    assert Look.load(seen.save(tmp_path / "a.npz")).to_json() == seen.to_json()
