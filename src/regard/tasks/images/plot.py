"""The picture of an image that was looked at: itself, through all layers together, and head by head of one layer.

What was looked at stands in the light; what was not is dark. Light is a share of the brightest patch.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from regard.errors import UsageError
from regard.inspection.plots.panels import _STYLE
from regard.tasks.images.look import ImageLook, Light

_SIDE, _DPI, _ACROSS = 2.0, 150, 4
_DARKEST = 0.15


def draw_image(look: ImageLook, path: Path | str, *, layer: int | None = None) -> Path:
    """Draw the image, its rollout, what was pooled where there is that, and every head of a layer (else the last)."""
    if look.shown is None:
        raise UsageError("this record was read from a file, and does not hold the image")
    pixels = look.shown.pixels
    found = look.of("self")
    layer = found.layers[-1] if layer is None else layer
    panels: list[tuple[str, Light | None]] = [("the image", None)]
    if found.layers == tuple(range(len(found.layers))):
        panels.append(("through all layers", look.rolled_out()))
    if (pooled := look.pooled()) is not None:
        panels.append(("taken for the answer", pooled))
    panels.append((f"layer {layer}, all heads", look.looked_at(layer=layer)))
    panels += [(f"layer {layer}, head {head}", look.looked_at(layer=layer, head=head)) for head in found.heads]
    across = min(_ACROSS, len(panels))
    down = -(-len(panels) // across)
    shape = pixels.shape[0] / pixels.shape[1]
    with matplotlib.rc_context(_STYLE):
        size = (_SIDE * across, (_SIDE * min(max(shape, 0.5), 2) + 0.3) * down + 0.4)
        figure = Figure(figsize=size, layout="constrained")
        axes = np.atleast_1d(figure.subplots(down, across)).reshape(-1)
        for axis in axes:
            axis.set_axis_off()
        for axis, (title, light) in zip(axes, panels, strict=False):
            axis.imshow(pixels if light is None else lit(pixels, light), interpolation="nearest")
            axis.set_title(title, fontsize=8)
        figure.suptitle(_said(look), fontsize=10)
        figure.savefig(path, dpi=_DPI)
    return Path(path)


def lit(pixels: NDArray[np.uint8], light: Light) -> NDArray[np.uint8]:
    """An image (H, W, 3) in the light of its patches (rows, columns)."""
    share = light / max(float(light.max()), 1e-12)
    rows, columns = (np.arange(n) * m // n for n, m in zip(pixels.shape[:2], light.shape, strict=True))
    bright = _DARKEST + (1 - _DARKEST) * share[rows][:, columns]
    shown: NDArray[np.uint8] = (pixels * bright[..., None]).astype(np.uint8)
    return shown


def _said(look: ImageLook) -> str:
    if look.outputs is None:
        return look.title
    best = zip(look.outputs.tokens[0][:3], look.outputs.probabilities[0], strict=False)
    return look.title + ": " + ", ".join(f"{name} {probability:.0%}" for name, probability in best)
