"""A Transformer from series to series: the encoder reads the past, the decoder asks it about every step to come.

    past (B, S, C) with dates  →  encoder  →  memory (B, S, D)
    a query for each step asked for: its place, its date, and what is known of the inputs then
                                       →  decoder with cross-attention  →  (B, T, K, Q)

All input columns are read together, so any of them can speak for any target: one company's price from another's. All
steps are forecast at once, and none is fed back.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from torch import Tensor, nn

from regard.attention import Causal, Learned, MultiHeadAttention
from regard.config.settings import setting
from regard.layers import ActivationName, Dropout, FeedForward, NormName, StackMaker, norm_of
from regard.models.entry import Entry
from regard.models.interfaces.series import Forecaster, ForecasterConfig, at_steps_asked, with_marks


@dataclass(frozen=True, kw_only=True)
class SeriesTransformerConfig(ForecasterConfig):
    """What makes one differ from another; blocks are pre-norm."""

    d_model: int = setting(64, "width of the model", ge=1)
    n_heads: int = setting(4, "attention heads", ge=1)
    d_feedforward: int = setting(128, "width inside the feed-forward parts", ge=1)
    n_encoder_layers: int = setting(2, "blocks of the encoder", ge=1)
    n_decoder_layers: int = setting(1, "blocks of the decoder", ge=1)
    dropout: float = setting(0.1, "share of what the parts say that is dropped in training", ge=0, lt=1)
    norm: NormName = setting("layer", "the normalisation")
    activation: ActivationName = setting("gelu", "the feed-forward parts' nonlinearity")


SIZES: dict[str, dict[str, int | float]] = {
    "tiny": {"d_model": 32, "n_heads": 4, "d_feedforward": 64, "n_encoder_layers": 1, "n_decoder_layers": 1},
    "small": {"d_model": 64, "n_heads": 4, "d_feedforward": 128, "n_encoder_layers": 2, "n_decoder_layers": 1},
    "base": {"d_model": 256, "n_heads": 8, "d_feedforward": 1024, "n_encoder_layers": 3, "n_decoder_layers": 2},
}


class SeriesTransformer(Forecaster):
    """Encoder over the steps known, decoder over the steps asked for."""

    config: SeriesTransformerConfig

    def __init__(self, config: SeriesTransformerConfig) -> None:
        super().__init__(config)
        D = config.d_model
        self.embedding = nn.Linear(config.n_inputs + config.n_marks, D)
        self.positions = Learned(D, n_positions=config.context)
        self.query = nn.Linear(config.n_marks, D) if config.n_marks else None
        self.query_positions = Learned(D, n_positions=config.horizon)
        blocks = StackMaker(
            d_model=D,
            attention=partial(MultiHeadAttention, D, config.n_heads),
            feedforward=partial(
                FeedForward, D, config.d_feedforward, activation=config.activation, dropout=config.dropout
            ),
            norm=norm_of(config.norm),
            dropout=config.dropout,
        )
        self.encoder = blocks.encoder(config.n_encoder_layers)
        self.decoder = blocks.decoder(config.n_decoder_layers)
        self.dropout = Dropout(config.dropout)
        self.head = nn.Linear(D, len(config.targets) * config.n_outputs)

    def scaled_forecast(self, past: Tensor, past_marks: Tensor, future_marks: Tensor, only: int | None) -> Tensor:
        """(B, S, C), (B, S, M), (B, T, M) → (B, T, K, Q)."""
        config = self.config
        read = self.embedding(with_marks(past, past_marks))
        memory = self.encoder(self.dropout(self.positions(read)))
        asked = at_steps_asked(read, config.lead, config.horizon)
        if self.query is not None:
            asked = asked + self.query(future_marks)
        hidden = self.decoder(self.query_positions(asked), memory, mask=Causal())
        forecast: Tensor = self.head(hidden).unflatten(-1, (len(config.targets), config.n_outputs))
        return forecast


ENTRY = Entry(SeriesTransformerConfig, SeriesTransformer, SIZES)
