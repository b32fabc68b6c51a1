"""Our `gpt` as CTranslate2's decoder without an encoder: GPT-1, GPT-2, Llama and what stands between them."""

from __future__ import annotations

from typing import Any

import numpy as np

from regard.attention import Stretch
from regard.checkpoints.foreign.ctranslate2.layers import (
    activation,
    fill_encoder,
    fill_norm,
    fill_positions,
    numbers,
)
from regard.checkpoints.foreign.ctranslate2.special import set_special_tokens
from regard.checkpoints.foreign.pieces import listed_pieces
from regard.data.text.tokenizers import Tokenizer
from regard.models.gpt import GPT, GPTConfig


def generator_spec(model: GPT, tokenizer: Tokenizer) -> Any:
    """The whole model with its vocabulary, as CTranslate2 describes it."""
    from ctranslate2.specs import TransformerDecoderModelSpec

    config = model.config
    spec = TransformerDecoderModelSpec.from_config(
        config.n_layers,
        config.n_heads,
        pre_norm=config.order == "pre",
        activation=activation(config.activation),
        ffn_glu=config.gated,
        rms_norm=config.norm == "rms",
        num_heads_kv=config.n_kv_heads or config.n_heads,
        head_dim=_d_head(config),
        **(_rotary(config) if config.positions == "rotary" else {}),
    )
    decoder = spec.decoder
    decoder.scale_embeddings = model.embedding.scale != 1.0
    decoder.embeddings.weight = numbers(model.embedding.weight)
    decoder.projection.weight = numbers(model.output_weight)
    if model.positions is not None:
        fill_positions(decoder.position_encodings, model.positions)
    fill_encoder(decoder.layer, model.stack, grouped=True)
    if model.stack.final_norm is not None:
        fill_norm(decoder.layer_norm, model.stack.final_norm)
    _fill_stretch(decoder, config.rotary_stretch)
    pieces = listed_pieces(tokenizer, config.n_tokens)
    spec.register_vocabulary(pieces)
    set_special_tokens(spec.config, tokenizer, pieces)
    spec.config.layer_norm_epsilon = config.norm_epsilon
    return spec


def _d_head(config: GPTConfig) -> int:
    return config.d_head or config.d_model // config.n_heads


def _rotary(config: GPTConfig) -> dict[str, Any]:
    from ctranslate2.specs.attention_spec import RotaryScalingType

    rotary = {"rotary_dim": _d_head(config), "rotary_interleave": False, "rotary_base": config.rotary_base}
    stretch = config.rotary_stretch
    if stretch is None:
        return rotary
    kind = RotaryScalingType.Linear if stretch.n_trained is None else RotaryScalingType.Llama3
    return rotary | {
        "rotary_scaling_type": kind,
        "rotary_scaling_factor": stretch.factor,
        "original_max_position_embeddings": stretch.n_trained or 0,
        "max_position_embeddings": config.n_positions,
    }


def _fill_stretch(decoder: Any, stretch: Stretch | None) -> None:
    """What a stretch as Llama 3's has beside its kind; the model reads the factor, though the class has no place."""
    if stretch is not None and stretch.n_trained is not None:
        for layer in decoder.layer:
            attention = layer.self_attention
            attention.rotary_low_freq_factor, attention.rotary_high_freq_factor = stretch.low, stretch.high
            object.__setattr__(attention, "rotary_scaling_factor", np.float32(stretch.factor))
