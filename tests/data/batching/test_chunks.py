"""A stream in pieces: given out when they are full, the rest at the end, and nothing read ahead."""

from regard.data.batching.chunks import chunks


def test_so_many_items_each_and_the_rest() -> None:
    assert list(chunks(range(7), 3)) == [[0, 1, 2], [3, 4, 5], [6]]
    assert list(chunks(range(6), 3)) == [[0, 1, 2], [3, 4, 5]]
    assert list(chunks([], 3)) == []


def test_sizes_count_instead_where_there_are_some() -> None:
    assert list(chunks(["ab", "c", "defg", "h", ""], 3, size=len)) == [["ab", "c"], ["defg"], ["h", ""]]


def test_nothing_is_read_before_it_is_needed() -> None:
    items = iter(range(10))
    assert next(chunks(items, 4)) == [0, 1, 2, 3]
    assert next(items) == 4
