"""Whisper's files (Radford et al., 2022): OpenAI's own `.pt`, and folders in Hugging Face's layout.

Both become our `speech-transformer`. Their keys have no bias where ours have one: a softmax over keys cannot notice it,
so it is read as zero, and left out when it is written. The encoder's table of waves is computed, not stored.

OpenAI's file holds weights and sizes but no vocabulary: that stands beside it as `gpt2.tiktoken` (of models called
`.en`) or `multilingual.tiktoken`, or as Hugging Face's tokenizer.json.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.checkpoints.foreign.family import Family, Fields, TheirConfig, refuse_uneven, understood
from regard.checkpoints.foreign.files import as_tensors, load_pickled, read_json
from regard.checkpoints.foreign.names import NameMap, Rule, affine, block_rules
from regard.checkpoints.foreign.whisper_tokens import (
    ENGLISH_TOKENS,
    ENGLISH_VOCABULARY,
    LANGUAGES,
    PATIENCE,
    PLAIN,
    decoding,
    find_tokenizer,
    language_for,
    prompt_for,
)
from regard.checkpoints.spec import ModelSpec, Pretrained
from regard.data.text.tokenizers import Tokenizer
from regard.errors import CheckpointError, kind_of
from regard.models.speech_transformer import WHISPER_OPTIONS, waves

TASK, MODEL = "speech", "speech-transformer"

_HUB = {
    "at": "model.", "conv": "conv", "layer": "layers.{i}.", "own": "self_attn", "cross": "encoder_attn",
    "query": "q_proj", "key": "k_proj", "value": "v_proj", "out": "out_proj", "own_norm": "self_attn_layer_norm",
    "cross_norm": "encoder_attn_layer_norm", "inner": "fc1", "outer": "fc2", "norm": "final_layer_norm",
    "encoder_norm": "layer_norm", "decoder_norm": "layer_norm", "tokens": "embed_tokens.weight",
    "positions": "embed_positions.weight",
}  # fmt: skip
_OPENAI = {
    "at": "", "conv": "conv", "layer": "blocks.{i}.", "own": "attn", "cross": "cross_attn", "query": "query",
    "key": "key", "value": "value", "out": "out", "own_norm": "attn_ln", "cross_norm": "cross_attn_ln",
    "inner": "mlp.0", "outer": "mlp.2", "norm": "mlp_ln", "encoder_norm": "ln_post", "decoder_norm": "ln",
    "tokens": "token_embedding.weight", "positions": "positional_embedding",
}  # fmt: skip
_FIELDS = Fields(
    {"n_mels": "num_mel_bins", "n_target": "vocab_size", "d_model": "d_model", "n_heads": "encoder_attention_heads",
     "d_feedforward": "encoder_ffn_dim", "n_encoder_layers": "encoder_layers", "n_decoder_layers": "decoder_layers",
     "n_places": "max_source_positions", "n_positions": "max_target_positions"},
    {"dropout": ("dropout", 0.0), "attention_dropout": ("attention_dropout", 0.0)},
    ("activation_function", "gelu"),
)  # fmt: skip
_OPENAI_SIZES = {
    "n_mels": "n_mels", "n_target": "n_vocab", "d_model": "n_audio_state", "n_heads": "n_audio_head",
    "n_encoder_layers": "n_audio_layer", "n_decoder_layers": "n_text_layer", "n_places": "n_audio_ctx",
    "n_positions": "n_text_ctx",
}  # fmt: skip


def open_openai(path: Path | str) -> Pretrained:
    """OpenAI's file in our terms, its weights in single precision."""
    path = Path(path)
    sizes, tensors = read_openai(path)
    with sizes.reading():
        options = read_options(sizes)
    shapes = understood(ModelSpec(TASK, MODEL, options), tensors, origin=str(path))
    names = _map(_OPENAI, int(options["d_model"]), prefixes=())
    ours = names.read(tensors, shapes, origin=str(path))
    tokenizer = find_tokenizer(path, n_tokens=int(options["n_target"]))
    decode = decoding(tokenizer, n_tokens=int(options["n_target"]), n_layers=int(options["n_decoder_layers"]),
                      n_heads=int(options["n_heads"]), n_positions=int(options["n_positions"]))  # fmt: skip
    return Pretrained(TASK, MODEL, options, decode=decode, tensors=ours, tokenizer=tokenizer, origin=str(path))


def read_openai(path: Path) -> tuple[TheirConfig, dict[str, Tensor]]:
    """The sizes and the weights that a file holds."""
    return parts_of(load_pickled(path), path)


