"""Other views of the same image, drawn anew each time it is seen, on the device it is on.

    crops        a part of the image of a random size, shape and place, brought back to the full size
    mirrored     half of them left for right
    light        brightness, contrast and colourfulness changed a little

All draws come from torch's own generator, so the seed of a step decides them.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

_STRETCH = 4 / 3  # the most that a crop's sides differ from one another
_GREY = (0.299, 0.587, 0.114)


def augment(images: Tensor, *, crop: float, flip: bool, jitter: float) -> Tensor:
    """Images (B, 3, H, W) of uint8 → numbers from 0 to 1, each changed in its own way.

    A crop has at least the share `crop` of the image's area, 1 leaves images whole; `jitter` is the most that light
    changes by, 0 leaves it.
    """
    pixels = images.float() / 255
    with torch.autocast(images.device.type, enabled=False):  # places in half precision would be off by parts of a pixel
        if crop < 1 or flip:
            pixels = _cropped(pixels, crop=crop, flip=flip)
        return _relit(pixels, jitter) if jitter else pixels


def _cropped(pixels: Tensor, *, crop: float, flip: bool) -> Tensor:
    """One bilinear sampling does all: coordinates run from −1 to 1."""
    n, device = len(pixels), pixels.device
    area = crop + (1 - crop) * torch.rand(n, device=device)
    shape = torch.exp(math.log(_STRETCH) / 2 * (2 * torch.rand(n, device=device) - 1)) if crop < 1 else area.new_ones(n)
    sides = torch.stack((area.sqrt() * shape, area.sqrt() / shape), 1).clamp(max=1)  # (B, 2), width and height
    moved = (1 - sides) * (2 * torch.rand(n, 2, device=device) - 1)
    if flip:
        sides[:, 0] *= 1 - 2 * (torch.rand(n, device=device) < 0.5).float()
    change = torch.zeros(n, 2, 3, device=device)
    change[:, 0, 0], change[:, 1, 1], change[:, :, 2] = sides[:, 0], sides[:, 1], moved
    grid = F.affine_grid(change, list(pixels.shape), align_corners=False)
    return F.grid_sample(pixels, grid, mode="bilinear", padding_mode="reflection", align_corners=False)


def _relit(pixels: Tensor, jitter: float) -> Tensor:
    bright, contrast, colour = (
        1 + jitter * (2 * torch.rand(3, len(pixels), 1, 1, 1, device=pixels.device) - 1)
    ).unbind(0)
    pixels = pixels * bright
    mean = pixels.mean((1, 2, 3), keepdim=True)
    pixels = mean + (pixels - mean) * contrast
    grey = sum(share * pixels[:, i : i + 1] for i, share in enumerate(_GREY))
    return (grey + (pixels - grey) * colour).clamp(0, 1)
