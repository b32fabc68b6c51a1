"""Boxes, and two images in one.

Each image of a batch is mixed with the one opposite, first with last: batches are drawn at random, so that is a random
other. `share` of the images are mixed; where both ways are asked for, each image is mixed in one of them.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import Beta


def boxes(n: int, size: tuple[int, int], *, share: Tensor, longest: float = 3.3) -> Tensor:
    """A box in each of n images, of about a share (n,) of its area, as a mask (n, 1, H, W).

    Boxes are up to `longest` times as long as wide. Their middles are anywhere, so they may reach over the edge.
    """
    height, width = size
    device = share.device
    shape = torch.empty(n, device=device).uniform_(-math.log(longest), math.log(longest)).exp()
    tall, wide = (share * shape).sqrt() * height, (share / shape).sqrt() * width
    middle = torch.rand(2, n, device=device)
    down = _between(middle[0] * height, tall, height)
    across = _between(middle[1] * width, wide, width)
    return (down[:, :, None] & across[:, None, :])[:, None]


def _between(middle: Tensor, length: Tensor, size: int) -> Tensor:
    """Which of `size` places lie in a stretch around each middle, (n, size)."""
    places = torch.arange(size, device=middle.device) + 0.5
    return (places - middle[:, None]).abs() < length[:, None] / 2


def mixed(images: Tensor, targets: Tensor, *, mixup: float, cutmix: float, share: float = 1.0) -> tuple[Tensor, Tensor]:
    """Images (B, 3, H, W) and what they are (B, n_classes), mixed; `mixup` and `cutmix` are Beta's parameters, or 0."""
    if not (mixup or cutmix) or not share:
        return images, targets
    n, device = len(images), images.device
    cut = torch.rand(n, device=device) < (0.5 if mixup and cutmix else float(bool(cutmix)))
    own = torch.ones(n, device=device)
    boxed = torch.zeros(n, 1, *images.shape[2:], dtype=torch.bool, device=device)
    if mixup:
        own = torch.where(cut, own, _drawn(mixup, n, device))
    if cutmix:
        boxed = boxes(n, (images.shape[2], images.shape[3]), share=1 - _drawn(cutmix, n, device), longest=1.0)
        boxed = boxed & cut.view(-1, 1, 1, 1)
    plain = torch.rand(n, device=device) >= share
    own, boxed = torch.where(plain, 1.0, own), boxed & ~plain.view(-1, 1, 1, 1)
    other = images.flip(0)
    images = torch.where(boxed, other, own.view(-1, 1, 1, 1) * images + (1 - own.view(-1, 1, 1, 1)) * other)
    own = own * (1 - boxed.float().mean((1, 2, 3)))
    return images, own[:, None] * targets + (1 - own[:, None]) * targets.flip(0)


def _drawn(alpha: float, n: int, device: torch.device) -> Tensor:
    parameter = torch.full((), alpha, device=device)
    drawn: Tensor = Beta(parameter, parameter, validate_args=False).sample((n,))  # to check it would be to wait for it
    return drawn
