"""What an image classifier has to beat: the commonest class, the nearest mean image, and a linear model of a thumbnail.

A thumbnail is the image as 8 × 8 means of colour, (n, 3 · 8 · 8), each number on the scale of its spread over the
training images. Training images are sampled where they are more than seconds allow, and the note says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.config.process import no_warnings
from regard.errors import UsageError
from regard.metrics.verdict import Baseline
from regard.tasks.images.metrics import image_figures

Indices = npt.NDArray[np.int64]
Thumbnails = npt.NDArray[np.float32]
Outputs = npt.NDArray[np.float64]
Reader = Callable[[Indices], npt.NDArray[np.uint8]]  # numbers of images → pixels (n, 3, H, W), as `ImageSet.pixels`
MOST_IMAGES = 50_000
_SIDE = 8
_PIXELS_AT_ONCE = 2**23
_MOST_WORK = 200_000_000  # images times classes times iterations of the linear model: some seconds
_FEWEST_ITERATIONS, _MOST_ITERATIONS = 10, 100
_PENALTY = 3e-3  # beside the mean loss of an image, so that it weighs the same however many there are


@dataclass(frozen=True, eq=False)
class LabelledImages:
    """Images by a function that reads some of them, and the number of each one's class (n,)."""

    read: Reader
    labels: Indices

    def thumbnails(self, rows: Indices | None = None) -> Thumbnails:
        """The thumbnails of all, or of some."""
        return thumbnails(self.read, np.arange(len(self.labels)) if rows is None else rows)


def image_baselines(
    train: LabelledImages,
    tests: Mapping[str, LabelledImages],
    *,
    names: Sequence[str],
    seed: int = 1,
    most_images: int = MOST_IMAGES,
) -> dict[str, list[Baseline]]:
    """The baselines of every test set, by its name, with the figures of `image_figures`."""
    if not len(train.labels):
        raise UsageError("there is no training image; at least one is needed")
    counts = np.bincount(train.labels, minlength=len(names))
    rows = np.sort(np.random.default_rng(seed).permutation(len(train.labels))[:most_images])
    models: list[Any] = [CommonestClass(counts.astype(np.float64), names)]
    if np.count_nonzero(counts) > 1:
        x, labels = train.thumbnails(rows), train.labels[rows]
        scale = Scale.of(x)
        models += [NearestMean.fit(scale(x), labels, scale=scale, n_classes=len(names))]
        models += LinearThumbnail.fit(scale(x), labels, scale=scale, n_classes=len(names))
    sampled = f"learnt from {len(rows):,} of {len(train.labels):,} training images, drawn at random"
    note = sampled if len(rows) < len(train.labels) else None
    found = {}
    for name, images in tests.items():
        x = images.thumbnails()
        figures = [image_figures(model(x), images.labels) for model in models]
        notes = [None, *[note] * (len(models) - 1)]
        found[name] = [Baseline(m.name, f, said) for m, f, said in zip(models, figures, notes, strict=True)]
    return found


