"""Where a captioner looked for each word: the record of its attention over an image, with the image.

seen = model.look("dog.jpg")
seen.weights["cross"]        (L, H, T, S) over the locations, row by row from the top left
seen.over_image()            (T, h, w): how much of each word's look fell on which location; each sums to 1
seen.plot("dog.png")         the image for each word, coloured where the model looked
seen.page("dog.html")        the same to move the pointer over, for every layer and head
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from regard.attention import Rows
from regard.data.text.tokenizers import Tokenizer
from regard.inspection.forward_case import ForwardCase, OutputNames, Sides
from regard.inspection.overlay import image_facts, overlaid
from regard.inspection.page import Scene, file_text, page
from regard.inspection.plots.colours import DARK, LIGHT, plain
from regard.inspection.record import Axis, Look, MapKind
from regard.inspection.words import Words

Numbers = NDArray[np.float64]
Pixels = NDArray[np.uint8]
_PANEL, _SCALE, _DPI, _MOST = 1.55, 1.0, 160, 6  # inches of a panel and of the scale; panels in a row at most
IMAGE_SIDES: Sides = {
    "self": ("self", "image", "image"),
    "masked": ("masked", "caption", "fed"),
    "cross": ("cross", "caption", "image"),
}


@dataclass(frozen=True, eq=False)
class CaptionLook(Look):
    """A record whose picture is one of an image: `image` uint8 (3, H, W) as the model saw it, or finer."""

    image: Pixels | None = None

    @property
    def words(self) -> list[str]:
        """The pieces of the caption that are no marks, as people read them."""
        axis = self.axes["caption"]
        return [axis.shown[index] for index in axis.real]

    def over_image(self, *, layer: int | None = None) -> Numbers:
        """Where each word looked, (T, h, w): the mean over heads, and over layers unless one is asked for."""
        attention = self.of("cross")
        weights = attention.weights.mean((0, 1)) if layer is None else attention.of_layer(layer).mean(0)  # (T, S)
        over: Numbers = weights[self.axes["caption"].real].astype(np.float64).reshape(-1, *self.grid())
        return over

    def grid(self) -> tuple[int, int]:
        """How many rows and columns of locations the image has."""
        side = int(np.sqrt(len(self.axes["image"])))
        return side, side

    def own_picture(self, path: Path, *, layer: int | None, kind: MapKind | None, dark: bool) -> Path | None:
        """Draw the image for each word, coloured where the model looked."""
        if self.image is None or kind not in (None, "cross"):
            return None
        look = (self.image, self.words, self.over_image(layer=layer), self.title)
        return draw_captions([look], path, dark=dark)

    def html(self) -> str:
        """The page: the image, and under the pointer's word where the model looked."""
        if self.image is None:
            return super().html()
        return page(self, caption_scene(self, self.image)) if "cross" in self.maps else super().html()


@dataclass(frozen=True)
class CaptionCase(ForwardCase):
    """An image and its caption, ready to be looked at; `image` is what is shown of it."""

    image: Pixels | None = None

    def finish(self, seen: Look) -> CaptionLook:
        """The record with the image."""
        return CaptionLook(seen.axes, seen.maps, seen.outputs, seen.title, self.image)


def caption_case(
    module: nn.Module, tokenizer: Tokenizer, image: Pixels, caption: Sequence[int], *, shown: Pixels | None = None
) -> CaptionCase:
    """An image (3, H, W) and its caption as ids without marks; `shown` is the same image, as fine as one likes."""
    device = next(module.parameters()).device
    fed = torch.tensor([[tokenizer.bos_id, *caption]], device=device)
    pieces, words = tokenizer.tokens(caption), Words.of(tokenizer, caption)
    side = int(np.sqrt(module.encoder.n_locations))  # type: ignore[union-attr, arg-type]
    axes = {
        "image": Axis([f"{row},{column}" for row in range(side) for column in range(side)], "patches"),
        "caption": Axis(pieces + tokenizer.tokens([tokenizer.eos_id]), words=words.with_mark()),
        "fed": Axis(tokenizer.tokens([tokenizer.bos_id]) + pieces, words=words.with_mark(first=True)),
    }
    names = OutputNames("caption", "here", lambda index: tokenizer.tokens([index])[0], [*caption, tokenizer.eos_id])
    inputs = (torch.tensor(image[None], device=device), Rows(fed))
    return CaptionCase(module, inputs, axes, IMAGE_SIDES, names, title=tokenizer.decode(caption), image=shown)


