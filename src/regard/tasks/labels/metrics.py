"""How good labels are, by the figures that GLUE reports (Wang et al., 2019), all that apply, with 95 % intervals.

    classes    accuracy · f1 (two classes: of the last one) · macro_f1 (mean over classes) · matthews
    numbers    pearson · spearman · rmse

Matthews' coefficient is that of Gorodkin (2004) for any number of classes; Spearman's is Pearson's of the ranks, equal
values sharing theirs. Where a figure is not defined (nothing predicted of a class, all values alike) it is 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.data.text.label_space import LabelSpace
from regard.data.text.labelled import Example
from regard.errors import UsageError
from regard.metrics.bootstrap import with_intervals
from regard.metrics.scores import Metric, Outputs, probabilities, ranks
from regard.tasks.labels.labeller import Labeller
from regard.tasks.measuring import Scores
from regard.tasks.templates import TemplatedRows, Text

Numbers = npt.NDArray[np.float64]


def text_of(example: Example) -> Text:
    """The text of an example, or both of its texts."""
    return example.text if example.pair is None else (example.text, example.pair)


def encoded(space: LabelSpace, examples: Sequence[Example]) -> Any:
    """The labels as a model learns them: numbers of classes (n,) int64, or numbers (n,) float32."""
    return np.array([space.encode(e.label) for e in examples], np.float32 if space.numeric else np.int64)


def label_figures(space: LabelSpace, outputs: Outputs, examples: Sequence[Example]) -> dict[str, float]:
    """All figures of a model's outputs (n, n_outputs) for labelled examples, by name."""
    return _figures(space, *truth_and_labels(space, outputs, examples))


def label_metrics(
    space: LabelSpace, outputs: Outputs, examples: Sequence[Example], *, seed: int = 1, resamples: int = 1000
) -> dict[str, Metric]:
    """The same with 95 % intervals."""
    truth, predicted = truth_and_labels(space, outputs, examples)
    return with_intervals(
        lambda drawn: _figures(space, truth[drawn], predicted[drawn]),
        len(truth),
        f"n:{len(truth)}",
        own={"f1": f"positive:{''.join(space.names[-1:])}|n:{len(truth)}"},
        digits=4,
        seed=seed,
        resamples=resamples,
    )


def score_labels(labeller: Labeller, examples: Sequence[Example], rows: TemplatedRows) -> Scores:
    """What a classifier makes of labelled examples, whose texts are framed in `rows`."""
    space, outputs = labeller.space, labeller.outputs(rows)
    truth, predicted = truth_and_labels(space, outputs, examples)
    return Scores(
        len(examples),
        "examples",
        lambda: label_metrics(space, outputs, examples),
        lambda drawn: _figures(space, truth[drawn], predicted[drawn]),
        [labeller.labelling(row).plain() for row in outputs],
    )


def truth_and_labels(space: LabelSpace, outputs: Outputs, examples: Sequence[Example]) -> tuple[Any, Any]:
    """True and predicted classes (n,), or numbers in their own units."""
    if space.numeric:
        return np.array([float(e.label) for e in examples]), space.mean + space.scale * outputs[:, 0]
    return encoded(space, examples), outputs.argmax(1)


def mean_loss(space: LabelSpace, outputs: Outputs, examples: Sequence[Example]) -> float:
    """The mean loss of an example, without smoothing."""
    targets = encoded(space, examples)
    if space.numeric:
        return float(np.mean((outputs[:, 0] - targets) ** 2))
    return float(-np.log(np.maximum(probabilities(outputs)[np.arange(len(targets)), targets], 1e-300)).mean())


def _figures(space: LabelSpace, truth: npt.ArrayLike, predicted: npt.ArrayLike) -> dict[str, float]:
    if space.numeric:
        return number_figures(truth, predicted)
    return class_figures(truth, predicted, n_classes=len(space.names))


def class_figures(truth: npt.ArrayLike, predicted: npt.ArrayLike, *, n_classes: int) -> dict[str, float]:
    """All figures of predicted classes, by name; classes are numbers from 0."""
    a, b = _paired(truth, predicted, np.int64)
    counts = np.bincount(a * n_classes + b, minlength=n_classes**2)
    # How often each class (row) was taken for each (column).
    confusion: Numbers = counts.reshape(n_classes, n_classes).astype(np.float64)
    # F1 of each class: 2 · hits / (times true + times predicted).
    by_class = 2 * np.diag(confusion) / np.maximum(confusion.sum(0) + confusion.sum(1), 1)
    figures = {"accuracy": float(np.trace(confusion) / confusion.sum()), "macro_f1": float(by_class.mean())}
    if n_classes == 2:
        figures["f1"] = float(by_class[1])
    return figures | {"matthews": _matthews(confusion)}


def number_figures(truth: npt.ArrayLike, predicted: npt.ArrayLike) -> dict[str, float]:
    """All figures of predicted numbers, by name."""
    a, b = _paired(truth, predicted, np.float64)
    return {
        "pearson": _pearson(a, b),
        "spearman": _pearson(ranks(a), ranks(b)),
        "rmse": float(np.sqrt(np.mean((a - b) ** 2))),
    }


def _paired(truth: npt.ArrayLike, predicted: npt.ArrayLike, dtype: Any) -> tuple[Any, Any]:
    a, b = np.asarray(truth, dtype), np.asarray(predicted, dtype)
    if a.ndim != 1 or a.shape != b.shape or not len(a):
        raise UsageError(f"{a.shape} true labels and {b.shape} predicted ones do not pair up; one each, at least one")
    return a, b


def _matthews(confusion: Numbers) -> float:
    true, said, n = confusion.sum(1), confusion.sum(0), confusion.sum()
    spread = (n**2 - said @ said) * (n**2 - true @ true)
    return float((np.trace(confusion) * n - true @ said) / np.sqrt(spread)) if spread > 0 else 0.0


def _pearson(a: Numbers, b: Numbers) -> float:
    a, b = a - a.mean(), b - b.mean()
    spread = float(np.sqrt(a @ a) * np.sqrt(b @ b))
    # All values alike leave rounding errors of about their size behind, not zeros.
    return float(a @ b) / spread if spread > 1e-300 and min(np.ptp(a), np.ptp(b)) > 0 else 0.0
