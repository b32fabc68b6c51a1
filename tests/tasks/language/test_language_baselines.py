"""What a language model has to beat: an n-gram model, by hand, against plain dictionaries, and on real text."""

import gzip
import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from regard.data.text.streams import Extent
from regard.errors import UsageError
from regard.tasks.language import baselines as module
from regard.tasks.language.baselines import NGram, language_baselines, order_for, stretches

A, B, C = 0, 1, 2


def test_two_letters_by_hand() -> None:
    model = NGram.fit(np.array([A, B, A, B, A]), n_vocabulary=3, order=2)
    # a and b follow one letter each: (1 − ½) / 2 of their own, and half of the mass for all three alike.
    unigram = [1 / 4 + 1 / 6, 1 / 4 + 1 / 6, 1 / 6]
    # after a, twice b: (2 − ¾) / 2 of its own, and ¾ / 2 for all.
    after_a = [3 / 8 * unigram[0], 5 / 8 + 3 / 8 * unigram[1], 3 / 8 * unigram[2]]
    assert model.distribution([]) == pytest.approx(unigram)
    assert model.distribution([A]) == pytest.approx(after_a)
    assert model.distribution([C]) == pytest.approx(unigram)  # nothing ever followed c
    found = model.log_probabilities(np.array([C, A, B, C]))
    assert found == pytest.approx(np.log([unigram[0], after_a[1], model.distribution([B])[C]]))


def test_probabilities_sum_to_one() -> None:
    random = np.random.default_rng(3)
    model = NGram.fit(random.zipf(1.5, 4000) % 20, n_vocabulary=23, order=4)
    contexts = [[], [22], [1], [1, 22], *random.integers(0, 23, (20, 3)).tolist(), *[[1, 1, 1], [1, 2, 1]]]
    for context in contexts:
        distribution = model.distribution(context)
        assert distribution.sum() == pytest.approx(1, abs=1e-12)
        assert (distribution > 0).all()


def test_the_same_as_counting_in_dictionaries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_AT_ONCE", 7)  # pieces have to know what stood before them
    random = np.random.default_rng(5)
    train, valid = random.zipf(1.6, 3000) % 12, random.zipf(1.6, 200) % 15
    model = NGram.fit(train, n_vocabulary=15, order=3)
    expected = [plain_probability(train.tolist(), valid[: i + 1].tolist()[-3:], n_vocabulary=15) for i in range(1, 200)]
    assert model.log_probabilities(valid) == pytest.approx(np.log(expected))


def plain_probability(train: list[int], run: list[int], *, n_vocabulary: int, order: int = 3) -> float:
    """The same by definition: the last token of a run, given those before it."""
    p = 1 / n_vocabulary
    for length in range(1, len(run) + 1):
        runs = Counter(tuple(train[i : i + length]) for i in range(len(train) - length + 1))
        if length < order:
            longer = {tuple(train[i : i + length + 1]) for i in range(len(train) - length)}
            runs = Counter(some[1:] for some in longer)
        n = [sum(count == k for count in runs.values()) for k in range(5)]
        y = n[1] / (n[1] + 2 * n[2]) if all(n[1:]) else 0
        d = [0.0] + [k - (k + 1) * y * n[k + 1] / n[k] for k in (1, 2, 3)] if y else [0.0, 0.5, 0.75, 0.75]
        d = [0.0] + [min(max(d[k], 0.1), top) for k, top in ((1, 0.95), (2, 1.9), (3, 2.9))]
        context = tuple(run[-length:-1])
        after = {some: count for some, count in runs.items() if some[:-1] == context}
        if after:
            total, own = sum(after.values()), after.get(tuple(run[-length:]), 0)
            p = (own - d[min(own, 3)] + sum(d[min(count, 3)] for count in after.values()) * p) / total
    return p


def test_figures_are_those_of_a_model_on_the_same_stream() -> None:
    train, valid = np.array([A, B, A, B, A], np.uint16), np.array([A, B, A], np.uint16)
    extent = Extent(documents=1, characters=6, bytes=12, words=3)
    found = language_baselines(train, valid, n_vocabulary=3, extent=extent, before=[C], order=2)[0]
    model = NGram.fit(train, n_vocabulary=3, order=2)
    nll = -model.log_probabilities(np.array([C, A, B, A])).sum()
    assert found.name == "counting 2-grams (Kneser–Ney)"
    assert found.note is None
    assert found.figures["loss"] == pytest.approx(nll / 3)
    assert found.figures["perplexity"] == pytest.approx(math.exp(nll / 3))
    assert found.figures["bits_per_character"] == pytest.approx(nll / math.log(2) / 6)
    without = language_baselines(train, valid, n_vocabulary=3, extent=extent, order=2)[0]
    assert without.figures["loss"] == pytest.approx(-model.log_probabilities(valid).mean())


def test_what_is_too_long_is_read_in_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    ids = np.arange(1000)
    parts = list(stretches(ids, 200))
    assert len(parts) == 100
    assert {len(part) for part in parts} == {2}
    assert (parts[0][0], parts[-1][-1]) == (0, 999)
    assert list(map(len, stretches(ids, 1000))) == [1000]
    monkeypatch.setattr(module, "MOST_TRAIN", 500)
    monkeypatch.setattr(module, "MOST_VALID", 300)
    found = language_baselines(ids % 7, ids % 7, n_vocabulary=7, extent=Extent(1, 999, 999, 1))[0]
    assert found.note == "5-grams: counted in 500 of 1,000 training tokens, measured on 200 of 999 validation tokens"
    assert found.figures["bits_per_character"] == pytest.approx(found.figures["loss"] / math.log(2))


def test_characters_have_longer_runs_than_words() -> None:
    assert (order_for(65), order_for(256), order_for(10_000)) == (5, 5, 3)


@pytest.mark.parametrize("train", [[0], [0, 0], [1] * 50], ids=["one token", "two", "one kind"])
def test_little_text(train: list[int]) -> None:
    model = NGram.fit(np.array(train), n_vocabulary=2, order=5)
    for context in ([], [0], [1, 1, 1, 1, 1, 1]):
        assert model.distribution(context).sum() == pytest.approx(1)
    assert model.log_probabilities(np.array([1])).shape == (0,)


def test_bad_input() -> None:
    with pytest.raises(UsageError, match="ids run from 0 to 3; allowed is 0 to 2"):
        NGram.fit(np.array([0, 3]), n_vocabulary=3, order=2)
    with pytest.raises(UsageError, match="runs of 2 in 0 tokens cannot be counted"):
        NGram.fit(np.array([], np.int64), n_vocabulary=3, order=2)
    with pytest.raises(UsageError, match="1 validation tokens leave nothing to predict"):
        language_baselines(np.array([0, 1]), np.array([0]), n_vocabulary=3, extent=Extent())


def test_shakespeare(data_root: Path) -> None:
    text = gzip.decompress((data_root / "tinyshakespeare" / "input.txt.gz").read_bytes()).decode()
    letters = {letter: i for i, letter in enumerate(sorted(set(text)))}
    ids = np.array([letters[letter] for letter in text], np.uint16)
    n = len(ids) * 9 // 10
    extent = Extent(1, len(ids) - n - 1, len(ids) - n - 1, 1)
    found = language_baselines(ids[:n], ids[n:], n_vocabulary=len(letters), extent=extent)[0]
    assert found.figures["loss"] == pytest.approx(1.561, abs=0.002)
    assert found.figures["bits_per_character"] == pytest.approx(1.561 / math.log(2), abs=0.003)
