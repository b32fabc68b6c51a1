"""Figures of told classes, against scikit-learn's."""

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, f1_score, recall_score, top_k_accuracy_score

from regard.errors import UsageError
from regard.tasks.images.metrics import image_figures, image_metrics


def said(n=300, classes=7, seed=0):
    chance = np.random.default_rng(seed)
    labels = chance.integers(0, classes, n)
    return chance.normal(size=(n, classes)) + 2 * np.eye(classes)[labels], labels


def test_figures_are_scikit_learns():
    outputs, labels = said()
    found, best = image_figures(outputs, labels), outputs.argmax(1)
    assert found == pytest.approx(
        {
            "accuracy": accuracy_score(labels, best),
            "top 5": top_k_accuracy_score(labels, outputs, k=5),
            "macro f1": f1_score(labels, best, average="macro"),
        }
    )
    assert "top 5" not in image_figures(*said(classes=5))


def test_each_class_has_its_share_and_interval():
    outputs, labels = said()
    names = tuple("abcdefg")
    found = image_metrics(outputs, labels, names, resamples=200)
    shares = recall_score(labels, outputs.argmax(1), average=None)
    for name, share, n in zip(names, shares, np.bincount(labels), strict=True):
        metric = found[f"accuracy of {name}"]
        assert metric.value == pytest.approx(share)
        assert metric.signature.startswith(f"n:{n}|ci:95%|bootstrap:200")
        assert metric.low < metric.value < metric.high
    assert found["accuracy"].low < found["accuracy"].value < found["accuracy"].high
    again = image_metrics(outputs, labels, names, resamples=200)
    assert [m.record() for m in again.values()] == [m.record() for m in found.values()]


def test_many_classes_are_not_listed_and_none_are_refused():
    outputs, labels = said(400, 120)
    assert set(image_metrics(outputs, labels, tuple(map(str, range(120))), resamples=5)) == {
        "accuracy",
        "top 5",
        "macro f1",
    }
    with pytest.raises(UsageError, match="do not pair up"):
        image_figures(np.zeros((0, 3)), np.zeros(0, np.int64))
