"""Images changed at random while they are learnt from, on the device, every image of a batch in its own way.

    operations    RandAugment (Cubuk et al., 2020): so many operations of fourteen, at a strength from 0 to 10
    crop, zoom    a crop out of the image with a share of its sides as padding, or of a share of its area
    flip          left to right
    erase         a share of images loses a box to noise (Zhong et al., 2020)
    mixup         two images shine through one another (Zhang et al., 2018)
    cutmix        a box of one in the other (Yun et al., 2019); labels are mixed by area

Draws come from PyTorch's generator, which the trainer seeds anew at every step, or by the key of each image: a resumed
run draws the same.

Boxes, and two images in one.

Each image of a batch is mixed with the one opposite, first with last: batches are drawn at random, so that is a random
other. `share` of the images are mixed; where both ways are asked for, each image is mixed in one of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import reduce

import torch
from torch import Tensor

from regard.config.random_numbers import beta, integers, normal, uniform, uniforms
from regard.data.images.operations import autocontrast, blurred, enhance, equalize, grey, mean_grey, posterize, solarize
from regard.data.images.space import ImageSpace
from regard.data.images.warping import affine, crops, flips, joined, warped, zooms

COLOURS = ("identity", "autocontrast", "equalize", "posterize", "solarize",
           "colour", "contrast", "brightness", "sharpness")  # fmt: skip
SHAPES = ("rotate", "shear_x", "shear_y", "translate_x", "translate_y")
OPERATIONS = COLOURS + SHAPES
_ENHANCED = ("colour", "contrast", "brightness", "sharpness")


@dataclass(frozen=True, kw_only=True)
class Augmentation:
    """How images are changed; the defaults leave them as they are."""

    crop: float = 0.0
    zoom: tuple[float, float] = (1.0, 1.0)
    flip: bool = False
    operations: int = 0
    magnitude: float = 9.0
    spread: float = 0.5
    erase: float = 0.0
    mixup: float = 0.0
    cutmix: float = 0.0
    mix: float = 1.0

    def __call__(
        self, pixels: Tensor, targets: Tensor, space: ImageSpace, *, partners: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Pixels uint8 (B, 3, H, W) and what they are (B, n_classes) → normalised images and what they are now.

        `partners` (n,) says which of them each of the first n is mixed with; only those n come back. Without it all
        do, mixed with the one opposite.
        """
        with torch.autocast(pixels.device.type, enabled=False):
            n, device, size = len(pixels), pixels.device, (pixels.shape[2], pixels.shape[3])
            maps = self._framing(n, device, size)
            levels = pixels.float()
            for _ in range(self.operations):
                levels, shape = self._operate(levels)
                maps.append(shape)
            images = space.normalised(levels)
            if maps:
                images = warped(images, reduce(joined, maps))
            if self.erase:
                chosen = boxes(n, size, share=uniform((n,), device, low=0.02, high=1 / 3))
                chosen = chosen & (uniform((n, 1, 1, 1), device) < self.erase)
                images = torch.where(chosen, normal(images.shape, device), images)
            return mixed(images, targets, mixup=self.mixup, cutmix=self.cutmix, share=self.mix, partners=partners)

    @property
    def mixes(self) -> bool:
        """Whether images are mixed with others."""
        return bool((self.mixup or self.cutmix) and self.mix)

    def _framing(self, n: int, device: torch.device, size: tuple[int, int]) -> list[Tensor]:
        """Crop, zoom and flip as maps, one after the other."""
        padding = (round(self.crop * size[0]), round(self.crop * size[1]))
        maps = [crops(n, device, padding)] if any(padding) else []
        maps += [zooms(n, device, size=size, share=self.zoom)] if self.zoom != (1.0, 1.0) else []
        return maps + ([flips(n, device)] if self.flip else [])

    def _operate(self, levels: Tensor) -> tuple[Tensor, Tensor]:
        """One operation for each image: levels with new colours, and the maps (B, 2, 3) of new shapes."""
        n, device = len(levels), levels.device
        which = integers(0, len(OPERATIONS), n, device)
        strength = (self.magnitude + self.spread * normal((n,), device)).clamp(0, 10) / 10
        strength = strength * (integers(0, 2, n, device) * 2.0 - 1)
        size = (levels.shape[2], levels.shape[3])
        return recoloured(levels, which, strength), reshaped(which, strength, size)


