"""Folders of others: what is in them, what is wrong with them, and that nothing in them is ever run."""

import json
import os

import pytest
import torch

from hub_peers import close, ours, randomised, saved, transformers
from regard.checkpoints.foreign.hub import FAMILIES, open_foreign, write_hub
from regard.checkpoints.spec import ModelSpec
from regard.checkpoints.weights import read_tensors, weights_of, write_tensors
from regard.data.text.vocabulary import learn_tokenizer
from regard.errors import CheckpointError
from regard.models.registry import build

IDS = torch.tensor([[2, 5, 6, 7, 3]])


@pytest.fixture
def folder(tmp_path):
    sizes = {"vocab_size": 14, "hidden_size": 6, "num_hidden_layers": 2, "num_attention_heads": 3}
    config = transformers.BertConfig(**sizes, intermediate_size=5, max_position_embeddings=7)
    return saved(randomised(transformers.BertForMaskedLM(config)), tmp_path / "bert")


def change(path, **values):
    held = json.loads(path.read_text())
    path.write_text(json.dumps({name: value for name, value in (held | values).items() if value is not None}))


def refused(folder, match):
    with pytest.raises(CheckpointError, match=match) as problem:
        open_foreign(folder)
    return problem.value


class Evil:
    """Unpickled, it would leave a file behind."""

    def __reduce__(self):
        return os.system, ("touch was-run",)


