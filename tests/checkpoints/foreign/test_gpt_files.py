"""GPT-1, GPT-2 and Llama in and out: the same numbers as transformers, from its files and from ours."""

import json

import pytest
import torch

from hub_peers import close, ours, randomised, transformers
from regard.attention import Rows
from regard.checkpoints.foreign.gpt import _gpt1_config, pad_id_of
from regard.checkpoints.foreign.hub import open_foreign, write_hub
from regard.checkpoints.spec import ModelSpec
from regard.checkpoints.weights import weights_of
from regard.errors import CheckpointError
from regard.models.registry import build

V = 37
IDS = torch.randint(0, V, (3, 11), generator=torch.Generator().manual_seed(1))
PIECES = ["<unk>", "<s>", "</s>", "<|endoftext|>", "a", "b", "ab", "a</w>", "b</w>"]
LLAMA3 = {"rope_type": "llama3", "rope_theta": 500.0, "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 3.0,
          "original_max_position_embeddings": 16}  # fmt: skip
LINEAR = {"rope_type": "linear", "rope_theta": 10000.0, "factor": 3.0}


def gpt1(**options):
    sizes = {"vocab_size": V, "n_embd": 21, "n_head": 3, "n_layer": 2, "n_positions": 13}
    return randomised(transformers.OpenAIGPTLMHeadModel(transformers.OpenAIGPTConfig(**sizes | options)))


def gpt2(**options):
    sizes = {"vocab_size": V, "n_embd": 20, "n_head": 5, "n_layer": 3, "n_positions": 12, "eos_token_id": 3}
    sizes |= {"bos_token_id": 3}
    return randomised(transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes | options)))


def llama(**options):
    sizes = {"vocab_size": V, "hidden_size": 36, "num_attention_heads": 9, "num_key_value_heads": 3, "head_dim": 6}
    sizes |= {"num_hidden_layers": 2, "intermediate_size": 22, "max_position_embeddings": 64}
    return randomised(transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes | options)))


CASES = [
    (gpt1, {}),
    (gpt1, {"afn": "silu", "layer_norm_epsilon": 1e-3}),
    (gpt1, {"tie_word_embeddings": False}),
    (gpt2, {}),
    (gpt2, {"activation_function": "relu", "n_inner": 17, "layer_norm_epsilon": 1e-3}),
    (gpt2, {"activation_function": "gelu", "tie_word_embeddings": False, "n_embd": 21, "n_head": 7}),
    (llama, {}),
    (llama, {"tie_word_embeddings": True, "hidden_act": "gelu", "rms_norm_eps": 1e-2}),
    (llama, {"attention_bias": True, "mlp_bias": True, "num_key_value_heads": 1}),
    (llama, {"rope_parameters": LLAMA3}),
    (llama, {"rope_parameters": LINEAR, "head_dim": None, "num_key_value_heads": None}),
]


def saved(model, folder):
    """A folder with a model and a vocabulary."""
    model.save_pretrained(folder)
    (folder / "vocab.json").write_text(json.dumps({piece: index for index, piece in enumerate(PIECES)}))
    (folder / "merges.txt").write_text("#version: 0.2\na b\n")
    return folder


def logits_of(model, ids=IDS):
    with torch.no_grad():
        return model(ids).logits


def changed(folder, **values):
    """The config.json of a folder, with some of its values changed."""
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def written(folder, options):
    model = build("gpt", options)
    write_hub(folder, ModelSpec("language", "gpt", options), tensors=weights_of(model), tokenizer=None)


