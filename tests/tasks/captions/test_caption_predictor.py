"""A trained captioner: what it says, how it is scored and compared, where it looks, and what it promises."""

import json
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

import regard
import tiny_captions
from regard.errors import DataError, UsageError
from regard.tasks.base import ScoreData
from regard.tasks.captions.look import CaptionLook

TRANSFORMER = (
    "model={name='transformer-captioner',widths=[8,12,16],n_blocks=1,d_model=16,n_heads=2,d_feedforward=32,"
    "n_encoder_layers=1,n_decoder_layers=2}"
)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """What is made on the way lies where the test runs."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("attend")
    tiny_captions.train_captions(folder)
    return folder


@pytest.fixture(scope="module")
def model(folder):
    return regard.load(folder / "run", "cpu")


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    return regard.load(
        tiny_captions.train_captions(tmp_path_factory.mktemp("other"), TRANSFORMER, "train.epochs=4"), "cpu"
    )


def picture(folder, left="red", right="blue"):
    return str(folder / "pictures" / f"{left}-{right}-0.png")


def test_it_says_what_is_on_an_image_and_what_else_it_might_have_said(model, folder):
    said = model(picture(folder), beam=3, n_best=3)
    assert "red" in said.text or "blue" in said.text
    record = said.record()
    assert record["image"] == picture(folder)
    assert record["text"] == said.plain() == said.text
    assert len(record["alternatives"]) == 2
    scores = [record["score"], *(one["score"] for one in record["alternatives"])]
    assert scores == sorted(scores, reverse=True)
    assert model(picture(folder), prefix="a blue half").text.startswith("a blue half")


def test_one_image_is_captioned_as_among_others(model, folder):
    paths = [picture(folder, left, right) for left in ("red", "white") for right in ("blue", "green")]
    together = model(paths, strategy="sample", seed=3)
    assert [one.text for one in together] == [model([path], strategy="sample", seed=3)[0].text for path in paths]


def test_images_of_any_kind_are_read(model, tmp_path):
    Image.new("L", (50, 30), 240).save(tmp_path / "grey.png")
    Image.new("RGBA", (5, 90), (255, 0, 0, 128)).save(tmp_path / "thin.png")
    assert all(one.text for one in model([str(tmp_path / "grey.png"), str(tmp_path / "thin.png")]))
    with pytest.raises(DataError, match=r"gone\.png: cannot be read"):
        model(str(tmp_path / "gone.png"))


def test_it_is_scored_against_all_references(model, folder):
    (evaluation,) = model.evaluate(ScoreData())
    assert evaluation.data == "here"
    assert (evaluation.n, evaluation.unit) == (32, "images")
    assert set(evaluation.metrics) == {"bleu-1", "bleu-2", "bleu-3", "bleu-4", "cider-d", "exact match"}
    kept = json.loads((folder / "run" / "run.json").read_text())["metrics"]["here"]
    assert {name: metric.record() for name, metric in evaluation.metrics.items()} == kept
    assert kept["bleu-1"]["value"] > 50
    (given,) = model.evaluate(ScoreData([str(folder / "captions.csv")]))
    assert given.metrics["cider-d"].value == evaluation.metrics["cider-d"].value
    assert len(given.outputs) == 32


def test_two_models_are_compared_on_the_same_images(model, other):
    (compared,) = model.compare(other, ScoreData(), resamples=50)
    by_name = {one.name: one for one in compared.comparisons}
    (a,), (b,) = model.evaluate(ScoreData()), other.evaluate(ScoreData())
    assert by_name["CIDEr-D"].score_a == pytest.approx(a.metrics["cider-d"].value)
    assert by_name["BLEU-4"].difference == pytest.approx(b.metrics["bleu-4"].value - a.metrics["bleu-4"].value)
    (same,) = model.compare(model, ScoreData(), resamples=20)
    assert all(one.difference == 0 for one in same.comparisons)


def test_two_models_vote(model, other, folder):
    together = model.ensemble(other)
    assert together(picture(folder)).text
    assert len(together.modules) == 2
    changed = regard.load(folder / "run", "cpu")
    changed.config = changed.config.__class__(
        **{**vars(changed.config), "data": type(changed.config.data)(image_size=20)}
    )
    with pytest.raises(UsageError, match="model 2 of the ensemble has other words or another size of images"):
        model.ensemble(changed)


@pytest.mark.parametrize("which", ["model", "other"])
def test_it_keeps_its_promises(request, which):
    findings = list(request.getfixturevalue(which).verify(ScoreData(), n=5))
    assert len(findings) == 8
    assert "a draw depends on its own text" in [finding.promise for finding in findings]
    assert all(finding.kept for finding in findings), [finding.promise for finding in findings if not finding.kept]


def test_where_there_are_no_images_promises_are_measured_on_noise(model, tmp_path):
    said, model.say = [], lambda line: said.append(line)
    findings = list(model.verify(ScoreData([str(tmp_path / "gone.csv")]), n=3))
    assert "noise" in said[0]
    assert all(finding.kept for finding in findings)


def test_looking_gives_a_distribution_over_the_image_for_each_word(model, folder):
    seen = model.look(picture(folder))
    said = model(picture(folder)).text
    assert seen.words == said.split()
    over = seen.over_image()
    assert over.shape == (len(seen.words), 2, 2)
    assert over.sum((1, 2)) == pytest.approx(np.ones(len(over)), abs=1e-5)
    assert seen.weights["cross"].shape == (1, 1, len(seen.words) + 1, 4)
    assert seen.image.shape == (3, 480, 480)
    forced = model.look(picture(folder), "a white half")
    assert forced.words == ["a", "white", "half"]
    assert forced.title == "a white half"
    with pytest.raises(UsageError, match="is made to say is empty"):
        model.look(picture(folder), " , ")


def test_a_transformer_shows_its_layers_and_heads(other, folder):
    seen = other.look(picture(folder))
    assert set(seen.weights) == {"cross", "masked", "self"}
    assert seen.weights["cross"].shape[:2] == (2, 2)
    assert not np.allclose(seen.over_image(layer=0), seen.over_image(layer=1))


@pytest.mark.parametrize("dark", [False, True])
def test_pictures_pages_and_records(model, folder, tmp_path, dark):
    seen = model.look(picture(folder))
    drawn = Image.open(seen.plot(tmp_path / "seen.png", dark=dark))
    pixels = np.asarray(drawn.convert("RGB"))
    assert min(drawn.size) > 300
    assert (pixels[0, 0] < 40).all() == dark
    assert len(np.unique(pixels.reshape(-1, 3), axis=0)) > 100
    with pytest.raises(UsageError, match="not a picture's name"):
        seen.plot(tmp_path / "seen.txt")
    assert seen.plot(tmp_path / "heads.png", picture="heads").exists()
    page = seen.page(tmp_path / "seen.html").read_text()
    assert all(f'"{word}"' in page for word in seen.words)
    assert "data:image/png;base64,iVBOR" in page
    assert "http:" not in page
    assert "https:" not in page
    again = CaptionLook.load(seen.save(tmp_path / "seen.json"))
    np.testing.assert_array_equal(again.weights["cross"], seen.weights["cross"])
    assert again.words == seen.words
    assert again.image is None
    assert again.plot(tmp_path / "again.png").exists()


def test_a_page_cannot_be_broken_by_a_word(model, folder):
    seen, evil = model.look(picture(folder)), "</script><b>"
    axis = seen.axes["caption"]
    named = replace(seen, axes=seen.axes | {"caption": replace(axis, labels=[evil] * len(axis))}, title=evil)
    assert "</script><b>" not in named.html()


def test_without_attention_there_is_nothing_to_look_at(tmp_path):
    run = tiny_captions.train_captions(tmp_path, "model.attention=none", "train.epochs=1")
    model = regard.load(run, "cpu")
    assert model(picture(tmp_path)).text is not None
    with pytest.raises(UsageError, match="no attention to look at"):
        model.look(picture(tmp_path))
    assert all(finding.kept for finding in model.verify(ScoreData(), n=3))
