"""The picture of a caption: the image once whole, then once for each word, lit where the model looked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from regard.inspection.plots.colours import DARK, LIGHT
from regard.tasks.captions.look import Numbers, Pixels, spotlight

_PANEL, _DPI, _MOST = 1.55, 160, 6  # inches a panel; panels in a row at most


def draw_caption(
    image: Pixels, words: Sequence[str], weights: Numbers, path: Path | str, *, title: str = "", dark: bool = False
) -> Path:
    """Draw image (3, H, W), words (T) and where each looked (T, h, w) as a grid of small pictures."""
    return draw_captions([(image, words, weights, title)], path, dark=dark)


def draw_captions(
    looks: Sequence[tuple[Pixels, Sequence[str], Numbers, str]], path: Path | str, *, dark: bool = False
) -> Path:
    """Several captions in one picture, one below the other."""
    theme = DARK if dark else LIGHT
    longest = max(len(words) for _, words, _, _ in looks)
    across = min(longest + 1, _across(longest + 1))
    downs = [-(-(len(words) + 1) // across) for _, words, _, _ in looks]
    style: Any = {"font.family": "DejaVu Sans", "text.color": theme.ink, "savefig.facecolor": theme.paper}
    with matplotlib.rc_context(style):
        height = sum(down * (_PANEL + 0.3) + 0.45 for down in downs)
        figure = Figure(figsize=(across * (_PANEL + 0.08) + 0.2, height), facecolor=theme.paper)
        ratios = [down * (_PANEL + 0.3) + 0.45 for down in downs]
        parts: Any = figure.subfigures(len(looks), 1, height_ratios=ratios, squeeze=False)
        for part, down, look in zip(parts[:, 0], downs, looks, strict=True):
            _fill(part, look, down=down, across=across, dark=dark)
        figure.savefig(path, dpi=_DPI)
    return Path(path)


def _fill(part: Any, look: tuple[Pixels, Sequence[str], Numbers, str], *, down: int, across: int, dark: bool) -> None:
    image, words, weights, title = look
    theme = DARK if dark else LIGHT
    part.set_facecolor(theme.paper)
    height = down * (_PANEL + 0.3) + 0.45
    axes = part.subplots(down, across, squeeze=False)
    part.subplots_adjust(left=0.01, right=0.99, bottom=0.02, top=1 - 0.68 / height, wspace=0.05, hspace=0.24)
    part.text(0.012, 1 - 0.1 / height, title, fontsize=12.5, va="top", ha="left", weight="bold")
    shown = [image.transpose(1, 2, 0) / 255, *(spotlight(image, each) for each in weights)]
    for axis, pixels, word in zip(axes.flat, shown, ["", *words], strict=False):
        axis.imshow(pixels, interpolation="lanczos")
        axis.set_title(_fitting(word), fontsize=11, pad=4, color=theme.ink)
    for axis in axes.flat:
        axis.set_axis_off()


def _across(n: int) -> int:
    """How many panels in a row fill a few rows best, with few places left empty."""
    most = min(n, _MOST + 1)
    return min(range(min(4, most), most + 1), key=lambda k: (-(-n // k) * k - n, -k))


def _fitting(word: str, most: int = 14) -> str:
    return word if len(word) <= most else word[: most - 1] + "…"
