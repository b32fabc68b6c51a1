"""The lexical table: expectation–maximisation as worked by hand, and what becomes of it."""

import numpy as np
import pytest

from regard.data.batching.ragged import Ragged
from regard.tasks.translation.lexical_table import learn_lexical_table

DAS, HAUS, BUCH, EIN = range(4)
THE, HOUSE, BOOK, A = range(4)
SOURCES = [[DAS, HAUS], [DAS, BUCH], [EIN, BUCH]]
TARGETS = [[THE, HOUSE], [THE, BOOK], [A, BOOK]]


def table(n_iterations, sources=SOURCES, targets=TARGETS):
    return learn_lexical_table(Ragged.of(sources), Ragged.of(targets), n_iterations=n_iterations)


def dense(learnt):
    found = np.zeros((4, 4))
    found[learnt.sources, learnt.targets] = learnt.probabilities
    return found


def test_two_rounds_by_hand():
    first = [[1 / 2, 1 / 4, 1 / 4, 0], [1 / 2, 1 / 2, 0, 0], [1 / 4, 0, 1 / 2, 1 / 4], [0, 0, 1 / 2, 1 / 2]]
    np.testing.assert_allclose(dense(table(1)), first, rtol=1e-14)
    # "house" of the first pair: das 1/4 against Haus 1/2, so 1/3 and 2/3; and so on.
    second = [[7 / 11, 2 / 11, 2 / 11, 0], [3 / 7, 4 / 7, 0, 0], [2 / 11, 0, 7 / 11, 2 / 11], [0, 0, 3 / 7, 4 / 7]]
    np.testing.assert_allclose(dense(table(2)), second, rtol=1e-14)


def test_the_right_translations_win_in_the_end():
    assert dense(table(60)).argmax(1).tolist() == [THE, HOUSE, BOOK, A]
    assert dense(table(60)).max(1).min() > 0.95


def test_the_best_come_first_and_nothing_fills_up():
    best = table(2).best(3, n_source=6)
    assert best.tolist() == [
        [THE, HOUSE, BOOK],  # house and book are equally likely: the smaller id
        [HOUSE, THE, -1],
        [BOOK, THE, A],
        [A, BOOK, -1],
        [-1, -1, -1],  # never seen
        [-1, -1, -1],
    ]
    assert table(2).best(1, n_source=4).tolist() == [[THE], [HOUSE], [BOOK], [A]]


def test_sides_without_tokens_link_nothing():
    same = table(3, [[DAS], *SOURCES, []], [[], *TARGETS, [A, A, A]])
    np.testing.assert_array_equal(dense(same), dense(table(3)))


@pytest.mark.parametrize("seed", range(3))
def test_what_a_source_token_becomes_sums_to_one_whatever_the_pairs(seed):
    random = np.random.default_rng(seed)
    sides = [[random.integers(0, 4, random.integers(1, 6)) for _ in range(20)] for _ in range(2)]
    found = dense(table(4, *sides))
    np.testing.assert_allclose(found.sum(1), 1, rtol=1e-12)
    # The textbook, sentence by sentence.
    t = np.ones((4, 4))
    for _ in range(4):
        counts = np.zeros((4, 4))
        for source, target in zip(*sides, strict=True):
            for f in target:
                np.add.at(counts[:, f], source, t[source, f] / t[source, f].sum())
        t = counts / counts.sum(1, keepdims=True)
    np.testing.assert_allclose(found, t, rtol=1e-10, atol=1e-15)
