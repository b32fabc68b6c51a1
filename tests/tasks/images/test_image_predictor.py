"""Classifiers of images as a whole: they learn what can be learnt, say it, are scored and looked into, and resume."""

import json
import shutil

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file

import regard
import tiny_images
from regard.errors import CheckpointError, UsageError
from regard.inspection.record import Look
from regard.tasks.base import ScoreData


@pytest.fixture(scope="module")
def shapes(tmp_path_factory):
    """A classifier of four shapes, its images, and a folder of others."""
    folder = tmp_path_factory.mktemp("shapes")
    place = tiny_images.write_npz(folder / "shapes.npz", 480)
    run, facts = tiny_images.train_images(
        folder, f'data.train=["{place}"]', *tiny_images.NANO, "train.epochs=10", "train.batch_examples=32",
        "train.lr=0.003", "train.optimizer=muon",
    )  # fmt: skip
    return run, facts, tiny_images.write_folder(folder / "photos", 40, seed=7)


def test_it_learns_shapes_whatever_their_colour_and_place(shapes):
    run, facts, photos = shapes
    assert facts["metrics"]["test"]["accuracy"]["value"] > 0.95
    found = next(iter(regard.load(run, "cpu").evaluate(ScoreData([str(photos)], made=run / "data"))))
    assert (found.n, found.unit) == (40, "images")
    assert found.metrics["accuracy"].value > 0.9
    assert found.metrics["accuracy of ring"].signature.startswith("n:10|ci:95%")
    again = next(iter(regard.load(run, "cpu").evaluate(ScoreData(made=run / "data"))))
    assert again.metrics["accuracy"].value == facts["metrics"]["test"]["accuracy"]["value"]
    assert again.data == "test"


def test_predictions_are_classes_with_probabilities(shapes):
    run, _, photos = shapes
    model = regard.load(run, "cpu")
    files = sorted(map(str, photos.glob("*/*.png")))
    said = model(files)
    assert [guess.label for guess in said].count("disc") > 7
    one = model(files[0])
    assert one.record()["label"] == one.label
    assert sum(one.probabilities.values()) == pytest.approx(1)
    assert list(model(files[0], k=2).probabilities) == list(one.probabilities)[:2]
    assert one.probability == pytest.approx(said[0].probability, abs=1e-6), "neighbours do not matter"
    assert model(files[0], flip=True).probability != one.probability
    with pytest.raises(UsageError, match=r"decode.beam is not known"):
        model(files[0], beam=3)
    assert model([]) == []


def test_a_run_that_lost_how_it_reads_images_is_refused(shapes, tmp_path):
    run, _, _ = shapes
    for name in ("config.toml", "model.json", "model.safetensors", "run.json"):
        shutil.copy(run / name, tmp_path / name)
    with pytest.raises(CheckpointError, match=r"images\.json: there is no such file"):
        regard.load(tmp_path, "cpu")
    shutil.copy(run / "images.json", tmp_path)
    regard.load(tmp_path, "cpu")


def test_any_file_of_the_same_image_says_the_same(shapes, tmp_path):
    run, _, photos = shapes
    model = regard.load(run, "cpu")
    first = sorted(photos.glob("disc/*.png"))[0]
    Image.open(first).save(tmp_path / "a.bmp")
    Image.open(first).resize((64, 64), Image.Resampling.NEAREST).save(tmp_path / "large.png")
    assert model(str(tmp_path / "a.bmp")) == model(str(first))
    assert model(str(tmp_path / "large.png")).label == "disc"


def test_what_it_looked_at(shapes, tmp_path):
    run, _, photos = shapes
    path = str(sorted(photos.glob("ring/*.png"))[0])
    seen = regard.load(run, "cpu").look(path, queries=True)
    made = seen.maps["self"].computed
    scores = made.scale * np.einsum("lhte,lhse->lhts", made.queries, made.keys)
    explicit = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    np.testing.assert_allclose(seen.weights["self"], explicit, atol=2e-6)
    assert seen.axes["image"].kind == "patches"
    assert seen.axes["image"].labels[:5] == ["0,0", "0,1", "0,2", "0,3", "1,0"]
    assert seen.weights["self"].shape == (3, 3, 16, 16)
    assert seen.weights["pool"].shape == (1, 1, 1, 16)
    assert seen.outputs.tokens[0][0] == regard.load(run, "cpu")(path).label
    for light in (seen.looked_at(), seen.looked_at(layer=0, head=2), seen.rolled_out(), seen.pooled()):
        assert light.shape == (4, 4)
        assert light.sum() == pytest.approx(1, abs=1e-5)
    np.testing.assert_allclose(
        seen.looked_at(layer=1, head=2).reshape(-1), seen.weights["self"][1, 2].mean(0), rtol=1e-5
    )
    assert seen.plot(tmp_path / "seen.png").stat().st_size > 10_000
    assert seen.plot(tmp_path / "heads.png", picture="heads", layer=0).exists()
    text = seen.page(tmp_path / "seen.html").read_text()
    assert "ring" in text
    assert "{{" not in text
    assert Look.load(seen.save(tmp_path / "seen.npz")).weights["self"].shape == (3, 3, 16, 16)
    for wrong in (lambda: seen.looked_at(head=3), lambda: seen.looked_at(layer=9), lambda: seen.plot("a.gif")):
        with pytest.raises(UsageError):
            wrong()
    with pytest.raises(UsageError, match="writes nothing"):
        regard.load(run, "cpu").look(path, "cat")


