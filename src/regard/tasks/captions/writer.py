"""Captions for images: pixels in, texts out, through one captioner or several that vote at every word."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from regard.data.images.arrays import Array
from regard.data.text.tokenizers import Tokenizer
from regard.decoding import DecodeOptions, EnsembleStepper, decode, key_of
from regard.models.interfaces.captions import Captioner
from regard.tasks.captions.data import without_unknown
from regard.tasks.predictions import Prediction


@dataclass(frozen=True)
class Caption(Prediction):
    """What a model says about an image, which is called `image` if it has a name."""

    image: str = ""

    def record(self) -> dict[str, Any]:
        """Image, caption, score and words, and those of the alternatives."""
        return {"image": self.image} | super().record()


class CaptionWriter:
    """Writes captions; `batch_rows` is how many are written at a time, beams included."""

    def __init__(self, models: Sequence[Captioner], tokenizer: Tokenizer, *, batch_rows: int = 640) -> None:
        self.models, self.tokenizer, self.batch_rows = list(models), tokenizer, batch_rows

    def __call__(self, pixels: Array, options: DecodeOptions, *, prefix: str | None = None) -> list[list[Caption]]:
        """The captions of each image (n, 3, H, W), best first; `prefix` is how every caption begins."""
        options = without_unknown(options, self.tokenizer)
        forced = [] if prefix is None else self.tokenizer.encode(prefix)
        at_once = max(1, self.batch_rows // max(options.beam, options.n_samples))
        captions: list[list[Caption]] = []
        for begin in range(0, len(pixels), at_once):
            captions += self._write(pixels[begin : begin + at_once], options, forced)
        return captions

    @torch.inference_mode()
    def _write(self, pixels: Array, options: DecodeOptions, prefix: list[int]) -> list[list[Caption]]:
        device = next(iter(self.models[0].parameters())).device
        images, tokenizer = torch.tensor(pixels, device=device), self.tokenizer
        watched = options.coverage_penalty > 0
        steppers = [model.start(images, capacity=options.max_length, watched=watched) for model in self.models]
        hypotheses = decode(
            steppers[0] if len(steppers) == 1 else EnsembleStepper(steppers),
            n_rows=len(images),
            bos_id=tokenizer.bos_id,
            eos_id=tokenizer.eos_id,
            pad_id=tokenizer.pad_id,
            options=options,
            prefixes=[prefix] * len(images) if prefix else None,
            row_keys=[key_of(image) for image in pixels],
        )
        return [[Caption.decoded(h, tokenizer, tokenizer.decode(h.tokens)) for h in several] for several in hypotheses]
