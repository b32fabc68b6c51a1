"""`regard import` and `regard export`: models of others become runs, and runs become theirs, with the same outputs."""

import json
import pickle
import struct

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import regard
import tiny_runs
import tiny_tasks
from regard.attention import Rows
from tiny_hub import PIECES, bert, gpt2, transformers

IDS = torch.tensor([[2, 5, 7, 9, 6, 8, 3], [2, 5, 8, 10, 3, 0, 0]])
LENGTHS = torch.tensor([7, 5])
THEIRS = {
    "BertModel": "AutoModel",
    "BertForPreTraining": "AutoModelForPreTraining",
    "BertForMaskedLM": "AutoModelForMaskedLM",
    "BertForSequenceClassification": "AutoModelForSequenceClassification",
    "BertForQuestionAnswering": "AutoModelForQuestionAnswering",
}


def their_outputs(folder, architecture):
    """What transformers computes, as ours does: the logits that a task needs."""
    model = getattr(transformers, THEIRS[architecture]).from_pretrained(folder).eval()
    mask = (torch.arange(7) < LENGTHS[:, None]).long()
    with torch.no_grad():
        said = model(IDS, attention_mask=mask)
    if architecture == "BertModel":
        return said.last_hidden_state
    if architecture == "BertForPreTraining":
        return said.prediction_logits
    if architecture == "BertForQuestionAnswering":
        return torch.stack((said.start_logits, said.end_logits), -1)
    return said.logits


def our_outputs(path, architecture):
    module = regard.load(path, "cpu").module
    with torch.no_grad():
        if architecture == "BertModel":
            return module.encode(Rows(IDS, LENGTHS))
        said = module(Rows(IDS, LENGTHS))
    return torch.stack(said, -1) if isinstance(said, tuple) else said


def assert_same(one, other, architecture):
    real = torch.arange(7) < LENGTHS[:, None]
    if architecture != "BertForSequenceClassification":
        one, other = one[real], other[real]
    torch.testing.assert_close(one, other, rtol=0, atol=1e-5)
    assert one.std() > 0.01  # not equal for being nothing


@pytest.mark.parametrize("architecture", THEIRS)
def test_a_bert_goes_in_and_comes_out_the_same(command, tmp_path, architecture):
    labels = {"id2label": {0: "cat", 1: "cow", 2: "dog"}} if "Classification" in architecture else {}
    folder = bert(tmp_path / "theirs", architecture, **labels)
    run, out = tmp_path / "run", tmp_path / "out"
    imported = command("import", folder, "--out", run)
    assert (imported.code, imported.out) == (0, "")
    assert "parameters; the run is" in imported.err
    assert_same(our_outputs(run, architecture), their_outputs(folder, architecture), architecture)
    assert json.loads((run / "run.json").read_text())["origin"] == str(folder)
    exported = command("export", run, "--to", "hf", "--out", out)
    assert exported.code == 0
    assert f"a {architecture}, a folder that transformers opens" in exported.err
    assert_same(their_outputs(out, architecture), their_outputs(folder, architecture), architecture)
    text = "the cat sees a dog ."
    ours, theirs = (transformers.AutoTokenizer.from_pretrained(place)(text).input_ids for place in (out, folder))
    assert ours == theirs == [2, *(PIECES.index(word) for word in text.split()), 3]


def test_an_imported_classifier_keeps_the_names_of_its_classes(command, tmp_path):
    folder = bert(tmp_path / "theirs", "BertForSequenceClassification", id2label={0: "cat", 1: "cow", 2: "dog"})
    command("import", folder, "--out", tmp_path / "run")
    direct = command("predict", folder, "the cat sees a dog .", "--json").out
    assert command("predict", tmp_path / "run", "the cat sees a dog .", "--json").out == direct
    assert set(json.loads(direct)["probabilities"]) == {"cat", "cow", "dog"}
    assert json.loads((tmp_path / "run" / "labels.json").read_text())["names"] == ["cat", "cow", "dog"]
    command("export", tmp_path / "run", "--to", "hf", "--out", tmp_path / "out")
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["id2label"] == {"0": "cat", "1": "cow", "2": "dog"}