@pytest.mark.parametrize("pooling", ["class", "mean"])
def test_other_poolings_are_looked_at_too(pooling, tmp_path):
    place = tiny_images.write_npz(tmp_path / "s.npz", 40)
    given = [*tiny_images.NANO, f"model.pooling={pooling}", "train.epochs=1", "train.batch_examples=20"]
    run, _ = tiny_images.train_images(tmp_path, f'data.train=["{place}"]', *given)
    path = tiny_images.write_folder(tmp_path / "photos", 4) / "bars" / "000.png"
    seen = regard.load(run, "cpu").look(str(path))
    weights = seen.weights["self"][-1].mean(0)
    expected = weights[0, 1:] / weights[0, 1:].sum() if pooling == "class" else weights.mean(0)
    np.testing.assert_allclose(seen.looked_at().reshape(-1), expected, rtol=1e-4)
    assert seen.pooled() is None
    assert seen.rolled_out().shape == (4, 4)
    assert seen.plot(tmp_path / "seen.png", layer=0).exists()


def test_promises_hold_and_models_compare(shapes):
    run, _, photos = shapes
    model = regard.load(run, "cpu")
    assert all(finding.kept for finding in model.verify(ScoreData(made=run / "data"), n=6))
    data = ScoreData([str(photos)], made=run / "data")
    compared = next(iter(model.compare(regard.load(run, "cpu"), data, resamples=20)))
    assert (compared.n, compared.comparisons[0].difference) == (40, 0)


def test_resumed_is_uninterrupted_to_the_bit(tmp_path):
    """With everything that is drawn at random: crops, operations, boxes, mixes, skipped blocks, dropout."""
    from regard.tasks.recipes import find_recipe, make_recipe
    from regard.tasks.training import train

    place = tiny_images.write_npz(tmp_path / "s.npz", 48)
    drawn = ["train.operations=2", "train.erase=0.5", "train.mixup=0.8", "train.cutmix=1.0", "model.skip=0.2",
             "model.dropout=0.1", "model.attention_dropout=0.1", "train.ema=0.9", "train.optimizer=muon"]  # fmt: skip
    given = [f'data.train=["{place}"]', *tiny_images.NANO, *tiny_images.QUICK, *drawn, "train.epochs=0",
             "train.eval_every=3", "train.save_every=3", "train.batch_examples=16",
             "train.schedule=constant"]  # fmt: skip

    def go(name, steps, resume=False):
        recipe = make_recipe(find_recipe("images"), [*given, f"train.steps={steps}"])
        train(recipe, tmp_path / name, data_root=None, resume=resume, say=lambda _: None)

    go("whole", 9)
    go("parts", 3)
    go("parts", 9, resume=True)
    ends = [load_file(tmp_path / name / "model.safetensors") for name in ("whole", "parts")]
    assert all(torch.equal(ends[0][name], ends[1][name]) for name in ends[0])
    facts = [json.loads((tmp_path / name / "run.json").read_text())["metrics"] for name in ("whole", "parts")]
    assert facts[0] == facts[1]
    held = sorted(entry.name for entry in (tmp_path / "parts" / "data").iterdir())
    assert len(held) == 2, "images are decoded once, for training and for the test"


@pytest.mark.parametrize("size", ["24", "[20, 28]"])
def test_images_of_any_sizes_are_brought_to_one(size, tmp_path):
    chance = np.random.default_rng(0)
    for number in range(16):
        label = ("cat", "dog")[number % 2]
        (tmp_path / "photos" / label).mkdir(parents=True, exist_ok=True)
        levels = chance.integers(0, 256, (*chance.integers(9, 60, 2), 3), dtype=np.uint8)
        Image.fromarray(levels).save(tmp_path / "photos" / label / f"{number}.jpg")
    run, facts = tiny_images.train_images(
        tmp_path, f'data.train=["{tmp_path / "photos"}"]', f"data.size={size}", *tiny_images.NANO, "train.epochs=1",
        "train.zoom=[0.3, 1.0]", "train.batch_examples=999",
    )  # fmt: skip
    assert facts["images"] == 14
    assert regard.load(run, "cpu")(str(tmp_path / "photos" / "cat" / "0.jpg")).label in ("cat", "dog")
