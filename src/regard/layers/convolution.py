"""A small residual network (He et al., 2016) from an image to a grid of locations.

    images (B, 3, H, W) uint8, or numbers from 0 to 1   →   features (B, C, ⌈H/8⌉, ⌈W/8⌉)

    stem        4×4, stride 2
    stages      residual blocks of one width each; the second and the third begin by halving the sides (4×4, stride 2,
                and the mean of 2×2 as the shortcut), the others keep them

Everything is symmetric, so a location stands in the middle of the 8×8 pixels it is for (a 3×3 convolution of stride 2
would move it half a step to the upper left each time), and attention can be laid over the image as it is.

    batch       norms by the images of a batch in training, by what was gathered on the way in use: learns fastest
    group       norms by groups of channels of one image (Wu & He, 2018): no image feels its neighbours while training

In use no image feels its neighbours, whichever the norm.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.errors import ConfigError, ShapeError
from regard.layers.norms import working_precision

STRIDE = 8  # pixels a location stands for, each way
_GROUP = 16  # channels
_MIDDLE, _SPREAD = 0.45, 0.25  # of photographs, roughly; the norms do the rest


class GroupNorm(nn.GroupNorm):
    """Group norm that hands on the precision of the matrix products around it: (B, C, H, W) → (B, C, H, W)."""

    def forward(self, input: Tensor) -> Tensor:
        """Means and variances are computed in single precision either way."""
        working = working_precision(input)
        if working is None:
            return super().forward(input)
        with torch.autocast(input.device.type, enabled=False):
            weight, bias = self.weight.to(working), self.bias.to(working)
            return F.group_norm(input.to(working), self.num_groups, weight, bias, self.eps)


NormName = Literal["batch", "group"]


class ResidualBlock(nn.Module):
    """Two convolutions and a shortcut: (B, C, H, W) → (B, width, H, W), or half the sides."""

    def __init__(self, d_input: int, width: int, *, norm: NormName, halved: bool = False) -> None:
        super().__init__()
        self.halved = halved
        self.first = _halving(d_input, width) if halved else nn.Conv2d(d_input, width, 3, padding=1, bias=False)
        self.first_norm = norm_of(norm, width)
        self.second = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.second_norm = norm_of(norm, width)
        self.shortcut: nn.Module | None = None
        if d_input != width:
            self.shortcut = nn.Conv2d(d_input, width, 1, bias=False)

    def forward(self, features: Tensor) -> Tensor:
        """What the convolutions find, added to what was there."""
        output = self.first(_for_halving(features) if self.halved else features)
        output = self.second_norm(self.second(F.relu(self.first_norm(output))))
        kept = F.avg_pool2d(features, 2, ceil_mode=True) if self.halved else features
        return F.relu(output + (kept if self.shortcut is None else self.shortcut(kept)))


class ConvNet(nn.Module):
    """Stem and stages. `widths` are those of the stages, three or more; each has `n_blocks` blocks."""

    def __init__(self, widths: Sequence[int], *, n_blocks: int = 2, norm: NormName = "batch") -> None:
        super().__init__()
        if len(widths) < 3 or min(widths) < 1 or n_blocks < 1:
            raise ConfigError(
                f"widths {list(widths)} with {n_blocks} blocks make no network; "
                "allowed are three widths or more, each at least 1, and at least one block",
                hint="such as widths = [64, 128, 256], n_blocks = 2",
            )
        self.stem = _halving(3, widths[0])
        self.stem_norm = norm_of(norm, widths[0])
        blocks, width = [], widths[0]
        for stage, wider in enumerate(widths):
            for index in range(n_blocks):
                blocks.append(ResidualBlock(width, wider, norm=norm, halved=stage in (1, 2) and index == 0))
                width = wider
        self.blocks = nn.Sequential(*blocks)
        self.d_output = width

    def forward(self, images: Tensor) -> Tensor:
        """Images → features."""
        if images.ndim != 4 or images.shape[1] != 3:
            raise ShapeError(f"images are (batch, 3, height, width), got {tuple(images.shape)}")
        pixels = images.to(self.stem.weight.dtype)
        pixels = (pixels / 255 if images.dtype == torch.uint8 else pixels).sub(_MIDDLE).div(_SPREAD)
        features: Tensor = self.blocks(F.relu(self.stem_norm(self.stem(_for_halving(pixels)))))
        return features


def _halving(d_input: int, width: int) -> nn.Conv2d:
    return nn.Conv2d(d_input, width, 4, stride=2, bias=False)


def _for_halving(features: Tensor) -> Tensor:
    """A frame of zeros around (B, C, H, W), with which a 4×4 convolution of stride 2 gives ⌈H/2⌉ × ⌈W/2⌉."""
    height, width = features.shape[2:]
    return F.pad(features, (1, 1 + width % 2, 1, 1 + height % 2))


def norm_of(name: NormName, width: int) -> nn.Module:
    """The norm that a config names; groups are of about 16 channels."""
    if name not in get_args(NormName):
        raise ConfigError(f"norm is {name!r}; allowed: {', '.join(get_args(NormName))}")
    if name == "batch":
        return nn.BatchNorm2d(width)
    groups = max(1, width // _GROUP)
    return GroupNorm(groups if width % groups == 0 else 1, width)


def locations_of(side: int) -> int:
    """How many locations a side of so many pixels has."""
    return -(-side // STRIDE)
