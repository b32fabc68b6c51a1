"""Marian's translation models (Junczys-Dowmunt et al., 2018; OPUS-MT) in Hugging Face's spelling: our `transformer`.

Both add sinusoidal positions, but Marian's stand as all sines, then all cosines, where ours alternate. The features of
a Transformer have no order of their own, so they are put into ours once, in every weight that reads or writes them,
and the models are equal. Decoding begins with the padding's token, which must never come out again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import torch

from regard.checkpoints.foreign.family import Family, Fields, TheirConfig, refuse_uneven
from regard.checkpoints.foreign.names import NameMap, Rule, affine
from regard.checkpoints.spec import ModelSpec

# What is added to the logits is one row of a matrix in theirs.
_BIAS = Rule("final_logits_bias", "output_bias", taken=lambda row: row[0], given=lambda bias: bias[None])
_FIELDS = Fields(
    {"n_source": "vocab_size", "d_model": "d_model", "n_heads": "encoder_attention_heads",
     "d_feedforward": "encoder_ffn_dim", "n_encoder_layers": "encoder_layers", "n_decoder_layers": "decoder_layers",
     "pad_id": "pad_token_id"},
    {"dropout": ("dropout", 0.1), "attention_dropout": ("attention_dropout", 0.0),
     "activation_dropout": ("activation_dropout", 0.0), "n_positions": ("max_position_embeddings", 1024)},
    ("activation_function", "gelu"),
)  # fmt: skip
# What Marian's models all have; a file that says otherwise is of another build.
_BUILD: Mapping[str, Any] = {
    "normalize_before": False,
    "normalize_embedding": False,
    "add_final_layer_norm": False,
    "static_position_embeddings": True,
    "scale_embedding": True,
}


def _recognise(config: TheirConfig, names: Collection[str]) -> ModelSpec:
    for key, value in _BUILD.items():
        config.choose(key, {value: True}, default=value)
    refuse_uneven(
        config, ("encoder_attention_heads", "decoder_attention_heads"), ("encoder_ffn_dim", "decoder_ffn_dim")
    )
    shared, tied = config.get("share_encoder_decoder_embeddings", True), config.get("tie_word_embeddings", True)
    start = config["decoder_start_token_id"]
    options = _FIELDS.read(config) | {
        "n_target": config.get("decoder_vocab_size") or config["vocab_size"],
        "tied": "none" if not tied else "all" if shared else "output",
        "output_bias": True,
    }
    return ModelSpec("translation", "transformer", options, decode={"banned": [start]})


def _config(model: ModelSpec) -> dict[str, Any] | None:
    options = model.options
    if model.model != "transformer" or not _is_marian(options):
        return None
    return {
        "model_type": "marian",
        "architectures": ["MarianMTModel"],
        **_FIELDS.write(options),
        "decoder_vocab_size": options["n_target"],
        "decoder_attention_heads": options["n_heads"],
        "decoder_ffn_dim": options["d_feedforward"],
        "share_encoder_decoder_embeddings": options["tied"] == "all",
        "tie_word_embeddings": options["tied"] != "none",
        "scale_embedding": True,
        "is_encoder_decoder": True,
    }


def _is_marian(options: Mapping[str, Any]) -> bool:
    heads = options["n_kv_heads"] in (None, options["n_heads"])
    return heads and (options["order"], options["norm"], options["positions"]) == ("post", "layer", "sinusoidal")


def _names(model: ModelSpec) -> NameMap:
    names = _Names(int(model.options["d_model"]))
    rules = [*names.stack("encoder"), *names.stack("decoder"), _BIAS]
    ignored = tuple(f"model.{side}.embed_positions.weight" for side in ("encoder", "decoder"))
    sides = ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight")
    tied = model.options["tied"]
    if tied == "all":
        rules.append(names.columns(Rule("model.shared.weight", "source_embedding.weight")))
        return NameMap(tuple(rules), tied=dict.fromkeys(sides, "model.shared.weight"), ignored=ignored)
    rules += [
        names.columns(Rule(theirs, f"{ours}.weight"))
        for theirs, ours in zip(sides, ("source_embedding", "target_embedding", "output"), strict=True)
    ]
    return NameMap(tuple(rules), tied={sides[2]: sides[1]} if tied == "output" else {}, ignored=ignored)


class _Names:
    """The rules of Marian's weights, with the features of width D in our order."""

    def __init__(self, d_model: int) -> None:
        self.to_ours = torch.arange(d_model).view(2, -1).t().flatten()  # ours 0, 1, 2, 3 … ← 0, D/2, 1, D/2 + 1 …
        self.to_theirs = self.to_ours.argsort()

    def stack(self, side: str) -> list[Rule]:
        """All layers of the encoder or the decoder."""
        theirs, ours = f"model.{side}.layers.{{i}}", f"{side}.blocks.{{i}}"
        own = tuple(f"{theirs}.self_attn.{part}_proj" for part in "qkv")
        rules = [
            *self.reads(own, f"{ours}.attention.query_key_value"),
            *self.rows(f"{theirs}.self_attn.out_proj", f"{ours}.attention.out"),
            *self.rows(f"{theirs}.self_attn_layer_norm", f"{ours}.around_attention.norm"),
            *self.reads((f"{theirs}.fc1",), f"{ours}.feedforward.inner"),
            *self.rows(f"{theirs}.fc2", f"{ours}.feedforward.outer"),
            *self.rows(f"{theirs}.final_layer_norm", f"{ours}.around_feedforward.norm"),
        ]
        if side == "encoder":
            return rules
        cross = f"{theirs}.encoder_attn"
        return [
            *rules,
            *self.reads((f"{cross}.q_proj",), f"{ours}.cross.query"),
            *self.reads((f"{cross}.k_proj", f"{cross}.v_proj"), f"{ours}.cross.key_value"),
            *self.rows(f"{cross}.out_proj", f"{ours}.cross.out"),
            *self.rows(f"{theirs}.encoder_attn_layer_norm", f"{ours}.around_cross.norm"),
        ]

    def reads(self, theirs: tuple[str, ...], ours: str) -> list[Rule]:
        """A layer, or several joined, that takes the features in: its columns are they."""
        weight, bias = affine(theirs, ours)
        return [self.columns(weight), bias]

    def rows(self, theirs: str, ours: str) -> list[Rule]:
        """A layer that puts the features out, or a norm: the rows of its weight and its bias are they."""
        return [
            replace(rule, taken=lambda tensor: tensor[self.to_ours], given=lambda tensor: tensor[self.to_theirs])
            for rule in affine(theirs, ours)
        ]

    def columns(self, rule: Rule) -> Rule:
        """The rule of a weight whose columns are the features."""
        return replace(
            rule, taken=lambda tensor: tensor[:, self.to_ours], given=lambda tensor: tensor[:, self.to_theirs]
        )


MARIAN = Family("marian", recognise=_recognise, names=_names, config=_config, template="eos")
