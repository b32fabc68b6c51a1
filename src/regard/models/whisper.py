"""Whisper (Radford et al., 2022) as options of the Transformer of speech, and its table of positions.

Norms before each part, GELU, two convolutions of which the second halves time, fixed waves for the encoder's places,
learned positions for the decoder's, and an output tied to the embedding. Its keys have no bias; ours have one, which
a softmax over keys does not notice, so it is zero.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from regard.errors import ShapeError

BUILD: dict[str, object] = {
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
_WIDTHS = {"tiny": (384, 6, 4), "base": (512, 8, 6), "small": (768, 12, 12), "medium": (1024, 16, 24)}

SIZES: dict[str, dict[str, object]] = {
    f"whisper-{name}": BUILD
    | {"d_model": D, "n_heads": H, "d_feedforward": 4 * D, "n_encoder_layers": L, "n_decoder_layers": L}
    for name, (D, H, L) in _WIDTHS.items()
}


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
