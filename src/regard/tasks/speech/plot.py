"""The picture of a transcript: the sound above, and below it which stretch of it each piece of the text came from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from numpy.typing import NDArray

from regard.inspection.plots.panels import _STYLE, BLUE, GREY
from regard.tasks.speech.look import Sound

_DPI, _WIDTH = 150, 9.6
_PAPER = LinearSegmentedColormap.from_list("paper", ["#ffffff", "#9cc3e6", BLUE, "#06254d"])


def draw_speech(
    sound: Sound, weights: NDArray[np.float32], path: Path | str, *, rows: Sequence[str], title: str = ""
) -> Path:
    """Draw a spectrogram (T, M) and weights (U, S) over one time axis; `rows` are the pieces, from top to bottom."""
    seconds = max(len(sound.mel) * sound.hop, weights.shape[1] * sound.place)
    each = min(0.24, max(0.11, 5.6 / max(1, len(rows))))
    height = each * len(rows)
    with matplotlib.rc_context(_STYLE | {"axes.grid": False}):
        figure = Figure(figsize=(_WIDTH, 2.6 + height), layout="constrained")
        above, below = figure.subplots(2, 1, sharex=True, gridspec_kw={"height_ratios": (1.7, max(0.8, height))})
        heard = {"origin": "lower", "aspect": "auto", "interpolation": "nearest"}
        above.imshow(sound.mel.T, cmap="magma", extent=(0, len(sound.mel) * sound.hop, 0, sound.mel.shape[1]), **heard)
        above.set_ylabel("mel band")
        above.set_title(title, loc="left")
        strongest = np.maximum(weights.max(1, keepdims=True), 1e-9)
        extent = (0, weights.shape[1] * sound.place, len(rows), 0)
        below.imshow(weights / strongest, cmap=_PAPER, extent=extent, aspect="auto", interpolation="nearest")
        below.set_yticks(np.arange(len(rows)) + 0.5, list(rows), fontsize=min(11.0, 72 * each * 0.75))
        below.tick_params(axis="y", length=0)
        below.set_xlabel("seconds")
        below.set_ylabel("written", color=GREY)
        below.set_xlim(0, seconds)
        figure.savefig(path, dpi=_DPI)
    return Path(path)
