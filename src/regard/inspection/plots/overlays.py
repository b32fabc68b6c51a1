"""The scale of attention over an image, beside pictures of it."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap, Normalize

from regard.inspection.overlay import GREYS, STRENGTH, full_hue
from regard.inspection.plots.colours import Theme


def add_scale(
    figure: Any, axes: Any, theme: Theme, *, largest: str = "", most: float = 1.0, inside: Any = None
) -> None:
    """Add the colours from 0 to `most`, over the grey of an image, beside `axes` or `inside` one of its own.

    `largest` is what the end is called instead.
    """
    grey = np.full(3, sum(GREYS[theme]) / 2)
    ends = [tuple(grey), tuple((1 - STRENGTH) * grey + STRENGTH * full_hue(theme))]
    scale = ScalarMappable(Normalize(0, most), LinearSegmentedColormap.from_list("overlay", ends))
    beside = {"ax": list(axes), "shrink": 0.7, "aspect": 28, "pad": 0.02, "fraction": 0.04}
    bar = figure.colorbar(scale, **(beside if inside is None else {"cax": inside}))
    bar.set_ticks([0, most], labels=["0", largest or f"{most:.2g}"])
    bar.ax.set_title("weight", fontsize=9, loc="left", color=theme.ink)
    bar.ax.tick_params(labelsize=9, length=0, labelcolor=theme.ink)
    bar.outline.set_visible(False)
