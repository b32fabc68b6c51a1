"""Attention over an image: a pale grey version of the image, and on it one hue, the stronger the larger the weight.

overlaid(image, weights, theme=LIGHT)       pixels (H, W, 3) for weights (h, w)
image_facts(image)                          what `overlay.js` needs to draw the same in a page

Weight is told by colour alone and not by the light of the image, so what was looked at shows on black as on white:
however light or dark, the image is brought into a narrow range of grey before the colour is laid on.
"""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from regard.inspection.plots.colours import DARK, LIGHT, Theme

Pixels = NDArray[np.uint8]
Numbers = NDArray[np.floating[Any]]
STRENGTH = 0.92  # of the colour at the largest weight
GREYS = {LIGHT: (0.78, 1.0), DARK: (0.09, 0.31)}  # what black and white of the image become
_THEMES = (("light", LIGHT), ("dark", DARK))
_LUMINANCE = np.array([0.299, 0.587, 0.114])


def overlaid(
    image: Pixels, weights: Numbers, *, theme: Theme = LIGHT, most: float | None = None, smooth: bool = False
) -> Pixels:
    """The image (H, W, 3) in grey, coloured by weights (h, w): full colour is the weight `most`, else the largest."""
    share = np.clip(weights / max(float(weights.max()) if most is None else most, 1e-12), 0, 1)
    opacity = STRENGTH * spread(share, image.shape[:2], smooth=smooth)[..., None]
    grey = shaded(image, theme)[..., None]
    mixed = (1 - opacity) * grey + opacity * full_hue(theme)
    pixels: Pixels = np.rint(255 * mixed).astype(np.uint8)
    return pixels


def shaded(image: Pixels, theme: Theme) -> NDArray[np.float64]:
    """The image (H, W, 3) as pale greys (H, W) from 0 to 1."""
    black, white = GREYS[theme]
    grey: NDArray[np.float64] = black + (white - black) * (image / 255) @ _LUMINANCE
    return grey


def spread(cells: Numbers, size: tuple[int, ...], *, smooth: bool) -> NDArray[np.float64]:
    """Cells (h, w) over an image of a size (H, W): each over its part of it, or without steps between them."""
    if smooth:
        table = torch.from_numpy(cells.astype(np.float64))[None, None]
        fine: NDArray[np.float64] = nn.functional.interpolate(table, size=size, mode="bilinear")[0, 0].numpy()
        return fine
    rows, columns = (np.arange(n) * m // n for n, m in zip(size, cells.shape, strict=True))
    each: NDArray[np.float64] = cells.astype(np.float64)[rows][:, columns]
    return each


def full_hue(theme: Theme) -> NDArray[np.float64]:
    """The colour of the largest weight, from 0 to 1."""
    return np.array([int(theme.shades[-2][i : i + 2], 16) for i in (1, 3, 5)]) / 255


def image_facts(image: Pixels) -> dict[str, Any]:
    """An image (H, W, 3) and how it is coloured, for a page."""
    hues = {name: [round(255 * float(part)) for part in full_hue(theme)] for name, theme in _THEMES}
    return {
        "png": "data:image/png;base64," + base64.b64encode(png_of(image)).decode(),
        "strength": STRENGTH,
        "greys": {name: GREYS[theme] for name, theme in _THEMES},
        "hues": hues,
    }


def png_of(image: Pixels) -> bytes:
    """An image (H, W, 3) as the bytes of a PNG file."""
    height, width, _ = image.shape
    rows = np.zeros((height, 1 + 3 * width), np.uint8)  # a zero before each row: no filter
    rows[:, 1:] = image.reshape(height, -1)
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = ((b"IHDR", head), (b"IDAT", zlib.compress(rows.tobytes(), 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        for kind, content in parts
    )
