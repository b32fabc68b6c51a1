"""What stands beside a score, and what is said where a model was not worth its training."""

import math

import pytest

from regard.errors import UsageError
from regard.metrics.scores import Metric
from regard.metrics.verdict import (
    Baseline,
    Once,
    check_class_counts,
    check_overfitting,
    check_warmup,
    figures_of,
    verdict,
)

LINEAR = "TF-IDF with logistic regression"
BESIDE = {"always saying HUM": 0.18, LINEAR: 0.894}


def accuracy(value: float, low: float | None = None, high: float | None = None) -> Metric:
    return Metric("accuracy", value, "n:500", low, high, digits=4)


def test_the_hardest_to_beat_stands_first() -> None:
    found = verdict(accuracy(0.912), BESIDE)
    assert found.beside == f"accuracy 0.912 beside 0.894 of {LINEAR}, 0.180 of always saying HUM"
    assert found.better
    assert found.lines() == [found.beside]


def test_the_whole_interval_has_to_be_better() -> None:
    assert verdict(accuracy(0.93, 0.90, 0.95), BESIDE).better
    unclear = verdict(accuracy(0.912, 0.887, 0.934), BESIDE, hints=["train.steps=4000", "regard train start=bert"])
    assert not unclear.better
    assert unclear.advice == (
        f"not clearly better than {LINEAR}, which takes seconds (0.894 is inside the model's interval, "
        "0.887 to 0.934); try train.steps=4000, or regard train start=bert"
    )
    worse = verdict(accuracy(0.7, 0.65, 0.75), BESIDE)
    assert worse.advice == (
        f"no better than {LINEAR}, which takes seconds (0.894 is beyond the model's interval, 0.650 to 0.750)"
    )


def test_without_an_interval_the_value_decides() -> None:
    assert verdict(accuracy(0.895), BESIDE).better
    equal = verdict(accuracy(0.894), BESIDE)
    assert equal.advice == f"no better than {LINEAR}, which takes seconds"
    assert not verdict(accuracy(math.nan), BESIDE).better


def test_less_is_better_of_errors() -> None:
    rate = Metric("WER", 12.0, "", 10.0, 14.0)
    assert verdict(rate, {"the commonest text": 90.0}).better
    found = verdict(rate, {"a": 13.0, "b": 90.0})
    assert found.beside == "WER 12.0 beside 13.0 of a, 90.0 of b"
    assert not found.better
    assert verdict(accuracy(0.3), {"a": 0.4}, less_is_better=True).better


def test_values_that_differ_do_not_read_the_same() -> None:
    assert verdict(accuracy(0.8944), {"a": 0.8940}).beside == "accuracy 0.8944 beside 0.8940 of a"
    assert verdict(accuracy(0.5), {"a": 0.5}).beside == "accuracy 0.500 beside 0.500 of a"


def test_nothing_beside() -> None:
    assert verdict(accuracy(0.5), {}).lines() == ["accuracy 0.500"]


def test_notes_are_said_once() -> None:
    found = verdict(accuracy(0.95), BESIDE, notes=["a sample", None, "a sample", "another"])
    assert found.lines()[1:] == ["a sample", "another"]


def test_one_figure_of_several_baselines() -> None:
    baselines = [Baseline("a", {"accuracy": 0.5, "f1": 0.1}), Baseline("b", {"accuracy": 0.6})]
    assert figures_of(baselines, "accuracy") == {"a": 0.5, "b": 0.6}
    assert figures_of(baselines, "f1") == {"a": 0.1}


def test_warm_up_longer_than_training() -> None:
    assert check_warmup(1000, 100) is check_warmup(100, 100) is check_warmup(1, 0) is None
    assert check_warmup(200, 1000) == (
        "training ends at step 200, and the learning rate reaches its peak at step 1,000 only; "
        "try train.warmup=20, or train.steps=10000"
    )


def test_rare_classes_are_named() -> None:
    assert check_class_counts({"a": 3, "b": 100}) is check_class_counts({}) is None
    assert check_class_counts({"a": 2, "b": 100}) == (
        "one class has fewer than 3 training examples: a (2); add some, or leave the class out"
    )
    many = check_class_counts({str(i): i % 3 for i in range(9)})
    assert many is not None
    assert many.startswith(
        "9 classes have fewer than 3 training examples: 0 (0), 3 (0), 6 (0), 1 (1), 4 (1) and 4 more"
    )


def test_learning_by_heart() -> None:
    train, valid = [2.0, 1.5, 1.0, 0.5, 0.2], [2.0, 1.6, 1.7, 1.8, 1.9]
    line = check_overfitting(train, valid, hints=["model.dropout=0.3"])
    assert line is not None
    assert line.startswith(
        "validation was best at evaluation 2 of 5 (1.6) and has got worse since (1.9), while training"
    )
    assert line.endswith("try model.dropout=0.3")
    assert check_overfitting([-x for x in train], [-x for x in valid], less_is_better=False) is not None


@pytest.mark.parametrize(
    ("train", "valid"),
    [
        ([], []),
        ([1.0], [1.0]),
        ([3.0, 2.0, 1.0, 0.5], [3.0, 2.0, 1.0, 0.9]),  # both get better
        ([3.0, 2.0, 2.0, 2.1, 2.2], [3.0, 2.0, 2.5, 2.6, 2.7]),  # both get worse: it diverges
        ([3.0, 2.0, 1.0], [3.0, 2.0, 2.5]),  # too early to say
        ([3.0, 2.0, 1.9, 1.8, 1.7], [3.0, 2.0, 2.01, 2.01, 2.01]),  # may be chance
        ([6.0, 5.0, 4.0, 3.5, 3.0], [3.5, 4.2, 4.0, 3.9, 3.6]),  # a rough start that is made good
    ],
)
def test_no_learning_by_heart(train: list[float], valid: list[float]) -> None:
    assert check_overfitting(train, valid) is None


def test_figures_have_to_pair_up() -> None:
    with pytest.raises(UsageError, match="2 training figures and 1 validation figures"):
        check_overfitting([1.0, 2.0], [1.0])


def test_once() -> None:
    said: list[str] = []
    once = Once(said.append)
    for line in ("a", None, "a", "b", "a"):
        once(line)
    assert said == ["a", "b"]
