"""What a Vision Transformer looked at: the record of its attention over patches, with the image it saw.

seen = model.look("cat.jpg")
seen.weights["self"]                    (L, H, T, T) between tokens; a class token, where there is one, is the first
seen.looked_at(layer=-1, head=2)        (rows, columns): how much of a head's attention went to each patch
seen.rolled_out()                       the same through all layers (Abnar and Zuidema, 2020)
seen.plot("seen.png")                   the image in the light of its attention, head by head
seen.page("seen.html")                  patches can be asked what they look at; no network, any recent browser

In the picture what was looked at stands in the light, what was not is dark: light is a share of the brightest patch.
The page is `page.html` with the record put in: the image's pixels, and the weights of every layer and head in one byte
each, as shares of the largest in their row, which is given beside them.
"""

from __future__ import annotations

import base64
import html
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from regard.data.images.space import ImageSpace
from regard.errors import UsageError
from regard.inspection.forward_case import ForwardCase, OutputNames, Sides, device_of
from regard.inspection.page import file_text, filled, inside_script
from regard.inspection.record import Axis, Look, MapKind
from regard.inspection.rollout import roll_out
from regard.models.vit import ViT

Light = NDArray[np.float32]
_SIDE, _DPI, _ACROSS = 2.0, 150, 4
_DARKEST = 0.15
_SIDES: Sides = {"self": ("self", "image", "image"), "cross": ("pool", "label", "image")}


@dataclass(frozen=True, eq=False)
class Shown:
    """The image as the model saw it, uint8 (H, W, 3), and the rows and columns of its patches."""

    pixels: NDArray[np.uint8]
    grid: tuple[int, int]
    n_extra: int


@dataclass(frozen=True, eq=False)
class ImageLook(Look):
    """A record whose pictures are of an image."""

    shown: Shown | None = None

    def looked_at(self, *, layer: int | None = None, head: int | None = None) -> Light:
        """How much each patch was looked at, (rows, columns), summing to 1: in a layer (else the last), by a head.

        Asked is the class token; in a model without one, all patches are, and this is the mean of them.
        """
        attention = self.of("self")
        layer = attention.layers[-1] if layer in (None, -1) else layer
        weights = attention.of_layer(layer)  # (H, T, T)
        if head is not None and not 0 <= head < len(weights):
            raise UsageError(f"there is no head {head}; there are 0 to {len(weights) - 1}")
        chosen = weights.mean(0) if head is None else weights[head]
        return self._on_patches(chosen[0] if self.held().n_extra else chosen.mean(0))

    def rolled_out(self) -> Light:
        """How much of each patch there is in what the head of the model reads, (rows, columns), summing to 1."""
        rolled = roll_out(self, "self")  # (T, T)
        if self.held().n_extra:
            return self._on_patches(rolled[0])
        if "pool" in self.maps:
            return self._on_patches(self.maps["pool"].weights[0, 0, 0] @ rolled)
        return self._on_patches(rolled.mean(0))

    def pooled(self) -> Light | None:
        """What the learned query took from each patch, (rows, columns); None where the model has none."""
        return self._on_patches(self.maps["pool"].weights[0, 0, 0]) if "pool" in self.maps else None

    def own_picture(self, path: Path, *, layer: int | None, kind: MapKind | None, dark: bool) -> Path | None:
        """Draw the image and what was looked at in it."""
        if self.shown is None or kind is not None:
            return None
        return draw_image(self, path, layer=layer)

    def html(self) -> str:
        """The page in which patches can be asked what they look at."""
        return super().html() if self.shown is None else image_page(self, self.shown)

    def held(self) -> Shown:
        """What was shown; a record that was read from a file does not hold it."""
        if self.shown is None:
            raise UsageError("this record was read from a file, and does not hold the image")
        return self.shown

    def _on_patches(self, weights: NDArray[np.floating]) -> Light:
        held = self.held()
        patches = weights[held.n_extra :].astype(np.float64).reshape(held.grid)
        light: Light = (patches / max(patches.sum(), 1e-12)).astype(np.float32)
        return light


@dataclass(frozen=True)
class ImageCase(ForwardCase):
    """An image, ready to be looked at."""

    shown: Shown | None = None

    def finish(self, seen: Look) -> ImageLook:
        """The record with the image."""
        return ImageLook(seen.axes, seen.maps, seen.outputs, seen.title, self.shown)


def image_case(model: ViT, space: ImageSpace, pixels: Tensor, *, title: str = "") -> ImageCase:
    """Pixels uint8 (3, H, W) as a model reads them, ready to be looked at."""
    grid = rows, columns = model.stem.grid(*space.size)
    places = [f"{row},{column}" for row in range(rows) for column in range(columns)]
    labels = ["class", *places] if model.class_token is not None else places
    axes = {"image": Axis(labels, "patches"), "label": Axis(["label"], "labels")}
    names = OutputNames("label", "label", lambda index: space.names[index]) if model.config.n_classes else None
    images = space.normalised(pixels[None]).to(device_of(model))
    shown = Shown(pixels.permute(1, 2, 0).numpy(), grid, int(model.class_token is not None))
    return ImageCase(model, (images,), axes, _SIDES, names, title=title, shown=shown)


