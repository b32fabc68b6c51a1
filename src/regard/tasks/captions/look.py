"""Where a captioner looked for each word: the record of its attention over an image, with the image.

seen = model.look("dog.jpg")
seen.weights["cross"]        (L, H, T, S) over the locations, row by row from the top left
seen.over_image()            (T, h, w): how much of each word's look fell on which location; each sums to 1
seen.plot("dog.png")         the image for each word, lit where the model looked
seen.page("dog.html")        the same to move the pointer over
"""

from __future__ import annotations

import base64
import html
import struct
import zlib
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
from regard.inspection.page import file_text, filled, inside_script
from regard.inspection.plots.colours import DARK, LIGHT
from regard.inspection.record import Axis, Look, MapKind
from regard.inspection.words import Words

Numbers = NDArray[np.float64]
Pixels = NDArray[np.uint8]
_PANEL, _DPI, _MOST = 1.55, 160, 6  # inches a panel; panels in a row at most
_DIM = 0.25  # of its light is left to what was not looked at
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
        side = int(np.sqrt(weights.shape[-1]))
        over: Numbers = weights[self.axes["caption"].real].astype(np.float64).reshape(-1, side, side)
        return over

    def own_picture(self, path: Path, *, layer: int | None, kind: MapKind | None, dark: bool) -> Path | None:
        """Draw the image for each word, lit where the model looked."""
        if self.image is None or kind not in (None, "cross"):
            return None
        look = (self.image, self.words, self.over_image(layer=layer), self.title)
        return draw_captions([look], path, dark=dark)

    def html(self) -> str:
        """The page: the image, and under the pointer's word where the model looked."""
        if self.image is None:
            return super().html()
        return caption_page(self.image, self.words, self.over_image(), title=self.title)


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


def spotlight(image: Pixels, weights: Numbers) -> Numbers:
    """The image (H, W, 3) from 0 to 1 in full colour where the weights (h, w) are largest, dark and grey elsewhere.

    Weights are shown as shares of the largest: what is looked at evenly is lit all over.
    """
    light = smooth(weights, image.shape[1:])[..., None]
    colour = image.transpose(1, 2, 0) / 255
    grey = colour @ np.array([0.299, 0.587, 0.114])
    lit: Numbers = light * colour + (1 - light) * _DIM * grey[..., None]
    return lit


def smooth(weights: Numbers, size: tuple[int, ...]) -> Numbers:
    """Weights (h, w) as shares of the largest, without steps between locations: (H, W), 0 to 1."""
    share = torch.from_numpy(weights / max(float(weights.max()), 1e-12))[None, None]
    fine = nn.functional.interpolate(share, size=size[-2:], mode="bicubic", align_corners=False)[0, 0]
    light: Numbers = fine.clamp(0, 1).numpy()
    return light


def caption_page(image: Pixels, words: Sequence[str], weights: Numbers, *, title: str) -> str:
    """Image (3, H, W), words (T) and where each looked (T, h, w) as one page."""
    shares = weights / np.maximum(weights.max((1, 2), keepdims=True), 1e-12)
    parts = {
        "title": html.escape(title or " ".join(words)),
        "width": str(image.shape[2]),
        "height": str(image.shape[1]),
        "words": inside_script(list(words)),
        "maps": inside_script(shares.round(4).tolist()),
        "png": base64.b64encode(png_of(image)).decode(),
    }
    for name, theme in (("light", LIGHT), ("dark", DARK)):
        parts |= {f"{name}.{part}": getattr(theme, part) for part in ("paper", "ink", "rule", "accent")}
    return filled(file_text("regard.tasks.captions", "page.html"), parts)


def png_of(image: Pixels) -> bytes:
    """An image (3, H, W) as the bytes of a PNG file."""
    _, height, width = image.shape
    rows = np.zeros((height, 1 + 3 * width), np.uint8)  # a zero before each row: no filter
    rows[:, 1:] = image.transpose(1, 2, 0).reshape(height, -1)
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = ((b"IHDR", head), (b"IDAT", zlib.compress(rows.tobytes(), 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        for kind, content in parts
    )


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
        ratios = [down * (_PANEL + 0.3) + 0.45 for down in downs]
        figure = Figure(figsize=(across * (_PANEL + 0.08) + 0.2, sum(ratios)), facecolor=theme.paper)
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
