"""Images through the command line: the verbs, and inputs of people who make mistakes."""

import json

import numpy as np
import pytest
from PIL import Image
from test_bad_input import assert_refused

import tiny_images


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run on a folder of images, made by the command's own functions."""
    folder = tmp_path_factory.mktemp("images")
    _, *given = tiny_images.images(folder)
    return tiny_images.train_images(folder, *given)[0], folder / "photos"


def test_train_and_use_a_folder_of_images(command, tmp_path):
    task, data, *rest = tiny_images.images(tmp_path)
    photos = data.split('"')[1]
    done = command("train", task, *rest, "--train", photos, "--out", tmp_path / "run")
    assert done.code == 0, done.err
    assert "4 classes, images of 16 × 16: 36 to learn from, 4 to choose by" in done.err
    files = [f"{photos}/disc/002.png", f"{photos}/ring/003.png"]
    said = command("predict", tmp_path / "run", *files)
    assert said.code == 0
    assert len(said.out.splitlines()) == 2
    columns = [line.split("\t") for line in said.out.splitlines()]
    assert [name for name, *_ in columns] == files
    assert {label for _, label, _ in columns} <= set(tiny_images.CLASSES)
    records = [json.loads(line) for line in command("predict", tmp_path / "run", *files, "--json").out.splitlines()]
    assert records[0]["probability"] == max(records[0]["probabilities"].values())
    flipped = command("predict", tmp_path / "run", files[0], "decode.flip=true", "decode.k=1", "--json")
    assert len(json.loads(flipped.out)["probabilities"]) == 1
    scored = command("evaluate", tmp_path / "run", "--data", photos)
    assert f"{photos}: 40 images" in scored.out
    assert "accuracy of cross" in scored.out
    looked = command("look", tmp_path / "run", files[0], "--out", tmp_path / "seen.html")
    assert looked.code == 0
    assert (tmp_path / "seen.html").stat().st_size > 5000
    assert command("verify", tmp_path / "run").code == 0


def test_data_that_cannot_be_used(command, tmp_path):
    task, data, *rest = tiny_images.images(tmp_path)
    photos = tmp_path / "photos"
    out = ["--out", tmp_path / "run"]
    assert_refused(command("train", task, *rest, *out), 2, "data.train names no images", "--train FOLDER")
    assert_refused(command("train", task, *rest, "--train", tmp_path / "gone", *out), 1, "gone")
    (photos / "disc" / "bad.jpg").write_bytes(b"\xff\xd8broken")
    (photos / "ring" / "empty.png").write_bytes(b"")
    answer = command("train", task, data, *rest, *out)
    assert_refused(answer, 1, "2 of 42 images cannot be used", "data.bad=drop")
    assert f"{photos / 'disc' / 'bad.jpg'}: not an image" in answer.err
    assert f"{photos / 'ring' / 'empty.png'}: is empty" in answer.err
    assert not (tmp_path / "run" / "config.toml").exists()
    (photos / "ring" / "empty.png").unlink()
    (photos / "disc" / "bad.jpg").unlink()
    (photos / "emu").mkdir()
    Image.new("RGB", (9, 30)).save(photos / "ring" / "wide.png")
    answer = command("train", task, data, *rest, *out)
    assert_refused(answer, 1, "wide.png: is 30 × 9, and", "data.size=224")


def test_tables_that_cannot_be_used(command, tmp_path):
    task, _, *rest = tiny_images.images(tmp_path)
    table, out = tmp_path / "a.csv", ["--out", tmp_path / "run"]
    table.write_text("a,b,c\nphotos/disc/002.png,a,x\n")
    looked = "a.csv:1: no column looks like the image or the label; it has: a, b, c"
    assert_refused(command("train", task, *rest, "--train", table, *out), 1, looked, 'data.image="a" data.label="b"')
    table.write_text("image,label\nphotos/disc/002.png,a\nphotos/none.png,b\n")
    assert_refused(command("train", task, *rest, "--train", table, *out), 1, "a.csv:3:")
    table.write_text("")
    assert_refused(command("train", task, *rest, "--train", table, *out), 1, "there are no images")


def test_settings_that_make_no_sense(command, tmp_path):
    task, data, *rest = tiny_images.images(tmp_path)
    out = ["--out", tmp_path / "run"]
    for wrong, said in [
        ("train.magnitud=3", "did you mean train.magnitude?"),
        ("train.magnitude=30", "train.magnitude is 30.0, from 0 to 10"),
        ("data.size=0", "data.size is 0"),
        ("model.size=huge", "no size of vit is called 'huge'"),
        ("model.pooling=last", "model.pooling is 'last'"),
        ("model.patch=32", "patches of 32 do not fit an image of 16 × 16"),
    ]:
        assert_refused(command("train", task, data, *rest, wrong, *out), 2, said)


def test_a_trained_model_is_asked_wrongly(command, made, tmp_path):
    run, photos = made
    assert_refused(command("predict", run, tmp_path / "none.png"), 1, "none.png: cannot be read")
    (tmp_path / "a.png").write_text("text")
    assert_refused(command("predict", run, tmp_path / "a.png"), 1, "a.png: not an image that can be read")
    assert_refused(command("predict", run, photos / "disc" / "002.png", "--beam", "3"), 2, "--beam means nothing")
    assert_refused(command("look", run, photos / "disc" / "002.png", "--out", tmp_path / "a.gif"), 2, "a.gif")
    images, _ = tiny_images.shapes(4)
    np.savez(tmp_path / "b.npz", images=images, labels=["disc", "disc", "square", "disc"])
    answer = command("evaluate", run, "--data", tmp_path / "b.npz")
    assert_refused(answer, 1, "images[2]: the class 'square' was not trained on; there are bars, cross, disc, ring")


def test_ctrl_c_and_resume(command, made, tmp_path):
    """A run that was stopped goes on where it was, by its folder alone."""
    task, data, *rest = tiny_images.images(tmp_path)
    first = command("train", task, data, *rest, "train.epochs=1", "--out", tmp_path / "run")
    assert first.code == 0
    on = command("train", "--resume", "--out", tmp_path / "run", "train.epochs=3")
    assert on.code == 0, on.err
    assert "going on after step 2" in on.err