def recoloured(levels: Tensor, which: Tensor, strength: Tensor) -> Tensor:
    """Each image after the operation of its number (B,), at a strength from −1 to 1; changes of shape do nothing."""

    def where(name: str, changed: Tensor, other: Tensor) -> Tensor:
        return torch.where((which == OPERATIONS.index(name)).view(-1, 1, 1, 1), changed, other)

    plain = where("colour", grey(levels), torch.zeros_like(levels))
    plain = where("contrast", mean_grey(levels), plain)
    plain = where("sharpness", blurred(levels), plain)
    enhanced = enhance(levels, plain, 1 + 0.9 * strength)
    result = levels
    for name in _ENHANCED:
        result = where(name, enhanced, result)
    result = where("posterize", posterize(levels, 8 - (4 * strength.abs()).round()), result)
    result = where("solarize", solarize(levels, 256 * (1 - strength.abs())), result)
    result = where("autocontrast", autocontrast(levels), result)
    return where("equalize", equalize(levels), result)


def reshaped(which: Tensor, strength: Tensor, size: tuple[int, int]) -> Tensor:
    """The maps (B, 2, 3) of the operations of these numbers; changes of colour are maps that change nothing."""

    def of(name: str, most: float) -> Tensor:
        return torch.where(which == OPERATIONS.index(name), strength * most, 0.0)

    angle = of("rotate", math.radians(30))
    turn = {"xx": angle.cos(), "yy": angle.cos(), "xy": -angle.sin() + of("shear_x", 0.3)}
    shift = {"x": of("translate_x", 0.45 * size[1]), "y": of("translate_y", 0.45 * size[0])}
    return affine(len(which), which.device, yx=angle.sin() + of("shear_y", 0.3), **turn, **shift)


def boxes(n: int, size: tuple[int, int], *, share: Tensor, longest: float = 3.3) -> Tensor:
    """A box in each of n images, of about a share (n,) of its area, as a mask (n, 1, H, W).

    Boxes are up to `longest` times as long as wide. Their middles are anywhere, so they may reach over the edge.
    """
    height, width = size
    device = share.device
    shape = uniform((n,), device, low=-math.log(longest), high=math.log(longest)).exp()
    tall, wide = (share * shape).sqrt() * height, (share / shape).sqrt() * width
    middle = uniforms(2, n, device)
    down = _between(middle[0] * height, tall, height)
    across = _between(middle[1] * width, wide, width)
    return (down[:, :, None] & across[:, None, :])[:, None]


def _between(middle: Tensor, length: Tensor, size: int) -> Tensor:
    """Which of `size` places lie in a stretch around each middle, (n, size)."""
    places = torch.arange(size, device=middle.device) + 0.5
    return (places - middle[:, None]).abs() < length[:, None] / 2


def mixed(
    images: Tensor,
    targets: Tensor,
    *,
    mixup: float,
    cutmix: float,
    share: float = 1.0,
    partners: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Images (B, 3, H, W) and what they are (B, n_classes), mixed; `mixup` and `cutmix` are Beta's parameters, or 0."""
    if not (mixup or cutmix) or not share:
        return images, targets
    n, device = len(images), images.device
    cut = uniform((n,), device) < (0.5 if mixup and cutmix else float(bool(cutmix)))
    own = torch.ones(n, device=device)
    boxed = torch.zeros(n, 1, *images.shape[2:], dtype=torch.bool, device=device)
    if mixup:
        own = torch.where(cut, own, beta(mixup, n, device))
    if cutmix:
        boxed = boxes(n, (images.shape[2], images.shape[3]), share=1 - beta(cutmix, n, device), longest=1.0)
        boxed = boxed & cut.view(-1, 1, 1, 1)
    plain = uniform((n,), device) >= share
    own, boxed = torch.where(plain, 1.0, own), boxed & ~plain.view(-1, 1, 1, 1)
    other, others = (images.flip(0), targets.flip(0)) if partners is None else (images[partners], targets[partners])
    if partners is not None:
        images, targets, own, boxed = (part[: len(partners)] for part in (images, targets, own, boxed))
    images = torch.where(boxed, other, own.view(-1, 1, 1, 1) * images + (1 - own.view(-1, 1, 1, 1)) * other)
    own = own * (1 - boxed.float().mean((1, 2, 3)))
    return images, own[:, None] * targets + (1 - own[:, None]) * others
