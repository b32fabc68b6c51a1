"""Captions through the command line: the whole way on a folder of one's own, and what is said about mistakes."""

import json
import shutil
import signal

import pytest
import torch
from safetensors.torch import load_file

import tiny_captions
from regard.tasks.captions.training import CaptionTraining


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("captions")
    return folder, tiny_captions.train_captions(folder, "train.epochs=4")


def assert_refused(answer, code, error, hint=""):
    assert answer.code == code, answer.err
    assert answer.out == ""
    assert "Traceback" not in answer.err
    assert answer.err.count("error: ") == 1
    assert error in answer.err
    assert hint in "".join(line for line in answer.err.splitlines() if line.startswith("hint: "))


def test_a_folder_of_ones_own_is_all_that_is_needed(command, tmp_path):
    tiny_captions.write_folder(tmp_path / "mine", format="tsv")
    settings = [*tiny_captions.SHAPE, *tiny_captions.QUICK, "train.epochs=1"]
    answer = command("train", "captions", "--train", tmp_path / "mine", *settings, "--out", tmp_path / "run")
    assert answer.code == 0, answer.err
    assert "29 images with 58 captions to learn from, 3 to choose by" in answer.err
    image = tmp_path / "mine" / "pictures" / "red-red-0.png"
    assert len(command("predict", tmp_path / "run", image).out.splitlines()) == 1
    scored = command("evaluate", tmp_path / "run", "--data", tmp_path / "mine")
    assert scored.code == 0, scored.err
    assert "32 images" in scored.out
    assert "CIDEr-D" in scored.out


def test_predict_evaluate_compare_verify_and_look(command, made, tmp_path):
    folder, run = made
    images = [folder / "pictures" / f"{name}-0.png" for name in ("red-blue", "white-green")]
    lines = command("predict", run, *images, "--beam", "3", "--n-best", "2", "--json").out.splitlines()
    records = [json.loads(line) for line in lines]
    assert [record["image"] for record in records] == [str(image) for image in images]
    assert all(len(record["alternatives"]) == 1 for record in records)
    listed = "".join(f"{image}\n" for image in images)
    assert command("predict", run, stdin=listed).out == command("predict", run, *images).out
    voted = command("predict", run, images[0], "--ensemble", run)
    assert voted.out == command("predict", run, images[0]).out
    scores = json.loads(command("evaluate", run, "--json", "--out", tmp_path / "said.txt").out)
    assert scores["metrics"]["bleu-4"]["signature"].startswith("nrefs:2|case:lc")
    assert len((tmp_path / "said.txt").read_text().splitlines()) == 32
    same = command("compare", run, run, "--resamples", "10")
    assert "no significant difference" in same.out
    assert command("verify", run).code == 0
    for name in ("seen.png", "seen.html", "seen.json"):
        assert command("look", run, images[0], "--out", tmp_path / name).code == 0
        assert (tmp_path / name).stat().st_size > 1000
    shown = command("look", run, images[0], "--target", "a red half")
    assert [line.split("\t")[0] for line in shown.out.splitlines()] == ["a", "red", "half"]


def test_images_that_are_none(command, made, tmp_path):
    folder, run = made
    assert_refused(command("predict", run, tmp_path / "gone.png"), 1, "gone.png: cannot be read (No such file")
    (tmp_path / "text.png").write_text("hello")
    assert_refused(command("predict", run, tmp_path / "text.png"), 1, "text.png: not an image that can be read", "PNG")
    assert_refused(command("look", run, tmp_path / "gone.png"), 1, "gone.png")
    assert_refused(
        command("predict", run, folder / "pictures" / "red-red-0.png", "--align"), 2, "--align means nothing"
    )


