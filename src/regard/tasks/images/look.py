"""What a Vision Transformer looked at: the record of its attention over patches, with the image it saw.

seen = model.look("cat.jpg")
seen.weights["self"]                    (L, H, T, T) between tokens; a class token, where there is one, is the first
seen.looked_at(layer=-1, head=2)        (rows, columns): how much of a head's attention went to each patch
seen.rolled_out()                       the same through all layers (Abnar and Zuidema, 2020)
seen.plot("seen.png")                   the image under its attention, head by head
seen.page("seen.html")                  patches can be asked what they look at; no network, any recent browser

In both the image is pale grey and attention one hue on it, so it shows on black as on white.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from regard.data.images.space import ImageSpace
from regard.errors import UsageError
from regard.inspection.forward_case import ForwardCase, OutputNames, Sides, device_of
from regard.inspection.overlay import image_facts, overlaid
from regard.inspection.page import Scene, file_text, page
from regard.inspection.plots.colours import DARK, LIGHT, plain, save_picture, style
from regard.inspection.record import Axis, Look, MapKind
from regard.inspection.rollout import roll_out
from regard.models.vit import ViT

Light = NDArray[np.float32]
_SIDE, _ACROSS = 2.0, 4
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
        return draw_image(self, path, layer=layer, dark=dark)

    def html(self) -> str:
        """The page in which patches can be asked what they look at."""
        return super().html() if self.shown is None else page(self, image_scene(self, self.shown))

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


def image_scene(look: ImageLook, shown: Shown) -> Scene:
    """The image and its rollout, for the page."""
    attention = look.of("self")
    whole = attention.layers == tuple(range(len(attention.layers)))
    facts = image_facts(shown.pixels) | {"grid": shown.grid, "extra": shown.n_extra, "smooth": False, "rollout": whole}
    return Scene(
        "Image",
        file_text("regard.inspection", "overlay.js") + file_text("regard.tasks.images", "page.js"),
        ("self", "pool"),
        read=look.title or "An image",
        wrote=_guesses(look),
        facts=facts,
        pieces={"rollout": _rollout(look, shown)} if whole else {},
        start=(attention.layers[-1], -1),
    )


def _rollout(look: ImageLook, shown: Shown) -> bytes:
    """What each token holds of the others in the end, and after them what the answer is read from: (T + 1, T)."""
    rolled = roll_out(look, "self")
    answer = np.zeros((1, rolled.shape[1]), np.float32)
    answer[0, shown.n_extra :] = look.rolled_out().reshape(-1)
    return bytes(np.concatenate((rolled, answer)).astype("<f4").tobytes())


def draw_image(look: ImageLook, path: Path | str, *, layer: int | None = None, dark: bool = False) -> Path:
    """Draw the image, its rollout, what was pooled where there is that, and every head of a layer (else the last)."""
    import matplotlib
    from matplotlib.figure import Figure

    from regard.inspection.plots.overlays import add_scale

    theme = DARK if dark else LIGHT
    pixels, panels = look.held().pixels, _panels(look, layer)
    across = min(_ACROSS, len(panels) + 1)
    down = -(-(len(panels) + 1) // across)
    shape = pixels.shape[0] / pixels.shape[1]
    with matplotlib.rc_context(style(theme)):
        size = (_SIDE * across + 0.6, (_SIDE * min(max(shape, 0.5), 2) + 0.4) * down + 0.4)
        figure = Figure(figsize=size, layout="constrained")
        axes = np.atleast_1d(figure.subplots(down, across)).reshape(-1)
        for axis in axes:
            axis.set_axis_off()
        axes[0].imshow(pixels, interpolation="nearest")
        axes[0].set_title("the image\n", fontsize=9)
        for axis, (title, weights) in zip(axes[1:], panels, strict=False):
            axis.imshow(overlaid(pixels, weights, theme=theme), interpolation="nearest")
            axis.set_title(f"{title}\nlargest {weights.max():.2g}", fontsize=9)
        add_scale(figure, axes, theme, largest="largest")
        figure.suptitle(plain(_heading(look)), fontsize=11)
        return save_picture(figure, path, theme)


def _panels(look: ImageLook, layer: int | None) -> list[tuple[str, Light]]:
    """What is drawn over the image, by name."""
    attention = look.of("self")
    layer = attention.layers[-1] if layer is None else layer
    panels: list[tuple[str, Light]] = []
    if attention.layers == tuple(range(len(attention.layers))):
        panels.append(("through all layers", look.rolled_out()))
    if (pooled := look.pooled()) is not None:
        panels.append(("taken for the answer", pooled))
    panels.append((f"layer {layer}, all heads", look.looked_at(layer=layer)))
    panels += [(f"layer {layer}, head {head}", look.looked_at(layer=layer, head=head)) for head in attention.heads]
    return panels


def _heading(look: ImageLook) -> str:
    return ": ".join(part for part in (look.title, _guesses(look)) if part)


def _guesses(look: ImageLook) -> str:
    """The likeliest classes in a line."""
    if look.outputs is None:
        return ""
    best = zip(look.outputs.tokens[0][:3], look.outputs.probabilities[0], strict=False)
    return ", ".join(f"{name} ({probability:.0%})" for name, probability in best)
