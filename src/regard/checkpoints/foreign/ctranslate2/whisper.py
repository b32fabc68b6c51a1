"""A `speech-transformer` that is built as Whisper is, as CTranslate2's Whisper (and so faster-whisper) opens it."""

from __future__ import annotations

from itertools import product
from typing import Any

from torch import nn

from regard.checkpoints.foreign.ctranslate2.layers import (
    fill_decoder,
    fill_encoder,
    fill_norm,
    fill_positions,
    numbers,
)
from regard.checkpoints.foreign.pieces import listed_pieces
from regard.checkpoints.foreign.whisper_tokens import LANGUAGES
from regard.checkpoints.spec import Pretrained
from regard.data.text.tokenizers import Tokenizer
from regard.models.speech_transformer import SpeechTransformer, Waves


def whisper_spec(model: SpeechTransformer, tokenizer: Tokenizer, pretrained: Pretrained) -> Any:
    """The whole model with its vocabulary and what it was published to suppress, as CTranslate2 describes it."""
    from ctranslate2.specs import WhisperSpec

    config = model.config
    spec = WhisperSpec(config.n_encoder_layers, config.n_heads, config.n_decoder_layers, config.n_heads)
    for place, layer in zip((spec.encoder.conv1, spec.encoder.conv2), model.stem.layers, strict=True):
        assert isinstance(layer, nn.Conv1d)
        assert layer.bias is not None
        place.weight, place.bias = numbers(layer.weight), numbers(layer.bias)
    assert isinstance(model.source_positions, Waves)
    spec.encoder.position_encodings.encodings = numbers(model.source_positions.table)
    fill_encoder(spec.encoder.layer, model.encoder)
    spec.decoder.embeddings.weight = numbers(model.target_embedding.weight)
    spec.decoder.projection.weight = numbers(model.output_weight)
    fill_positions(spec.decoder.position_encodings, model.target_positions)
    fill_decoder(spec.decoder.layer, model.decoder)
    for side, stack in ((spec.encoder, model.encoder), (spec.decoder, model.decoder)):
        assert stack.final_norm is not None
        fill_norm(side.layer_norm, stack.final_norm)
    spec.register_vocabulary(listed_pieces(tokenizer, config.n_target))
    _set_decoding(spec.config, tokenizer, pretrained)
    return spec


def _set_decoding(config: Any, tokenizer: Tokenizer, pretrained: Pretrained) -> None:
    """What is never written, what never comes first, which tokens are languages, and which heads tell the time."""
    decode, options = pretrained.decode, pretrained.options
    named = [tokenizer.core.token_to_id(f"<|{code}|>") for code in LANGUAGES]
    heads = [tuple(int(part) for part in head.split(".")) for head in decode.get("heads", ())]
    n_layers, n_heads = int(options["n_decoder_layers"]), int(options["n_heads"])
    config.suppress_ids = list(decode.get("banned", ()))
    config.suppress_ids_begin = list(decode.get("not_first", ()))
    config.lang_ids = sorted(index for index in named if index is not None)
    config.alignment_heads = heads or list(product(range(n_layers // 2, n_layers), range(n_heads)))
