"""Shapes: attention is better than the mean of the image, and looks at the shape that it names."""

import json

import numpy as np
import pytest

import regard
from regard.data.synthetic.shapes import SIDE, shape_scenes
from regard.inspection.look import look_at
from regard.tasks.captions.look import caption_case
from regard.tasks.recipes import find_recipe, make_recipe
from regard.tasks.training import train

SHORT = [
    "data.n_train=1200",
    "data.n_test=150",
    "data.n_valid=60",
    "train.epochs=12",
    "train.device=cpu",
    "train.log_every=1000",
]


def trained(folder, attention):
    recipe = make_recipe(find_recipe("captions/shapes"), [*SHORT, f"model.attention={attention}"])
    train(recipe, folder / attention, data_root=None, resume=False, say=lambda _: None)
    facts = json.loads((folder / attention / "run.json").read_text())
    return {name: metric["value"] for name, metric in facts["metrics"]["test"].items()}


def light_on_named(model, scene):
    """For each kind named: the share of the look that falls within half a location of the shape, and of its area."""
    ids = model.tokenizer.encode(scene.captions[0])
    seen = look_at(caption_case(model.module, model.tokenizer, scene.pixels, ids), alternatives=0)
    words, weights = model.tokenizer.tokens(ids), seen.of("cross").weights[0, 0]
    side = int(np.sqrt(weights.shape[-1]))
    y, x = (np.mgrid[:side, :side] + 0.5) * SIDE / side
    named = [place for place, word in enumerate(words) if word.strip("▁") in ("square", "circle", "triangle", "cross")]
    found = []
    for place, shape in zip(named, scene.shapes, strict=True):
        near = np.maximum(abs(x - shape.x), abs(y - shape.y)) <= shape.half + SIDE / side / 2
        found.append((float(weights[place][near.flatten()].sum()), float(near.mean())))
    return found


@pytest.mark.slow
def test_attention_beats_the_mean_and_looks_at_what_it_names(tmp_path):
    with_attention, without = trained(tmp_path, "additive"), trained(tmp_path, "none")
    assert with_attention["cider-d"] > without["cider-d"] + 30
    assert with_attention["bleu-4"] > without["bleu-4"] + 3
    model = regard.load(tmp_path / "additive", "cpu")
    shares = [share for scene in shape_scenes(40, 9, split="test") for share in light_on_named(model, scene)]
    light, area = np.mean(shares, 0)
    assert light > 2.5 * area
