"""A trained captioner.

model = regard.load("runs/photos")
model("dog.jpg")                              → CaptionPrediction: image, text, score, alternatives
model(["a.jpg", "b.png"], beam=5, n_best=3)   → one each
model.look("dog.jpg").plot("seen.png")        where it looked for each word
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from torch import nn

from regard.checkpoints.spec import Pretrained
from regard.config.recipe import Recipe
from regard.data.images.arrays import Array
from regard.data.images.files import read_image
from regard.data.text.tokenizers import Tokenizer
from regard.errors import RegardError, UsageError
from regard.inspection.forward_case import ForwardCase
from regard.inspection.invariants import Check
from regard.inspection.look import look_at
from regard.metrics.comparing import Compared, paired
from regard.models.interfaces.captions import as_captioner
from regard.models.precision import in_precision
from regard.tasks.base import Evaluation, Predictor, ScoreData, check_texts, test_sets, tokenizer_of
from regard.tasks.captions.data import CaptionFiles, Pictures, as_text
from regard.tasks.captions.invariants import measure_captions
from regard.tasks.captions.look import CaptionLook, caption_case
from regard.tasks.captions.metrics import CaptionJudge
from regard.tasks.captions.writer import CaptionWriter
from regard.tasks.translation.predictor import Prediction

_FINE = 480  # pixels a side, at least, of the image that is shown


@dataclass(frozen=True)
class CaptionPrediction:
    """What a model says about an image."""

    image: str
    said: Prediction

    @property
    def text(self) -> str:
        """The best caption."""
        return self.said.text

    @property
    def alternatives(self) -> list[Prediction]:
        """What else it might have said, best first."""
        return self.said.alternatives

    def plain(self) -> str:
        """The caption in one line."""
        return self.said.plain()

    def record(self) -> dict[str, Any]:
        """Image, caption, score and words, and those of the alternatives."""
        return {"image": self.image} | self.said.record()


class CaptionPredictor(Predictor[CaptionPrediction]):
    """A captioner, or several that vote at every word, with its words."""

    def __init__(
        self, modules: Sequence[nn.Module], tokenizer: Tokenizer, config: Recipe, *, precision: str = "auto"
    ) -> None:
        super().__init__(modules[0], config)
        self.modules, self.tokenizer, self.precision = list(modules), tokenizer, precision
        quick = [as_captioner(in_precision(module, precision)) for module in self.modules]
        self.writer = CaptionWriter(quick, tokenizer)

    @classmethod
    def open(cls, found: Pretrained, recipe: Recipe, module: nn.Module, *, precision: str) -> Self:
        """The predictor of an opened model."""
        return cls([module], tokenizer_of(found), recipe, precision=precision)

    def predict(
        self,
        texts: Sequence[str],
        *,
        keys: Sequence[int] | None = None,
        prefix: str | None = None,
        **options: Any,
    ) -> list[CaptionPrediction]:
        """Caption each image file; `options` are fields of `DecodeOptions` that win over the recipe's."""
        chosen = self.options(options)
        if not texts:
            return []
        pixels = np.stack([self.pixels(text) for text in texts])
        found = self.writer(pixels, chosen, prefix=prefix, keys=keys)
        return [CaptionPrediction(text, Prediction.of(several)) for text, several in zip(texts, found, strict=True)]

    def pixels(self, path: str, *, finer: int = 1) -> Array:
        """An image file as the model sees it, or so many times finer: uint8 (3, H, W)."""
        image: Array = read_image(Path(path), size=finer * self.config.data.image_size).numpy()
        return image

    def look(
        self,
        text: str,
        target: str | None = None,
        *,
        layers: Collection[int] | None = None,
        kinds: Collection[str] | None = None,
        queries: bool = False,
        **options: Any,
    ) -> CaptionLook:
        """Where the model looks for each word of its caption, or of one that it is made to say."""
        seen = look_at(self.case(text, target, **options), layers=layers, kinds=kinds, queries=queries)
        image = self.pixels(text, finer=-(-_FINE // self.config.data.image_size))
        return CaptionLook(seen.axes, seen.maps, seen.outputs, seen.title, image)

    def case(self, text: str, target: str | None = None, **options: Any) -> ForwardCase:
        """An image and its caption, ready to be looked at."""
        check_texts([text] if target is None else [text, target])
        pixels = self.pixels(text)
        written = self(text, **options).said.ids if target is None else self._ids(target)
        return caption_case(self.module, self.tokenizer, pixels, written)

    def pictures(self, data: ScoreData) -> Mapping[str, Pictures]:
        """The images to score on, by name: those of the files given, else of every test set of the recipe."""
        described = self.config.data
        if data.files:
            described = replace(
                described, synthetic=None, format=None, images=None if described.synthetic else described.images
            )
        files = CaptionFiles(described, data.root, data.made)
        if data.files:
            return {data.files[0]: files.pictures(files.source(data.files, what="data"), say=self.say)}
        return test_sets(files.tests(say=self.say))

    def evaluate(self, data: ScoreData, **options: Any) -> Iterator[Evaluation]:
        """Caption every test set and score it against all references."""
        for name, pictures in self.pictures(data).items():
            captions = self._captions(pictures, options)
            metrics = CaptionJudge(pictures.captions).judged(captions).metrics()
            yield Evaluation(name, len(pictures), "images", metrics, captions)

    def compare(
        self, other: Any, data: ScoreData, *, resamples: int = 1000, seed: int = 1, **options: Any
    ) -> Iterator[Compared]:
        """BLEU and CIDEr-D of both models' captions of the same images."""
        self._check_same_task(other)
        for name, pictures in self.pictures(data).items():
            judge = CaptionJudge(pictures.captions)
            own = (
                other.pictures(data)[name] if other.config.data.image_size != self.config.data.image_size else pictures
            )
            if own.names != pictures.names:
                raise UsageError("the two models read different images of this set, so they cannot be compared")
            a, b = (judge.judged(model._captions(each, options)) for model, each in ((self, pictures), (other, own)))
            found = paired((a.figures, b.figures), len(pictures), resamples=resamples, seed=seed)
            yield Compared(name, len(pictures), "images", found, digits=2)

    def verify(self, data: ScoreData, *, n: int = 24) -> Iterator[Check]:
        """What this model promises, measured on images of a test set, or on noise."""
        pixels, captions = self._some(data, n)
        return measure_captions(self.module, self.tokenizer, pixels=pixels, captions=captions)

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

    def _captions(self, pictures: Pictures, options: Mapping[str, Any]) -> list[str]:
        return [several[0].text for several in self.writer(pictures.pixels, self.options(options))]

    def _ids(self, text: str) -> list[int]:
        ids = self.tokenizer.encode(as_text(self.config.data, text))
        if not ids:
            raise UsageError("the caption that the model is made to say is empty", hint="give it words, or none at all")
        return ids

    def _some(self, data: ScoreData, n: int) -> tuple[Array, list[list[int]]]:
        try:
            name, found = next(iter(self.pictures(data).items()))
            some = found.part(range(min(n, len(found))))
            self.say(f"on {len(some)} images of {name}")
            return some.pixels, [self._ids(several[0]) for several in some.captions]
        except RegardError:
            self.say(f"on {n} images of noise: the recipe's test set is not here")
        chance, side = np.random.default_rng(1), self.config.data.image_size
        pieces = [index for index in range(len(self.tokenizer)) if index not in self.tokenizer.special_ids]
        words = [chance.choice(pieces, chance.integers(3, 12)).tolist() for _ in range(n)]
        return chance.integers(0, 256, (n, 3, side, side), dtype=np.uint8), words
