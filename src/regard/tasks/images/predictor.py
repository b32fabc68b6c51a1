"""A classifier of images.

model = regard.load("runs/pets")
model("cat.jpg")                             → ImageGuess: label, probability, probabilities
model(pixels)                                the same of an image of pillow, an array or a tensor
model("cat.jpg", flip=True, k=3)             reads the mirror image too; names three classes
model.look("cat.jpg").plot("seen.png")
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Unpack

import numpy as np
import torch
from torch import Tensor, nn

from regard.checkpoints.run import RunFolder
from regard.checkpoints.spec import ModelSpec, Pretrained
from regard.config.recipe import Recipe
from regard.data.images.files import SUFFIXES
from regard.data.images.inputs import ImageInput, are_several, check_images, image_name, pixels_of
from regard.data.images.space import FILE, THEIR_FILE, ImageSpace
from regard.errors import UsageError
from regard.models.vit import ViT
from regard.tasks.base import Predictor, ScoreData, folder_of, one_or_many, refuse_other_labels, refuse_target
from regard.tasks.decode_settings import GuessSettings
from regard.tasks.files import report_sets
from regard.tasks.images.classifier import ImageClassifier, ImageGuess
from regard.tasks.images.config import ImageOptions
from regard.tasks.images.data import ImageFiles, ImageSet
from regard.tasks.images.metrics import score_images
from regard.tasks.measuring import Scores

if TYPE_CHECKING:
    from regard.inspection.forward_case import ForwardCase
    from regard.inspection.invariants import Check


class ImageSettings(GuessSettings, total=False):
    """The fields of `ImageOptions`, as a call takes them."""

    flip: bool


class ImagePredictor(Predictor[ImageInput, ImageGuess]):
    """A Vision Transformer with its classes and the way it reads images."""

    suffixes = SUFFIXES
    verified_on = ("images", "images of random pixels")

    def __init__(self, module: nn.Module, space: ImageSpace, config: Recipe) -> None:
        super().__init__(module, config)
        assert isinstance(module, ViT)
        self.space, self.vit = space, module

    @classmethod
    def open(cls, pretrained: Pretrained, recipe: Recipe, module: nn.Module, *, precision: str) -> Self:
        """The predictor of an opened model."""
        return cls(module, image_space(pretrained), recipe)

    @classmethod
    def keep(cls, pretrained: Pretrained, folder: Path) -> None:
        """How it reads images, and its classes."""
        image_space(pretrained).save(folder)

    @classmethod
    def for_others(cls, pretrained: Pretrained) -> tuple[ModelSpec, Mapping[str, Tensor], Mapping[str, Any]]:
        """With its classes, and how it reads images."""
        described, tensors, _ = super().for_others(pretrained)
        space = image_space(pretrained)
        return replace(described, labels=space.names or None), tensors, {THEIR_FILE: space.for_others()}

    def is_single(self, inputs: Any) -> bool:
        """Whether this is one image, not several."""
        return not are_several(inputs)

    def check_inputs(self, inputs: Sequence[Any]) -> None:
        """Images are paths, images of pillow, arrays or tensors."""
        check_images(inputs)

    def predict(self, inputs: Sequence[ImageInput], **options: Unpack[ImageSettings]) -> list[ImageGuess]:
        """What each image shows."""
        chosen = self.options(options)
        classifier = self._classifier(flip=chosen.flip)
        pixels = [self._pixels(image, f"input {number}") for number, image in enumerate(inputs)]
        if not pixels:
            return []
        rows = classifier.outputs(len(pixels), lambda part: torch.stack(pixels[part]).numpy())
        return [classifier.guess(row, chosen.k) for row in rows]

    __call__ = one_or_many(predict)

    def case(self, input: ImageInput, target: str | None = None, **options: Any) -> ForwardCase:
        """An image, ready to be looked at."""
        from regard.tasks.images.look import image_case

        refuse_target(target)
        return image_case(self.vit, self.space, self._pixels(input), title=Path(image_name(input)).name)

    def given_examples(self, data: ScoreData) -> ImageSet:
        """The images of the places given."""
        return ImageFiles(self.config.data, data.root, data.made).read_known(data.files, self.space, say=self.say)

    def recipe_tests(self, data: ScoreData) -> Mapping[str, ImageSet]:
        """The images of every test set of the recipe, else those held out."""
        return report_sets(ImageFiles(self.config.data, data.root, data.made), say=self.say)

    def score(self, examples: ImageSet, options: ImageOptions) -> Scores:
        """Accuracy, top 5, macro F1 and the accuracy of each class."""
        return score_images(self._classifier(flip=options.flip), examples)

    def check_comparable(self, other: Self) -> None:
        """Both know the same classes."""
        if self.space.names != other.space.names:
            raise UsageError("the two models tell different classes apart, and cannot be compared")

    def shared(self, other: Self, name: str, examples: ImageSet, data: ScoreData) -> tuple[ImageSet, ImageSet]:
        """The same images, each in the size that its model reads."""
        return examples, other.test_sets(data)[name]

    def sample(self, examples: ImageSet, n: int) -> list[Tensor]:
        """Images from all over the set."""
        rows = np.linspace(0, len(examples) - 1, min(n, len(examples))).astype(int)
        return list(torch.from_numpy(examples.pixels(rows)))

    def random_sample(self, n: int) -> list[Tensor]:
        """Random pixels."""
        chance = torch.Generator().manual_seed(1)
        return list(torch.randint(0, 256, (n, 3, *self.space.size), generator=chance, dtype=torch.uint8))

    def promises(self, sample: list[Tensor]) -> Iterator[Check]:
        """Batching, fused kernels and saving."""
        from regard.inspection.invariants import measure_plain

        images = self.space.normalised(torch.stack(sample)).to(self.device)
        return measure_plain(self.module, (images,))

    def _pixels(self, image: ImageInput, where: str = "the image") -> Tensor:
        return pixels_of(image, size=self.space.size, fit=self.space.fit, where=where)

    def _classifier(self, *, flip: bool) -> ImageClassifier:
        if not self.vit.config.n_classes:
            raise UsageError(
                "this model has no classes to tell apart: it is a backbone",
                hint="fine-tune it: regard train images --train FOLDER model.start=…",
            )
        return ImageClassifier(self.module, self.space, flip=flip)


def image_space(pretrained: Pretrained) -> ImageSpace:
    """How a model reads images, and what its classes are: as the run says, else as was published with it."""
    folder = folder_of(pretrained)
    if (folder / FILE).exists() or RunFolder(folder).exists():
        space = ImageSpace.load(folder)  # which says so if a run has lost it
        if space.names and pretrained.options["n_classes"]:
            refuse_other_labels(len(space.names), int(pretrained.options["n_classes"]), where=folder / FILE)
        return space
    height, width = pretrained.options["image"]
    names = pretrained.labels or tuple(f"LABEL_{i}" for i in range(int(pretrained.options["n_classes"])))
    return ImageSpace.of_others(folder, names, (int(height), int(width)))