def caption_scene(look: CaptionLook, image: Pixels) -> Scene:
    """The image (3, H, W) and the places of the words, for the page."""
    grid = look.grid()
    facts = image_facts(image.transpose(1, 2, 0)) | {"grid": grid, "smooth": True, "words": look.axes["caption"].real}
    script = file_text("regard.inspection", "overlay.js") + file_text("regard.tasks.captions", "page.js")
    file = "" if look.about is None else look.about.file
    return Scene("Image", script, ("cross",), read=file or "An image", wrote=look.title, facts=facts)


def draw_captions(
    looks: Sequence[tuple[Pixels, Sequence[str], Numbers, str]], path: Path | str, *, dark: bool = False
) -> Path:
    """Several captions in one picture, one below the other: the image whole, then once for each word."""
    import matplotlib
    from matplotlib.figure import Figure

    theme = DARK if dark else LIGHT
    longest = max(len(words) for _, words, _, _ in looks)
    across = min(longest + 1, _across(longest + 1))
    downs = [-(-(len(words) + 1) // across) for _, words, _, _ in looks]
    style: Any = {"font.family": "DejaVu Sans", "text.color": theme.ink, "savefig.facecolor": theme.paper}
    with matplotlib.rc_context(style):
        ratios = [down * (_PANEL + 0.4) + 0.45 for down in downs]
        figure = Figure(figsize=(across * (_PANEL + 0.08) + _SCALE, sum(ratios)), facecolor=theme.paper)
        parts: Any = figure.subfigures(len(looks), 1, height_ratios=ratios, squeeze=False)
        for part, down, look in zip(parts[:, 0], downs, looks, strict=True):
            _fill(part, look, down=down, across=across, dark=dark)
        figure.savefig(path, dpi=_DPI)
    return Path(path)


def _fill(part: Any, look: tuple[Pixels, Sequence[str], Numbers, str], *, down: int, across: int, dark: bool) -> None:
    from regard.inspection.plots.overlays import add_scale

    image, words, weights, title = look
    theme = DARK if dark else LIGHT
    part.set_facecolor(theme.paper)
    height, width = down * (_PANEL + 0.4) + 0.45, across * (_PANEL + 0.08) + _SCALE
    axes = part.subplots(down, across, squeeze=False)
    edges = {"left": 0.01, "right": 1 - 0.75 / width, "bottom": 0.16 / height, "top": 1 - 0.68 / height}
    part.subplots_adjust(**edges, wspace=0.05, hspace=0.32)
    part.text(0.012, 1 - 0.1 / height, plain(title), fontsize=12.5, va="top", ha="left", weight="bold")
    pixels = image.transpose(1, 2, 0)
    shown = [pixels, *(overlaid(pixels, each, theme=theme, smooth=True) for each in weights)]
    scales = ["", *(f"0 … {each.max():.2g}" for each in weights)]
    for axis, one, word, scale in zip(axes.flat, shown, ["", *words], scales, strict=False):
        axis.imshow(one, interpolation="lanczos")
        axis.set_title(plain(_fitting(word)), fontsize=11, pad=4, color=theme.ink)
        axis.text(0.5, -0.03, scale, fontsize=8, ha="center", va="top", transform=axis.transAxes)
    for axis in axes.flat:
        axis.set_axis_off()
    if len(weights):
        room = part.add_axes((1 - 0.62 / width, 0.3 / height, 0.12 / width, 1 - 1.2 / height))
        add_scale(part, (), theme, largest="largest", inside=room)


def _across(n: int) -> int:
    """How many panels in a row fill a few rows best, with few places left empty."""
    most = min(n, _MOST + 1)
    return min(range(min(4, most), most + 1), key=lambda k: (-(-n // k) * k - n, -k))


def _fitting(word: str, most: int = 14) -> str:
    return word if len(word) <= most else word[: most - 1] + "…"
