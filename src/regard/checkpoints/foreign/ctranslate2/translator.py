"""Our `transformer` as CTranslate2's: an encoder and a decoder, a vocabulary for each side."""

from __future__ import annotations

from typing import Any

from regard.checkpoints.foreign.ctranslate2.layers import (
    activation,
    fill_decoder,
    fill_encoder,
    fill_norm,
    fill_positions,
    numbers,
)
from regard.checkpoints.foreign.ctranslate2.special import set_special_tokens
from regard.checkpoints.foreign.pieces import listed_pieces
from regard.data.text.tokenizers import Tokenizer
from regard.models.transformer import Transformer


def translator_spec(model: Transformer, source: Tokenizer, target: Tokenizer) -> Any:
    """The whole model with its vocabularies, as CTranslate2 describes it."""
    from ctranslate2.specs import TransformerSpec
    from ctranslate2.specs.transformer_spec import TransformerDecoderSpec, TransformerEncoderSpec

    config = model.config
    shared: dict[str, Any] = {
        "pre_norm": config.order == "pre",
        "activation": activation(config.activation),
        "rms_norm": config.norm == "rms",
    }
    if config.positions == "rotary":
        shared |= {"rotary_dim": config.d_model // config.n_heads, "rotary_interleave": False}
    spec = TransformerSpec(
        TransformerEncoderSpec(config.n_encoder_layers, config.n_heads, **shared),
        TransformerDecoderSpec(config.n_decoder_layers, config.n_heads, **shared),
    )
    _fill(spec, model)
    pieces = listed_pieces(source, config.n_source), listed_pieces(target, config.n_target)
    spec.register_source_vocabulary(pieces[0])
    spec.register_target_vocabulary(pieces[1])
    set_special_tokens(spec.config, target, pieces[1])
    spec.config.decoder_start_token = pieces[1][target.bos_id]
    spec.config.add_source_eos = True
    spec.config.layer_norm_epsilon = float(model.encoder.blocks[0].around_attention.norm.eps)  # type: ignore[union-attr, arg-type]
    return spec


def _fill(spec: Any, model: Transformer) -> None:
    spec.encoder.embeddings[0].weight = numbers(model.source_embedding.weight)
    spec.decoder.embeddings.weight = numbers(model.target_embedding.weight)
    spec.decoder.projection.weight = numbers(model.output_weight)
    if model.output_bias is not None:
        spec.decoder.projection.bias = numbers(model.output_bias)
    if model.positions is None:
        del spec.encoder.position_encodings
    else:
        for side in (spec.encoder, spec.decoder):
            fill_positions(side.position_encodings, model.positions)
    fill_encoder(spec.encoder.layer, model.encoder)
    fill_decoder(spec.decoder.layer, model.decoder)
    for side, stack in ((spec.encoder, model.encoder), (spec.decoder, model.decoder)):
        if stack.final_norm is not None:
            fill_norm(side.layer_norm, stack.final_norm)
