"""The verbs on speech through the command line: what they say, and what they refuse."""

import json
import re

import numpy as np
import pytest
from test_bad_input import assert_refused

import tiny_speech
from regard.inspection.look import Look


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("speech")
    return tiny_speech.train_speech(folder)


@pytest.fixture
def sound(tmp_path):
    return tiny_speech.write_wav(tmp_path / "a.wav", tiny_speech.spoken(["top", "low"], seed=5))


def test_every_verb(command, run, sound, tmp_path):
    valid = run.parent / "valid.csv"
    assert command("predict", run, sound).out == "top low\n"
    assert command("predict", run, sound, sound).out == f"{sound}\ttop low\n" * 2
    record = json.loads(command("predict", run, sound, "--json", "--beam", 3, "--n-best", 2).out)
    assert [word["word"] for word in record["words"]] == ["top", "low"]
    assert set(record["words"][0]) == {"word", "start", "end", "probability"}
    assert len(record["alternatives"]) == 1
    evaluated = command("evaluate", run, "--data", valid)
    assert "WER" in evaluated.out
    assert "CER" in evaluated.out
    compared = command("compare", run, run, "--data", valid)
    assert compared.code == 0
    assert "WER" in compared.out
    assert command("verify", run, "--data", valid).code == 0
    assert command("look", run, sound, "--out", tmp_path / "seen.png").code == 0
    assert (tmp_path / "seen.png").stat().st_size > 10_000
    assert command("look", run, sound, "--out", tmp_path / "seen.json").code == 0
    assert Look.load(tmp_path / "seen.json").axes["target"].labels == ["▁top", "▁low", "</s>"]
    lines = command("look", run, sound).out.splitlines()
    assert [line.split("\t")[0] for line in lines] == ["top", "low"]


def test_subtitles(command, run, sound, tmp_path):
    shown = command("predict", run, sound, "--format", "srt").out.splitlines()
    assert (shown[0], shown[2]) == ("1", "top low")
    assert re.fullmatch(r"00:00:00,\d{3} --> 00:00:00,\d{3}", shown[1])
    assert command("predict", run, sound, "--format", "vtt").out.startswith("WEBVTT\n\n00:00:00.")
    rows = [line.split("\t") for line in command("predict", run, sound, "--format", "tsv").out.splitlines()]
    assert (rows[0], rows[1][2]) == (["start", "end", "text"], "top low")
    assert 0 <= int(rows[1][0]) < int(rows[1][1]) < 500
    assert command("predict", run, sound, "--format", "txt").out == "top low\n"
    records = [json.loads(line) for line in command("predict", run, sound, sound, "--format", "json").out.splitlines()]
    assert records[0]["segments"] == records[1]["segments"]
    assert records[0]["segments"][0]["text"] == "top low"
    quiet = tiny_speech.write_wav(tmp_path / "quiet.wav", np.zeros(8000))
    assert command("predict", run, quiet, "--format", "srt").out == ""
    made = command("predict", run, sound, quiet, "--format", "srt", "--out", tmp_path / "made")
    assert (made.code, made.out) == (0, "")
    assert (tmp_path / "made" / "a.srt").read_text().startswith("1\n00:00:00,")
    assert (tmp_path / "made" / "quiet.srt").read_text() == ""


def test_mistakes_about_subtitles(command, run, sound, tmp_path):
    assert_refused(command("predict", run, sound, "--format", "doc"), 2, "--format doc: allowed is one of srt, vtt")
    assert_refused(
        command("predict", run, sound, sound, "--format", "srt"), 2, "2 recordings do not fit", "--out FOLDER"
    )
    assert_refused(command("predict", run, sound, "--format", "srt", "--json"), 2, "--format srt and --json")
    out = ["--format", "srt", "--out", tmp_path / "made"]
    (tmp_path / "b").mkdir()
    other = tiny_speech.write_wav(tmp_path / "b" / "a.wav", np.zeros(800))
    assert_refused(command("predict", run, sound, other, *out), 2, "would both be written to", "rename one")
    assert not (tmp_path / "made").exists()
    answer = command("predict", run, sound, tmp_path / "no.wav", *out)
    assert (answer.code, (tmp_path / "made" / "a.srt").exists()) == (1, True)  # the others go on
    assert "no.wav: no such file" in answer.err
    assert_refused(command("predict", run, sound, *out), 2, "a.srt: is there already", "another --out")
    file = ["--format", "srt", "--out", other]
    assert_refused(command("predict", run, sound, *file), 2, "is a file, a folder was expected")
    assert_refused(command("predict", run, sound, "--translate"), 2, "a translation was asked for, and this is no Whis")
    assert_refused(command("predict", run, sound, "--language", "de"), 2, "the language 'de' was asked for")
    assert_refused(command("predict", run, sound, "--initial-prompt", "x"), 2, "only Whisper models read one")