def parts_of(held: Any, path: Path) -> tuple[TheirConfig, dict[str, Tensor]]:
    """The two parts of what a file held."""
    if not isinstance(held, Mapping) or not {"dims", "model_state_dict"} <= held.keys():
        raise CheckpointError(
            f"{path}: no Whisper model (it has no dims and model_state_dict)",
            hint="of .pt files regard opens OpenAI's Whisper",
        )
    if not isinstance(held["dims"], Mapping):
        raise CheckpointError(f"{path}: its dims are {kind_of(held['dims'])}, and sizes by name were expected")
    return TheirConfig(held["dims"], origin=str(path)), as_tensors(held["model_state_dict"], path)


def read_options(sizes: TheirConfig) -> dict[str, Any]:
    """What the sizes say of the model."""
    refuse_uneven(sizes, ("n_audio_state", "n_text_state"), ("n_audio_head", "n_text_head"))
    return {
        **WHISPER_OPTIONS,
        **{ours: sizes[theirs] for ours, theirs in _OPENAI_SIZES.items()},
        "d_feedforward": 4 * sizes["n_audio_state"],
        "pad_id": ENGLISH_TOKENS if sizes["n_vocab"] <= 51864 else ENGLISH_TOKENS + 1,
    }


def _recognise(config: TheirConfig, names: Collection[str]) -> ModelSpec:
    config.choose("scale_embedding", {False: True}, default=False)
    config.choose("tie_word_embeddings", {True: True}, default=True)
    refuse_uneven(
        config, ("encoder_attention_heads", "decoder_attention_heads"), ("encoder_ffn_dim", "decoder_ffn_dim")
    )
    options = dict(WHISPER_OPTIONS) | _FIELDS.read(config) | {"pad_id": config.get("pad_token_id") or 0}
    return ModelSpec(TASK, MODEL, options, decode=_decode(config))


