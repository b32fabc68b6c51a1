"""What every captioner begins with, and what training and decoding ask of one.

    locations = model.encode(images)          images (B, 3, H, W)  →  (B, S, C), row by row from the top left
    hidden = model.tell(locations, target)    target (B · K, T): K captions an image, neighbours  →  (B · K, T, D)
    words = model.words(locations)            (B, V): which words belong to the image, whatever their order
    stepper = model.start(images)             the same, one word at a time

`words` shares the output's matrix, and what it is made of (the gist: the mean of the locations in the space of words)
is also what a recurrent decoder begins with. Predicting the bag of words of the captions teaches the convolutions from
the first step on, when a decoder still only learns to write.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, cast

import torch
from torch import Tensor, nn

from regard.attention import Rows
from regard.config.settings import Settings, setting
from regard.errors import ConfigError, ShapeError
from regard.layers import drop
from regard.layers.convolution import STRIDE, ConvNet, NormName, locations_of
from regard.models.interfaces.text import Seq2SeqStepper, VocabularyModel, WriterConfig, offers


@dataclass(frozen=True, kw_only=True)
class ImageEncoderConfig(Settings):
    """What every captioner's config begins with: its words, its images, and the convolutions that read them."""

    n_target: int = setting(0, "entries of the vocabulary", ge=1, derived=True)
    image_size: int = setting(80, "side of images in pixels", ge=1, derived=True)
    widths: tuple[int, ...] = setting((64, 128, 256, 256), "features of the convolutions, stage by stage", ge=1)
    n_blocks: int = setting(2, "residual blocks of a stage", ge=1)
    norm: NormName = setting("batch", "the normalisation of the convolutions")


class ImageEncoder(nn.Module):
    """Images → locations. In training whole feature maps are dropped, the same at all locations of an image."""

    def __init__(self, config: ImageEncoderConfig, *, dropout: float) -> None:
        super().__init__()
        side = locations_of(config.image_size)
        if side < 2:
            least = STRIDE + 1
            raise ConfigError(f"image_size is at least {least}, so that there is a choice, not {config.image_size}")
        self.image_size, self.n_locations, self.dropout = config.image_size, side**2, dropout
        self.net = ConvNet(config.widths, n_blocks=config.n_blocks, norm=config.norm)
        self.d_output = self.net.d_output

    def forward(self, images: Tensor) -> Tensor:
        """(B, 3, H, W) → (B, S, C)."""
        side = self.image_size
        if images.ndim != 4 or images.shape[1:] != (3, side, side):
            raise ShapeError(f"images are (batch, 3, {side}, {side}), got {tuple(images.shape)}")
        locations: Tensor = self.net(images).flatten(2).transpose(1, 2)
        if not self.training or not self.dropout:
            return locations
        kept = drop(torch.ones_like(locations[:, :1]), self.dropout, training=True)  # (B, 1, C)
        return locations * kept


class CaptionerConfig(WriterConfig, Protocol):
    """What every captioner's config holds."""

    @property
    def image_size(self) -> int:
        """The side of its images in pixels."""


class Captioner(VocabularyModel, Protocol):
    """A model that says what is on an image."""

    @property
    def config(self) -> CaptionerConfig:
        """What it was built of."""

    def forward(self, images: Tensor, target: Tensor | Rows) -> Tensor:
        """Logits (B, T, V) of each next word, given the image and the words up to there."""

    def encode(self, images: Tensor) -> Tensor:
        """The locations (B, S, C) of images."""

    def tell(self, locations: Tensor, target: Tensor | Rows) -> Tensor:
        """What `unembed` turns into logits, of K captions an image: (B · K, T, D)."""

    def words(self, locations: Tensor) -> Tensor:
        """Scores (B, V) of the words that belong to the image."""

    def start(self, images: Tensor, *, capacity: int = 64, watched: bool = False) -> Seq2SeqStepper:
        """Encode images and stand ready to caption them, one row each; `watched` steps keep their attention."""


def as_captioner(module: nn.Module) -> Captioner:
    """The module as what it is."""
    assert offers(module, Captioner)
    return cast(Captioner, module)


def captions_an_image(locations: Tensor, target: Rows) -> int:
    """How many captions each image has: the rows of the target are neighbours by image."""
    n_images, n_rows = len(locations), len(target.ids)
    if target.documents is not None or n_rows % n_images:
        raise ShapeError(
            f"{n_rows} captions cannot be shared out to {n_images} images; allowed are as many for each, in padded rows"
        )
    return n_rows // n_images
