"""Where pixels are taken from: all changes of shape of an image in one affine map, and one sampling.

A map (B, 2, 3) leads from a place in the result to the place in the image that is shown there, in pixels from the
middle: x to the right, y down. Maps are drawn each by itself, joined, and applied together, so that an image is
interpolated once however much is done to it. What lies outside is 0, which is the mean of normalised pixels, or what
stands at the border.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.config.random_numbers import integers, uniform, uniforms


def affine(n: int, device: torch.device, **parts: Tensor) -> Tensor:
    """n maps that change nothing, but for the parts given (n,): xx, xy, yx, yy of the matrix and x, y of the shift."""
    places = {"xx": (0, 0), "xy": (0, 1), "x": (0, 2), "yx": (1, 0), "yy": (1, 1), "y": (1, 2)}
    maps = torch.eye(2, 3, device=device).repeat(n, 1, 1)
    for name, values in parts.items():
        row, column = places[name]
        maps[:, row, column] = values
    return maps


def joined(first: Tensor, then: Tensor) -> Tensor:
    """One map for two (B, 2, 3): the result of `first` is what `then` takes its pixels from.

    Written out, because products of matrices may be rounded to few digits on a GPU.
    """
    linear = (first[:, :, :2, None] * then[:, None, :, :]).sum(2)  # (B, 2, 3)
    linear[:, :, 2] += first[:, :, 2]
    return linear


def crops(n: int, device: torch.device, padding: tuple[int, int]) -> Tensor:
    """Shifts by whole pixels, as of a crop from an image with padding above and below, left and right."""
    y, x = (integers(-most, most + 1, n, device).float() for most in padding)
    return affine(n, device, x=x, y=y)


def flips(n: int, device: torch.device) -> Tensor:
    """Every second image mirrored, left to right."""
    return affine(n, device, xx=integers(0, 2, n, device) * 2.0 - 1)


def zooms(n: int, device: torch.device, *, size: tuple[int, int], share: tuple[float, float]) -> Tensor:
    """A part of each image, between two shares of its area, up to 4 : 3 longer or wider than it, from anywhere."""
    area = uniform((n,), device, low=share[0], high=share[1])
    shape = uniform((n,), device, low=math.log(3 / 4), high=math.log(4 / 3)).exp()
    wide, tall = (area * shape).sqrt().clamp(max=1), (area / shape).sqrt().clamp(max=1)
    x, y = uniforms(2, n, device) - 0.5
    return affine(n, device, xx=wide, yy=tall, x=x * (1 - wide) * size[1], y=y * (1 - tall) * size[0])


def warped(images: Tensor, maps: Tensor, *, outside: Literal["zeros", "border"] = "zeros") -> Tensor:
    """Images (B, C, H, W) with their pixels taken from where the maps say, between pixels the mean of four."""
    height, width = images.shape[2:]
    x = torch.arange(width, device=images.device) - (width - 1) / 2
    y = torch.arange(height, device=images.device)[:, None] - (height - 1) / 2
    to_x, to_y = ((row[:, 0] * x + row[:, 1] * y + row[:, 2]) for row in maps[..., None, None].unbind(1))  # (B, H, W)
    grid = torch.stack((to_x * (2 / width), to_y * (2 / height)), -1)  # in halves of the image, as the sampling has it
    return F.grid_sample(images, grid, mode="bilinear", padding_mode=outside, align_corners=False)
