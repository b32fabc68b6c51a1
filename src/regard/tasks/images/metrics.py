"""How good classes of images are: accuracy, the share among the five likeliest, and each class by itself.

    accuracy · top 5 (of more than five classes) · macro f1 · accuracy of each class: the share of its images found

All with 95 % intervals from one bootstrap over images.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from regard.errors import UsageError
from regard.metrics.bootstrap import with_intervals
from regard.metrics.scores import Metric
from regard.tasks.images.classifier import ImageClassifier, outputs_of
from regard.tasks.images.data import ImageSet
from regard.tasks.measuring import Scores, one_line

Outputs = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]
_MANY = 100  # classes; of more, each by itself would be no table for people
_TOP = 5


def image_figures(outputs: Outputs, labels: Labels) -> dict[str, float]:
    """Accuracy, top 5 and macro F1 of scores (n, n_classes) for images of these classes (n,)."""
    return _Guesses(outputs, labels).figures(np.arange(len(labels)))


def image_metrics(
    outputs: Outputs, labels: Labels, names: tuple[str, ...], *, seed: int = 1, resamples: int = 1000
) -> dict[str, Metric]:
    """The same, and the accuracy of each class, with their intervals."""
    guesses, counts = _Guesses(outputs, labels), np.bincount(labels, minlength=outputs.shape[1])
    return with_intervals(
        lambda drawn: guesses.figures(drawn) | guesses.by_class(drawn, names),
        len(labels),
        f"n:{len(labels)}",
        own={f"accuracy of {name}": f"n:{count}" for name, count in zip(names, counts, strict=True)},
        digits=4,
        seed=seed,
        resamples=resamples,
    )


def score_images(classifier: ImageClassifier, images: ImageSet) -> Scores:
    """What a classifier makes of labelled images."""
    outputs = outputs_of(classifier, images)
    guesses = _Guesses(outputs, images.labels)
    return Scores(
        len(images),
        "images",
        lambda: image_metrics(outputs, images.labels, classifier.space.names),
        guesses.figures,
        [classifier.guess(row).plain() for row in outputs],
    )


def without_classes(metrics: Mapping[str, Metric]) -> list[str]:
    """What is said of all classes together, as a line."""
    return [one_line(metrics, [name for name in metrics if not name.startswith("accuracy of")])]


class _Guesses:
    """What was said about each image: the class, and whether the right one was among the likeliest."""

    def __init__(self, outputs: Outputs, labels: Labels) -> None:
        if outputs.ndim != 2 or outputs.shape[:1] != labels.shape or not len(labels):
            raise UsageError(f"scores {outputs.shape} and labels {labels.shape} do not pair up; one each, at least one")
        self.n_classes, self.labels = outputs.shape[1], labels
        self.guessed = outputs.argmax(1)
        own = outputs[np.arange(len(labels)), labels]
        self.place = (outputs > own[:, None]).sum(1)  # how many classes were said to be likelier

    def figures(self, drawn: npt.NDArray[np.int64]) -> dict[str, float]:
        truth, guessed = self.labels[drawn], self.guessed[drawn]
        hits = np.bincount(truth[truth == guessed], minlength=self.n_classes)
        both = np.bincount(truth, minlength=self.n_classes) + np.bincount(guessed, minlength=self.n_classes)
        figures = {"accuracy": float((truth == guessed).mean())}
        if self.n_classes > _TOP:
            figures["top 5"] = float((self.place[drawn] < _TOP).mean())
        return figures | {"macro f1": float((2 * hits / np.maximum(both, 1)).mean())}

    def by_class(self, drawn: npt.NDArray[np.int64], names: tuple[str, ...]) -> dict[str, float]:
        """The accuracy of every class; nothing where classes are many. A class without images has 0."""
        if len(names) > _MANY:
            return {}
        truth = self.labels[drawn]
        hits = np.bincount(truth[truth == self.guessed[drawn]], minlength=self.n_classes)
        shares = hits / np.maximum(np.bincount(truth, minlength=self.n_classes), 1)
        return {f"accuracy of {name}": float(share) for name, share in zip(names, shares, strict=True)}