def test_training_data_that_cannot_be_used(command, tmp_path):
    rest = [*tiny_captions.SHAPE, *tiny_captions.QUICK, "--out", tmp_path / "run"]
    table = tiny_captions.write_folder(tmp_path, copies=1)

    def refused(error, hint="", *, code=1, given=()):
        answer = command("train", "captions", "--train", table, *given, *rest)
        assert_refused(answer, code, error, hint)
        assert not (tmp_path / "run" / "config.toml").exists()

    assert_refused(command("train", "captions", *rest), 2, "data.train names no files", "--train FILE")
    refused("no column 'text'; it has: image, caption", given=["data.caption=text"])
    refused("nowhere: there is no such file", given=["data.images=nowhere"])
    refused("data.held_out is 2.0, above 0 and below 1", code=2, given=["data.held_out=2"])
    refused("train.crop is 0.0", code=2, given=["train.crop=0"])
    refused("train.doubly_stochastic is 1.0, and this model does not look", "leave it 0", code=2,
            given=["train.doubly=1", "model.attention=none"])  # fmt: skip
    refused("16 images cannot be divided", "--valid FILE", given=["data.held_out=0.01"])
    refused("model.start is for models of texts", code=2, given=["model.start=x"])
    refused("the task's models are captioner, transformer-captioner", code=2, given=["model.name=gpt"])
    lines = table.read_text().splitlines()
    table.write_text("\n".join([*lines[:3], "pictures/red-green-0.png,", *lines[4:]]) + "\n")
    refused("captions.csv:4: the caption is empty", 'data.bad="drop"')
    table.write_text("\n".join(lines).replace("red-green-0", "gone") + "\n")
    refused("captions.csv:4: ", "data.bad=drop")
    (tmp_path / "pictures" / "red-green-0.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    table.write_text("\n".join(lines) + "\n")
    refused("red-green-0.png: not an image that can be read", "data.bad=drop")


def test_bad_rows_and_images_can_be_left_out(command, tmp_path):
    table = tiny_captions.write_folder(tmp_path, copies=1)
    (tmp_path / "pictures" / "red-green-0.png").unlink()
    table.write_text(table.read_text() + "pictures/red-red-0.png,\n")
    settings = [*tiny_captions.SHAPE, *tiny_captions.QUICK, "train.epochs=1", "data.bad=drop"]
    answer = command("train", "captions", "--train", table, *settings, "--out", tmp_path / "run")
    assert answer.code == 0, answer.err
    assert "1 rows left out" in answer.err
    assert "1 of 16 images left out" in answer.err


def test_interrupted_and_resumed_is_the_whole(command, tmp_path, monkeypatch):
    given = [*tiny_captions.captions(tmp_path), "train.epochs=0", "train.steps=8", "train.eval_every=4"]
    given += [
        "train.save_every=4",
        "model.dropout=0.2",
        "model.feature_dropout=0.2",
        "train.crop=0.6",
        "train.flip=true",
    ]
    given += ["train.jitter=0.2", "train.ema=0.9", "train.doubly=0.5", "train.captions_each=1"]
    assert command("train", *given, "--out", tmp_path / "whole").code == 0
    calls, loss = [], CaptionTraining.loss

    def interrupted(self, *arguments):
        calls.append(1)
        if len(calls) == 6:
            signal.raise_signal(signal.SIGINT)
        return loss(self, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(CaptionTraining, "loss", interrupted)
        stopped = command("train", *given, "--out", tmp_path / "parts")
    assert stopped.code == 130
    assert command("train", "--resume", "--out", tmp_path / "parts").code == 0
    ends = [load_file(tmp_path / name / "model.safetensors") for name in ("whole", "parts")]
    assert all(torch.equal(ends[0][name], ends[1][name]) for name in ends[0])


def test_a_run_opens_without_its_data(command, made, tmp_path):
    folder, run = made
    shutil.copytree(run, tmp_path / "run", ignore=shutil.ignore_patterns("data", "checkpoints"))
    shutil.copy(folder / "pictures" / "red-blue-0.png", tmp_path / "here.png")
    answer = command("predict", tmp_path / "run", tmp_path / "here.png")
    assert answer.code == 0
    assert answer.out == command("predict", run, folder / "pictures" / "red-blue-0.png").out


def test_shapes_need_no_files(command, tmp_path):
    settings = ["data.n_train=40", "data.n_valid=8", "data.n_test=8", "train.epochs=1", "train.device=cpu"]
    answer = command("train", "captions/shapes", *settings, "--out", tmp_path / "run")
    assert answer.code == 0, answer.err
    assert "40 images" in answer.err
    scored = json.loads(command("evaluate", tmp_path / "run", "--json").out)
    assert scored["n"] == 8
    wrong = command("train", "captions/shapes", "data.image_size=80", "--out", tmp_path / "other")
    assert_refused(wrong, 2, "synthetic shapes are drawn on 48 pixels")