def test_a_pickle_with_code_is_refused_and_not_run(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (folder / "model.safetensors").unlink()
    torch.save({"a": torch.ones(1), "b": Evil()}, folder / "pytorch_model.bin")
    problem = refused(folder, r"pytorch_model.bin: holds more than tensors, and was not opened \(")
    assert "safetensors" in problem.hint
    assert not (tmp_path / "was-run").exists()


def test_pytorch_files_are_read_and_broken_ones_named(folder):
    model, _ = ours(folder)
    expected = model(IDS)
    tensors = transformers.BertForMaskedLM.from_pretrained(folder).state_dict()
    (folder / "model.safetensors").unlink()
    torch.save(tensors, folder / "pytorch_model.bin")
    assert torch.equal(ours(folder)[0](IDS), expected)
    whole = (folder / "pytorch_model.bin").read_bytes()
    (folder / "pytorch_model.bin").write_bytes(whole[: len(whole) // 2])
    assert "cut short" in refused(folder, "pytorch_model.bin: not a whole PyTorch file").hint
    torch.save([torch.ones(2)], folder / "pytorch_model.bin")
    refused(folder, "tensors by name were expected")


def test_shards(folder):
    expected = ours(folder)[0](IDS)
    model = transformers.BertForMaskedLM.from_pretrained(folder)
    (folder / "model.safetensors").unlink()
    model.save_pretrained(folder, max_shard_size="2KB")
    assert len(list(folder.glob("model-*.safetensors"))) > 1
    assert torch.equal(ours(folder)[0](IDS), expected)
    index = folder / "model.safetensors.index.json"
    last = sorted(folder.glob("model-*.safetensors"))[-1]
    last.unlink()
    refused(folder, rf"{last.name}: there is no such file")
    index.write_text(json.dumps({"weight_map": {"a": "../../secret.safetensors"}}))
    refused(folder, r"the shard '../../secret.safetensors' is not a file beside it")
    index.write_text("{}")
    refused(folder, "weight_map is missing")


def test_folders_that_lack_something(folder, tmp_path):
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[:-5])
    assert "cut short" in refused(folder, "model.safetensors: not a whole safetensors file").hint
    (folder / "model.safetensors").unlink()
    refused(folder, "there are no weights in it; looked for model.safetensors, model.safetensors.index.json, pytorch_")
    (folder / "model.safetensors").write_bytes(whole)
    (folder / "vocab.txt").rename(tmp_path / "away")
    refused(folder, r"there is no tokenizer in it; looked for tokenizer.json, vocab.json \+ merges.txt, vocab.txt")
    (tmp_path / "away").rename(folder / "vocab.txt")
    change(folder / "config.json", hidden_size=None)
    refused(folder, "config.json: hidden_size is missing")
    change(folder / "config.json", hidden_size=6, num_attention_heads=4)
    refused(folder, "a width of 6 cannot be divided into 4 heads")
    change(folder / "config.json", model_type="mamba")
    refused(folder, "model_type 'mamba' is not known; there are bert, distilbert, gpt2, llama, marian, openai-gpt")
    change(folder / "config.json", model_type=None)
    refused(folder, "config.json: it does not say its model_type; known are bert, distilbert")
    (folder / "config.json").write_text("[1]")
    refused(folder, "config.json: a JSON object was expected, not list")
    (folder / "config.json").write_text("{")
    refused(folder, "config.json: not a JSON file")
    (folder / "config.json").unlink()
    refused(folder, "bert: there is no config.json in it")
    refused(folder / "none", "none: there is no such folder or file")
    refused(folder / "vocab.txt", "vocab.txt: not a model that regard can open")


def test_weights_that_are_not_of_this_config(folder):
    change(folder / "config.json", num_hidden_layers=1, intermediate_size=8)
    with pytest.raises(CheckpointError) as problem:
        open_foreign(folder)
    text = str(problem.value)
    assert "model.safetensors: 19 weights do not fit" in text
    assert "bert.encoder.layer.0.intermediate.dense.weight: [5, 6], the model has [8, 6]" in text
    assert "bert.encoder.layer.1.output.dense.bias: unknown" in text


def test_every_family_has_its_file_and_name():
    assert sorted(FAMILIES) == ["bert", "distilbert", "gpt2", "llama", "marian", "openai-gpt", "vit", "whisper"]
    assert all(family.model_type == name for name, family in FAMILIES.items())


def test_a_model_and_a_tokenizer_of_our_own_are_opened_by_transformers(tmp_path):
    tokenizer = learn_tokenizer(["a dog runs along the beach"] * 3, "bpe", size=300, mask=True)
    options = {"size": "tiny", "n_tokens": tokenizer.size, "n_layers": 1, "nsp": False, "pooler": False}
    model = build("bert", options).eval()
    write_hub(tmp_path, ModelSpec("masked", "bert", options), tensors=weights_of(model), tokenizer=tokenizer)
    peer = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path).eval()
    their_tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    framed = tokenizer.frame(tokenizer.encode("a dog"), tokenizer.encode("runs"))
    given = their_tokenizer("a dog", "runs", return_tensors="pt")
    assert given.input_ids[0].tolist() == framed.ids
    assert their_tokenizer.mask_token == "<mask>"
    with torch.no_grad():
        ids, segments = torch.tensor([framed.ids]), torch.tensor([framed.segments])
        close(peer(input_ids=ids, token_type_ids=segments).logits, model(ids, segments=segments))
    again, foreign = ours(tmp_path)
    assert torch.equal(again(IDS), model(IDS))
    assert foreign.tokenizer.special_tokens == tokenizer.special_tokens
    assert foreign.tokenizer.frame([9], [8]) == tokenizer.frame([9], [8])
    assert foreign.tokenizer.encode("the dog") == tokenizer.encode("the dog")


def test_nothing_is_written_for_what_cannot_be_expressed(tmp_path):
    with pytest.raises(CheckpointError, match="no format of others can express this recurrent"):
        write_hub(
            tmp_path / "out", ModelSpec("translation", "recurrent", {"n_source": 9, "n_target": 9}), tensors={},
            tokenizer=None,
        )  # fmt: skip
    assert not (tmp_path / "out").exists()


def test_an_unknown_weight_in_a_good_file(folder):
    tensors = read_tensors(folder / "model.safetensors") | {"bert.more": torch.ones(1)}
    write_tensors(folder / "model.safetensors", tensors)
    refused(folder, "1 weight does not fit:\n  bert.more: unknown")
