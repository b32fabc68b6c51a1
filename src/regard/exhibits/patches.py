"""A Vision Transformer finds what it was never shown.

An image is a sequence of patches, and telling classes apart is all that is taught. Where the thing stands is said by
nobody; but whoever has to tell a disc from a cross has to look at it.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention import watch
from regard.exhibits.exhibit import Finding, Scale
from regard.exhibits.lessons import teach
from regard.inspection.plots.panels import Heat, Line, Lines, Panel
from regard.models.vit import ViT, ViTConfig

SIDE, PATCH, RADIUS = 16, 2, 3
GRID = SIDE // PATCH
CONFIG = ViTConfig(
    image=(SIDE, SIDE), patch=PATCH, n_classes=2, d_model=32, n_heads=2, d_feedforward=64, n_layers=2, pooling="class"
)


def run(scale: Scale) -> Finding:
    """Teach a small ViT discs and crosses, and measure how much of the class token's attention lies on them."""
    torch.manual_seed(scale.seed)
    model, draw = ViT(CONFIG), torch.Generator().manual_seed(scale.seed + 1)
    images, labels, inside = pictures(scale.of(500, 200), torch.Generator().manual_seed(scale.seed + 2))

    def loss() -> Tensor:
        drawn, classes, _ = pictures(scale.of(64, 32), draw)
        return F.cross_entropy(model(drawn), classes)

    steps, accuracies, shares = [0], [_right(model, images, labels)], [on_the_thing(model, images, inside)]
    for part in range(1, scale.of(7, 3)):
        each = scale.of(60, 70)
        teach(model, loss, steps=each, lr=3e-3, warmup=5)
        steps.append(part * each)
        accuracies.append(_right(model, images, labels))
        shares.append(on_the_thing(model, images, inside))
    area = float(inside.mean())
    figures = {
        "told right": accuracies[-1],
        "share of the image that the thing covers": area,
        "share of the attention on it, before": shares[0],
        "share of the attention on it, after": shares[-1],
    }
    panels: list[Panel] = [
        Lines("What it tells right, and where it looks",
              [Line("told right", steps, [100 * value for value in accuracies], look=1),
               Line("attention on the thing", steps, [100 * value for value in shares], look=0),
               Line("its area", steps, [100 * area] * len(steps), look=4)],
              "steps of training", "%", y_range=(0, 102)),
        *_shown(model, images[:1]),
    ]  # fmt: skip
    return Finding(figures, _text(figures), panels, PICTURE, columns=3, height=3.6)


def pictures(n: int, draw: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Discs and crosses anywhere on noise (n, 3, H, W), which is which (n,), and where they are (n, rows, columns)."""
    middle = torch.rand(n, 2, 1, 1, generator=draw) * (SIDE - 1 - 2 * RADIUS) + RADIUS
    y = torch.arange(SIDE)[:, None] - middle[:, 0]
    x = torch.arange(SIDE)[None] - middle[:, 1]
    labels = torch.randint(0, 2, (n,), generator=draw)
    disc = (x**2 + y**2) < RADIUS**2
    cross = (torch.minimum(x.abs(), y.abs()) < 0.8) & (torch.maximum(x.abs(), y.abs()) < RADIUS + 0.5)
    thing = torch.where(labels.view(-1, 1, 1) == 0, disc, cross).float()
    colours = torch.rand(n, 3, 1, 1, generator=draw) + 0.7
    noise = 0.3 * torch.randn(n, 3, SIDE, SIDE, generator=draw)
    return noise + colours * thing[:, None], labels, F.avg_pool2d(thing[:, None], PATCH)[:, 0]


@torch.no_grad()
def attention_of(model: ViT, images: Tensor) -> Tensor:
    """What the class token looked at through all layers, rolled out: (n, rows, columns), each summing to 1."""
    with watch(model) as seen:
        model(images)
    rolled = torch.eye(1 + GRID * GRID)
    for sight in seen:
        rolled = (sight.weights.mean(1) + torch.eye(len(rolled[-1]))) / 2 @ rolled
    weights = rolled[:, 0, 1:]
    return (weights / weights.sum(-1, keepdim=True)).view(-1, GRID, GRID)


def on_the_thing(model: ViT, images: Tensor, inside: Tensor) -> float:
    """The share of the attention that falls on what there is to see, the patches counted by how much they hold."""
    return float((attention_of(model, images) * inside).sum((1, 2)).mean())


@torch.no_grad()
def _right(model: ViT, images: Tensor, labels: Tensor) -> float:
    return float((model(images).argmax(-1) == labels).float().mean())


def _shown(model: ViT, image: Tensor) -> list[Panel]:
    bright = F.avg_pool2d(image.mean(1), PATCH)[0].clamp(min=0)
    return [
        Heat("An image, patch by patch", bright.tolist()),
        Heat("Where the class token looked", attention_of(model, image)[0].tolist()),
    ]


def _text(figures: dict[str, float]) -> str:
    area = figures["share of the image that the thing covers"]
    before, after = (figures[f"share of the attention on it, {when}"] for when in ("before", "after"))
    return f"""
Images of {SIDE} × {SIDE} pixels, cut into {GRID * GRID} patches that become the words of a sentence: noise, and
somewhere in it a disc or a cross. The model is told which of the two it is, never where. After training it is right in
{figures["told right"]:.0%} of new images. The thing covers {area:.1%} of an image. Before training the class token
looks almost everywhere alike, and {before:.1%} of its attention, rolled out through both layers, lies on it; afterwards
{after:.0%} does, {after / area:.1f} times as much as by chance. To tell things apart, one has to look at them:
localisation comes without being asked for, and can be read off the weights.
"""


TITLE = "An image as a sequence of patches"
CLAIM = "A Vision Transformer that is told only what an image shows learns to look where it is."
PICTURE = "Taught what, it finds where"
