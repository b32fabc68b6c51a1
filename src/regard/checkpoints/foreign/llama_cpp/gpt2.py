"""GPT-2 as llama.cpp names it in GGUF files, in both directions. Nothing is transposed, unlike in Hugging Face's."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from regard.checkpoints.foreign.family import TheirConfig
from regard.checkpoints.foreign.names import NameMap, Rule, affine, block_rules

_BLOCK = ("attn_qkv", "attn_output", "attn_norm", "ffn_up", "ffn_down", "ffn_norm")

# What every GPT-2 of llama.cpp has, whatever its size.
BUILD: Mapping[str, Any] = {
    "order": "pre", "norm": "layer", "positions": "learned", "activation": "gelu_tanh", "gated": False,
    "attention_bias": True, "feedforward_bias": True, "norm_bias": True,
}  # fmt: skip


def gpt2_options(metadata: TheirConfig, names: Collection[str]) -> dict[str, Any]:
    """What the metadata and the names of the weights say, but for the vocabulary."""
    return {
        **BUILD,
        "dropout": 0.0,
        "d_model": metadata["gpt2.embedding_length"],
        "n_heads": metadata["gpt2.attention.head_count"],
        "n_layers": metadata["gpt2.block_count"],
        "n_positions": metadata["gpt2.context_length"],
        "d_feedforward": metadata["gpt2.feed_forward_length"],
        "norm_epsilon": metadata.get("gpt2.attention.layer_norm_epsilon", 1e-5),
        "tied": "output.weight" not in names,
    }


def gpt2_names(*, tied: bool) -> NameMap:
    """The rules of its weights."""
    rules = [
        *block_rules("blk.{i}.", "stack.blocks.{i}", _BLOCK),
        *affine("output_norm", "stack.final_norm"),
        Rule("token_embd.weight", "embedding.weight"),
        Rule("position_embd.weight", "positions.table.weight"),
    ]
    if not tied:
        rules.append(Rule("output.weight", "output.weight"))
    return NameMap(tuple(rules), tied={"output.weight": "token_embd.weight"} if tied else {})