def test_a_gpt_goes_in_and_comes_out_the_same(command, tmp_path):
    folder = gpt2(tmp_path / "theirs", spare=7)
    run, out = tmp_path / "run", tmp_path / "out"
    assert command("import", folder, "--out", run).code == 0
    ids = torch.tensor(regard.load(run, "cpu").tokenizer.encode("the cat sees"))[None]
    with torch.no_grad():
        ours = regard.load(run, "cpu").module(ids)
        theirs = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()(ids).logits
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)
    assert command("export", run, "--to", "hf", "--out", out).code == 0
    model = transformers.AutoModelForCausalLM.from_pretrained(out).eval()
    with torch.no_grad():
        torch.testing.assert_close(model(ids).logits, theirs, rtol=0, atol=1e-6)
    said = command("predict", run, "the cat", "decode.max_length=200", "decode.strategy=sample")
    assert said.code == 0, "embeddings that no piece belongs to are never drawn"


def test_a_bert_with_more_embeddings_than_pieces_guesses_pieces_only(command, tmp_path):
    folder = bert(tmp_path / "theirs", vocab_size=10 * len(PIECES))
    masks = json.loads(command("predict", folder, "the [MASK] sees", f"decode.k={len(PIECES)}", "--json").out)["masks"]
    assert {guess["token"] for guess in masks[0]} == set(PIECES)
    assert sum(guess["probability"] for guess in masks[0]) == pytest.approx(1)


def test_a_run_is_opened_by_transformers(command, run_of, tmp_path):
    assert command("export", run_of("labels"), "--to", "hf", "--out", tmp_path / "out").code == 0
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    model = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "out").eval()
    texts = ["the dog likes a cat .", "the cat likes a cat ."]
    given = tokenizer(texts, return_tensors="pt")
    with torch.no_grad():
        probabilities = model(**given).logits.softmax(-1)
    ours = [found.probabilities for found in regard.load(run_of("labels"), "cpu")(texts)]
    assert model.config.id2label == {0: "cat", 1: "dog"}
    np.testing.assert_allclose(probabilities[:, 1], [found["dog"] for found in ours], atol=1e-5)


def test_numbers_come_out_on_their_own_scale(command, tmp_path):
    run = tiny_tasks.train_tiny("labels", tmp_path, numbers=True)
    assert command("export", run, "--to", "hf", "--out", tmp_path / "out").code == 0
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    model = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "out").eval()
    with torch.no_grad():
        value = float(model(**tokenizer("the cat sees a cat .", return_tensors="pt")).logits)
    ours = regard.load(run, "cpu")("the cat sees a cat .").value
    assert value == pytest.approx(ours, abs=1e-5)
    assert ours == pytest.approx(2, abs=0.3)
    back = json.loads(command("predict", tmp_path / "out", "the cat sees a cat .", "--json").out)
    assert back["value"] == pytest.approx(ours, abs=1e-5)


def test_what_no_family_can_express_is_refused(command, tmp_path):
    run = tiny_tasks.train_tiny("labels", tmp_path, backbone="recurrent-encoder")
    answer = command("export", run, "--to", "hf", "--out", tmp_path / "out")
    assert (answer.code, answer.out) == (1, "")
    assert answer.err.startswith("error: no format of others can express this classifier; known are bert, distilbert,")
    assert "hint:" in answer.err
    assert not (tmp_path / "out").exists()


