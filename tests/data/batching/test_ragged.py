"""Sequences end to end do what lists of lists do."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.batching.hashing import below, happens, hashed, text_hash, varied
from regard.data.batching.ragged import Ragged, Shelf

LISTS = st.lists(st.lists(st.integers(0, 60_000), max_size=6), max_size=7)


def listed(rows: Ragged) -> list[list[int]]:
    assert len(rows.ids) == rows.lengths.sum()
    return [row.tolist() for row in rows]


@settings(max_examples=100, deadline=None)
@given(lists=LISTS, first=st.none() | st.integers(0, 70_000), last=st.none() | st.integers(0, 70_000))
def test_marks_stand_around_every_sequence(lists: list[list[int]], first: int | None, last: int | None) -> None:
    before, behind = [first] if first is not None else [], [last] if last is not None else []
    rows = Ragged.of([np.array(ids, np.uint16) for ids in lists])  # a mark may be larger than the type of the ids
    assert listed(rows) == listed(Ragged.of(lists)) == lists
    assert listed(rows.marked(first=first, last=last)) == [[*before, *ids, *behind] for ids in lists]
    assert rows.places.tolist() == [place for ids in lists for place in range(len(ids))]


@settings(max_examples=100, deadline=None)
@given(data=st.data(), lists=LISTS, other=LISTS)
def test_rows_are_taken_and_chosen(data: st.DataObject, lists: list[list[int]], other: list[list[int]]) -> None:
    n = min(len(lists), len(other))
    one, two = Ragged.of(lists[:n]), Ragged.of(other[:n])
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)), np.bool_)
    chosen = [a if here else b for a, b, here in zip(lists, other, mask.tolist(), strict=False)]
    assert listed(one.where(mask, two)) == chosen
    assert listed(one.take(mask)) == [ids for ids, here in zip(lists, mask.tolist(), strict=False) if here]
    assert listed(one.take(slice(1, None, 2))) == lists[:n][1::2]
    some = data.draw(st.lists(st.integers(0, n - 1), max_size=9)) if n else []
    assert listed(one.take(np.array(some, np.int64))) == [lists[i] for i in some]


def test_what_is_ragged_stays_as_it_is() -> None:
    rows = Ragged.of([[1], [2, 3]])
    assert Ragged.of(rows) is rows
    assert len(Ragged.of([])) == 0


@settings(max_examples=50, deadline=None)
@given(kept=st.dictionaries(st.integers(0, 5000), st.lists(st.integers(0, 9), max_size=600), max_size=8))
def test_a_shelf_gives_back_what_was_put(kept: dict[int, list[int]]) -> None:
    shelf, numbers = Shelf(), list(kept)
    for part in (numbers[::2], numbers[1::2], numbers[:2]):  # the last ones a second time
        shelf.put(np.array(part, np.int64), Ragged.of([kept[i] for i in part]))
    assert listed(shelf.take(np.array(numbers[::-1], np.int64))) == [kept[i] for i in numbers[::-1]]
    asked = np.arange(6000)
    assert np.flatnonzero(shelf.has(asked)).tolist() == sorted(kept)


def test_hashes_follow_from_their_parts_alone() -> None:
    many = hashed(7, np.arange(1000)[:, None], np.arange(3))
    assert len(np.unique(many)) == 3000
    assert int(hashed(7, 5, 2)[0]) == int(many[5, 2]) != int(hashed(7, 2, 5)[0])
    assert int(varied(hashed(7, 5), np.uint64(2))[0]) == int(many[5, 2])
    assert int(hashed(-1)[0]) == int(hashed(2**64 - 1)[0])
    assert text_hash("Hündin") == text_hash("Hündin") != text_hash("Hund")


def test_hashes_are_even() -> None:
    hashes = hashed(np.arange(32_000))
    counts = np.bincount(below(hashes, 32), minlength=32)
    assert len(counts) == 32
    assert np.abs(counts - 1000).max() < 150  # almost five deviations
    assert happens(hashes, 0.1).mean() == pytest.approx(0.1, abs=0.01)
    assert not happens(hashes, 0.0).any()
    assert happens(hashes, 1.0).all()
