"""What a Vision Transformer looked at: the record of its attention over patches, with the image it saw.

seen = model.look("cat.jpg")
seen.weights["self"]                    (L, H, T, T) between tokens; a class token, where there is one, is the first
seen.looked_at(layer=-1, head=2)        (rows, columns): how much of a head's attention went to each patch
seen.rolled_out()                       the same through all layers (Abnar and Zuidema, 2020)
seen.plot("seen.png")                   the image in the light of its attention, head by head
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from regard.errors import UsageError
from regard.inspection.record import Look, MapKind
from regard.inspection.rollout import roll_out

Light = NDArray[np.float32]


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
        found = self.of("self")
        layer = found.layers[-1] if layer in (None, -1) else layer
        weights = found.of_layer(layer)  # (H, T, T)
        if head is not None and not 0 <= head < len(weights):
            raise UsageError(f"there is no head {head}; there are 0 to {len(weights) - 1}")
        chosen = weights.mean(0) if head is None else weights[head]
        return self._on_patches(chosen[0] if self._held().n_extra else chosen.mean(0))

    def rolled_out(self) -> Light:
        """How much of each patch there is in what the head of the model reads, (rows, columns), summing to 1."""
        rolled = roll_out(self, "self")  # (T, T)
        if self._held().n_extra:
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
        from regard.tasks.images.plot import draw_image

        return draw_image(self, path, layer=layer)

    def page(self, path: Path | str) -> Path:
        """Write one HTML file in which patches can be asked what they look at; it needs no network."""
        if self.shown is None:
            return super().page(path)
        from regard.tasks.images.page import write_image_page

        return write_image_page(self, path)

    def _repr_html_(self) -> str:
        """The page inside a notebook."""
        if self.shown is None:
            return super()._repr_html_()
        from regard.tasks.images.page import image_frame

        return image_frame(self)

    def _held(self) -> Shown:
        if self.shown is None:
            raise UsageError("this record was read from a file, and does not hold the image")
        return self.shown

    def _on_patches(self, weights: NDArray[np.floating]) -> Light:
        held = self._held()
        patches = weights[held.n_extra :].astype(np.float64).reshape(held.grid)
        light: Light = (patches / max(patches.sum(), 1e-12)).astype(np.float32)
        return light
