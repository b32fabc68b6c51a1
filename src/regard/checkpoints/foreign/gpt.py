"""GPT-1 and GPT-2 as Hugging Face names them: `openai-gpt` and `gpt2`.

Their linear layers are stored transposed (Conv1D), queries, keys and values already joined. Both are configs of our
`gpt`: GPT-1 norms behind each part and nothing at the end, GPT-2 before each part and once more at the end.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from regard.checkpoints.foreign.family import ACTIVATIONS, Family, Fields, TheirConfig, their_activation
from regard.checkpoints.foreign.names import NameMap, Rule, affine, block_rules
from regard.checkpoints.spec import ModelSpec
from regard.models.gpt import GPTConfig
from regard.models.registry import configure

TASK = "language"
_BLOCK = ("attn.c_attn", "attn.c_proj", "ln_1", "mlp.c_fc", "mlp.c_proj", "ln_2")

# GPT-1's "gelu" is the approximation by tanh, whatever the name is elsewhere.
_GPT1_ACTIVATIONS = {"gelu": "gelu_tanh", "relu": "relu", "silu": "silu", "swish": "silu"}
_GPT2_BUILD = {"scale_attn_weights": [True], "scale_attn_by_inverse_layer_idx": [False], "add_cross_attention": [False]}
_FIELDS = Fields(
    {"n_tokens": "vocab_size", "d_model": "n_embd", "n_heads": "n_head", "n_layers": "n_layer",
     "n_positions": "n_positions"},
    {"dropout": ("resid_pdrop", 0.1), "embedding_dropout": ("embd_pdrop", 0.1),
     "attention_dropout": ("attn_pdrop", 0.1),
     "norm_epsilon": ("layer_norm_epsilon", 1e-5), "tied": ("tie_word_embeddings", True)},
)  # fmt: skip


def gpt_config(model: ModelSpec) -> GPTConfig | None:
    """The whole config of a model of ours, if it is a GPT."""
    if model.model != "gpt":
        return None
    options = {name: value for name, value in model.options.items() if name != "size"}
    config: GPTConfig = configure("gpt", model.options.get("size"), **options)
    return config


def pad_id_of(config: Mapping[str, Any], n_tokens: int) -> int:
    """The id to fill up with: theirs, or that of the end or the beginning where they have none."""
    for key in ("pad_token_id", "eos_token_id", "bos_token_id"):
        value = config.get(key)
        first = value[0] if isinstance(value, list) and value else value
        if isinstance(first, int) and 0 <= first < n_tokens:
            return first
    return 0


def _recognise_gpt1(config: TheirConfig, names: Collection[str]) -> ModelSpec:
    config.architecture("OpenAIGPTLMHeadModel", "OpenAIGPTModel")
    options = {"order": "post", "activation": config.choose("afn", _GPT1_ACTIVATIONS, default="gelu")}
    return ModelSpec(TASK, "gpt", {**_shared_options(config), **options})


def _recognise_gpt2(config: TheirConfig, names: Collection[str]) -> ModelSpec:
    config.architecture("GPT2LMHeadModel", "GPT2Model")
    config.refuse_others(_GPT2_BUILD)
    options = {
        "order": "pre",
        "activation": config.choose("activation_function", ACTIVATIONS, default="gelu_new"),
        "d_feedforward": config.get("n_inner"),
    }
    return ModelSpec(TASK, "gpt", {**_shared_options(config), **options})


def _shared_options(config: TheirConfig) -> dict[str, Any]:
    return _FIELDS.read(config) | {"pad_id": pad_id_of(config, config["vocab_size"])}


def _gpt1_config(model: ModelSpec) -> dict[str, Any] | None:
    config = gpt_config(model)
    names = {ours: theirs for theirs, ours in reversed(_GPT1_ACTIVATIONS.items())}
    if config is None or not _is_plain(config) or config.order != "post" or config.activation not in names:
        return None
    if config.d_feedforward not in (None, 4 * config.d_model):
        return None
    return {
        "architectures": ["OpenAIGPTLMHeadModel"],
        "model_type": "openai-gpt",
        "afn": names[config.activation],
        **_their_shared(config),
    }


def _gpt2_config(model: ModelSpec) -> dict[str, Any] | None:
    config = gpt_config(model)
    if config is None or not _is_plain(config) or config.order != "pre":
        return None
    return {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        "activation_function": their_activation(config.activation),
        "n_inner": config.d_feedforward,
        **_their_shared(config),
    }


def _is_plain(config: GPTConfig) -> bool:
    """Whether a model has what both GPTs have: learned positions, all biases, heads of their own, no gates."""
    heads = config.n_kv_heads in (None, config.n_heads)
    width = config.d_head in (None, config.d_model // config.n_heads) and config.d_model % config.n_heads == 0
    biased = config.attention_bias and config.feedforward_bias and config.norm_bias
    return heads and width and biased and config.norm == "layer" and config.positions == "learned" and not config.gated


def _their_shared(config: GPTConfig) -> dict[str, Any]:
    embedding_dropout = config.dropout if config.embedding_dropout is None else config.embedding_dropout
    return _FIELDS.write(vars(config)) | {"embd_pdrop": embedding_dropout, "pad_token_id": config.pad_id}


def _names(model: ModelSpec, *, tokens: str, positions: str, final_norm: bool) -> NameMap:
    tied = bool(model.options.get("tied", True))
    rules = block_rules("transformer.h.{i}.", "stack.blocks.{i}", _BLOCK, transposed=True)
    rules += [Rule(tokens, "embedding.weight"), Rule(positions, "positions.table.weight")]
    if final_norm:
        rules += affine("transformer.ln_f", "stack.final_norm")
    if not tied:
        rules.append(Rule("lm_head.weight", "output.weight"))
    return NameMap(
        tuple(rules),
        prefixes=("transformer.",),
        tied={"lm_head.weight": tokens} if tied else {},
        ignored=("transformer.h.{i}.attn.bias", "transformer.h.{i}.attn.masked_bias", "transformer.position_ids"),
    )


def _gpt1_names(model: ModelSpec) -> NameMap:
    names = {"tokens": "transformer.tokens_embed.weight", "positions": "transformer.positions_embed.weight"}
    return _names(model, **names, final_norm=False)


def _gpt2_names(model: ModelSpec) -> NameMap:
    return _names(model, tokens="transformer.wte.weight", positions="transformer.wpe.weight", final_norm=True)


GPT1 = Family("openai-gpt", _recognise_gpt1, _gpt1_names, _gpt1_config)
GPT2 = Family("gpt2", _recognise_gpt2, _gpt2_names, _gpt2_config)
