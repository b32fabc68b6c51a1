"""Captioning as something to train: batches of images with all their captions, their loss, and an evaluation.

A batch is images by number with up to `captions_each` captions each, neighbours by image; one that has fewer is filled
up with rows that hold nothing. On a GPU all images lie there once, where they fit, and a batch picks its own.

Other views of the same image, drawn anew each time it is seen, on the device it is on.

    crops        a part of the image of a random size, shape and place, brought back to the full size
    mirrored     half of them left for right
    light        brightness, contrast and colourfulness changed a little

All draws come from torch's own generator, so the seed of a step decides them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from regard.attention import Rows
from regard.config.random_numbers import uniforms
from regard.data.batching.plan import Indices, example_plan, pad
from regard.data.batching.tensors import TensorBatch
from regard.data.images.arrays import Array
from regard.data.images.operations import TOP, enhance, grey, mean_grey
from regard.data.images.warping import flips, joined, warped, zooms
from regard.data.text.tokenizers import Tokenizer
from regard.decoding import DecodeOptions
from regard.errors import DataError
from regard.metrics.cross_entropy import Losses
from regard.models.interfaces.captions import Captioner
from regard.models.precision import in_double
from regard.tasks.captions.config import CaptionData
from regard.tasks.captions.data import Pictures, as_text
from regard.tasks.captions.loss import Weights, caption_loss
from regard.tasks.captions.metrics import CaptionJudge
from regard.tasks.captions.writer import CaptionWriter
from regard.training.batching import BatchPlanMixin

Ids = list[int]
_RESIDENT = 8 * 2**30  # bytes of images that a GPU is asked to hold
_AT_ONCE = 64  # images whose captions are weighed together


def augment(images: Tensor, *, crop: float, flip: bool, jitter: float) -> Tensor:
    """Images (B, 3, H, W) of uint8 → numbers from 0 to 1, each changed in its own way.

    A crop has at least the share `crop` of the image's area, 1 leaves images whole; `jitter` is the most that light
    changes by, 0 leaves it.
    """
    n, device, size = len(images), images.device, (images.shape[2], images.shape[3])
    with torch.autocast(device.type, enabled=False):  # places in half precision would be off by parts of a pixel
        levels = images.float()
        if jitter:
            levels = _relit(levels, jitter)
        maps = zooms(n, device, size=size, share=(crop, 1.0)) if crop < 1 else None
        if flip:
            maps = flips(n, device) if maps is None else joined(maps, flips(n, device))
        pixels = levels / TOP
        return pixels if maps is None else warped(pixels, maps, outside="border")


def _relit(levels: Tensor, jitter: float) -> Tensor:
    bright, contrast, colour = 1 + jitter * (2 * uniforms(3, len(levels), levels.device) - 1)
    levels = enhance(levels, torch.zeros_like(levels), bright)
    levels = enhance(levels, mean_grey(levels), contrast)
    return enhance(levels, grey(levels), colour)


class Views(NamedTuple):
    """How images are changed each time they are seen; see `augment`."""

    crop: float = 1.0
    flip: bool = False
    jitter: float = 0.0


@dataclass(frozen=True)
class CaptionBatch(TensorBatch):
    """Numbers of images (B,), and their captions as ids (B · K, T)."""

    images: Tensor
    target: Tensor
    lengths: Tensor
    labels: Tensor
    n_tokens: int


class Gallery:
    """Images by number, kept on the device that asks where they fit there."""

    def __init__(self, pixels: Array) -> None:
        self.pixels = pixels
        self._there: Tensor | None = None

    @property
    def resident(self) -> bool:
        """Whether a GPU is asked to hold them all."""
        return bool(self.pixels.nbytes <= _RESIDENT)

    def __call__(self, numbers: Tensor) -> Tensor:
        """The images of these numbers (B, 3, H, W), on the device of the numbers."""
        device = numbers.device
        if device.type == "cpu" or not self.resident:
            return torch.from_numpy(self.pixels[numbers.cpu().numpy()]).to(device)
        if self._there is None or self._there.device != device:
            self._there = torch.tensor(np.asarray(self.pixels), device=device)
        return self._there.index_select(0, numbers)


class CaptionTraining(BatchPlanMixin):
    """What the trainer asks of the task: batches in a fixed order, their loss, and an evaluation."""

    objective = "cider"
    unit = "words"
    few_lengths = 4

    def __init__(
        self,
        tokenizer: Tokenizer,
        train: Pictures,
        valid: Pictures,
        data: CaptionData,
        *,
        batch_images: int,
        seed: int,
        captions_each: int = 5,
        weights: Weights = Weights(),  # noqa: B008 - frozen
        views: Views = Views(),  # noqa: B008 - frozen
        decode: DecodeOptions | None = None,
    ) -> None:
        self.tokenizer, self.valid, self.data = tokenizer, valid, data
        self.weights, self.views, self.captions_each, self.seed = weights, views, captions_each, seed
        self.decode = decode or DecodeOptions(max_length=data.max_tokens + 1)
        self.captions, kept = self._short_enough(train)
        self.left_out = sum(map(len, train.captions)) - sum(map(len, self.captions))
        self.train = train if len(kept) == len(train) else train.part(kept)
        self.gallery = Gallery(self.train.pixels)
        self.judge = CaptionJudge(valid.captions)
        self._valid_gallery = Gallery(valid.pixels)
        self._valid_ids = [self._ids(captions) for captions in valid.captions]
        self.plan = example_plan(
            np.ones(len(self.train), np.int64), budget_tokens=0, batch_examples=batch_images, seed=seed
        )

    def share(self, examples: Indices, *, epoch: int, rank: int, world: int) -> CaptionBatch:
        """One process's share of a batch; an empty one is a batch without tokens."""
        return self.batch(examples[rank::world], epoch=epoch)

    def batch(self, indices: Indices, *, epoch: int = 0) -> CaptionBatch:
        """The images of these numbers with captions of theirs; of more than `captions_each`, some are drawn."""
        chosen = [self._some(int(i), epoch) for i in indices]
        return caption_batch(self.tokenizer, indices, chosen, multiple_of=self.multiple_of)

    def record(self) -> bool:
        """From now on captions have one of few lengths; work on images that lie on the device can be recorded."""
        return super().record() and self.gallery.resident

    def loss(self, model: Any, batch: CaptionBatch) -> Losses:
        """The summed loss of a batch's captions, with gradients."""
        images = in_double(model, augment(self.gallery(batch.images), **self.views._asdict()))
        rows = Rows(batch.target, batch.lengths)
        return caption_loss(model, images, rows, batch.labels, weights=self.weights, pad_id=self.tokenizer.pad_id)

    def evaluate(self, model: Captioner) -> dict[str, float]:
        """Loss a word, CIDEr-D and BLEU on the validation images, captioned greedily."""
        captions = [several[0].text for several in self._writer(model)(self.valid.pixels, self.decode)]
        figures = self.judge.score(captions).figures()
        names = {"CIDEr-D": "cider", "BLEU-1": "bleu1", "BLEU-4": "bleu4", "exact match": "exact"}
        return {"valid_nll": self._valid_nll(model)} | {short: figures[name] for name, short in names.items()}

    def samples(self, model: Captioner, n: int) -> list[tuple[str, str, str]]:
        """The first few validation images: name, a reference, caption."""
        shown = self.valid.part(range(min(n, len(self.valid))))
        if not len(shown):
            return []
        captions = self._writer(model)(shown.pixels, self.decode)
        return [(shown.names[i], shown.captions[i][0], several[0].text) for i, several in enumerate(captions)]

    def _writer(self, model: Captioner) -> CaptionWriter:
        return CaptionWriter([model], self.tokenizer)

    def _ids(self, captions: Sequence[str]) -> list[Ids]:
        return self.tokenizer.encode_batch([as_text(self.data, text) for text in captions])

    def _short_enough(self, train: Pictures) -> tuple[list[list[Ids]], list[int]]:
        """The captions of each image that are not too long, and the numbers of the images that have any."""
        most = self.data.max_tokens
        short = [[ids for ids in self._ids(captions) if 0 < len(ids) <= most] for captions in train.captions]
        kept = [i for i, several in enumerate(short) if several]
        if not kept:
            raise DataError(
                f"no training caption has 1 to {most} words", hint="raise data.max_tokens, or look at the captions"
            )
        return [short[i] for i in kept], kept

    def _some(self, image: int, epoch: int) -> list[Ids]:
        captions = self.captions[image]
        if len(captions) <= self.captions_each:
            return captions
        chance = np.random.default_rng([self.seed, epoch, image])
        return [captions[i] for i in chance.permutation(len(captions))[: self.captions_each]]

    @torch.no_grad()
    def _valid_nll(self, model: Captioner) -> float:
        device, total, count = model.output_weight.device, 0.0, 0
        plain = Weights()
        for begin in range(0, len(self.valid), _AT_ONCE):
            numbers = np.arange(begin, min(begin + _AT_ONCE, len(self.valid)))
            batch = caption_batch(self.tokenizer, numbers, [self._valid_ids[i] for i in numbers]).to(device)
            rows = Rows(batch.target, batch.lengths)
            images = self._valid_gallery(batch.images)
            losses = caption_loss(model, images, rows, batch.labels, weights=plain, pad_id=self.tokenizer.pad_id)
            total, count = total + float(losses.nll), count + batch.n_tokens
        return total / count


def caption_batch(
    tokenizer: Tokenizer, numbers: Indices, captions: Sequence[Sequence[Ids]], *, multiple_of: int = 1
) -> CaptionBatch:
    """Ids of captions by image as one batch, with the marks around them, filled up to a multiple of a length."""
    each = max(map(len, captions), default=0)
    nothing: list[int] = []
    filled = [list(several) + [None] * (each - len(several)) for several in captions]
    rows = [ids for several in filled for ids in several]
    fed = [[tokenizer.bos_id, *(ids or nothing)] for ids in rows]
    labelled = [nothing if ids is None else [*ids, tokenizer.eos_id] for ids in rows]
    target, lengths = pad(fed, tokenizer.pad_id, multiple_of=multiple_of)
    labels, _ = pad(labelled, tokenizer.pad_id, length=target.shape[1])
    return CaptionBatch(torch.from_numpy(np.asarray(numbers)), target, lengths, labels, sum(map(len, labelled)))
