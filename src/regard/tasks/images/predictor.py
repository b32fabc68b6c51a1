"""A classifier of images.

model = regard.load("runs/pets")
model("cat.jpg")                             → ImageGuess: label, probability, probabilities
model("cat.jpg", flip=True, k=3)             reads the mirror image too; names three classes
model.look("cat.jpg").plot("seen.png")
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from regard.checkpoints.run import RunFolder
from regard.checkpoints.spec import ModelSpec, Pretrained
from regard.config.recipe import Recipe
from regard.data.images.files import read_image
from regard.data.images.space import FILE, THEIR_FILE, ImageSpace
from regard.errors import RegardError, UsageError
from regard.inspection.forward_case import ForwardCase, OutputNames
from regard.inspection.invariants import Check, measure_plain
from regard.inspection.look import look_at
from regard.inspection.record import Axis
from regard.metrics.comparing import Compared, Figures, paired
from regard.models.vit import ViT
from regard.tasks.base import Evaluation, Predictor, ScoreData, check_texts, folder_of, refuse_target, test_sets
from regard.tasks.images.classifier import ImageClassifier, ImageGuess
from regard.tasks.images.data import ImageFiles, ImageSet
from regard.tasks.images.look import ImageLook, Shown
from regard.tasks.images.metrics import image_figures, image_metrics
from regard.tasks.images.training import outputs_of


class ImagePredictor(Predictor[ImageGuess]):
    """A Vision Transformer with its classes and the way it reads images."""

    def __init__(self, module: nn.Module, space: ImageSpace, config: Recipe) -> None:
        super().__init__(module, config)
        assert isinstance(module, ViT)
        self.space, self.vit = space, module

    @classmethod
    def open(cls, found: Pretrained, recipe: Recipe, module: nn.Module, *, precision: str) -> Self:
        """The predictor of an opened model."""
        return cls(module, image_space(found), recipe)

    @classmethod
    def keep(cls, found: Pretrained, folder: Path) -> None:
        """How it reads images, and its classes."""
        image_space(found).save(folder)

    @classmethod
    def for_others(cls, found: Pretrained) -> tuple[ModelSpec, Mapping[str, Tensor], Mapping[str, Any]]:
        """With its classes, and how it reads images."""
        described, tensors, _ = super().for_others(found)
        space = image_space(found)
        return replace(described, labels=space.names or None), tensors, {THEIR_FILE: space.for_others()}

    def predict(self, texts: Sequence[str], *, keys: Sequence[int] | None = None, **options: Any) -> list[ImageGuess]:
        """What each image file shows."""
        chosen = self.options(options)
        classifier = self._classifier(flip=chosen.flip)
        pixels = [self._read(text) for text in texts]
        if not pixels:
            return []
        rows = classifier.outputs(len(pixels), lambda part: torch.stack(pixels[part]).numpy())
        return [classifier.guess(row, chosen.k) for row in rows]

    def look(
        self,
        text: str,
        target: str | None = None,
        *,
        layers: Collection[int] | None = None,
        kinds: Collection[str] | None = None,
        queries: bool = False,
        **options: Any,
    ) -> ImageLook:
        """Which patches of an image the model looked at."""
        check_texts([text])
        refuse_target(target)
        pixels = self._read(text)
        seen = look_at(self._scene(pixels, Path(text).name), layers=layers, kinds=kinds, queries=queries)
        shown = Shown(pixels.permute(1, 2, 0).numpy(), self._grid(), int(self.vit.class_token is not None))
        return ImageLook(seen.axes, seen.maps, seen.outputs, seen.title, shown)

    def case(self, text: str, target: str | None = None, **options: Any) -> ForwardCase:
        """An image, ready to be looked at."""
        refuse_target(target)
        return self._scene(self._read(text), Path(text).name)

    def tests(self, data: ScoreData) -> Mapping[str, ImageSet]:
        """The images to score on, by name: those of the places given, else of every test set of the recipe."""
        files = ImageFiles(self.config.data, data.root, data.made)
        if data.files:
            return {data.files[0]: files.read_known(data.files, self.space, say=self.say)}
        if not self.config.data.train:  # it was trained elsewhere
            return test_sets({})
        sets = files.read(say=self.say)
        return test_sets(sets.tests or {"valid": sets.valid})

    def evaluate(self, data: ScoreData, **options: Any) -> Iterator[Evaluation]:
        """Accuracy, top 5, macro F1 and the accuracy of each class, with 95 % intervals."""
        classifier = self._classifier(flip=self.options(options).flip)
        for name, images in self.tests(data).items():
            outputs = outputs_of(classifier, images)
            figures = image_metrics(outputs, images.labels, self.space.names)
            said = [classifier.guess(row).plain() for row in outputs]
            yield Evaluation(name, len(images), "images", figures, said)

    def compare(
        self, other: Any, data: ScoreData, *, resamples: int = 1000, seed: int = 1, **options: Any
    ) -> Iterator[Compared]:
        """Accuracy, top 5 and macro F1 of both on the same images."""
        self._check_same_task(other)
        if self.space.names != other.space.names:
            raise UsageError("the two models tell different classes apart, and cannot be compared")
        flip = self.options(options).flip
        others = other.tests(data)
        for name, images in self.tests(data).items():
            systems = (self._figures(images, flip=flip), other._figures(others[name], flip=flip))
            yield Compared(name, len(images), "images", paired(systems, len(images), resamples=resamples, seed=seed))

    def verify(self, data: ScoreData, *, n: int = 24) -> Iterator[Check]:
        """What this model promises, measured on images of a test set, or on random pixels."""
        images = self.space.normalised(self._some(data, n)).to(self._device())
        yield from measure_plain(self.module, (images,))

    def _read(self, text: str) -> Tensor:
        return read_image(Path(text), size=self.space.size, fit=self.space.fit)

    def _classifier(self, *, flip: bool) -> ImageClassifier:
        if not self.vit.config.n_classes:
            raise UsageError(
                "this model has no classes to tell apart: it is a backbone",
                hint="fine-tune it: regard train images --train FOLDER model.start=…",
            )
        return ImageClassifier(self.module, self.space, flip=flip)

    def _figures(self, images: ImageSet, *, flip: bool) -> Figures:
        outputs = outputs_of(self._classifier(flip=flip), images)
        return lambda drawn: image_figures(outputs[drawn], images.labels[drawn])

    def _scene(self, pixels: Tensor, title: str) -> ForwardCase:
        rows, columns = self._grid()
        places = [f"{row},{column}" for row in range(rows) for column in range(columns)]
        labels = ["class", *places] if self.vit.class_token is not None else places
        axes = {"image": Axis(labels, "patches"), "label": Axis(["label"], "labels")}
        speech = OutputNames("label", "label", lambda i: self.space.names[i]) if self.vit.config.n_classes else None
        sides: Any = {"self": ("self", "image", "image"), "cross": ("pool", "label", "image")}
        images = self.space.normalised(pixels[None]).to(self._device())
        return ForwardCase(self.module, (images,), axes, sides, speech, title=title)

    def _grid(self) -> tuple[int, int]:
        return self.vit.stem.grid(*self.space.size)

    def _some(self, data: ScoreData, n: int) -> Tensor:
        """Pixels to verify on."""
        try:
            name, images = next(iter(self.tests(data).items()))
            self.say(f"on {min(n, len(images))} images of {name}")
            return torch.from_numpy(images.pixels(np.linspace(0, len(images) - 1, min(n, len(images))).astype(int)))
        except RegardError:
            self.say(f"on {n} images of random pixels")
        chance = torch.Generator().manual_seed(1)
        return torch.randint(0, 256, (n, 3, *self.space.size), generator=chance, dtype=torch.uint8)

    def _device(self) -> torch.device:
        return next(self.module.parameters()).device


def image_space(found: Pretrained) -> ImageSpace:
    """How a model reads images, and what its classes are: as the run says, else as was published with it."""
    folder = folder_of(found)
    if (folder / FILE).exists() or RunFolder(folder).exists():
        return ImageSpace.load(folder)  # which says so if a run has lost it
    height, width = found.options["image"]
    names = found.labels or tuple(f"LABEL_{i}" for i in range(int(found.options["n_classes"])))
    return ImageSpace.of_others(folder, names, (int(height), int(width)))