def image_page(look: ImageLook, shown: Shown) -> str:
    """The whole page as one text."""
    title = html.escape(f"What the model looked at in {look.title or 'the image'}")
    parts = {"title": title, "heading": title, "record": inside_script(_facts(look, shown))}
    return filled(file_text("regard.tasks.images", "page.html"), parts)


def _facts(look: ImageLook, shown: Shown) -> dict[str, Any]:
    attention = look.of("self")
    whole = attention.layers == tuple(range(len(attention.layers)))
    rolled = roll_out(look, "self") if whole else attention.weights.mean((0, 1))
    answer = np.zeros((1, rolled.shape[1]), np.float32)
    answer[0, shown.n_extra :] = look.rolled_out().reshape(-1) if whole else look.looked_at().reshape(-1)
    guesses = [] if look.outputs is None else zip(look.outputs.tokens[0], look.outputs.probabilities[0], strict=True)
    return {
        "pixels": _packed(shown.pixels),
        "size": shown.pixels.shape[:2],
        "grid": shown.grid,
        "extra": shown.n_extra,
        "layers": attention.layers,
        "heads": len(attention.heads),
        "weights": _packed(_bytes(attention.weights)),
        "most": [float(f"{value:.3g}") for value in attention.weights.max(-1).reshape(-1).tolist()],
        "rollout": _packed(_bytes(np.concatenate((rolled, answer)))),
        "asks": "The class token" if shown.n_extra else "All patches",
        "said": [[name, round(probability, 4)] for name, probability in guesses],
    }


def _bytes(weights: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Rows of weights as shares of the largest of each, 0 … 255."""
    most = np.maximum(weights.max(-1, keepdims=True), 1e-12)
    shares: NDArray[np.uint8] = np.rint(255 * weights / most).astype(np.uint8)
    return shares


def _packed(numbers: NDArray[np.uint8]) -> str:
    return base64.b64encode(np.ascontiguousarray(numbers).tobytes()).decode()


def draw_image(look: ImageLook, path: Path | str, *, layer: int | None = None) -> Path:
    """Draw the image, its rollout, what was pooled where there is that, and every head of a layer (else the last)."""
    import matplotlib
    from matplotlib.figure import Figure

    from regard.inspection.plots.panels import STYLE

    pixels, attention = look.held().pixels, look.of("self")
    layer = attention.layers[-1] if layer is None else layer
    panels: list[tuple[str, Light | None]] = [("the image", None)]
    if attention.layers == tuple(range(len(attention.layers))):
        panels.append(("through all layers", look.rolled_out()))
    if (pooled := look.pooled()) is not None:
        panels.append(("taken for the answer", pooled))
    panels.append((f"layer {layer}, all heads", look.looked_at(layer=layer)))
    panels += [(f"layer {layer}, head {head}", look.looked_at(layer=layer, head=head)) for head in attention.heads]
    across = min(_ACROSS, len(panels))
    down = -(-len(panels) // across)
    shape = pixels.shape[0] / pixels.shape[1]
    with matplotlib.rc_context(STYLE):
        size = (_SIDE * across, (_SIDE * min(max(shape, 0.5), 2) + 0.3) * down + 0.4)
        figure = Figure(figsize=size, layout="constrained")
        axes = np.atleast_1d(figure.subplots(down, across)).reshape(-1)
        for axis in axes:
            axis.set_axis_off()
        for axis, (title, light) in zip(axes, panels, strict=False):
            axis.imshow(pixels if light is None else lit(pixels, light), interpolation="nearest")
            axis.set_title(title, fontsize=8)
        figure.suptitle(_heading(look), fontsize=10)
        figure.savefig(path, dpi=_DPI)
    return Path(path)


def lit(pixels: NDArray[np.uint8], light: Light) -> NDArray[np.uint8]:
    """An image (H, W, 3) in the light of its patches (rows, columns)."""
    share = light / max(float(light.max()), 1e-12)
    rows, columns = (np.arange(n) * m // n for n, m in zip(pixels.shape[:2], light.shape, strict=True))
    bright = _DARKEST + (1 - _DARKEST) * share[rows][:, columns]
    shown: NDArray[np.uint8] = (pixels * bright[..., None]).astype(np.uint8)
    return shown


def _heading(look: ImageLook) -> str:
    if look.outputs is None:
        return look.title
    best = zip(look.outputs.tokens[0][:3], look.outputs.probabilities[0], strict=False)
    return look.title + ": " + ", ".join(f"{name} {probability:.0%}" for name, probability in best)
