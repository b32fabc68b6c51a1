"""Changes of colour, to each image of a batch its own: levels 0 … 255 as floats (B, 3, H, W), whole numbers in and out.

What each does is what pillow's operation of that name does, so that strengths found elsewhere can be used here; but all
images are changed at once, on the device they are on, and no copy from or to the processor is waited for.

    brightness, contrast, colour, sharpness    away from (factor > 1) or towards (< 1) black, mean grey, grey, blurred
    posterize    the lowest bits are cleared         solarize    levels from a threshold on are inverted
    autocontrast    each channel from 0 to 255       equalize    each channel with all levels alike often
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

TOP = 255.0


def enhance(levels: Tensor, plain: Tensor, factor: Tensor) -> Tensor:
    """Images moved along the line from their `plain` versions through themselves, by a factor each (B,)."""
    return (plain + factor.view(-1, 1, 1, 1) * (levels - plain)).clamp(0, TOP).floor()


def grey(levels: Tensor) -> Tensor:
    """How bright each pixel is (B, 1, H, W), by pillow's weights."""
    red, green, blue = levels.unbind(1)
    return ((19595 * red + 38470 * green + 7471 * blue + 32768) / 65536).floor()[:, None]


def mean_grey(levels: Tensor) -> Tensor:
    """How bright each image is, one level (B, 1, 1, 1)."""
    return (grey(levels).mean((1, 2, 3), keepdim=True) + 0.5).floor()


def blurred(levels: Tensor) -> Tensor:
    """Each pixel, but for those at the edge, mixed with its eight neighbours."""
    kernel = torch.ones(3, 1, 3, 3, device=levels.device)
    kernel[:, :, 1, 1] = 5
    inner = (F.conv2d(levels, kernel, groups=3) / 13 + 0.5).floor()  # whole numbers are exact however they are added
    result = levels.clone()
    result[:, :, 1:-1, 1:-1] = inner
    return result


def posterize(levels: Tensor, bits: Tensor) -> Tensor:
    """Levels with only the highest `bits` (B,) of eight kept."""
    step = torch.pow(2.0, 8 - bits).view(-1, 1, 1, 1)
    return (levels / step).floor() * step


def solarize(levels: Tensor, threshold: Tensor) -> Tensor:
    """Levels from a threshold (B,) on inverted."""
    return torch.where(levels >= threshold.view(-1, 1, 1, 1), TOP - levels, levels)


def autocontrast(levels: Tensor) -> Tensor:
    """Each channel stretched to the whole range; one of a single level stays as it is."""
    low, high = levels.amin((2, 3), keepdim=True), levels.amax((2, 3), keepdim=True)
    stretched = ((levels - low) * (TOP / (high - low).clamp(min=1))).clamp(0, TOP)
    return torch.where(high > low, (stretched + 1e-3).floor(), levels)


def equalize(levels: Tensor) -> Tensor:
    """Each channel spread so that all levels are alike often; one that has too few levels stays as it is."""
    rows = levels.flatten(2).long()  # (B, 3, H · W)
    counts = torch.zeros(*rows.shape[:2], 256, dtype=torch.long, device=levels.device)
    counts.scatter_add_(2, rows, torch.ones_like(rows))
    last = torch.where(counts > 0, torch.arange(256, device=levels.device), -1).amax(2, keepdim=True)
    step = (rows.shape[2] - counts.gather(2, last)) // 255  # (B, 3, 1)
    before = counts.cumsum(2) - counts
    table = ((before + step // 2) // step.clamp(min=1)).clamp(max=255)
    spread = table.gather(2, rows).view(levels.shape).to(levels.dtype)
    return torch.where(step[..., None] > 0, spread, levels)
