"""DistilBERT's files (Sanh et al., 2019): a BERT without segments and pooler, under other names.

Its classifier puts [CLS] through a layer of its own with ReLU, where BERT's uses the pooler.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from regard.checkpoints.foreign.bert import Heads, backbone_of
from regard.checkpoints.foreign.family import Family, Fields, TheirConfig
from regard.checkpoints.foreign.names import NameMap, Rule, affine, block_rules
from regard.checkpoints.spec import ModelSpec

_FIELDS = Fields(
    {"n_tokens": "vocab_size", "d_model": "dim", "n_heads": "n_heads", "d_feedforward": "hidden_dim",
     "n_layers": "n_layers", "n_positions": "max_position_embeddings"},
    {"dropout": ("dropout", 0.1), "attention_dropout": ("attention_dropout", 0.1),
     "tied": ("tie_word_embeddings", True)},
    ("activation", "gelu"),
)  # fmt: skip
_DROPOUTS = {"classifier": "seq_classif_dropout", "span-reader": "qa_dropout"}
HEADS = Heads("DistilBert", transform="relu", fields=_FIELDS, dropouts=_DROPOUTS)
_LAYER = (
    ("attention.q_lin", "attention.k_lin", "attention.v_lin"), "attention.out_lin", "sa_layer_norm",
    "ffn.lin1", "ffn.lin2", "output_layer_norm",
)  # fmt: skip
_EPSILON = 1e-12  # of every norm; the config has no word for it


def _recognise(config: TheirConfig, names: Collection[str]) -> ModelSpec:
    backbone = _FIELDS.read(config) | {
        "n_segments": 0,
        "norm_epsilon": _EPSILON,
        "mlm": "vocab_transform.weight" in names,
        "pooler": False,
        "nsp": False,
        "pad_id": config.get("pad_token_id") or 0,
    }
    dropouts = (config.get("seq_classif_dropout", 0.2), config.get("qa_dropout", 0.1))
    return HEADS.recognise(config, backbone, dropouts=dropouts)


def _config(model: ModelSpec) -> dict[str, Any] | None:
    backbone = backbone_of(model)
    if not HEADS.expresses(model) or backbone["n_segments"] or backbone["norm_epsilon"] != _EPSILON:
        return None
    return HEADS.config(model)


def _names(model: ModelSpec) -> NameMap:
    at = "" if model.model == "bert" else "backbone."
    tied = bool(backbone_of(model).get("tied", True))
    word = "distilbert.embeddings.word_embeddings.weight"
    return NameMap(
        (*_backbone(at), *_heads(model.model, tied=tied)),
        prefixes=("distilbert.",),
        tied={"vocab_projector.weight": word} if tied else {},
        ignored=("distilbert.embeddings.position_ids",),
    )


def _backbone(at: str) -> tuple[Rule, ...]:
    first = "distilbert.embeddings"
    return (
        Rule(f"{first}.word_embeddings.weight", f"{at}embedding.weight"),
        Rule(f"{first}.position_embeddings.weight", f"{at}positions.table.weight"),
        *affine(f"{first}.LayerNorm", f"{at}norm"),
        *block_rules("distilbert.transformer.layer.{i}.", at + "encoder.blocks.{i}", _LAYER),
    )


def _heads(model: str, *, tied: bool) -> tuple[Rule, ...]:
    if model == "span-reader":
        return affine("qa_outputs", "output")
    if model == "classifier":
        return (*affine("pre_classifier", "transform"), *affine("classifier", "output"))
    return (
        *affine("vocab_transform", "mlm.dense"),
        *affine("vocab_layer_norm", "mlm.norm"),
        Rule("vocab_projector.bias", "output_bias"),
        *(() if tied else (Rule("vocab_projector.weight", "output.weight"),)),
    )


DISTILBERT = Family("distilbert", recognise=_recognise, names=_names, config=_config, template="cls-sep")
