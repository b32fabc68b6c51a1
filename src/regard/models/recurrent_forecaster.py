"""A recurrent encoder and decoder with attention between them, for series (after Bahdanau et al., 2015).

    past (B, S, C) with dates  →  states (B, S, D)
    a step for each date to come, from the last state on  →  states (B, T, D), each looks back at all of the past's
    [state; context]  →  (B, T, K, Q)

All input columns are read together. What the decoder reads are places and dates, and no forecast of its own; at steps
at which the inputs are known, the encoder's states as well.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.attention import Learned
from regard.config.settings import setting
from regard.layers import Dropout, Recurrent, RecurrentName
from regard.layers.state_attention import AttentionName, StateAttention, score_of
from regard.models.entry import Entry
from regard.models.interfaces.series import Forecaster, ForecasterConfig, at_steps_asked, with_marks


@dataclass(frozen=True, kw_only=True)
class RecurrentForecasterConfig(ForecasterConfig):
    """What makes one recurrent forecaster differ from another."""

    cell: RecurrentName = setting("gru", "the recurrent cell")
    d_hidden: int = setting(64, "width of the recurrent state", ge=1)
    n_layers: int = setting(1, "layers", ge=1)
    attention: AttentionName = setting(
        "additive", "the score that attention compares by; none: the encoder's last state alone"
    )
    dropout: float = setting(0.1, "share of what the parts say that is dropped in training", ge=0, lt=1)


SIZES: dict[str, dict[str, int | float]] = {
    "tiny": {"d_hidden": 32},
    "small": {"d_hidden": 64},
    "base": {"d_hidden": 256, "n_layers": 2},
}


class RecurrentForecaster(Forecaster):
    """Two recurrent networks and what lies between them."""

    config: RecurrentForecasterConfig

    def __init__(self, config: RecurrentForecasterConfig) -> None:
        super().__init__(config)
        D, layers = config.d_hidden, config.n_layers
        self.encoder = Recurrent(
            config.cell, config.n_inputs + config.n_marks, d_hidden=D, n_layers=layers, dropout=config.dropout
        )
        self.query = nn.Linear(config.n_marks, D) if config.n_marks else None
        self.positions = Learned(D, n_positions=config.horizon)
        self.decoder = Recurrent(config.cell, D, d_hidden=D, n_layers=layers, dropout=config.dropout)
        self.attention = None if config.attention == "none" else StateAttention(score_of(config.attention, D))
        self.dropout = Dropout(config.dropout)
        self.head = nn.Linear(D if self.attention is None else 2 * D, len(config.targets) * config.n_outputs)

    def scaled_forecast(self, past: Tensor, past_marks: Tensor, future_marks: Tensor, only: int | None) -> Tensor:
        """(B, S, C), (B, S, M), (B, T, M) → (B, T, K, Q)."""
        config = self.config
        memory, state = self.encoder(with_marks(past, past_marks))
        asked = at_steps_asked(memory, config.lead, config.horizon)
        if self.query is not None:
            asked = asked + self.query(future_marks)
        states, _ = self.decoder(self.positions(asked), state=state)
        if self.attention is not None:
            context = self.attention(states, mask=None, cache=self.attention.prefill(memory))
            states = torch.cat((states, context), -1)
        forecast: Tensor = self.head(self.dropout(states)).unflatten(-1, (len(config.targets), config.n_outputs))
        return forecast


ENTRY = Entry(RecurrentForecasterConfig, RecurrentForecaster, SIZES)
