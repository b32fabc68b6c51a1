"""Labelled images to train a Vision Transformer on, or to fine-tune one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.checkpoints.spec import Pretrained
from regard.checkpoints.weights import load_weights, weights_of
from regard.config.recipe import Recipe
from regard.layers.stems import LearnedGrid
from regard.metrics.verdict import Baseline, check_class_counts
from regard.models.registry import build
from regard.models.vit import ViT
from regard.tasks.images.augmentation import Augmentation
from regard.tasks.images.classifier import ImageClassifier
from regard.tasks.images.config import ImageConfig
from regard.tasks.images.data import ImageFiles, ImageSet, ImageSets
from regard.tasks.images.metrics import score_images, without_classes
from regard.tasks.images.training import ImageTraining
from regard.tasks.measuring import Beside, Scores, measure
from regard.training.setup import RunContext, Say, TaskSetup
from regard.training.warm_start import begin_model, own_options, start_for

_SMALL = 64  # pixels: up to this side an image is read by the hybrid, unless the recipe says otherwise
_RESIDENT = 0.25  # of a GPU's memory may be filled with pixels


class ImageSetup(TaskSetup):
    """Images, their classes, and a model for them."""

    def __init__(self, recipe: Recipe, context: RunContext) -> None:
        super().__init__(recipe)
        self.files = ImageFiles(recipe.data, context.data_root, context.data)
        self.sets: ImageSets = context.first(lambda say: self.files.read(say=say))
        start = start_for(recipe, context.data_root)
        options = options_for(recipe, self.sets, start)
        self.model, self.spec = begin_model(recipe, options, labels=self.sets.space.names)
        if start is not None:
            take_over(self.model, start)
        context.keep(self.sets.space.save)
        train = recipe.train
        assert isinstance(train, ImageConfig)
        self.task = ImageTraining(
            self.sets.space,
            self.sets.train,
            self.sets.valid,
            batch_examples=train.batch_examples,
            seed=train.seed,
            augmentation=Augmentation(**{one.name: getattr(train, one.name) for one in fields(Augmentation)}),
            label_smoothing=train.label_smoothing,
            resident=_fits(context.device, self.sets),
        )

    def about(self) -> str:
        """The images and the classes."""
        sets, (height, width) = self.sets, self.sets.space.size
        shown = "".join(f", {len(images):,} to report on" for images in sets.tests.values())
        return (
            f"{len(sets.space.names)} classes, images of {height} × {width}: {len(sets.train):,} to learn from, "
            f"{len(sets.valid):,} to choose by{shown}"
        )

    def remarks(self) -> Iterable[str | None]:
        """Classes that are too rare to be learnt."""
        counts = np.bincount(self.sets.train.labels, minlength=len(self.sets.space.names)).tolist()
        yield check_class_counts(dict(zip(self.sets.space.names, counts, strict=True)))

    def counts(self) -> dict[str, Any]:
        """How many images."""
        return {"images": len(self.sets.train)}

    def measure(self, say: Say) -> dict[str, dict[str, Any]]:
        """All figures on the validation images, and on every test set."""
        classifier, sets = ImageClassifier(self.model, self.sets.space), {"valid": self.sets.valid} | self.sets.tests
        found = self._baselines(sets)
        beside: Beside[ImageSet] = Beside("accuracy", lambda name, _: found[name], ["more images"])

        def score(images: ImageSet) -> Scores:
            return score_images(classifier, images)

        return measure(sets, score, say=say, lines=without_classes, beside=beside)

    def _baselines(self, sets: Mapping[str, ImageSet]) -> dict[str, list[Baseline]]:
        from regard.tasks.images.baselines import LabelledImages, image_baselines

        tests = {name: LabelledImages(images.pixels, images.labels) for name, images in sets.items()}
        train = LabelledImages(self.sets.train.pixels, self.sets.train.labels)
        return image_baselines(train, tests, names=self.sets.space.names)


def options_for(recipe: Recipe, sets: ImageSets, start: Pretrained | None) -> dict[str, Any]:
    """The options of a recipe's model, for these classes and images of this size."""
    options = own_options(recipe)
    if start is not None:
        options = dict(start.options) | {"pooler": False} | options
    elif not {"size", "d_model", "n_layers", "patch", "stem"} & set(options):
        options["size"] = "hybrid" if max(sets.space.size) <= _SMALL else "tiny"
    return options | {"n_classes": len(sets.space.names), "image": sets.space.size}


def take_over(model: nn.Module, start: Pretrained) -> None:
    """Load a start's weights: its positions brought to this model's grid, and a head of its own for other classes."""
    assert isinstance(model, ViT)
    own: dict[str, Tensor] = weights_of(model)
    known = {name: tensor for name, tensor in start.tensors.items() if name in own}
    if "positions.table.weight" in known:
        known["positions.table.weight"] = _regridded(model, start.options, known["positions.table.weight"])
    fresh = [name for name, tensor in own.items() if name.startswith(("output.", "pooler."))
             and (name not in known or known[name].shape != tensor.shape)]  # fmt: skip
    load_weights(model, known | {name: own[name].detach().clone() for name in fresh}, origin=start.origin)


def _regridded(model: ViT, options: Mapping[str, Any], table: Tensor) -> Tensor:
    """A learned table of positions for this model's grid."""
    with torch.device("meta"):
        before = build("vit", options)
    assert isinstance(before, ViT)
    old, new = before.positions, model.positions
    if not isinstance(old, LearnedGrid) or not isinstance(new, LearnedGrid) or old.grid == new.grid:
        return table
    grid = LearnedGrid(table.shape[1], grid=old.grid, n_extra=old.n_extra)
    with torch.no_grad():
        grid.table.weight.copy_(table)
        return grid.interpolated(new.grid)


def _fits(device: torch.device, sets: ImageSets) -> bool:
    """Whether the pixels of all training images can be held on the device: a GPU with room for them."""
    if device.type != "cuda":
        return False
    free, _ = torch.cuda.mem_get_info(device)
    height, width = sets.space.size
    return len(sets.train) * 3 * height * width < _RESIDENT * free
