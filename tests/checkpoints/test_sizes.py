"""A model is as large as the file that holds its weights, or it is refused before anything is built or read."""

import json
import os
import shutil
import struct
import time
from pathlib import Path

import pytest
import torch

from regard.checkpoints.foreign.files import load_pickled, read_ids
from regard.checkpoints.foreign.hub import open_foreign, write_hub
from regard.checkpoints.foreign.spm import marian_tokenizers
from regard.checkpoints.foreign.word2vec import read_word2vec
from regard.checkpoints.headers import outline, stored_weights
from regard.checkpoints.opening import open_model
from regard.checkpoints.spec import ModelSpec
from regard.checkpoints.weights import weights_of
from regard.cli.main import run
from regard.config.bounded import at_most
from regard.errors import CheckpointError, DataError, EnvironmentProblem
from regard.models.registry import OURS, build, entry
from regard.tasks.opening import load

GOLDEN = Path(__file__).parent.parent / "golden" / "finished"
OPTIONS = {"n_tokens": 40, "d_model": 8, "n_heads": 2, "n_layers": 2, "n_positions": 16, "activation": "gelu_tanh"}


@pytest.fixture
def gpt2(tmp_path):
    write_hub(
        tmp_path, ModelSpec("language", "gpt", OPTIONS), tensors=weights_of(build("gpt", OPTIONS)), tokenizer=None
    )
    return tmp_path


@pytest.fixture
def labels(tmp_path):
    shutil.copytree(GOLDEN / "labels", tmp_path / "run")
    return tmp_path / "run"


def change(path, **facts):
    path.write_text(json.dumps(json.loads(path.read_text()) | facts))


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"n_layer": 10**7}, r"config.json: n_layers is 10,000,000, and the weights are 28 tensors"),
        ({"vocab_size": 2**60}, r"config.json: "),
        ({"n_positions": 2**45}, r"of memory, and .* may be used"),
        ({"n_embd": "many"}, r"config.json: "),
        ({"n_head": [2]}, r"config.json: "),
    ],
)
def test_sizes_that_anybody_can_write(gpt2, facts, message):
    change(gpt2 / "config.json", **facts)
    begun = time.monotonic()
    with pytest.raises((CheckpointError, EnvironmentProblem), match=message):
        open_foreign(gpt2)
    assert time.monotonic() - begun < 10


def test_a_run_whose_description_is_of_another_model(labels):
    facts = json.loads((labels / "model.json").read_text())
    facts["options"]["backbone"]["n_layers"] = 10**7
    (labels / "model.json").write_text(json.dumps(facts))
    with pytest.raises(CheckpointError, match=r"n_layers is 10,000,000, and the weights are \d+ tensors"):
        open_model(labels)


@pytest.mark.parametrize("names", [["cat", "dog"], ["cat", "dog", "bird", "fish"]])
def test_labels_of_another_model(labels, names):
    change(labels / "labels.json", names=names)
    with pytest.raises(CheckpointError, match=rf"labels.json: names {len(names)} classes, and the model has 3"):
        load(labels, "cpu")


def test_a_limit_on_memory_is_a_limit(labels):
    with pytest.raises(EnvironmentProblem, match=r"would take .* of memory, and 5.0 kB may be used"):
        load(labels, "cpu", max_memory="5kB")
    with at_most(5000), pytest.raises(EnvironmentProblem, match=r"5.0 kB may be used"):
        load(labels, "cpu")
    assert load(labels, "cpu", max_memory="1GB")("the cat sees a dog .").label == "cat"


def test_a_limit_on_the_command_line(labels, capsys, monkeypatch):
    for size, code, said in (("5kB", 1, "5.0 kB may be used"), ("much", 2, "'much' is not a size"), ("1GB", 0, "")):
        arguments = ["regard", "predict", str(labels), "the cat sees a dog .", "--device", "cpu", "--max-memory", size]
        monkeypatch.setattr("sys.argv", arguments)
        with pytest.raises(SystemExit) as ended:
            run()
        told = capsys.readouterr()
        assert (ended.value.code or 0) == code
        assert said in told.err
        assert "Traceback" not in told.err
    assert told.out == "cat\n"


