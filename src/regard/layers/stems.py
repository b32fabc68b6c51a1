"""An image as a sequence: patches or convolutions, and where on the grid each stands.

    PatchStem       patches of p × p pixels side by side, one linear map each          Dosovitskiy et al. (2021)
    ConvStem        3 × 3 convolutions that overlap, with pooling in between           CCT: Hassani et al. (2021)
    ResidualStem    residual blocks at every grid from the pixels' to the tokens'      the hybrid of Dosovitskiy et al.

All map images (B, C, H, W) to tokens (B, rows · columns, D), row by row, with one token for every `stride` × `stride`
pixels. Positions are added to tokens, before which `n_extra` others (a class token) may stand:

    LearnedGrid       a vector each; on another grid they are interpolated as an image would be
    SinusoidalGrid    half of the features say the row, half the column; any grid
"""

from __future__ import annotations

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.positions import sinusoidal
from regard.errors import ShapeError
from regard.layers.convolution import NormName, ResidualBlock, norm_of

Grid = tuple[int, int]


class PatchStem(nn.Module):
    """Patches side by side; pixels that are left over at the right and at the bottom are not read."""

    def __init__(self, n_channels: int, d_model: int, *, patch: int) -> None:
        super().__init__()
        self.stride = patch
        self.projection = nn.Conv2d(n_channels, d_model, patch, patch)

    def grid(self, height: int, width: int) -> Grid:
        """How many rows and columns of tokens an image of this size gives."""
        return height // self.stride, width // self.stride

    def forward(self, images: Tensor) -> Tensor:
        """(B, C, H, W) → (B, P, D)."""
        return _as_tokens(self.projection(images))


class ConvStem(nn.Module):
    """Convolutions with a rectifier; the last of them are followed by pooling that halves the grid, down to `stride`.

    There is no norm: statistics over batches would depend on who shares one.
    """

    def __init__(self, n_channels: int, d_model: int, *, stride: int, n_layers: int, width: int = 64) -> None:
        super().__init__()
        halvings = _halvings(stride)
        if halvings is None or n_layers < max(1, halvings):
            raise ShapeError(
                f"{n_layers} convolutions cannot bring the grid down by {stride}: each halves it or leaves it"
            )
        self.stride = stride
        sizes = [n_channels, *[width] * (n_layers - 1), d_model]
        layers = [nn.Conv2d(one, other, 3, padding=1, bias=False) for one, other in pairwise(sizes)]
        for layer in layers:
            nn.init.kaiming_normal_(layer.weight)
        self.layers = nn.ModuleList(layers)
        self.n_plain = n_layers - halvings

    def grid(self, height: int, width: int) -> Grid:
        """How many rows and columns of tokens an image of this size gives."""
        return -(-height // self.stride), -(-width // self.stride)

    def forward(self, images: Tensor) -> Tensor:
        """(B, C, H, W) → (B, P, D)."""
        for number, layer in enumerate(self.layers):
            images = F.relu(layer(images))
            if number >= self.n_plain:
                images = F.max_pool2d(images, 3, 2, 1)
        return _as_tokens(images)


class ResidualStem(nn.Module):
    """Stages of residual blocks; each stage but the first halves the grid and doubles the width, up to the model's own.

    `norm` "batch" learns fastest; with "group" no image feels its neighbours while training either.
    """

    def __init__(
        self,
        n_channels: int,
        d_model: int,
        *,
        stride: int,
        n_blocks: int,
        width: int = 64,
        norm: NormName = "batch",
    ) -> None:
        super().__init__()
        halvings = _halvings(stride)
        if halvings is None or n_blocks < 1:
            raise ShapeError(
                f"{n_blocks} blocks a stage cannot bring the grid down by {stride}: it is 1, 2, 4, 8, …, by one block "
                "a stage at least"
            )
        self.stride = stride
        widths = [*(min(d_model, width << stage) for stage in range(halvings)), d_model]
        self.first = nn.Conv2d(n_channels, widths[0], 3, padding=1, bias=False)
        self.first_norm = norm_of(norm, widths[0])
        blocks = []
        for stage, (before, here) in enumerate(pairwise([widths[0], *widths])):
            blocks.append(ResidualBlock(before, here, norm=norm, halved=stage > 0))
            blocks += [ResidualBlock(here, here, norm=norm) for _ in range(n_blocks - 1)]
        self.blocks = nn.Sequential(*blocks)

    def grid(self, height: int, width: int) -> Grid:
        """How many rows and columns of tokens an image of this size gives."""
        return -(-height // self.stride), -(-width // self.stride)

    def forward(self, images: Tensor) -> Tensor:
        """(B, C, H, W) → (B, P, D)."""
        return _as_tokens(self.blocks(F.relu(self.first_norm(self.first(images)))))


class LearnedGrid(nn.Module):
    """One learned vector a place, and one for each of the tokens before them."""

    def __init__(self, d_model: int, *, grid: Grid, n_extra: int = 0) -> None:
        super().__init__()
        self.grid, self.n_extra = grid, n_extra
        self.table = nn.Embedding(n_extra + grid[0] * grid[1], d_model)
        nn.init.normal_(self.table.weight, std=0.02)

    def forward(self, tokens: Tensor, *, grid: Grid) -> Tensor:
        """Tokens (B, n_extra + P, D) with their positions added."""
        table = self.table.weight if grid == self.grid else self.interpolated(grid)
        return tokens + table.to(tokens.dtype)

    def interpolated(self, grid: Grid) -> Tensor:
        """The table for another grid, (n_extra + P', D)."""
        extra, places = self.table.weight[: self.n_extra], self.table.weight[self.n_extra :]
        as_image = places.float().view(1, *self.grid, -1).permute(0, 3, 1, 2)
        resized = F.interpolate(as_image, size=grid, mode="bicubic", align_corners=False)
        return torch.cat((extra, resized.permute(0, 2, 3, 1).flatten(0, 2).to(extra.dtype)))


class SinusoidalGrid(nn.Module):
    """Sines and cosines of the row, then of the column; the tokens before them get nothing."""

    def __init__(self, d_model: int, *, n_extra: int = 0) -> None:
        super().__init__()
        if d_model % 4:
            raise ShapeError(f"rows and columns share {d_model} features in pairs: the width is a multiple of 4")
        self.d_model, self.n_extra = d_model, n_extra

    def forward(self, tokens: Tensor, *, grid: Grid) -> Tensor:
        """Tokens (B, n_extra + P, D) with their positions added."""
        return tokens + F.pad(self.table(grid).to(tokens), (0, 0, self.n_extra, 0))

    def table(self, grid: Grid) -> Tensor:
        """The encoding of every place, (P, D)."""
        down, across = (sinusoidal(n, self.d_model // 2) for n in grid)
        both = (down[:, None].expand(*grid, -1), across[None].expand(*grid, -1))
        return torch.cat(both, -1).flatten(0, 1)


def _halvings(stride: int) -> int | None:
    """How often the grid is halved until a token stands for `stride` pixels each way; None: it cannot be."""
    halvings = stride.bit_length() - 1
    return halvings if stride == 2**halvings else None


def _as_tokens(features: Tensor) -> Tensor:
    return features.flatten(2).transpose(1, 2)
