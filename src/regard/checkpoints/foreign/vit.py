"""The Vision Transformer's files in Hugging Face's spelling: the bare encoder, and classifiers of images.

    architecture                      ours
    ViTModel                          vit without classes, with the pooler that the file holds
    ViTForImageClassification         vit with classes

What is done to pixels before stands beside them, in preprocessor_config.json: see `regard.data.images.space`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from regard.checkpoints.foreign.family import Family, Fields, TheirConfig, labels_for, labels_of
from regard.checkpoints.foreign.names import NameMap, Rule, affine, block_rules
from regard.checkpoints.spec import ModelSpec
from regard.errors import CheckpointError

_LAYER = (
    ("attention.attention.query", "attention.attention.key", "attention.attention.value"), "attention.output.dense",
    "layernorm_before", "intermediate.dense", "output.dense", "layernorm_after",
)  # fmt: skip
_KNOWN = ("ViTModel", "ViTForImageClassification")
_FIELDS = Fields(
    {"d_model": "hidden_size", "n_heads": "num_attention_heads", "d_feedforward": "intermediate_size",
     "n_layers": "num_hidden_layers"},
    {"n_channels": ("num_channels", 3), "dropout": ("hidden_dropout_prob", 0.0), "bias": ("qkv_bias", True),
     "attention_dropout": ("attention_probs_dropout_prob", 0.0), "norm_epsilon": ("layer_norm_eps", 1e-12)},
    ("hidden_act", "gelu"),
)  # fmt: skip


def _recognise(config: TheirConfig, names: Collection[str]) -> ModelSpec:
    kind = config.architecture(*_KNOWN)
    config.choose("pooler_act", {"tanh": True}, default="tanh")
    labels = labels_of(config) if kind == "ViTForImageClassification" else None
    held = _map().canonical(names)
    options = _FIELDS.read(config) | {
        "n_classes": 0 if labels is None else len(labels),
        "image": _sides(config, "image_size", 224),
        "patch": _patch(config),
        "pooler": "vit.pooler.dense.weight" in held and labels is None,
    }
    return ModelSpec("images", "vit", options, labels)


def _config(model: ModelSpec) -> dict[str, Any] | None:
    options = model.options
    if model.model != "vit" or options["stem"] != "patch" or options["pooling"] != "class":
        return None
    if options["positions"] != "learned" or (options["pooler"] and options["n_classes"]):
        return None
    height, width = options["image"]
    config = {
        "model_type": "vit",
        "architectures": [_KNOWN[1] if options["n_classes"] else _KNOWN[0]],
        "image_size": height if height == width else [height, width],
        "patch_size": options["patch"],
        **_FIELDS.write(options),
        "pooler_output_size": options["d_model"],
    }
    names = model.labels or tuple(f"LABEL_{number}" for number in range(options["n_classes"]))
    return config | (labels_for(names) if options["n_classes"] else {})


def _names(model: ModelSpec) -> NameMap:
    return _map(headed=bool(model.options["n_classes"]))


def _map(*, headed: bool = False) -> NameMap:
    stem, pooler = "vit.embeddings", ("vit.pooler.dense.weight", "vit.pooler.dense.bias")
    head = affine("classifier", "output") if headed else affine("vit.pooler.dense", "pooler")
    return NameMap(
        (
            Rule(f"{stem}.cls_token", "class_token", taken=lambda t: t.reshape(-1), given=lambda t: t.view(1, 1, -1)),
            Rule(
                f"{stem}.position_embeddings", "positions.table.weight", taken=lambda t: t[0], given=lambda t: t[None]
            ),
            *affine(f"{stem}.patch_embeddings.projection", "stem.projection"),
            *block_rules("vit.encoder.layer.{i}.", "encoder.blocks.{i}", _LAYER),
            *affine("vit.layernorm", "encoder.final_norm"),
            *head,
        ),
        prefixes=("vit.",),
        ignored=(f"{stem}.mask_token", *(pooler if headed else ())),  # parts that nothing in the model uses
    )


def _sides(config: TheirConfig, key: str, default: int) -> tuple[int, int]:
    value = config.get(key, default)
    sides = (value, value) if isinstance(value, int) else tuple(value) if isinstance(value, list) else ()
    if len(sides) != 2 or not all(isinstance(side, int) for side in sides):
        raise CheckpointError(f"{config.origin}: {key} is {value!r}; a side, or height and width, is needed")
    return sides


def _patch(config: TheirConfig) -> int:
    down, across = _sides(config, "patch_size", 16)
    if down != across:
        raise CheckpointError(f"{config.origin}: patches of {down} × {across}; regard has square ones only")
    return down


VIT = Family("vit", recognise=_recognise, names=_names, config=_config, template=None)
