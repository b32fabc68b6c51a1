"""Telling images apart as something to train: batches, the loss of changed images, and how many are told right so far.

A loss is summed over images, and `n_tokens` counts them. Every batch has the same number of images; those that are left
over at the end of an epoch come up in another. On a GPU the pixels of all images are held there, and a batch is no more
than their numbers: the processor does nothing for an image. Where they are too many, it gathers them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn

from regard.config.keyed_draws import only
from regard.data.batching.plan import EpochPlan, Indices
from regard.data.batching.tensors import TensorBatch
from regard.data.images.space import ImageSpace
from regard.metrics.cross_entropy import Losses
from regard.models.precision import in_double
from regard.tasks.images.augmentation import Augmentation
from regard.tasks.images.classifier import ImageClassifier, outputs_of
from regard.tasks.images.data import ImageSet
from regard.tasks.images.metrics import image_figures
from regard.training.batching import BatchPlanMixin


@dataclass(frozen=True)
class ImageBatch(TensorBatch):
    """Images by number (B,), their classes (B,), and their pixels (B, 3, H, W) where the device does not hold them."""

    rows: Tensor
    labels: Tensor
    pixels: Tensor | None
    n_tokens: int
    partners: Tensor | None = None  # which of the rows each of the first is mixed with; the others are there for that


@dataclass(frozen=True)
class ImagePlan(EpochPlan):
    """Which images go together: shuffled anew each epoch, all batches of one size."""

    n: int
    batch_examples: int
    seed: int

    def epoch(self, number: int) -> list[Indices]:
        """The batches of an epoch; fewer images than a batch holds are one batch."""
        order = np.random.default_rng([self.seed, number]).permutation(self.n)
        size = min(self.batch_examples, self.n)
        return list(order[: self.n // size * size].reshape(-1, size))


def image_loss(model: nn.Module, images: Tensor, targets: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """Cross-entropy of images (B, 3, H, W) against shares of classes (B, n_classes): smoothed and plain, summed."""
    logits = model(images)
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(-1)
    plain = -(targets * logits).sum()
    if not smoothing:
        return plain, plain.detach()
    total = (1 - smoothing) * plain - smoothing * logits.mean(-1).sum()
    return total, plain.detach()


class ImageTraining(BatchPlanMixin):
    """What the trainer asks of the task: batches in a fixed order, their loss, and an evaluation."""

    objective = "accuracy"
    unit = "images"
    fixed_shape = True
    _loss = staticmethod(image_loss)

    def __init__(
        self,
        space: ImageSpace,
        train: ImageSet,
        valid: ImageSet,
        *,
        batch_examples: int,
        seed: int,
        augmentation: Augmentation | None = None,
        label_smoothing: float = 0.0,
        resident: bool = False,
    ) -> None:
        self.space, self.train, self.valid = space, train, valid
        self.augmentation = augmentation or Augmentation()
        self.label_smoothing, self.resident = label_smoothing, resident
        self.plan = ImagePlan(len(train), batch_examples, seed)
        self._labels = torch.from_numpy(train.labels)
        self._held: Tensor | None = None

    def share(self, examples: Indices, *, epoch: int, rank: int, world: int) -> ImageBatch:
        """One process's share of a batch; where all draw the same, with those opposite in the whole, to mix with."""
        beside = self.beside(len(examples), rank=rank, world=world)
        if beside is None:
            return self.batch(examples[rank::world])
        own = np.arange(rank, len(examples), world)
        held = np.concatenate([own, beside])
        row_of = {place: row for row, place in enumerate(held.tolist())}
        partners = torch.tensor([row_of[len(examples) - 1 - place] for place in own.tolist()], dtype=torch.long)
        return replace(self.batch(examples[held]), n_tokens=len(own), partners=partners)

    def beside(self, n: int, *, rank: int, world: int) -> Indices | None:
        """The images opposite to those of a share, where all processes have to mix the same."""
        if not (self.same_draws and self.augmentation.mixes) or world == 1:
            return None
        own = np.arange(rank, n, world)
        return np.setdiff1d(n - 1 - own, own)

    def batch(self, indices: Indices) -> ImageBatch:
        """The images of these numbers as one batch."""
        rows = torch.from_numpy(indices)
        pixels = None if self.resident else torch.from_numpy(self.train.pixels(indices))
        return ImageBatch(rows, self._labels[rows], pixels, len(indices))

    def loss(self, model: nn.Module, batch: ImageBatch) -> Losses:
        """The summed loss of a batch's images, with gradients."""
        pixels = batch.pixels if batch.pixels is not None else self._on(batch.rows.device)[batch.rows]
        classes = torch.arange(len(self.space.names), device=batch.labels.device)
        targets = (batch.labels[:, None] == classes).float()  # (B, n_classes)
        images, targets = self.augmentation(pixels, targets, self.space, partners=batch.partners)
        with only(batch.n_tokens):
            total, plain = self._loss(model, in_double(model, images), targets, self.label_smoothing)
        return Losses(total, plain, torch.full((), batch.n_tokens, device=total.device))

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        """The loss of an image and all figures on the validation images."""
        outputs = outputs_of(ImageClassifier(model, self.space), self.valid)
        loss = -outputs[np.arange(len(self.valid)), self.valid.labels].mean()
        return {"valid_loss": float(loss)} | image_figures(outputs, self.valid.labels)

    def samples(self, model: nn.Module, n: int) -> list[tuple[str, str, str]]:
        """A few validation images: where they are, what they are, and what the model says."""
        if not n:
            return []
        shown = self.valid.part(np.arange(len(self.valid))[:: max(1, len(self.valid) // n)][:n])
        classifier = ImageClassifier(model, self.space)
        guesses = [classifier.guess(row).label for row in outputs_of(classifier, shown)]
        names = [self.space.names[label] for label in shown.labels.tolist()]
        return list(zip(shown.places(), names, guesses, strict=True))

    def _on(self, device: torch.device) -> Tensor:
        """The pixels of all training images, on the device from the first batch on."""
        if self._held is None or self._held.device != device:
            self._held = torch.from_numpy(self.train.pixels()).to(device)
        return self._held
