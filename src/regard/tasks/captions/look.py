"""Where a captioner looked for each word: the record of its attention over an image, with the image.

seen = model.look("dog.jpg")
seen.weights["cross"]        (L, H, T, S) over the locations, row by row from the top left
seen.over_image()            (T, h, w): how much of each word's look fell on which location; each sums to 1
seen.plot("dog.png")         the image for each word, lit where the model looked
seen.page("dog.html")        the same to move the pointer over
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from regard.attention import Rows
from regard.data.text.tokenizers import Tokenizer
from regard.inspection.forward_case import ForwardCase, OutputNames, Sides
from regard.inspection.record import Axis, Look, MapKind
from regard.inspection.words import Words

Numbers = NDArray[np.float64]
Pixels = NDArray[np.uint8]
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
        return [axis.shown[place] for place in axis.real]

    def over_image(self, *, layer: int | None = None) -> Numbers:
        """Where each word looked, (T, h, w): the mean over heads, and over layers unless one is asked for."""
        found = self.of("cross")
        weights = found.weights.mean((0, 1)) if layer is None else found.of_layer(layer).mean(0)  # (T, S)
        side = int(np.sqrt(weights.shape[-1]))
        over: Numbers = weights[self.axes["caption"].real].astype(np.float64).reshape(-1, side, side)
        return over

    def own_picture(self, path: Path, *, layer: int | None, kind: MapKind | None, dark: bool) -> Path | None:
        """Draw the image for each word, lit where the model looked."""
        if self.image is None or kind not in (None, "cross"):
            return None
        from regard.tasks.captions.plot import draw_caption

        return draw_caption(self.image, self.words, self.over_image(layer=layer), path, title=self.title, dark=dark)

    def page(self, path: Path | str) -> Path:
        """Write one HTML file: the image, and under the pointer's word where the model looked."""
        if self.image is None:
            return super().page(path)
        from regard.tasks.captions.page import write_caption_page

        return write_caption_page(self.image, self.words, self.over_image(), path, title=self.title)


def caption_case(module: nn.Module, tokenizer: Tokenizer, image: Pixels, caption: Sequence[int]) -> ForwardCase:
    """An image (3, H, W) and its caption as ids without marks, ready to be looked at."""
    device = next(module.parameters()).device
    fed = torch.tensor([[tokenizer.bos_id, *caption]], device=device)
    pieces, words = tokenizer.tokens(caption), Words.of(tokenizer, caption)
    side = int(np.sqrt(module.encoder.n_locations))  # type: ignore[union-attr, arg-type]
    axes = {
        "image": Axis([f"{row},{column}" for row in range(side) for column in range(side)], "patches"),
        "caption": Axis(pieces + tokenizer.tokens([tokenizer.eos_id]), words=words.with_mark()),
        "fed": Axis(tokenizer.tokens([tokenizer.bos_id]) + pieces, words=words.with_mark(first=True)),
    }
    speech = OutputNames("caption", "here", lambda index: tokenizer.tokens([index])[0], [*caption, tokenizer.eos_id])
    inputs = (torch.tensor(image[None], device=device), Rows(fed))
    return ForwardCase(module, inputs, axes, IMAGE_SIDES, speech, title=tokenizer.decode(caption))


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
    found: Numbers = fine.clamp(0, 1).numpy()
    return found
