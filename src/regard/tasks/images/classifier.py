"""What an image is: its class with the probabilities of all.

    classifier = ImageClassifier(model, space)
    classifier.outputs(images)          scores (n, n_classes) of a set, a tensor or an array of pixels (n, 3, H, W)
    classifier.guess(scores)            → ImageGuess

With `flip` an image and its mirror image are both read, and their probabilities averaged.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from regard.data.images.space import ImageSpace
from regard.metrics.scores import Outputs, probabilities
from regard.tasks.images.data import ImageSet

_AT_ONCE = 2**22  # pixels that are read together


@dataclass(frozen=True, kw_only=True)
class ImageOptions:
    """The `[decode]` section: how many of the likeliest classes are shown, and whether mirror images are read too."""

    k: int = 5
    flip: bool = False


@dataclass(frozen=True)
class ImageGuess:
    """The likeliest class, its probability, and those of the `k` likeliest, best first."""

    label: str
    probability: float
    probabilities: dict[str, float]

    def plain(self) -> str:
        """As one line of text: the class, and after a tab its probability."""
        return f"{self.label}\t{self.probability:.4f}"

    def record(self) -> dict[str, Any]:
        """As a JSON object."""
        return {"label": self.label, "probability": self.probability, "probabilities": self.probabilities}


class ImageClassifier:
    """Says what images are, with one model."""

    def __init__(self, model: nn.Module, space: ImageSpace, *, flip: bool = False) -> None:
        self.model, self.space, self.flip = model, space, flip
        self.device = next(model.parameters()).device

    @torch.inference_mode()
    def outputs(self, n: int, pixels: Callable[[slice], npt.NDArray[np.uint8]]) -> Outputs:
        """Log-probabilities of all classes (n, n_classes), for n images whose pixels (…, 3, H, W) are asked for."""
        step = max(1, _AT_ONCE // int(np.prod(self.space.size)))
        parts = [self.scores(torch.from_numpy(pixels(slice(i, i + step)))) for i in range(0, n, step)]
        outputs: Outputs = torch.cat(parts).cpu().numpy()
        return outputs

    @torch.inference_mode()
    def scores(self, pixels: Tensor) -> Tensor:
        """Log-probabilities (n, n_classes) in double precision, of pixels uint8 (n, 3, H, W)."""
        images = self.space.normalised(pixels.to(self.device))
        log_probs = self._log_probs(images)
        if not self.flip:
            return log_probs
        both = torch.logaddexp(log_probs, self._log_probs(images.flip(-1)))
        return both - math.log(2)

    def guess(self, scores: npt.NDArray[np.float64], k: int = 5) -> ImageGuess:
        """What scores (n_classes,) mean; `k` of the classes are named."""
        shares = probabilities(scores)
        order = np.argsort(-shares, kind="stable")[: max(1, k)].tolist()
        named = {self.space.names[i]: float(shares[i]) for i in order}
        return ImageGuess(self.space.names[order[0]], float(shares[order[0]]), named)

    def _log_probs(self, images: Tensor) -> Tensor:
        log_probs: Tensor = self.model(images).double().log_softmax(-1)
        return log_probs


def outputs_of(classifier: ImageClassifier, images: ImageSet) -> Outputs:
    """What a classifier says about the images of a set: log-probabilities (n, n_classes)."""
    return classifier.outputs(len(images), images.pixels)
