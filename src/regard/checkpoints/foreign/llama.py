"""Llama and its many relatives of the same build, as Hugging Face names them: `llama`.

Queries, keys and values are stored apart, and so are the two halves of the gated feed-forward. Features turn in
halves (l with l + E/2), as ours do; files that pair neighbours instead (llama2.c, GGUF) go through `halves`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.attention import Stretch
from regard.checkpoints.foreign.family import Family, Fields, TheirConfig, understood
from regard.checkpoints.foreign.gpt import TASK, gpt_config, pad_id_of
from regard.checkpoints.foreign.names import NameMap, Rule
from regard.checkpoints.foreign.stored_blocks import join_stored
from regard.checkpoints.spec import ModelSpec, Pretrained
from regard.errors import CheckpointError
from regard.layers.block_weights import BlockMatrix
from regard.models.gpt import GPTConfig
from regard.models.registry import configure

# What every Llama has, whatever its size.
BUILD: Mapping[str, Any] = {"order": "pre", "norm": "rms", "positions": "rotary", "gated": True, "dropout": 0.0,
                            "activation": "silu", "attention_bias": False, "feedforward_bias": False}  # fmt: skip

# How rotary positions are slowed down, by the name that others have for it: ours → theirs.
_STRETCHES: Mapping[str, Mapping[str, str]] = {
    "default": {},
    "linear": {"factor": "factor"},
    "llama3": {"factor": "factor", "low": "low_freq_factor", "high": "high_freq_factor",
               "n_trained": "original_max_position_embeddings"},
}  # fmt: skip
_FIELDS = Fields(
    {"n_tokens": "vocab_size", "d_model": "hidden_size", "n_layers": "num_hidden_layers",
     "n_heads": "num_attention_heads", "d_feedforward": "intermediate_size"},
    {"n_kv_heads": ("num_key_value_heads", None), "d_head": ("head_dim", None),
     "n_positions": ("max_position_embeddings", 2048), "norm_epsilon": ("rms_norm_eps", 1e-6),
     "attention_bias": ("attention_bias", False), "feedforward_bias": ("mlp_bias", False),
     "attention_dropout": ("attention_dropout", 0.0), "tied": ("tie_word_embeddings", False)},
    ("hidden_act", "silu"),
)  # fmt: skip


def llama_names(config: GPTConfig, *, spelled: Mapping[str, str], neighboured: bool = False) -> NameMap:
    """The rules of a Llama whose parts are `spelled` so; `neighboured`: rotary features pair neighbours in theirs."""
    taken, given = (halves(config), neighbours(config)) if neighboured else (None, None)
    E = config.d_head or config.d_model // config.n_heads
    rows = (config.n_heads * E, *((config.n_kv_heads or config.n_heads) * E,) * 2)
    layers: dict[tuple[str, ...], tuple[str, bool]] = {
        ("query", "key", "value"): ("attention.query_key_value", config.attention_bias),
        ("out",): ("attention.out", config.attention_bias),
        ("gate", "up"): ("feedforward.gate_inner", config.feedforward_bias),
        ("down",): ("feedforward.outer", config.feedforward_bias),
        ("attention_norm",): ("around_attention.norm", False),
        ("feedforward_norm",): ("around_feedforward.norm", False),
    }
    rules = [Rule(spelled["tokens"], "embedding.weight"), Rule(spelled["norm"], "stack.final_norm.weight")]
    for parts, (ours, biased) in layers.items():
        joined = ours.endswith("query_key_value")
        for part in ("weight", "bias") if biased else ("weight",):
            theirs = tuple(f"{spelled['layer']}{spelled[name]}.{part}" for name in parts)
            name = f"stack.blocks.{{i}}.{ours}.{part}"
            changes: dict[str, Any] = {"rows": rows, "taken": taken, "given": given} if joined else {}
            rules.append(Rule(theirs, name, **changes))
    output = spelled["output"]
    if not config.tied:
        rules.append(Rule(output, "output.weight"))
    return NameMap(
        tuple(rules),
        prefixes=("model.",),
        tied={output: spelled["tokens"]} if config.tied else {},
        ignored=("model.layers.{i}.self_attn.rotary_emb.inv_freq", "rope_freqs.weight"),
    )


def halves(config: GPTConfig) -> Callable[[Tensor], Tensor]:
    """What turns joined queries, keys and values (rows, …) that pair neighbouring features into ones that pair halves.

    Within each head of the queries and the keys, features 0, 2, 4, … come first and 1, 3, 5, … after them.
    """
    E = config.d_head or config.d_model // config.n_heads
    n_turned = (config.n_heads + (config.n_kv_heads or config.n_heads)) * E

    def taken(joined: Tensor) -> Tensor:
        turned, values = joined[:n_turned], joined[n_turned:]
        return torch.cat((turned.unflatten(0, (-1, E // 2, 2)).transpose(1, 2).flatten(0, 2), values))

    return taken


def neighbours(config: GPTConfig) -> Callable[[Tensor], Tensor]:
    """The way back from `halves`."""
    E = config.d_head or config.d_model // config.n_heads
    n_turned = (config.n_heads + (config.n_kv_heads or config.n_heads)) * E

    def given(joined: Tensor) -> Tensor:
        turned, values = joined[:n_turned], joined[n_turned:]
        return torch.cat((turned.unflatten(0, (-1, 2, E // 2)).transpose(1, 2).flatten(0, 2), values))

    return given


def read_neighboured(
    path: Path, options: Mapping[str, Any], tensors: Mapping[str, Any], *, spelled: Mapping[str, str]
) -> Pretrained:
    """A Llama in our terms, from tensors whose rotary features pair neighbours; its tokenizer is not in it.

    What is stored in blocks stays in them.
    """
    shapes = understood(ModelSpec(TASK, "gpt", options), tensors, origin=str(path))
    config = configure("gpt", **options)
    names = llama_names(config, spelled=spelled, neighboured=True)
    ours = names.read_with(join_stored, tensors, shapes, origin=str(path))
    plain = {name: one for name, one in ours.items() if isinstance(one, Tensor)}
    blocks = {name: one for name, one in ours.items() if isinstance(one, BlockMatrix)}
    return Pretrained(TASK, "gpt", options, tensors=plain, blocks=blocks, origin=str(path))


def _recognise(config: TheirConfig, names: Collection[str]) -> ModelSpec:
    config.architecture("LlamaForCausalLM", "LlamaModel")
    config.refuse_others({"partial_rotary_factor": (None, 1.0)})
    pad = {"pad_id": pad_id_of(config, config["vocab_size"])}
    return ModelSpec(TASK, "gpt", {**BUILD, **_FIELDS.read(config), **pad, **_rotary_options(config)})


def _rotary_options(config: TheirConfig) -> dict[str, Any]:
    """How fast positions turn: `rope_parameters` in new files, `rope_theta` and `rope_scaling` in older ones."""
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    base = rope.get("rope_theta", config.get("rope_theta", 10000.0))
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind not in _STRETCHES:
        raise CheckpointError(
            f"{config.origin}: rotary positions are scaled by {kind!r}; regard has 'default', 'linear' and 'llama3'"
        )
    stretch = {ours: rope[theirs] for ours, theirs in _STRETCHES[kind].items()}
    return {"rotary_base": base, "rotary_stretch": stretch or None}


def _config(model: ModelSpec) -> dict[str, Any] | None:
    config = gpt_config(model)
    if config is None or not is_llama(config):
        return None
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        **_FIELDS.write(vars(config)),
        "num_key_value_heads": config.n_kv_heads or config.n_heads,
        "head_dim": config.d_head or config.d_model // config.n_heads,
        "intermediate_size": config.d_feedforward or 4 * config.d_model,
        "pad_token_id": config.pad_id,
        "rope_theta": config.rotary_base,
        "rope_scaling": _their_scaling(config.rotary_stretch),
    }


def is_llama(config: GPTConfig) -> bool:
    """Whether a GPT is built as Llama is."""
    return config.order == "pre" and config.norm == "rms" and config.positions == "rotary" and config.gated


def _their_scaling(stretch: Stretch | None) -> dict[str, Any] | None:
    if stretch is None:
        return None
    kind = "linear" if stretch.n_trained is None else "llama3"
    return {"rope_type": kind} | {theirs: getattr(stretch, ours) for ours, theirs in _STRETCHES[kind].items()}


_SPELLED = {
    "tokens": "model.embed_tokens.weight", "norm": "model.norm.weight", "output": "lm_head.weight",
    "layer": "model.layers.{i}.", "query": "self_attn.q_proj", "key": "self_attn.k_proj", "value": "self_attn.v_proj",
    "out": "self_attn.o_proj", "gate": "mlp.gate_proj", "up": "mlp.up_proj", "down": "mlp.down_proj",
    "attention_norm": "input_layernorm", "feedforward_norm": "post_attention_layernorm",
}  # fmt: skip


def _names(model: ModelSpec) -> NameMap:
    config = gpt_config(model)
    assert config is not None
    return llama_names(config, spelled=_SPELLED)


LLAMA = Family("llama", _recognise, _names, _config)
