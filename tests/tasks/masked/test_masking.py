"""Masking: exact shares, nothing special touched, the same for the same (seed, epoch, example)."""

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.text.vocabulary import learn_tokenizer
from regard.errors import ShapeError, UsageError
from regard.tasks.masked.masking import UNUSED, Masking, word_beginnings

SPECIALS = (0, 1, 2, 3)
MASK = 4
V = 100


def masking(**options: Any) -> Masking:
    return Masking(**({"n_ids": V, "mask_id": MASK, "special_ids": SPECIALS} | options))


def rows(n: int, width: int, *, seed: int = 0, n_ids: int = V) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Framed rows of random lengths, some special tokens strewn in, padding behind."""
    random = np.random.default_rng(seed)
    ids = random.integers(5, n_ids, (n, width))
    ids[random.random((n, width)) < 0.05] = 1
    ids[:, 0] = 2
    lengths = random.integers(2, width + 1, n)
    ids[np.arange(n), lengths - 1] = 3
    ids[np.arange(width) >= lengths[:, None]] = 0
    return ids, lengths


def test_shares_are_those_of_the_paper() -> None:
    ids = np.random.default_rng(0).integers(5, V, (4000, 100))
    found = masking().apply(ids, np.full(4000, 100), examples=np.arange(4000), epoch=0)
    assert found.n_masked == 4000 * 15  # exactly
    there = np.take_along_axis(found.ids, found.places, 1)
    shares = {
        "mask": (there == MASK).mean(),
        "same": (there == found.labels).mean(),
        "other": ((there != MASK) & (there != found.labels)).mean(),
    }
    luck = 0.1 / 95  # a random piece that is the right one
    spread = 4 * np.sqrt(0.25 / found.n_masked)
    assert shares["mask"] == pytest.approx(0.8, abs=spread)
    assert shares["same"] == pytest.approx(0.1 + luck, abs=spread)
    assert shares["other"] == pytest.approx(0.1 - luck, abs=spread)
    drawn = there[(there != MASK) & (there != found.labels)]
    assert set(drawn.tolist()) == set(range(5, V))  # all ordinary pieces, and nothing else


def test_every_position_is_chosen_alike() -> None:
    n, width = 20_000, 20
    ids = np.full((n, width), 7)
    found = masking().apply(ids, np.full(n, width), examples=np.arange(n), epoch=3)
    counts = np.bincount(found.places.ravel(), minlength=width)
    assert counts.sum() == 3 * n
    assert np.abs(counts / n - 0.15).max() < 5 * np.sqrt(0.15 * 0.85 / n)
    # Pairs of positions as well: neighbours are together as often as any others.
    expected = n * 3 * 2 / (width * (width - 1))
    pairs = np.zeros((width, width))
    for i, j in ((0, 1), (0, 2), (1, 2)):
        np.add.at(pairs, (found.places[:, i], found.places[:, j]), 1)
    upper = pairs[np.triu_indices(width, 1)]
    assert np.abs(upper - expected).max() < 5 * np.sqrt(expected)


@given(
    n=st.integers(0, 12),
    width=st.integers(2, 40),
    seed=st.integers(0, 2**40),
    epoch=st.integers(0, 1000),
    share=st.sampled_from([0.05, 0.15, 0.5, 1.0]),
    whole=st.booleans(),
)
@settings(max_examples=150, deadline=None)
def test_structure(n: int, width: int, seed: int, epoch: int, share: float, whole: bool) -> None:
    ids, lengths = rows(n, width, seed=seed)
    before = ids.copy()
    begins = np.random.default_rng(seed).random(V) < 0.6 if whole else None
    rule = masking(seed=seed, share=share, begins_word=begins)
    found = rule.apply(ids, lengths, examples=np.arange(n) * 7, epoch=epoch)
    assert np.array_equal(ids, before)
    assert found.places.shape == found.labels.shape == (n, int(rule.counts(width)))
    for row, new, places, labels, length in zip(ids, found.ids, found.places, found.labels, lengths, strict=True):
        used = labels != UNUSED
        assert not (~used[:-1] & used[1:]).any()  # used slots come first
        assert (places[~used] == 0).all()
        at = places[used]
        assert (np.diff(at) > 0).all()
        assert (at < length).all()
        assert np.array_equal(labels[used], row[at])
        assert not np.isin(row[at], [*SPECIALS, MASK]).any()
        untouched = np.ones(width, bool)
        untouched[at] = False
        assert np.array_equal(new[untouched], row[untouched])
        assert not np.isin(new[at], SPECIALS).any()
        ordinary = int((~np.isin(row[:length], [*SPECIALS, MASK])).sum())
        wanted = min(ordinary, max(1, int(np.floor(ordinary * share + 0.5)))) if ordinary else 0
        assert len(at) <= wanted if whole else len(at) == wanted
        assert bool(len(at)) == bool(ordinary)


def test_the_same_whoever_shares_the_batch_and_anew_each_epoch() -> None:
    ids, lengths = rows(40, 30)
    numbers = np.arange(40) + 100
    for begins in (None, np.arange(V) % 2 == 0):
        rule = masking(seed=5, begins_word=begins)
        whole = rule.apply(ids, lengths, examples=numbers, epoch=2)
        for part in (slice(0, 1), slice(7, 9), slice(1, None, 3)):
            some = masking(seed=5, begins_word=begins).apply(ids[part], lengths[part], examples=numbers[part], epoch=2)
            for left, right in zip(some, whole, strict=True):
                assert np.array_equal(left, right[part])
        others = [
            rule.apply(ids, lengths, examples=numbers, epoch=3),
            rule.apply(ids, lengths, examples=numbers + 1, epoch=2),
            masking(seed=6, begins_word=begins).apply(ids, lengths, examples=numbers, epoch=2),
        ]
        for other in others:
            assert (other.places != whole.places)[whole.labels != UNUSED].mean() > 0.5


def test_padding_beyond_changes_nothing() -> None:
    ids, lengths = rows(10, 20)
    wider = np.pad(ids, ((0, 0), (0, 30)))
    narrow = masking().apply(ids, lengths, examples=np.arange(10), epoch=0)
    wide = masking().apply(wider, lengths, examples=np.arange(10), epoch=0)
    k = narrow.places.shape[1]
    assert np.array_equal(wide.ids[:, :20], narrow.ids)
    assert np.array_equal(wide.labels[:, :k], narrow.labels)
    assert (wide.labels[:, k:] == UNUSED).all()


def test_whole_words_are_hidden_together() -> None:
    begins = np.zeros(V, bool)
    begins[50:] = True
    random = np.random.default_rng(1)
    words = [[int(random.integers(50, V)), *random.integers(5, 50, n).tolist()] for n in random.integers(0, 4, 5000)]
    flat = [piece for word in words for piece in word][: 100 * 100]
    ids = np.array(flat).reshape(100, 100)
    found = masking(begins_word=begins).apply(ids, np.full(100, 100), examples=np.arange(100), epoch=0)
    for row, places, labels in zip(ids, found.places, found.labels, strict=True):
        hidden = set(places[labels != UNUSED].tolist())
        borders = [0, *(i for i in range(1, 100) if begins[row[i]]), 100]
        for first, end in pairwise(borders):
            assert len(hidden & set(range(first, end))) in (0, end - first)
    assert 14.5 < found.n_masked / 100 <= 15
    # Long words are hidden as often as short ones, but for the last that would have fitted.
    single = masking().apply(ids, np.full(100, 100), examples=np.arange(100), epoch=0)
    share = [begins[f.labels[f.labels != UNUSED]].mean() for f in (found, single)]
    assert share[0] == pytest.approx(share[1], abs=0.04)


def test_a_word_longer_than_the_share_is_hidden_in_part() -> None:
    begins = np.zeros(V, bool)
    found = masking(begins_word=begins).apply(np.full((1, 20), 9), np.array([20]), examples=np.array([0]), epoch=0)
    assert found.places.tolist() == [[0, 1, 2]]


def test_rows_without_ordinary_pieces_stay() -> None:
    ids = np.array([[2, 1, 3, 0], [2, 9, 3, 0]])
    found = masking().apply(ids, np.array([3, 3]), examples=np.arange(2), epoch=0)
    assert found.labels.tolist() == [[UNUSED], [9]]
    assert found.places.tolist() == [[0], [1]]
    assert np.array_equal(found.ids[0], ids[0])


def test_words_begin_where_a_space_does() -> None:
    tokenizer = learn_tokenizer(["the unlikely cats , unlike cattle"] * 3, "bpe", size=290, mask=True)
    begins = word_beginnings(tokenizer)
    ids = tokenizer.encode("unlikely cats , unseen")
    words = np.cumsum(begins[ids]) - 1
    assert words.tolist() == tokenizer.word_ids("unlikely cats , unseen")


def test_words_go_on_with_two_hashes() -> None:
    class WordPieces:
        def __len__(self) -> int:
            return 5

        def tokens(self, ids: Any) -> list[str]:
            return ["[PAD]", "un", "##like", "##ly", "##"]

    pieces: Any = WordPieces()
    assert word_beginnings(pieces).tolist() == [True, True, False, False, True]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"masked": 0.8, "random": 0.3}, "together at most 1"),
        ({"mask_id": V}, r"special ids \[100\] are not among the 100 ids"),
        ({"special_ids": range(V)}, "all 100 ids are special"),
        ({"begins_word": np.zeros(3, bool)}, r"begins_word has shape \(3,\)"),
    ],
)
def test_what_cannot_be(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        masking(**options)


def test_rows_that_do_not_fit() -> None:
    ids = np.full((2, 5), 9)
    with pytest.raises(ShapeError, match=r"rows \(2, 5\), lengths \(3,\)"):
        masking().apply(ids, np.ones(3), examples=np.arange(2), epoch=0)
    with pytest.raises(UsageError, match="ids from 9 to 100, there are 100"):
        masking().apply(np.array([[9, 100]]), np.array([2]), examples=np.arange(1), epoch=0)