def thumbnails(read: Reader, rows: Indices, *, side: int = _SIDE) -> Thumbnails:
    """Images as `side` × `side` means of colour, fewer where an image has fewer pixels: (n, 3 · side · side)."""
    parts: list[Thumbnails] = []
    done, step = 0, 1
    while done < len(rows):
        pixels = read(rows[done : done + step])
        done += step
        step = max(1, _PIXELS_AT_ONCE // pixels[0].size)
        parts.append(_pooled(pixels, side))
    return np.concatenate(parts) if parts else np.zeros((0, 3 * side * side), np.float32)


def _pooled(pixels: npt.NDArray[np.uint8], side: int) -> Thumbnails:
    means = pixels.astype(np.float32)
    for axis in (2, 3):
        n = means.shape[axis]
        edges = np.arange(min(side, n) + 1) * n // min(side, n)
        sizes = np.diff(edges).astype(np.float32).reshape([-1 if i == axis else 1 for i in range(4)])
        means = np.add.reduceat(means, edges[:-1], axis=axis) / sizes
    return means.reshape(len(means), -1)


@dataclass(frozen=True, eq=False)
class Scale:
    """The mean and the spread of each number of a thumbnail."""

    mean: Thumbnails
    spread: Thumbnails

    @classmethod
    def of(cls, x: Thumbnails) -> Scale:
        """Those of training thumbnails; what never changes is left as it is."""
        spread = x.std(0)
        return cls(x.mean(0), np.where(spread > 0, spread, 1).astype(np.float32))

    def __call__(self, x: Thumbnails) -> Thumbnails:
        """Thumbnails on that scale."""
        return (x - self.mean) / self.spread


@dataclass(frozen=True, eq=False)
class CommonestClass:
    """Scores every class by how common it is."""

    counts: Outputs
    names: Sequence[str]

    @property
    def name(self) -> str:
        """As a sentence says it."""
        return f"always saying {self.names[int(self.counts.argmax())]}"

    def __call__(self, x: Thumbnails) -> Outputs:
        """Scores (n, n_classes)."""
        return np.tile(self.counts, (len(x), 1))


@dataclass(frozen=True, eq=False)
class NearestMean:
    """Scores every class by how near its mean image is."""

    means: Outputs  # (n_classes, features); of a class without images nothing is near
    scale: Scale
    name: str = "the nearest mean image"

    @classmethod
    def fit(cls, x: Thumbnails, labels: Indices, *, scale: Scale, n_classes: int) -> NearestMean:
        """The mean of each class's thumbnails, which are on that scale already."""
        sums = np.zeros((n_classes, x.shape[1]))
        np.add.at(sums, labels, x)
        counts = np.bincount(labels, minlength=n_classes)[:, None]
        return cls(np.where(counts > 0, sums / np.maximum(counts, 1), np.inf), scale)

    def __call__(self, x: Thumbnails) -> Outputs:
        """Scores (n, n_classes): the square of the distance, negative."""
        scaled, known = self.scale(x).astype(np.float64), np.isfinite(self.means[:, 0])
        means = np.where(known[:, None], self.means, 0)
        scores = 2 * scaled @ means.T - np.square(means).sum(1) - np.square(scaled).sum(1)[:, None]
        return np.where(known, scores, -np.inf)


@dataclass(frozen=True, eq=False)
class LinearThumbnail:
    """Logistic regression of the thumbnail."""

    weights: Outputs  # (n_classes, features)
    bias: Outputs  # (n_classes,)
    scale: Scale
    name: str = "logistic regression of 8 × 8 thumbnails"

    @classmethod
    def fit(cls, x: Thumbnails, labels: Indices, *, scale: Scale, n_classes: int) -> list[LinearThumbnail]:
        """Learn from thumbnails on that scale; nothing where classes are too many for seconds."""
        from sklearn.linear_model import LogisticRegression
        from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

        present = np.unique(labels)
        iterations = min(_MOST_ITERATIONS, _MOST_WORK // (len(x) * len(present)))
        if iterations < _FEWEST_ITERATIONS or len(present) < 2:
            return []
        # Products this small are slower on several threads, many times so where cores are busy.
        with no_warnings(), threadpool_limits(1):  # stopped a little early it is a baseline all the same
            model = LogisticRegression(C=1 / (_PENALTY * len(x)), max_iter=iterations).fit(x, labels)
        weights, bias = np.zeros((n_classes, x.shape[1])), np.full(n_classes, -np.inf)
        two = len(present) == 2  # of two classes there are the weights of the second alone
        weights[present[two:]], bias[present[two:]] = model.coef_, model.intercept_
        bias[present[:two]] = 0
        return [cls(weights, bias, scale)]

    def __call__(self, x: Thumbnails) -> Outputs:
        """Scores (n, n_classes)."""
        scores: Outputs = self.scale(x).astype(np.float64) @ self.weights.T + self.bias
        return scores