def test_a_translator_with_two_vocabularies_is_refused(command, tmp_path):
    run = tiny_runs.train_tiny(tmp_path, "train.steps=1", "train.eval_every=1")
    answer = command("export", run, "--to", "hf", "--out", tmp_path / "out")
    assert answer.code == 1
    assert "its two sides have tokenizers of their own" in answer.err
    assert "hint: train it with tokenizer.joint=true" in answer.err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (
            ("export", "{run}", "--to", "onnx", "--out", "x"),
            2,
            "--to onnx: not a format that regard writes; there is hf",
        ),
        (("export", "{run}", "--to", "hf"), 2, "an export needs a place"),
        (("export", "{run}"), 2, "--to"),
        (("export", "{run}", "--to", "hf", "--out", "{run}"), 2, "there is something already"),
        (("import", "{run}", "--out", "x"), 2, "is a run already"),
        (("import", "{run}"), 2, "a run needs a folder"),
        (("import", "nowhere", "--out", "x"), 1, "nowhere: there is no such folder or file"),
    ],
)
def test_calls_that_make_no_sense(command, run_of, arguments, code, message):
    answer = command(*(str(word).replace("{run}", str(run_of("labels"))) for word in arguments))
    assert (answer.code, answer.out) == (code, "")
    assert message in answer.err
    assert "Traceback" not in answer.err


class Trap:
    """A pickle that would write a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


def test_code_in_a_weight_file_is_not_run(command, tmp_path):
    folder = bert(tmp_path / "theirs", "BertModel")
    (folder / "model.safetensors").unlink()
    with (folder / "pytorch_model.bin").open("wb") as file:
        pickle.dump({"bert.pooler": Trap(tmp_path / "trapped")}, file, protocol=2)
    for arguments in (("import", folder, "--out", tmp_path / "run"), ("predict", folder, "x", "--embed")):
        answer = command(*arguments)
        assert (answer.code, answer.out) == (1, "")
        assert "holds more than tensors, and was not opened" in answer.err
        assert "hint: a pickle can run code; ask for the weights as safetensors" in answer.err
    assert not (tmp_path / "trapped").exists()
    assert not (tmp_path / "run").exists()


def test_weights_and_vocabulary_have_to_belong_together(command, tmp_path):
    folder = bert(tmp_path / "theirs")
    with (folder / "vocab.txt").open("a") as file:
        file.write("cow\nsheep\n")
    answer = command("predict", folder, "a [MASK]")
    assert answer.code == 1
    assert f"its tokenizer has {len(PIECES) + 2} pieces, and the weights are for {len(PIECES)}" in answer.err
    tuned = command(
        "train", *tiny_tasks.labels(tmp_path), f"model.start={folder}", "model.backbone={}", "--out", tmp_path / "run"
    )
    assert tuned.code == 1
    assert "and the weights are for" in tuned.err


def test_all_that_is_wrong_with_weights_is_said_at_once(command, tmp_path):
    folder = bert(tmp_path / "theirs", "BertModel")
    tensors = load_file(folder / "model.safetensors")
    names = sorted(tensors)
    del tensors[names[0]]
    tensors["extra.weight"] = torch.zeros(2)
    tensors[names[1]] = torch.zeros(3)
    save_file(tensors, folder / "model.safetensors")
    answer = command("import", folder, "--out", tmp_path / "run")
    assert answer.code == 1
    assert "3 weights do not fit" in answer.err
    assert "missing" in answer.err
    assert "extra.weight: unknown" in answer.err
    assert "hint:" in answer.err


@pytest.mark.parametrize(
    ("leave", "message"),
    [
        ("model.safetensors", "there are no weights in it"),
        ("config.json", "neither a run (it has no config.toml) nor a model of others (no config.json)"),
        ("vocab.txt", "there is no tokenizer in it"),
    ],
)
def test_folders_that_are_not_whole(command, tmp_path, leave, message):
    folder = bert(tmp_path / "theirs")
    (folder / leave).unlink()
    answer = command("import", folder, "--out", tmp_path / "run")
    assert (answer.code, answer.out) == (1, "")
    assert message in answer.err
    assert "Traceback" not in answer.err


def test_a_file_that_is_no_model(command, tmp_path):
    (tmp_path / "a.bin").write_bytes(struct.pack("<7i", *[0] * 7))
    (tmp_path / "a.gguf").write_bytes(b"nothing")
    (tmp_path / "a.txt").write_text("nothing")
    for name, message in (("a.bin", "not a llama2.c file"), ("a.gguf", "not a GGUF file"), ("a.txt", "not a model")):
        answer = command("import", tmp_path / name, "--out", tmp_path / "run")
        assert answer.code == 1
        assert message in answer.err
        assert "Traceback" not in answer.err
