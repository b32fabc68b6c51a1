"""What a classifier of texts has to beat."""

from pathlib import Path

import numpy as np
import pytest

from regard.data.text.grams import character_grams, gram_function, word_grams
from regard.errors import UsageError
from regard.tasks.labels import baselines as module
from regard.tasks.labels.baselines import LinearText, constant_label, label_baselines
from regard.tasks.labels.data import LabelData, LabelFiles

ANIMALS = ["the dog barks", "a dog runs", "one dog sleeps", "the cat purrs", "a cat jumps", "the dog eats"]
KINDS = [1, 1, 1, 0, 0, 1]


def test_words_and_pairs_of_words() -> None:
    assert word_grams("A dog, a 🐕") == ["a", "dog", ",", "a", "🐕", "a dog", "dog ,", ", a", "a 🐕"]
    assert character_grams("狗 跑") == ["狗", " ", "跑", "狗 ", " 跑", "狗 跑"]
    assert word_grams("") == character_grams("  ") == []


def test_texts_without_spaces_are_cut_by_characters() -> None:
    assert gram_function(["这是一个很长的句子没有空格的", "另一个也没有空格的句子在这里"]) is character_grams
    assert gram_function(["a short text", ""]) is word_grams
    assert gram_function(["3 May 1979"], fewest_words=5) is character_grams


def test_the_commonest_class_and_the_mean() -> None:
    commonest = constant_label(np.array([2, 0, 2, 1]), names=("a", "b", "c"))
    assert (commonest.label, commonest.name) == (2, "always saying c")
    assert constant_label(np.array([1, 0]), names=("a", "b")).label == 0  # equally common: the first
    assert constant_label(np.array([1.0, 4.0])).label == 2.5


def test_a_word_decides() -> None:
    found = label_baselines(
        ANIMALS, KINDS, {"test": (["my cat", "my dog", "cat cat", "no animal"], [0, 1, 0, 0])}, names=("cat", "dog")
    )["test"]
    assert [baseline.name for baseline in found] == ["always saying dog", "TF-IDF with logistic regression"]
    assert found[0].figures["accuracy"] == 0.25
    assert found[1].figures["accuracy"] == 0.75  # what it has not heard of is what is common
    assert found[0].note is found[1].note is None


def test_numbers_have_a_mean_and_a_slope() -> None:
    texts = [f"{'very ' * n}good" for n in range(8)] * 4
    truth = [float(n) for n in range(8)] * 4
    mean, ridge = label_baselines(texts, truth, {"valid": (texts, truth)})["valid"]
    assert mean.figures["rmse"] == pytest.approx(np.std(np.arange(8)))
    assert mean.figures["pearson"] == 0
    assert ridge.name == "TF-IDF with ridge regression"
    assert ridge.figures["spearman"] > 0.9


def test_pairs_are_judged_by_what_they_share() -> None:
    random = np.random.default_rng(0)
    words = [f"w{i}" for i in range(400)]
    pairs, labels = [], []
    for i in range(200):
        one, other = random.choice(words, 6, replace=False), random.choice(words, 6, replace=False)
        pairs.append((" ".join(one), " ".join(random.permutation(one) if i % 2 else other)))
        labels.append(i % 2)
    unseen = [("q r s t", "s t q r"), ("q r s t", "u v x y")]
    linear = label_baselines(pairs, labels, {"test": (unseen, [1, 0])}, names=("other", "same"))["test"][1]
    assert linear.figures["accuracy"] == 1  # of words never seen, the overlap alone can tell


def test_the_same_again_whatever_the_global_seed() -> None:
    tests = {"test": (["a dog", "some cat", "nothing"], [1, 0, 0])}
    first = label_baselines(ANIMALS * 5, KINDS * 5, tests, names=("cat", "dog"), most_texts=9)
    np.random.seed(1)
    assert first == label_baselines(ANIMALS * 5, KINDS * 5, tests, names=("cat", "dog"), most_texts=9)
    assert first["test"][1].note == "TF-IDF: learnt from 9 of 30 training texts, drawn at random"


def test_odd_texts() -> None:
    tests = {"test": (["", "🐕🐕", "word " * 10_000], [0, 1, 1])}
    texts = ["", "🐕", "🐈", "word " * 10_000, "\n", "\u200b"]
    found = label_baselines(texts, [0, 1, 0, 1, 0, 0], tests, names=("a", "b"))["test"]
    assert len(found) == 2
    assert found[1].figures["accuracy"] >= 2 / 3
    assert found[1].note == "TF-IDF: the first 4,000 characters of each text"


@pytest.mark.parametrize(
    ("texts", "labels"),
    [(["a", "b", "c"], [1, 1, 1]), (["a"], [0]), (["", " "], [0, 1])],
    ids=["one class", "one example", "nothing but empty texts"],
)
def test_nothing_to_learn_leaves_the_commonest_alone(texts: list[str], labels: list[int]) -> None:
    found = label_baselines(texts, labels, {"test": (["a", ""], [0, 1])}, names=("no", "yes"))["test"]
    assert len(found) == 1
    assert found[0].figures["accuracy"] == 0.5


def test_one_number_only() -> None:
    found = label_baselines(["a", "b"], [3.0, 3.0], {"test": (["a"], [1.0])})["test"]
    assert [baseline.figures["rmse"] for baseline in found] == [2.0]
    two = label_baselines(["a", "b"], [1.0, 3.0], {"test": (["a"], [1.0])})["test"]
    assert two[1].figures["rmse"] < 1


def test_labels_have_to_pair_up() -> None:
    with pytest.raises(UsageError, match="2 training texts and 1 labels do not pair up"):
        label_baselines(["a", "b"], [1], {}, names=("x", "y"))


def test_many_classes_learn_from_fewer_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_WORK", 600)
    texts = [f"thing{i % 10} stands here" for i in range(200)]
    linear = LinearText.fit(texts, np.arange(200) % 10, names=[str(i) for i in range(10)], seed=1)
    assert linear is not None
    assert linear.note is not None
    assert "learnt from 12 of 200" in linear.note  # 60 of 1000 grams can be afforded for ten classes


def test_long_texts_are_sampled_by_their_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_CHARACTERS", 1000)
    linear = LinearText.fit(["good " * 20, "bad  " * 20] * 50, np.arange(100) % 2, names=("a", "b"), seed=1)
    assert linear is not None
    assert linear.note == "TF-IDF: learnt from 10 of 100 training texts, drawn at random"


def test_trec(data_root: Path) -> None:
    sets = LabelFiles(LabelData(train=("trec",)), data_root).read()
    index = {name: i for i, name in enumerate(sets.space.names)}
    train, test = sets.train + sets.valid, sets.tests["test"]
    found = label_baselines(
        [e.text for e in train],
        [index[e.label] for e in train],
        {"test": ([e.text for e in test], [index[e.label] for e in test])},
        names=sets.space.names,
    )["test"]
    assert found[0].figures["accuracy"] == pytest.approx(0.188)
    assert found[1].figures["accuracy"] == pytest.approx(0.894, abs=0.004)
