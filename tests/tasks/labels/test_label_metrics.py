"""Figures of labels equal scikit-learn's and scipy's; intervals hold what they should and repeat."""

import numpy as np
import pytest
from scipy import stats
from sklearn import metrics as peers

from regard.data.text.label_space import LabelSpace
from regard.data.text.labelled import Example
from regard.errors import UsageError
from regard.metrics.bootstrap import bootstrap
from regard.tasks.labels.metrics import class_figures, label_metrics, number_figures


@pytest.mark.parametrize("n_classes", [2, 3, 7])
@pytest.mark.parametrize("right", [0.0, 0.5, 1.0])
def test_classes_as_scikit_learn_counts_them(n_classes: int, right: float) -> None:
    random = np.random.default_rng(n_classes)
    truth = random.integers(n_classes, size=200)
    said = np.where(random.random(200) < right, truth, random.integers(n_classes, size=200))
    found = class_figures(truth, said, n_classes=n_classes)
    labels = list(range(n_classes))
    assert found["accuracy"] == pytest.approx(peers.accuracy_score(truth, said))
    assert found["matthews"] == pytest.approx(peers.matthews_corrcoef(truth, said))
    assert found["macro_f1"] == pytest.approx(peers.f1_score(truth, said, labels=labels, average="macro"))
    assert ("f1" in found) is (n_classes == 2)
    if n_classes == 2:
        assert found["f1"] == pytest.approx(peers.f1_score(truth, said))


def test_nothing_of_a_class() -> None:
    truth, said = [0, 1, 1, 0], [0, 0, 0, 0]
    found = class_figures(truth, said, n_classes=3)
    assert found["matthews"] == peers.matthews_corrcoef(truth, said) == 0
    assert found["macro_f1"] == pytest.approx(
        peers.f1_score(truth, said, labels=[0, 1, 2], average="macro", zero_division=0)
    )


def test_numbers_as_scipy_counts_them() -> None:
    random = np.random.default_rng(0)
    truth = np.round(random.random(300) * 5, 1)  # with ties
    said = truth + random.normal(size=300)
    found = number_figures(truth, np.round(said))
    assert found["pearson"] == pytest.approx(stats.pearsonr(truth, np.round(said)).statistic)
    assert found["spearman"] == pytest.approx(stats.spearmanr(truth, np.round(said)).statistic)
    assert found["rmse"] == pytest.approx(peers.root_mean_squared_error(truth, np.round(said)))


def test_a_constant_correlates_with_nothing() -> None:
    found = number_figures([0.1] * 7, [1, 2, 3, 4, 5, 6, 7])
    assert (found["pearson"], found["spearman"]) == (0, 0)


def test_an_interval_of_a_mean_is_the_one_of_the_books() -> None:
    values = np.random.default_rng(0).normal(3, 2, size=400)
    low, high = bootstrap(lambda drawn: values[drawn].mean(), 400, resamples=4000)
    reach = 1.96 * values.std() / np.sqrt(400)
    assert [low, high] == pytest.approx([values.mean() - reach, values.mean() + reach], abs=0.04 * reach)
    low, high = bootstrap(lambda drawn: values[drawn].mean(), 400, resamples=4000, level=0.5)
    assert high - low == pytest.approx(2 * 0.674 * values.std() / np.sqrt(400), rel=0.05)


def test_intervals_repeat_and_hold_their_figure() -> None:
    random = np.random.default_rng(0)
    truth, said = random.normal(size=50), random.normal(size=50)
    examples = [Example("", None, str(value), 1) for value in truth]
    one, again, other = (label_metrics(LabelSpace(), said[:, None], examples, seed=seed) for seed in (1, 1, 2))
    assert one == again
    assert one["pearson"].low != other["pearson"].low
    assert all(m.low is not None and m.high is not None and m.low < m.value < m.high for m in one.values())
    assert one["pearson"].signature == "n:50|ci:95%|bootstrap:1000|seed:1"


def test_the_positive_class_is_told() -> None:
    examples = [Example("", None, label, 1) for label in ("bad", "good", "good")]
    found = label_metrics(LabelSpace(("bad", "good")), np.eye(2)[[0, 1, 0]], examples)
    assert found["f1"].signature == "positive:good|n:3|ci:95%|bootstrap:1000|seed:1"
    assert found["f1"].value == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    "call",
    [
        lambda: class_figures([], [], n_classes=2),
        lambda: class_figures([1], [1, 0], n_classes=2),
        lambda: number_figures([[1.0]], [[1.0]]),
    ],
)
def test_what_does_not_pair_up(call) -> None:
    with pytest.raises(UsageError, match="do not pair up; one each, at least one"):
        call()


def test_bootstrap_refuses_nonsense() -> None:
    with pytest.raises(UsageError, match="1000 resamples of 0 examples cannot be drawn"):
        bootstrap(lambda drawn: drawn.mean(), 0)
    with pytest.raises(UsageError, match="an interval's level is between 0 and 1, not 95"):
        bootstrap(lambda drawn: drawn.mean(), 3, level=95)
