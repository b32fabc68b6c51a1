"""The Vision Transformer (Dosovitskiy et al., 2021) and its compact convolutional relatives (Hassani et al., 2021).

    logits  = model(images)              images (B, 3, H, W), normalised → (B, n_classes)
    encoded = model.encode(images)       the tokens (B, T, D); a class token, where there is one, is the first of them
    pooled  = model.pooled(encoded)      one vector an image (B, D)

An image becomes a sequence by a stem, each token is told its place on the grid, encoder blocks look at all of them,
and one vector is taken: the class token's, the mean, or what a learned query picks ("attention", CCT's sequence
pooling). Images of another size than trained on are read too: learned positions are interpolated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from regard.attention import MultiHeadAttention, Rows, ScaledDot
from regard.config.settings import Settings, setting
from regard.errors import ConfigError, ShapeError
from regard.layers import ActivationName, Dropout, EncoderBlock, EncoderStack, FeedForward, norm_of
from regard.layers.convolution import NormName
from regard.layers.pooling import AttentionPooling
from regard.layers.stems import ConvStem, Grid, LearnedGrid, PatchStem, ResidualStem, SinusoidalGrid
from regard.layers.stochastic_depth import depth_rates, skip_at_random
from regard.models.entry import Entry
from regard.models.interfaces.backbone import output_layer


@dataclass(frozen=True, kw_only=True)
class ViTConfig(Settings):
    """What makes one Vision Transformer differ from another."""

    n_classes: int = setting(1000, "classes; 0 leaves the head out", ge=0, derived=True)
    image: tuple[int, int] = setting((224, 224), "height and width of images", ge=1, derived=True)
    n_channels: int = setting(3, "channels of images", ge=1, derived=True)
    patch: int = setting(16, "a token stands for patch × patch pixels", ge=1)
    stem: Literal["patch", "conv", "residual"] = setting(
        "patch", "how pixels become tokens: one projection, convolutions, or residual blocks"
    )
    stem_layers: int = setting(1, "3 × 3 convolutions of the stem; residual blocks at each grid", ge=1)
    stem_width: int = setting(64, "features of the stem; residual: doubled from grid to grid", ge=1)
    stem_norm: NormName = setting("batch", "the normalisation of a residual stem")
    d_model: int = setting(192, "width of the model", ge=1)
    n_heads: int = setting(3, "attention heads", ge=1)
    d_feedforward: int = setting(768, "width inside the feed-forward parts", ge=1)
    n_layers: int = setting(12, "blocks", ge=1)
    pooling: Literal["class", "mean", "attention"] = setting("class", "how tokens become one vector")
    positions: Literal["learned", "sinusoidal", "none"] = setting("learned", "how places are told apart")
    pooler: bool = setting(False, "a tanh layer on the pooled vector")
    dropout: float = setting(0.0, "share of what the parts say that is dropped in training", ge=0, lt=1)
    attention_dropout: float = setting(0.0, "share of attention weights that is dropped", ge=0, lt=1)
    stochastic_depth: float = setting(
        0.0, "share of rows that go around the last block's parts; less for those before", ge=0, lt=1, was="skip"
    )
    activation: ActivationName = setting("gelu", "the feed-forward parts' nonlinearity")
    norm_epsilon: float = setting(1e-6, "what normalisation adds to its divisor", gt=0)
    bias: bool = setting(True, "whether attention's projections add something")


_COMPACT: dict[str, Any] = {"image": (32, 32), "n_classes": 10, "stem": "conv", "pooling": "attention"}
SIZES: dict[str, dict[str, Any]] = {
    "nano": {**_COMPACT, "patch": 4, "stem_layers": 2, "stem_width": 32}
    | {"d_model": 96, "n_heads": 3, "d_feedforward": 192, "n_layers": 4},
    "compact": {**_COMPACT, "patch": 2, "stochastic_depth": 0.1}  # CCT-7/3x1
    | {"d_model": 256, "n_heads": 4, "d_feedforward": 512, "n_layers": 7},
    "compact-large": {**_COMPACT, "patch": 2, "stem_layers": 2, "stochastic_depth": 0.1}
    | {"d_model": 256, "n_heads": 4, "d_feedforward": 1024, "n_layers": 9},
    "hybrid": {**_COMPACT, "stem": "residual", "stem_layers": 2, "patch": 4, "stochastic_depth": 0.1}
    | {"d_model": 256, "n_heads": 4, "d_feedforward": 1024, "n_layers": 6},
    "tiny": {"d_model": 192, "n_heads": 3, "d_feedforward": 768, "n_layers": 12},
    "small": {"d_model": 384, "n_heads": 6, "d_feedforward": 1536, "n_layers": 12},
    "base": {"d_model": 768, "n_heads": 12, "d_feedforward": 3072, "n_layers": 12},
    "large": {"d_model": 1024, "n_heads": 16, "d_feedforward": 4096, "n_layers": 24},
}


class ViT(nn.Module):
    """A stem, positions, encoder blocks, one vector, and a head."""

    class_token: nn.Parameter | None

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        _check(config)
        self.config = config
        D, n_extra = config.d_model, int(config.pooling == "class")
        self.stem = _stem(config)
        self.register_parameter("class_token", nn.Parameter(torch.randn(D) * 0.02) if n_extra else None)
        self.positions: LearnedGrid | SinusoidalGrid | None = None
        if config.positions == "learned":
            self.positions = LearnedGrid(D, grid=self.stem.grid(*config.image), n_extra=n_extra)
        elif config.positions == "sinusoidal":
            self.positions = SinusoidalGrid(D, n_extra=n_extra)
        self.dropout = Dropout(config.dropout)
        norm = norm_of("layer", epsilon=config.norm_epsilon)
        rates = depth_rates(config.n_layers, config.stochastic_depth)
        self.encoder = EncoderStack([skip_at_random(_block(config), p) for p in rates], final_norm=norm(D))
        self.pool = AttentionPooling(D, score=ScaledDot()) if config.pooling == "attention" else None
        self.pooler = nn.Linear(D, D) if config.pooler else None
        self.output = output_layer(D, config.n_classes) if config.n_classes else None

    def forward(self, images: Tensor) -> Tensor:
        """Images (B, C, H, W) → logits (B, n_classes), or pooled vectors (B, D) where there is no head."""
        pooled = self.pooled(self.encode(images))
        return pooled if self.output is None else self.output(pooled)

    def encode(self, images: Tensor) -> Tensor:
        """The contextual vectors (B, T, D)."""
        grid = self.grid(images)
        tokens: Tensor = self.stem(images)
        if self.class_token is not None:
            first = self.class_token.to(tokens.dtype).expand(len(tokens), 1, -1)
            tokens = torch.cat((first, tokens), 1)
        if self.positions is not None:
            tokens = self.positions(tokens, grid=grid)
        return self.encoder(self.dropout(tokens))

    def pooled(self, encoded: Tensor) -> Tensor:
        """One vector an image, (B, D)."""
        if self.class_token is not None:
            whole = encoded[:, 0]
        elif self.pool is None:
            whole = encoded.mean(1)
        else:
            whole = self.pool(encoded, Rows(encoded[..., 0]))  # all rows are full, so only their shape is asked for
        return whole if self.pooler is None else torch.tanh(self.pooler(whole))

    def grid(self, images: Tensor) -> Grid:
        """The rows and columns of tokens that images (B, C, H, W) give."""
        config = self.config
        if images.ndim != 4 or images.shape[1] != config.n_channels or not images.is_floating_point():
            raise ShapeError(
                f"images are numbers (batch, {config.n_channels}, height, width), got {images.dtype} "
                f"{tuple(images.shape)}",
                hint="pixels have to be normalised first",
            )
        height, width = images.shape[2:]
        if min(height, width) < config.patch:
            raise ShapeError(f"an image of {height} × {width} is smaller than a patch of {config.patch}")
        return self.stem.grid(height, width)


def _stem(config: ViTConfig) -> PatchStem | ConvStem | ResidualStem:
    sizes, n, width = (config.n_channels, config.d_model), config.stem_layers, config.stem_width
    if config.stem == "patch":
        return PatchStem(*sizes, patch=config.patch)
    if config.stem == "conv":
        return ConvStem(*sizes, stride=config.patch, n_layers=n, width=width)
    return ResidualStem(*sizes, stride=config.patch, n_blocks=n, width=width, norm=config.stem_norm)


def _block(config: ViTConfig) -> EncoderBlock:
    D = config.d_model
    attention = MultiHeadAttention(D, config.n_heads, dropout=config.attention_dropout, bias=config.bias, out_bias=True)
    return EncoderBlock(
        D,
        attention=attention,
        feedforward=FeedForward(D, config.d_feedforward, activation=config.activation, dropout=config.dropout),
        order="pre",
        norm=norm_of("layer", epsilon=config.norm_epsilon),
        dropout=config.dropout,
    )


def _check(config: ViTConfig) -> None:
    config.check()
    if min(config.image) < config.patch:
        raise ConfigError(f"patches of {config.patch} do not fit an image of {config.image[0]} × {config.image[1]}")


ENTRY = Entry(ViTConfig, ViT, SIZES)