def _decode(config: TheirConfig) -> dict[str, Any]:
    """What the folder says about decoding, in its generation_config.json or, of old, in its config.json."""
    path = Path(config.origin).with_name("generation_config.json")
    given = dict(config) | (read_json(path) if path.exists() else {})
    decode: dict[str, Any] = {"max_length": max(2, int(config["max_target_positions"]) // 2), "patience": PATIENCE}
    if int(config["vocab_size"]) > ENGLISH_TOKENS:
        n_tokens = int(config["vocab_size"])
        decode |= {"prompt": prompt_for(n_tokens), **language_for(n_tokens), "fallback": "long"}
    if given.get("suppress_tokens"):
        decode["banned"] = [int(token) for token in given["suppress_tokens"] if int(token) >= 0]
    if given.get("begin_suppress_tokens"):
        decode["not_first"] = [int(token) for token in given["begin_suppress_tokens"]]
    if given.get("alignment_heads"):
        decode["heads"] = [f"{layer}.{head}" for layer, head in given["alignment_heads"]]
    return decode


def _config(model: ModelSpec) -> dict[str, Any] | None:
    options = model.options
    if model.model != MODEL or not is_whisper(options):
        return None
    return _FIELDS.write(options) | {
        "model_type": "whisper",
        "architectures": ["WhisperForConditionalGeneration"],
        "decoder_attention_heads": options["n_heads"],
        "decoder_ffn_dim": options["d_feedforward"],
        "scale_embedding": False,
        "is_encoder_decoder": True,
        "pad_token_id": options["pad_id"],
    }


def _stored(model: ModelSpec) -> dict[str, Tensor]:
    options = model.options
    return {"model.encoder.embed_positions.weight": waves(int(options["n_places"]), int(options["d_model"]))}


def _generation(model: ModelSpec, tokenizer: Tokenizer) -> dict[str, Any]:
    """What begins a text, what may not, what is never written, and which heads tell the time."""
    decode, ids = model.decode, tokenizer.core.token_to_id
    heads = [[int(part) for part in head.split(".")] for head in decode.get("heads", ())]
    config: dict[str, Any] = {
        "decoder_start_token_id": tokenizer.bos_id,
        "bos_token_id": tokenizer.bos_id,
        "eos_token_id": tokenizer.eos_id,
        "pad_token_id": tokenizer.eos_id,
        "max_length": model.options["n_positions"],
        "suppress_tokens": list(decode.get("banned", ())),
        "begin_suppress_tokens": list(decode.get("not_first", ())),
        "return_timestamps": False,
        "is_multilingual": ids("<|transcribe|>") is not None and int(model.options["n_target"]) > ENGLISH_VOCABULARY,
    }
    if config["is_multilingual"]:
        named = {code: ids(f"<|{code}|>") for code in LANGUAGES}
        config["lang_to_id"] = {f"<|{code}|>": number for code, number in named.items() if number is not None}
        config["task_to_id"] = {task: ids(f"<|{task}|>") for task in ("transcribe", "translate")}
    if ids(PLAIN) is not None:
        config["no_timestamps_token_id"] = ids(PLAIN)
    return config | ({"alignment_heads": heads} if heads else {})


def is_whisper(options: Mapping[str, Any]) -> bool:
    """Whether a model, all of whose options are said, is built as Whisper is."""
    return not unlike_whisper(options)


def unlike_whisper(options: Mapping[str, Any]) -> dict[str, Any]:
    """Those of a model's options that Whisper has otherwise."""
    fixed = ("order", "encoder_positions", "decoder_positions", "scaled")
    others = {name: options[name] for name in fixed if options[name] != WHISPER_OPTIONS[name]}
    if tuple(options["strides"]) != WHISPER_OPTIONS["strides"]:
        others["strides"] = tuple(options["strides"])
    return others | ({"ctc": True} if options["ctc"] else {})


def _names(model: ModelSpec) -> NameMap:
    return _map(_HUB, int(model.options["d_model"]), prefixes=("model.",))


def _map(spelled: Mapping[str, str], d_model: int, *, prefixes: tuple[str, ...]) -> NameMap:
    s, at = spelled, spelled["at"]
    tokens = f"{at}decoder.{s['tokens']}"
    rules = (
        *affine(f"{at}encoder.{s['conv']}1", "stem.layers.0"),
        *affine(f"{at}encoder.{s['conv']}2", "stem.layers.1"),
        Rule(tokens, "target_embedding.weight"),
        Rule(f"{at}decoder.{s['positions']}", "target_positions.table.weight"),
        *affine(f"{at}encoder.{s['encoder_norm']}", "encoder.final_norm"),
        *affine(f"{at}decoder.{s['decoder_norm']}", "decoder.final_norm"),
        *_layer(s, "encoder", d_model),
        *_layer(s, "decoder", d_model),
    )
    tied = {"proj_out.weight": tokens} if at else {}
    return NameMap(rules, prefixes=prefixes, tied=tied, ignored=(f"{at}encoder.{s['positions']}", "decoder.mask"))


def _layer(s: Mapping[str, str], side: str, d_model: int) -> tuple[Rule, ...]:
    theirs, ours = f"{s['at']}{side}.{s['layer']}", f"{side}.blocks.{{i}}"
    parts = (None, f"{s['own']}.{s['out']}", s["own_norm"], s["inner"], s["outer"], s["norm"])
    rules = [
        *_looks(f"{theirs}{s['own']}.", f"{ours}.attention.query_key_value", s, d_model),
        *block_rules(theirs, ours, parts),
    ]
    if side == "decoder":
        cross = f"{theirs}{s['cross']}."
        rules += [
            *affine(f"{cross}{s['query']}", f"{ours}.cross.query"),
            Rule((f"{cross}{s['key']}.weight", f"{cross}{s['value']}.weight"), f"{ours}.cross.key_value.weight"),
            Rule(
                f"{cross}{s['value']}.bias",
                f"{ours}.cross.key_value.bias",
                taken=lambda bias: torch.cat((torch.zeros_like(bias), bias)),
                given=lambda bias: bias[d_model:],
            ),
            *affine(f"{cross}{s['out']}", f"{ours}.cross.out"),
            *affine(f"{theirs}{s['cross_norm']}", f"{ours}.around_cross.norm"),
        ]
    return tuple(rules)


def _looks(theirs: str, ours: str, s: Mapping[str, str], d_model: int) -> list[Rule]:
    """Queries, keys and values of a layer; of the biases, only those of queries and values."""
    parts = tuple(f"{theirs}{s[part]}.weight" for part in ("query", "key", "value"))
    biases = tuple(f"{theirs}{s[part]}.bias" for part in ("query", "value"))

    def with_keys(bias: Tensor) -> Tensor:
        return torch.cat((bias[:d_model], torch.zeros_like(bias[:d_model]), bias[d_model:]))

    def without_keys(bias: Tensor) -> Tensor:
        return torch.cat((bias[:d_model], bias[2 * d_model :]))

    return [Rule(parts, f"{ours}.weight"), Rule(biases, f"{ours}.bias", taken=with_keys, given=without_keys)]


WHISPER = Family("whisper", recognise=_recognise, names=_names, config=_config, stored=_stored, generation=_generation)