@pytest.mark.parametrize(("make", "options"), CASES)
def test_read_and_written_with_the_same_numbers(make, options, tmp_path):
    peer = make(**options)
    model, foreign = ours(saved(peer, tmp_path / "theirs"))
    assert (foreign.task, foreign.model) == ("language", "gpt")
    close(model(IDS).detach(), logits_of(peer))
    write_hub(tmp_path / "back", foreign, tensors=weights_of(model), tokenizer=foreign.tokenizer)
    back, report = type(peer).from_pretrained(tmp_path / "back", output_loading_info=True)
    assert not any(report[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    close(logits_of(back.eval()), logits_of(peer))
    assert transformers.AutoTokenizer.from_pretrained(tmp_path / "back")("ab").input_ids == foreign.tokenizer.encode(
        "ab"
    )
    again, _ = ours(tmp_path / "back")
    assert torch.equal(again(IDS), model(IDS))


@pytest.mark.parametrize("make", [gpt1, gpt2, llama])
def test_continues_as_transformers_does(make, tmp_path):
    """Greedily, from prompts of different lengths: theirs one by one, ours in one batch."""
    peer = make()
    model, _ = ours(saved(peer, tmp_path))
    lengths = torch.tensor([6, 1, 4])
    stepper, tokens, texts = model.start(Rows(IDS, lengths)), IDS.gather(1, lengths[:, None] - 1)[:, 0], []
    for row, length in enumerate(lengths.tolist()):
        texts.append(IDS[row, :length])
    for _ in range(5):
        logits = stepper.step(tokens)
        for row, text in enumerate(texts):
            close(logits[row].detach(), logits_of(peer, text[None])[0, -1])
        tokens = logits.argmax(-1)
        texts = [torch.cat((text, token[None])) for text, token in zip(texts, tokens, strict=True)]


def test_bare_backbones_and_old_buffers_are_read(tmp_path):
    peer = gpt2()
    peer.transformer.save_pretrained(tmp_path / "bare")
    saved(peer, tmp_path / "bare")  # the vocabulary, and then the bare weights over the others
    peer.transformer.save_pretrained(tmp_path / "bare")
    close(ours(tmp_path / "bare")[0](IDS).detach(), logits_of(peer))
    folder = saved(peer, tmp_path / "old")
    (folder / "model.safetensors").unlink()
    old = {name.removeprefix("transformer."): tensor for name, tensor in peer.state_dict().items()}
    old |= {"h.0.attn.bias": torch.ones(1, 1, 12, 12), "h.0.attn.masked_bias": torch.tensor(-1e4)}
    torch.save(old, folder / "pytorch_model.bin")
    close(ours(folder)[0](IDS).detach(), logits_of(peer))


def test_rotary_settings_as_older_files_say_them(tmp_path):
    peer = llama(rope_parameters=LLAMA3)
    folder = saved(peer, tmp_path)
    old = {**LLAMA3, "type": LLAMA3["rope_type"]}
    del old["rope_theta"], old["rope_type"]
    changed(folder, rope_parameters=None, rope_theta=500.0, rope_scaling=old)
    close(ours(folder)[0](IDS).detach(), logits_of(peer))
    changed(folder, rope_scaling={"type": "yarn", "factor": 2.0})
    with pytest.raises(CheckpointError, match="scaled by 'yarn'; regard has 'default', 'linear' and 'llama3'"):
        open_foreign(folder)


@pytest.mark.parametrize(
    ("make", "values", "message"),
    [
        (gpt2, {"scale_attn_by_inverse_layer_idx": True, "scale_attn_weights": False},
         "does not have scale_attn_weights = False, scale_attn_by_inverse_layer_idx = True"),
        (gpt2, {"activation_function": "quick_gelu"}, "activation_function is 'quick_gelu', which regard does not"),
        (gpt2, {"architectures": ["GPT2ForSequenceClassification"]}, "'GPT2ForSequenceClassification' is not known"),
        (gpt1, {"architectures": ["OpenAIGPTDoubleHeadsModel"]}, "there are OpenAIGPTLMHeadModel, OpenAIGPTModel"),
        (llama, {"partial_rotary_factor": 0.5}, "does not have partial_rotary_factor = 0.5"),
    ],
)  # fmt: skip
def test_what_is_not_ours_is_refused(make, values, message, tmp_path):
    folder = saved(make(), tmp_path)
    changed(folder, **values)
    with pytest.raises(CheckpointError, match=message):
        open_foreign(folder)


def test_everything_that_does_not_fit_is_said_at_once(tmp_path):
    folder = saved(llama(), tmp_path)
    changed(folder, intermediate_size=23, num_hidden_layers=3)
    with pytest.raises(CheckpointError) as info:
        open_foreign(folder)
    for name in (
        "model.layers.2.mlp.up_proj.weight: missing",
        r"layers.0.mlp.down_proj.weight: [36, 22], the model has",
    ):
        assert name in str(info.value)


def test_each_model_is_written_as_the_family_it_belongs_to(tmp_path):
    tiny = {"n_tokens": V, "d_model": 16, "n_heads": 4, "n_layers": 1}
    expected = {"gpt1": "openai-gpt", "gpt2": "gpt2", "llama-tiny": "llama"}
    for size, model_type in expected.items():
        written(tmp_path / size, {"size": size, **tiny})
        assert json.loads((tmp_path / size / "config.json").read_text())["model_type"] == model_type
    for odd in ({"norm_bias": False}, {"positions": "sinusoidal"}, {"norm": "rms"}, {"gated": True}):
        with pytest.raises(CheckpointError, match="no format of others can express this gpt"):
            written(tmp_path / "odd", {"size": "gpt2", **tiny, **odd})


@pytest.mark.parametrize(("d_feedforward", "family"), [(None, "openai-gpt"), (84, "openai-gpt"), (85, None)])
def test_the_first_gpt_has_feedforwards_of_four_times_its_width(d_feedforward, family):
    sizes = {"n_tokens": V, "n_positions": 13, "d_model": 21, "n_heads": 3, "n_layers": 1, "order": "post"}
    model = ModelSpec("language", "gpt", sizes | {"d_feedforward": d_feedforward, "activation": "gelu_tanh"})
    found = _gpt1_config(model)
    assert (None if found is None else found["model_type"]) == family


@pytest.mark.parametrize(
    ("config", "pad_id"),
    [
        ({"pad_token_id": 0, "eos_token_id": 5}, 0),
        ({"pad_token_id": None, "eos_token_id": [4, 6]}, 4),
        ({"pad_token_id": 9, "eos_token_id": [], "bos_token_id": 8}, 8),
        ({"pad_token_id": -1, "eos_token_id": "x"}, 0),
        ({}, 0),
    ],
)
def test_the_id_to_fill_up_with_is_theirs_if_it_is_one_of_nine(config, pad_id):
    assert pad_id_of(config, 9) == pad_id
