"""Other views of the same image, drawn anew each time it is seen, on the device it is on.

    crops        a part of the image of a random size, shape and place, brought back to the full size
    mirrored     half of them left for right
    light        brightness, contrast and colourfulness changed a little

All draws come from torch's own generator, so the seed of a step decides them.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.data.images.operations import TOP, enhance, grey, mean_grey
from regard.data.images.warping import flips, joined, warped, zooms


def augment(images: Tensor, *, crop: float, flip: bool, jitter: float) -> Tensor:
    """Images (B, 3, H, W) of uint8 → numbers from 0 to 1, each changed in its own way.

    A crop has at least the share `crop` of the image's area, 1 leaves images whole; `jitter` is the most that light
    changes by, 0 leaves it.
    """
    n, device, size = len(images), images.device, (images.shape[2], images.shape[3])
    with torch.autocast(device.type, enabled=False):  # places in half precision would be off by parts of a pixel
        levels = images.float()
        if jitter:
            levels = _relit(levels, jitter)
        maps = zooms(n, device, size=size, share=(crop, 1.0)) if crop < 1 else None
        if flip:
            maps = flips(n, device) if maps is None else joined(maps, flips(n, device))
        pixels = levels / TOP
        return pixels if maps is None else warped(pixels, maps, outside="border")


def _relit(levels: Tensor, jitter: float) -> Tensor:
    bright, contrast, colour = 1 + jitter * (2 * torch.rand(3, len(levels), device=levels.device) - 1)
    levels = enhance(levels, torch.zeros_like(levels), bright)
    levels = enhance(levels, mean_grey(levels), contrast)
    return enhance(levels, grey(levels), colour)
