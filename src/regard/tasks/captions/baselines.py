"""What a captioner has to beat: the commonest caption, and the caption of the training image nearest in mean colour.

A colour is the mean of an image's red, green and blue, each on the scale of its spread over the training images.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.errors import UsageError
from regard.metrics.verdict import Baseline, Judge
from regard.tasks.captions.metrics import plain

Pixels = npt.NDArray[Any]
Colours = npt.NDArray[np.float64]
_AT_ONCE = 256  # images read together
_BLOCK = 2**22  # distances held together


def caption_baselines(
    pixels: Pixels, judge: Judge, *, train_pixels: Pixels, train_captions: Sequence[Sequence[str]]
) -> list[Baseline]:
    """Both baselines for images (n, 3, H, W), judged as the task judges; training images have several captions each."""
    if len(train_pixels) != len(train_captions) or not all(train_captions):
        raise UsageError(
            f"{len(train_pixels)} training images and {len(train_captions)} lists of captions do not pair up; "
            "each image needs a caption"
        )
    common = commonest_caption(train_captions)
    nearest = nearest_colours(mean_colours(train_pixels), mean_colours(pixels))
    return [
        Baseline("the commonest caption", judge([common] * len(pixels))),
        Baseline("the caption of the image nearest in colour", judge([train_captions[i][0] for i in nearest])),
    ]


def commonest_caption(captions: Sequence[Sequence[str]]) -> str:
    """The caption that most are the same as, once they are compared as captions are; of equals the first."""
    flat = [caption for several in captions for caption in several]
    if not flat:
        raise UsageError("there is no training caption; at least one is needed")
    compared = [plain(caption) for caption in flat]
    return flat[compared.index(Counter(compared).most_common(1)[0][0])]


def mean_colours(pixels: Pixels) -> Colours:
    """The mean of each channel of images (n, 3, H, W): (n, 3)."""
    parts = [pixels[i : i + _AT_ONCE].mean((2, 3), dtype=np.float64) for i in range(0, len(pixels), _AT_ONCE)]
    return np.concatenate(parts) if parts else np.zeros((0, pixels.shape[1]))


def nearest_colours(known: Colours, colours: Colours) -> npt.NDArray[np.int64]:
    """For each colour the number of the known one nearest to it, (n,); of equals the first."""
    if not len(known):
        raise UsageError("there is no training image; at least one is needed")
    spread = known.std(0)
    scale = np.where(spread > 0, spread, 1.0)
    step = max(1, _BLOCK // len(known))
    found = np.zeros(len(colours), np.int64)
    for start in range(0, len(colours), step):
        apart = (colours[start : start + step, None] - known[None]) / scale
        found[start : start + step] = np.square(apart).sum(2).argmin(1)
    return found
