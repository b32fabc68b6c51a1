"""A forecaster that attends between patches of a series, in the manner of PatchTST (Nie et al., 2023).

    window (S)  →  patches of `patch` steps every `stride` steps (P, patch)  →  vectors (P, D)  →  encoder blocks
                →  all of them flattened, through one linear layer  →  horizon (T)

Every column is read by itself and by the same weights (channel-independent), with what stood beside it in each patch
on average, if there are such columns; the end of the window is repeated by one
stride, so that its last steps stand in two patches as well. The sizes are those published for small and large data.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention import Learned, MultiHeadAttention
from regard.config.settings import setting
from regard.errors import ConfigError
from regard.layers import ActivationName, Dropout, FeedForward, Order, StackMaker, norm_of
from regard.models.entry import Entry
from regard.models.interfaces.series import Forecaster, ForecasterConfig, own_columns


@dataclass(frozen=True, kw_only=True)
class PatchForecasterConfig(ForecasterConfig):
    """What makes one patch forecaster differ from another."""

    patch: int = setting(16, "steps of a patch", ge=1)
    stride: int = setting(8, "steps between patches", ge=1)
    d_model: int = setting(16, "width of the model", ge=1)
    n_heads: int = setting(4, "attention heads", ge=1)
    d_feedforward: int = setting(128, "width inside the feed-forward parts", ge=1)
    n_layers: int = setting(3, "blocks", ge=1)
    dropout: float = setting(0.3, "share of what the parts say that is dropped in training", ge=0, lt=1)
    attention_dropout: float = setting(0.0, "share of attention weights that is dropped", ge=0, lt=1)
    head_dropout: float = setting(0.0, "share dropped before the output", ge=0, lt=1)
    order: Order = setting("post", "normalisation before or after each part")
    norm: Literal["batch", "layer", "rms"] = setting(
        "batch", "batch: over all patches of a batch, feature by feature, as published"
    )
    activation: ActivationName = setting("gelu", "the feed-forward parts' nonlinearity")

    @property
    def n_patches(self) -> int:
        """How many patches a window has."""
        return (self.context - self.patch) // self.stride + 2


SIZES: dict[str, dict[str, int | float]] = {
    "tiny": {"d_model": 16, "n_heads": 4, "d_feedforward": 128, "n_layers": 3, "dropout": 0.3},
    "base": {"d_model": 128, "n_heads": 16, "d_feedforward": 256, "n_layers": 3, "dropout": 0.2},
}


class PatchForecaster(Forecaster):
    """Patches, encoder blocks, and one linear layer to the horizon."""

    config: PatchForecasterConfig

    def __init__(self, config: PatchForecasterConfig) -> None:
        super().__init__(config, own=True)
        _check(config)
        D = config.d_model
        self.embedding = nn.Linear(config.patch, D)
        self.beside = nn.Linear(config.n_covariates, D, bias=False) if config.n_covariates else None
        self.positions = Learned(D, n_positions=config.n_patches)
        self.dropout = Dropout(config.dropout)
        self.encoder = StackMaker(
            d_model=D,
            attention=partial(MultiHeadAttention, D, config.n_heads, dropout=config.attention_dropout),
            feedforward=partial(
                FeedForward, D, config.d_feedforward, activation=config.activation, dropout=config.dropout
            ),
            norm=FeatureNorm if config.norm == "batch" else norm_of(config.norm),
            order=config.order,
            dropout=config.dropout,
        ).encoder(config.n_layers)
        self.head_dropout = Dropout(config.head_dropout)
        self.head = nn.Linear(config.n_patches * D, config.horizon * config.n_outputs)

    def scaled_forecast(self, past: Tensor, past_marks: Tensor, future_marks: Tensor, only: int | None) -> Tensor:
        """(B, S, C) → (B, T, K, Q); dates are not looked at."""
        config = self.config
        rows = own_columns(past, config.targets, only)  # (B · K, S)
        read = self.embedding(self.patches(rows))
        if self.beside is not None:
            means = self.patches(past_marks[..., -config.n_covariates :].transpose(1, 2).flatten(0, 1)).mean(-1)
            means = means.view(len(past), config.n_covariates, -1).transpose(1, 2)  # (B, P, F)
            read = read + self.beside(means).repeat_interleave(len(rows) // len(past), 0)
        hidden = self.encoder(self.dropout(self.positions(read)))  # (B · K, P, D)
        forecast: Tensor = self.head(self.head_dropout(hidden.flatten(1)))
        return forecast.view(len(past), -1, config.horizon, config.n_outputs).transpose(1, 2)

    def patches(self, rows: Tensor) -> Tensor:
        """Rows (N, S) → patches (N, P, patch)."""
        config = self.config
        return F.pad(rows, (0, config.stride), mode="replicate").unfold(1, config.patch, config.stride)


class FeatureNorm(nn.BatchNorm1d):
    """Batch norm of each feature over all rows and positions: (N, P, D) → (N, P, D)."""

    def forward(self, hidden: Tensor) -> Tensor:
        """In the precision of the weights."""
        with torch.autocast(hidden.device.type, enabled=False):
            normed = super().forward(hidden.to(self.weight.dtype).flatten(0, -2))
            return normed.view(hidden.shape).to(hidden.dtype)


def _check(config: PatchForecasterConfig) -> None:
    if config.patch > config.context:
        raise ConfigError(
            f"patches of {config.patch} steps every {config.stride} do not fit a context of {config.context}"
        )


ENTRY = Entry(PatchForecasterConfig, PatchForecaster, SIZES)
