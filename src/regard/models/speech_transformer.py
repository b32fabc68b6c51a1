"""A Transformer that listens: convolutions shorten the frames, attention blocks read them, a decoder writes the text.

    listen    frames (B, T, M) → convolutions of width 3 with the given strides → + positions → blocks → (B, S, D)
    spell     tokens (B, U) → + positions → blocks that look at the memory → (B, U, D)

With other options this is Speech-Transformer (Dong et al., 2018), and Whisper (Radford et al., 2022): norms before each
part, GELU, two convolutions of which the second halves time, fixed waves for the encoder's places, learned positions
for the decoder's, and an output tied to the embedding. Whisper's keys have no bias; ours have one, which a softmax over
keys does not notice, so it is zero.
`ctc` adds a linear output over the memory for connectionist temporal classification beside the decoder, as in hybrid
systems (Watanabe et al., 2017).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from torch import Tensor, nn

from regard.attention import Learned, MultiHeadAttention, Rows, Sinusoidal
from regard.config.settings import Settings, setting
from regard.errors import ConfigError, ShapeError
from regard.layers import ActivationName, Dropout, Embedding, FeedForward, Order, StackMaker, activation_of, norm_of
from regard.layers.decoder_stepper import DecoderStepper, StepEmbedding
from regard.layers.embeddings import VocabularyOutput
from regard.models.entry import Entry
from regard.models.interfaces.speech import Frames, Heard

EncoderPositions = Literal["sinusoidal", "whisper"]
DecoderPositions = Literal["sinusoidal", "learned"]


@dataclass(frozen=True, kw_only=True)
class SpeechTransformerConfig(Settings):
    """What makes one Transformer of speech differ from another. The output is tied to the embedding."""

    n_mels: int = setting(80, "mel bands of a frame", ge=1, derived=True)
    n_target: int = setting(0, "entries of the vocabulary", ge=1, derived=True)
    d_model: int = setting(256, "width of the model", ge=1)
    n_heads: int = setting(4, "attention heads", ge=1)
    d_feedforward: int = setting(1024, "width inside the feed-forward parts", ge=1)
    n_encoder_layers: int = setting(6, "blocks of the encoder", ge=1)
    n_decoder_layers: int = setting(3, "blocks of the decoder", ge=1)
    strides: tuple[int, ...] = setting(
        (2, 2), "those of the convolutions; their product is how many frames become one place", ge=1
    )
    dropout: float = setting(0.1, "share of what the parts say that is dropped in training", ge=0, lt=1)
    attention_dropout: float = setting(0.0, "share of attention weights that is dropped", ge=0, lt=1)
    order: Order = setting("pre", "normalisation before or after each part")
    activation: ActivationName = setting("gelu", "the feed-forward parts' nonlinearity")
    encoder_positions: EncoderPositions = setting("sinusoidal", "how places of the sound are told apart")
    decoder_positions: DecoderPositions = setting("sinusoidal", "how tokens are told apart")
    n_places: int = setting(1500, "most places, where positions are Whisper's", ge=1)
    n_positions: int = setting(448, "most tokens, where positions are learned", ge=1)
    scaled: bool = setting(True, "embeddings are multiplied by √d_model")
    ctc: bool = setting(False, "an output that aligns, beside the speller's", derived=True)
    pad_id: int = setting(0, "the id that fills up rows", ge=0, derived=True)

    @property
    def reduction(self) -> int:
        """How many frames become one place of memory."""
        return math.prod(self.strides)

    @property
    def n_writable(self) -> int | None:
        """The most tokens that can be written."""
        return self.n_positions if self.decoder_positions == "learned" else None


WHISPER_OPTIONS: dict[str, object] = {
    "strides": (1, 2),
    "dropout": 0.0,
    "order": "pre",
    "activation": "gelu",
    "encoder_positions": "whisper",
    "decoder_positions": "learned",
    "n_places": 1500,
    "n_positions": 448,
    "scaled": False,
}
_WHISPER_SIZES = {"tiny": (384, 6, 4), "base": (512, 8, 6), "small": (768, 12, 12), "medium": (1024, 16, 24)}

SIZES: dict[str, dict[str, object]] = {
    "tiny": {"d_model": 128, "n_heads": 4, "d_feedforward": 512, "n_encoder_layers": 4, "n_decoder_layers": 2},
    "small": {"d_model": 256, "n_heads": 4, "d_feedforward": 1024, "n_encoder_layers": 6, "n_decoder_layers": 3},
    **{
        f"whisper-{name}": WHISPER_OPTIONS
        | {"d_model": D, "n_heads": H, "d_feedforward": 4 * D, "n_encoder_layers": L, "n_decoder_layers": L}
        for name, (D, H, L) in _WHISPER_SIZES.items()
    },
}


class SpeechTransformer(VocabularyOutput):
    """Convolutions, encoder, decoder, and an output over the tokens."""

    tied_to = "target_embedding"

    def __init__(self, config: SpeechTransformerConfig) -> None:
        super().__init__()
        _check(config)
        self.config = config
        D = config.d_model
        self.stem = Convolutions(config.n_mels, D, strides=config.strides, activation=config.activation)
        self.source_positions = (
            Waves(D, n_positions=config.n_places) if config.encoder_positions == "whisper" else Sinusoidal(D)
        )
        self.target_embedding = Embedding(
            config.n_target, D, scaled=config.scaled, pad_id=config.pad_id, std=None if config.scaled else 0.02
        )
        self.target_positions = (
            Learned(D, n_positions=config.n_positions) if config.decoder_positions == "learned" else Sinusoidal(D)
        )
        blocks = StackMaker(
            d_model=D,
            attention=partial(MultiHeadAttention, D, config.n_heads, dropout=config.attention_dropout),
            feedforward=partial(FeedForward, D, config.d_feedforward, activation=config.activation),
            norm=norm_of("layer"),
            order=config.order,
            dropout=config.dropout,
        )
        self.encoder = blocks.encoder(config.n_encoder_layers)
        self.decoder = blocks.decoder(config.n_decoder_layers)
        self.output = self.output_bias = None
        self.ctc = nn.Linear(D, config.n_target) if config.ctc else None
        self.dropout = Dropout(config.dropout)

    def forward(self, frames: Frames, target: Tensor | Rows) -> Tensor:
        """Logits (B, U, V) of each next token, given the speech and the text up to there."""
        return self.unembed(self.spell(self.listen(frames), target))

    def listen(self, frames: Frames) -> Heard:
        """The encoder's states (B, S, D)."""
        frames.check(self.config.n_mels)
        hidden, lengths = self.stem(frames.values, frames.lengths)
        heard = Heard(self.dropout(self.source_positions(hidden)), lengths)
        return Heard(self.encoder(heard.memory, mask=heard.mask()), lengths)

    def spell(self, heard: Heard, target: Tensor | Rows) -> Tensor:
        """The decoder's last states (B, U, D)."""
        rows = Rows.of(target)
        embedded = self.dropout(self.target_positions(self.target_embedding(rows.ids)))
        return self.decoder(embedded, heard.memory, mask=rows.causal_mask(), memory_mask=heard.mask())

    def align(self, heard: Heard) -> Tensor | None:
        """Logits (B, S, V) of which token stands where, if the model was built for it."""
        return None if self.ctc is None else self.ctc(heard.memory)

    def start(self, heard: Heard, *, capacity: int = 64, watched: bool = False) -> DecoderStepper:
        """Stand ready to write, one row each; `watched` steps keep their attention."""
        return DecoderStepper(
            self.decoder,
            heard.memory,
            lengths=heard.lengths,
            embed=StepEmbedding(self.target_embedding, self.target_positions),
            unembed=self.target_embedding.unembed,
            capacity=capacity,
            watched=watched,
        )