def test_mistakes_about_files(command, run, tmp_path):
    assert_refused(command("predict", run, tmp_path / "gone.wav"), 1, "gone.wav: no such file")
    (tmp_path / "a.wav").write_bytes(b"")
    assert_refused(command("predict", run, tmp_path / "a.wav"), 1, "a.wav: is empty")
    (tmp_path / "a.txt").write_text("hello")
    assert_refused(command("predict", run, tmp_path / "a.txt"), 1, "a.txt: not a sound file that can be read", "WAV")
    (tmp_path / "none").mkdir()
    none = command("predict", run, tmp_path / "none")
    assert_refused(none, 1, "none: there is no file in this folder that ends in .wav, .flac, .ogg")
    tiny_speech.write_wav(tmp_path / "n.wav", np.zeros(0))
    assert_refused(command("predict", run, tmp_path / "n.wav"), 1, "n.wav: holds no sound")
    assert_refused(command("evaluate", run, "--data", tmp_path / "none.csv"), 1, "none.csv: no such file")
    (tmp_path / "t.csv").write_text("audio,text\ngone.wav,low\n")
    assert_refused(command("evaluate", run, "--data", tmp_path / "t.csv"), 1, "t.csv:2: ", "data.bad")
    assert_refused(command("predict", run, "a.wav", "--stream"), 2, "--stream means nothing to a model for speech")


def test_mistakes_in_training_data(command, tmp_path):
    given = tiny_speech.speech(tmp_path)
    out = ["--out", tmp_path / "run"]
    bare = [word for word in given if not word.startswith("data.train")]
    assert_refused(command("train", *bare, *out), 2, "data.train names no file or folder", "--train FILE")
    assert_refused(command("train", *given, "data.audio=path", *out), 1, "table.csv:1: no column 'path'")
    table = tmp_path / "table.csv"
    whole = table.read_text()
    table.write_text(whole.replace("sounds-table/3.wav,", "sounds-table/x.wav,"))
    assert_refused(command("train", *given, *out), 1, "table.csv:5: ", "data.bad")
    table.write_text(whole)
    valid = tmp_path / "valid.csv"
    known = valid.read_text()
    valid.write_text(known.replace("\nsounds-valid/2.wav,", "\nsounds-valid/2.wav,zebra "))
    assert_refused(command("train", *given, *out), 1, "valid.csv:4: 'zebra' is not known to the tokenizer", "bytes")
    valid.write_text(known)
    assert_refused(command("train", *given, "train.batch_seconds=0.1", *out), 2, "a recording lasts", "raise it")
    assert_refused(command("train", *given, "train.speed=0.9", *out), 2, "train.speed is 0.9, from 0 to 0.5")
    assert_refused(command("train", *given, "data.hop=0", *out), 2, "data.hop is 0.0, above 0")
    assert_refused(command("train", *given, "data.digits=x", *out), 2, "data.digits and data.train are both given")
    digits = [*bare[:1], *bare[2:], "data.digits=nowhere"]
    assert_refused(command("train", *digits, *out), 1, "nowhere: there is no such file here", "REGARD_DATA")
    assert not (tmp_path / "run" / "config.toml").exists()


def test_one_example_and_rows_to_drop(command, tmp_path):
    given = tiny_speech.speech(tmp_path)
    table = tmp_path / "table.csv"
    head, first, second, *_ = table.read_text().splitlines()
    table.write_text("\n".join([head, first]) + "\n")
    alone = [word for word in given if not word.startswith("data.valid")]
    assert_refused(command("train", *alone, "--out", tmp_path / "a"), 1, "1 recordings are too few to hold some out")
    quick = ["train.steps=1", "train.eval_every=1", f'data.valid=["{table}"]', "train.batch_seconds=3"]
    assert command("train", *given, *quick, "--out", tmp_path / "b").code == 0
    table.write_text("\n".join([head, first, second.replace("sounds", "nowhere")]) + "\n")
    dropped = command("train", *given, *quick, 'data.bad="drop"', "--out", tmp_path / "c")
    assert dropped.code == 0, dropped.err
    assert "1 of 2 recordings dropped" in dropped.err


def test_whisper_without_its_vocabulary(command, tmp_path):
    import torch

    sizes = {"n_mels": 80, "n_vocab": 51864, "n_audio_ctx": 1500, "n_audio_state": 8, "n_audio_head": 2,
             "n_audio_layer": 0, "n_text_ctx": 448, "n_text_state": 8, "n_text_head": 2, "n_text_layer": 0}  # fmt: skip
    torch.save({"dims": sizes, "model_state_dict": {}}, tmp_path / "w.pt")
    assert_refused(command("predict", tmp_path / "w.pt", "a.wav"), 1, "n_encoder_layers is 0, at least 1")
    torch.save({"dims": sizes | {"n_audio_layer": 1, "n_text_layer": 1}, "model_state_dict": {}}, tmp_path / "w.pt")
    assert_refused(command("predict", tmp_path / "w.pt", "a.wav"), 1, "w.pt: 4", "do not belong together")
