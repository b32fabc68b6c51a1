"""Our `bert` as CTranslate2's encoder: embeddings, blocks and the pooler; its other heads have no place there."""

from __future__ import annotations

from typing import Any

from regard.checkpoints.foreign.ctranslate2.layers import (
    activation,
    fill_encoder,
    fill_linear,
    fill_norm,
    fill_positions,
    numbers,
)
from regard.checkpoints.foreign.ctranslate2.special import set_special_tokens
from regard.checkpoints.foreign.pieces import listed_pieces
from regard.data.text.tokenizers import Tokenizer
from regard.models.bert import Bert


def encoder_spec(model: Bert, tokenizer: Tokenizer) -> Any:
    """The whole model with its vocabulary, as CTranslate2 describes it."""
    from ctranslate2.specs import TransformerEncoderModelSpec, TransformerEncoderSpec, common_spec

    config = model.config
    encoder = TransformerEncoderSpec(
        config.n_layers,
        config.n_heads,
        pre_norm=False,
        activation=activation(config.activation),
        layernorm_embedding=True,
        num_source_embeddings=1 if model.segments is None else 2,
        embeddings_merge=common_spec.EmbeddingsMerge.ADD,
    )
    encoder.scale_embeddings = False
    encoder.embeddings[0].weight = numbers(model.embedding.weight)
    if model.segments is not None:
        encoder.embeddings[1].weight = numbers(model.segments.weight)
    fill_positions(encoder.position_encodings, model.positions)
    fill_norm(encoder.layernorm_embedding, model.norm)
    fill_encoder(encoder.layer, model.encoder)
    spec = TransformerEncoderModelSpec(encoder, pooling_layer=model.pooler is not None)
    if model.pooler is not None:
        fill_linear(spec.pooler_dense, model.pooler)
    pieces = listed_pieces(tokenizer, config.n_tokens)
    spec.register_vocabulary(pieces)
    set_special_tokens(spec.config, tokenizer, pieces)
    spec.config.layer_norm_epsilon = config.norm_epsilon
    return spec