def waves(n_positions: int, d_model: int, *, longest: float = 10_000.0) -> Tensor:
    """All sines, then all cosines, their periods spaced evenly in logarithm with both ends included: (n, D)."""
    half = d_model // 2
    rates = torch.exp(-math.log(longest) / max(1, half - 1) * torch.arange(half, dtype=torch.float64))
    angles = torch.arange(n_positions, dtype=torch.float64)[:, None] * rates
    return torch.cat((angles.sin(), angles.cos()), 1).float()


class Waves(nn.Module):
    """Adds `waves` to the places of the encoder, up to a fixed number of them."""

    table: Tensor

    def __init__(self, d_model: int, *, n_positions: int) -> None:
        super().__init__()
        self.register_buffer("table", waves(n_positions, d_model), persistent=False)

    def forward(self, embedded: Tensor) -> Tensor:
        """Places (B, S, D) plus their waves."""
        n = embedded.shape[-2]
        if n > len(self.table):
            raise ShapeError(f"{n} places are more than the {len(self.table)} that the model has positions for")
        return embedded + self.table[:n].to(embedded.dtype)


class Convolutions(nn.Module):
    """Frames (B, T, M) → places (B, S, D): convolutions of width 3 over time, each with its stride and activation.

    What a convolution says behind the end of a row is set to zero, so that the next one reads what it would read if the
    row were alone.
    """

    def __init__(self, d_input: int, d_model: int, *, strides: Sequence[int], activation: ActivationName) -> None:
        super().__init__()
        widths = [d_input, *[d_model] * (len(strides) - 1)]
        self.layers = nn.ModuleList(
            nn.Conv1d(width, d_model, 3, stride, padding=1) for width, stride in zip(widths, strides, strict=True)
        )
        self.activation = activation_of(activation)

    def forward(self, values: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """The places, and how many of each row are real."""
        hidden = _silenced(values, lengths).transpose(1, 2)
        for layer in self.layers:
            assert isinstance(layer, nn.Conv1d)
            hidden, lengths = self.activation(layer(hidden)), (lengths - 1) // layer.stride[0] + 1
            hidden = _silenced(hidden.transpose(1, 2), lengths).transpose(1, 2)
        return hidden.transpose(1, 2), lengths


def _silenced(values: Tensor, lengths: Tensor) -> Tensor:
    """(B, T, D) with zeros behind the end of each row."""
    real = torch.arange(values.shape[1], device=values.device) < lengths[:, None]
    return values * real[..., None].to(values.dtype)


def _check(config: SpeechTransformerConfig) -> None:
    config.check()
    if not config.strides:
        raise ConfigError(f"strides are whole numbers from 1, one a convolution; not {list(config.strides)}")
    if config.d_model % 2:
        raise ShapeError(f"d_model = {config.d_model} is odd, and sines and cosines come in pairs")


ENTRY = Entry(SpeechTransformerConfig, SpeechTransformer, SIZES)
