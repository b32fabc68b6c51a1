"""A trained captioner.

model = regard.load("runs/photos")
model("dog.jpg")                              → Caption: image, text, score, alternatives
model(pixels)                                 the same of an image of pillow, an array or a tensor
model(["a.jpg", "b.png"], beam=5, n_best=3)   → one each
model.look("dog.jpg").plot("seen.png")        where it looked for each word
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self, Unpack

import numpy as np
from torch import nn

from regard.checkpoints.spec import Pretrained
from regard.config.recipe import Recipe
from regard.data.images.arrays import Array
from regard.data.images.files import SUFFIXES
from regard.data.images.inputs import ImageInput, are_several, check_images, image_name, pixels_of
from regard.data.text.tokenizers import Tokenizer
from regard.decoding import DecodeOptions
from regard.errors import UsageError
from regard.models.interfaces.captions import as_captioner
from regard.models.precision import in_precision
from regard.tasks.base import Predictor, ScoreData, check_texts, one_or_many, tokenizer_of
from regard.tasks.captions.data import CaptionFiles, Pictures, as_text
from regard.tasks.captions.metrics import score_captions
from regard.tasks.captions.writer import Caption, CaptionWriter
from regard.tasks.decode_settings import DecodeSettings
from regard.tasks.measuring import Scores

if TYPE_CHECKING:
    from regard.inspection.forward_case import ForwardCase
    from regard.inspection.invariants import Check

_FINE = 480  # pixels a side, at least, of the image that is shown


class CaptionPredictor(Predictor[ImageInput, Caption]):
    """A captioner, or several that vote at every word, with its words."""

    suffixes = SUFFIXES
    verified_on = ("images", "images of noise")

    def __init__(
        self, modules: Sequence[nn.Module], tokenizer: Tokenizer, config: Recipe, *, precision: str = "auto"
    ) -> None:
        super().__init__(modules[0], config)
        self.modules, self.tokenizer, self.precision = list(modules), tokenizer, precision
        quick = [as_captioner(in_precision(module, precision)) for module in self.modules]
        self.writer = CaptionWriter(quick, tokenizer)

    @classmethod
    def open(cls, pretrained: Pretrained, recipe: Recipe, module: nn.Module, *, precision: str) -> Self:
        """The predictor of an opened model."""
        return cls([module], tokenizer_of(pretrained), recipe, precision=precision)

    def is_single(self, inputs: Any) -> bool:
        """Whether this is one image, not several."""
        return not are_several(inputs)

    def check_inputs(self, inputs: Sequence[Any]) -> None:
        """Images are paths, images of pillow, arrays or tensors."""
        check_images(inputs)

    def with_models(self, wrap: Callable[[Any], Any]) -> Self:
        """The same, captioning with what `wrap` makes of its models."""
        other = copy(self)
        other.writer = copy(self.writer)
        other.writer.models = [wrap(model) for model in self.writer.models]
        return other

    def predict(
        self,
        inputs: Sequence[ImageInput],
        *,
        prefix: str | None = None,
        **options: Unpack[DecodeSettings],
    ) -> list[Caption]:
        """Caption each image; `options` are fields of `DecodeOptions` that win over the recipe's."""
        chosen = self.options(options)
        if not inputs:
            return []
        pixels = np.stack([self.pixels(image, where=f"input {number}") for number, image in enumerate(inputs)])
        captions = self.writer(pixels, chosen, prefix=prefix)
        pairs = zip(inputs, captions, strict=True)
        return [Caption.of(best_first, image=image_name(image)) for image, best_first in pairs]

    __call__ = one_or_many(predict)

    def pixels(self, image: ImageInput, *, finer: int = 1, where: str = "the image") -> Array:
        """An image as the model sees it, or so many times finer: uint8 (3, H, W)."""
        pixels: Array = pixels_of(image, size=finer * self.config.data.image_size, where=where).numpy()
        return pixels

    def case(self, input: ImageInput, target: str | None = None, **options: Any) -> ForwardCase:
        """An image and its caption, ready to be looked at."""
        from regard.tasks.captions.look import caption_case

        if target is not None:
            check_texts([target])
        written = self(input, **options).ids if target is None else self._ids(target)
        shown = self.pixels(input, finer=-(-_FINE // self.config.data.image_size))
        return caption_case(self.module, self.tokenizer, self.pixels(input), written, shown=shown)

    def given_examples(self, data: ScoreData) -> Pictures:
        """The images of the files given."""
        described = self.config.data
        images = None if described.synthetic else described.images
        described = replace(described, synthetic=None, format=None, images=images)
        files = CaptionFiles(described, data.root, data.made)
        return files.pictures(files.source(data.files, what="data"), say=self.say)

    def recipe_tests(self, data: ScoreData) -> Mapping[str, Pictures]:
        """The images of every test set of the recipe."""
        return CaptionFiles(self.config.data, data.root, data.made).tests(say=self.say)

    def score(self, examples: Pictures, options: DecodeOptions) -> Scores:
        """BLEU, CIDEr-D and exact matches of the captions of a test set, against all references."""
        return score_captions(self.writer, examples, options)

    def shared(self, other: Self, name: str, examples: Pictures, data: ScoreData) -> tuple[Pictures, Pictures]:
        """The same images, each in the size that its model reads."""
        if other.config.data.image_size == self.config.data.image_size:
            return examples, examples
        theirs: Pictures = other.test_sets(data)[name]
        if theirs.names != examples.names:
            raise UsageError("the two models read different images of this set, so they cannot be compared")
        return examples, theirs

    def sample(self, examples: Pictures, n: int) -> list[tuple[Array, list[int]]]:
        """The first images with their first captions."""
        first = examples.part(range(min(n, len(examples))))
        return [(pixels, self._ids(texts[0])) for pixels, texts in zip(first.pixels, first.captions, strict=True)]

    def random_sample(self, n: int) -> list[tuple[Array, list[int]]]:
        """Noise, with captions of random pieces."""
        chance, side = np.random.default_rng(1), self.config.data.image_size
        pieces = [index for index in range(len(self.tokenizer)) if index not in self.tokenizer.special_ids]
        words = [chance.choice(pieces, chance.integers(3, 12)).tolist() for _ in range(n)]
        return list(zip(chance.integers(0, 256, (n, 3, side, side), dtype=np.uint8), words, strict=True))

    def promises(self, sample: list[tuple[Array, list[int]]]) -> Iterator[Check]:
        """Batching, caching, fused kernels, saving and padding."""
        from regard.tasks.captions.invariants import measure_captions

        pixels, captions = zip(*sample, strict=True)
        return measure_captions(self.module, self.tokenizer, pixels=np.stack(pixels), captions=list(captions))

    def ensemble(self, *others: CaptionPredictor) -> CaptionPredictor:
        """A predictor for which these models vote at every word; they have to share words and the size of images."""
        own = self.tokenizer.fingerprint(), self.config.data.image_size
        for number, other in enumerate(others, start=2):
            if (other.tokenizer.fingerprint(), other.config.data.image_size) != own:
                raise UsageError(
                    f"model {number} of the ensemble has other words or another size of images than the first",
                    hint="train both with the same data and the same [tokenizer]",
                )
        modules = [module for predictor in (self, *others) for module in predictor.modules]
        return CaptionPredictor(modules, self.tokenizer, self.config, precision=self.precision)

    def _ids(self, text: str) -> list[int]:
        ids = self.tokenizer.encode(as_text(self.config.data, text))
        if not ids:
            raise UsageError("the caption that the model is made to say is empty", hint="give it words, or none at all")
        return ids