def test_a_pipe_in_the_place_of_weights(labels):
    (labels / "model.safetensors").unlink()
    os.mkfifo(labels / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"it is a pipe, and a file was expected"):
        open_model(labels)


def test_an_outline_has_the_shapes_of_the_model():
    checked = 0
    for folder in sorted(GOLDEN.iterdir()):
        facts = json.loads((folder / "model.json").read_text())
        drawn = {
            name: tuple(tensor.shape) for name, tensor in outline(facts["model"], facts["options"]).named_buffers()
        }
        drawn |= {name: tuple(one.shape) for name, one in outline(facts["model"], facts["options"]).named_parameters()}
        built = build(facts["model"], facts["options"])
        real = {name: tuple(one.shape) for name, one in (*built.named_buffers(), *built.named_parameters())}
        assert drawn == real
        checked += 1
    assert checked >= 10
    assert all(entry(name) for name in OURS)


def test_a_header_says_what_the_library_reads(labels):
    from safetensors.torch import load_file

    held = load_file(labels / "model.safetensors")
    found = stored_weights(labels / "model.safetensors")
    assert {name: one.shape for name, one in found.items()} == {name: tuple(one.shape) for name, one in held.items()}


@pytest.mark.parametrize(
    "change_header",
    [
        lambda header: header["a"].update(shape=[2**40]),
        lambda header: header["a"].update(data_offsets=[4, 12]),
        lambda header: header["a"].update(dtype="Q4"),
        lambda header: header.update(b=header["a"]),
        lambda header: header.update(a=7),
    ],
)
def test_headers_that_do_not_fit_their_file(tmp_path, change_header):
    header = {"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}
    change_header(header)
    text = json.dumps(header).encode()
    (tmp_path / "a.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + bytes(8))
    with pytest.raises(CheckpointError, match=r"a.safetensors: not a whole safetensors file"):
        stored_weights(tmp_path / "a.safetensors")


def test_counts_in_a_pickle(tmp_path):
    torch.save({"a": torch.zeros(3)}, tmp_path / "old.bin", _use_new_zipfile_serialization=False)
    assert load_pickled(tmp_path / "old.bin")["a"].tolist() == [0.0] * 3
    data = (tmp_path / "old.bin").read_bytes()
    assert data.count(b"K\x03") >= 2
    (tmp_path / "old.bin").write_bytes(data.replace(b"K\x03", b"J\xff\xff\xff\x7f", 1))
    with pytest.raises(CheckpointError, match=r"a count in it is 2,147,483,647, and the file has \d+ bytes"):
        load_pickled(tmp_path / "old.bin")


@pytest.mark.parametrize("ids", [{}, {"a": 2**60}, {"a": "0"}, {"a": -1}, {"a": 0, "b": 0}, {"a": True}, {"a": 10**6}])
def test_a_vocabulary_whose_ids_are_none(tmp_path, ids):
    (tmp_path / "vocab.json").write_text(json.dumps(ids))
    with pytest.raises(CheckpointError, match=r"vocab.json: "):
        read_ids(tmp_path / "vocab.json")
    with pytest.raises(CheckpointError, match=r"vocab.json: "):
        marian_tokenizers(tmp_path)


def test_words_that_come_twice_are_found_at_once(tmp_path):
    lines = [f"w{i} 1 2\n" for i in range(60_000)]
    (tmp_path / "v.txt").write_text("".join([*lines, lines[-1]]))
    begun = time.monotonic()
    with pytest.raises(DataError, match=r"the word 'w59999' occurs twice"):
        read_word2vec(tmp_path / "v.txt")
    assert time.monotonic() - begun < 5


def test_a_header_that_promises_more_vectors_than_there_are(tmp_path):
    (tmp_path / "v.bin").write_bytes(b"1000000000000 1000000\na \0\0\0\0")
    with pytest.raises(DataError, match=r"ends after 0 of 1,000,000,000,000 vectors"):
        read_word2vec(tmp_path / "v.bin")
