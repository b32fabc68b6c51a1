"""The cache: append, grow, reorder, truncate, and what it refuses."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from regard.attention import Cache, reorder_all
from regard.errors import ShapeError, UsageError


def pair(n_rows: int, n_positions: int) -> tuple[Tensor, Tensor]:
    return torch.randn(n_rows, 2, n_positions, 4), torch.randn(n_rows, 2, n_positions, 3)


@pytest.mark.parametrize("capacity", [1, 3, 64])
@pytest.mark.parametrize("chunks", [[1] * 9, [4, 5], [2, 1, 6], [9]])
def test_appended_pieces_are_the_whole(capacity: int, chunks: list[int]) -> None:
    keys, values = pair(3, 9)
    cache = Cache(capacity)
    for part_k, part_v in zip(keys.split(chunks, 2), values.split(chunks, 2), strict=True):
        held_k, held_v = cache.append(part_k, part_v)
        assert torch.equal(held_k, keys[:, :, : cache.length])
        assert torch.equal(held_v, values[:, :, : cache.length])
    assert cache.length == 9
    assert torch.equal(cache.keys, keys)
    assert torch.equal(cache.values, values)


def test_room_is_taken_once_and_grows_by_doubling() -> None:
    cache = Cache(4)
    first, _ = cache.append(*pair(1, 1))
    second, _ = cache.append(*pair(1, 3))
    assert first.data_ptr() == second.data_ptr()  # written in place, not copied
    third, _ = cache.append(*pair(1, 1))
    assert third.data_ptr() != first.data_ptr()
    assert cache.capacity == 8
    assert cache.append(*pair(1, 30))[0].shape[2] == 35
    assert cache.capacity == 35


def test_reorder_moves_repeats_and_drops_rows() -> None:
    keys, values = pair(3, 5)
    cache = Cache(8)
    cache.append(keys, values)
    cache.reorder(torch.tensor([2, 0, 0, 1]))
    assert torch.equal(cache.keys, keys[[2, 0, 0, 1]])
    assert torch.equal(cache.values, values[[2, 0, 0, 1]])
    more = pair(4, 1)
    assert torch.equal(cache.append(*more)[0], torch.cat((keys[[2, 0, 0, 1]], more[0]), 2))
    cache.reorder(torch.tensor([1]))
    assert torch.equal(cache.values, torch.cat((values[:1], more[1][1:2]), 2))


def test_repeated_rows_go_their_own_ways() -> None:
    cache = Cache(8)
    cache.append(*pair(1, 2))
    cache.reorder(torch.tensor([0, 0]))
    keys, values = pair(2, 1)
    cache.append(keys, values)
    assert torch.equal(cache.keys[:, :, 2:], keys)
    assert torch.equal(cache.keys[0, :, :2], cache.keys[1, :, :2])


def test_rows_fold_into_one_with_their_positions_side_by_side() -> None:
    keys, values = pair(6, 2)
    cache = Cache(5)
    cache.append(keys, values)
    cache.fold(3)
    assert (cache.length, cache.capacity) == (6, 15)
    for position in range(2):
        for row in range(6):
            place = position * 3 + row % 3
            assert torch.equal(cache.keys[row // 3, :, place], keys[row, :, position])
            assert torch.equal(cache.values[row // 3, :, place], values[row, :, position])
    more = pair(2, 3)
    assert torch.equal(cache.append(*more)[1][:, :, 6:], more[1])


def test_any_position_of_any_row_can_be_taken() -> None:
    keys, values = pair(2, 4)
    cache = Cache(4)
    cache.append(keys, values)
    places, rows = torch.tensor([[3, 0, 1], [2, 0, 3]]), torch.tensor([1, 0, 1])
    cache.take(places, rows)
    assert (cache.length, cache.capacity) == (2, 4)
    for row in range(3):
        for position in range(2):
            assert torch.equal(cache.keys[row, :, position], keys[rows[row], :, places[position, row]])
            assert torch.equal(cache.values[row, :, position], values[rows[row], :, places[position, row]])
    more = pair(3, 1)
    assert torch.equal(cache.append(*more)[0][:, :, 2:], more[0])


def test_truncate_forgets_the_end() -> None:
    keys, values = pair(2, 6)
    cache = Cache(8)
    cache.append(keys, values)
    cache.truncate(4)
    assert cache.length == 4
    assert torch.equal(cache.keys, keys[:, :, :4])
    more = pair(2, 1)
    held_k, held_v = cache.append(*more)
    assert torch.equal(held_k, torch.cat((keys[:, :, :4], more[0]), 2))
    assert torch.equal(held_v, torch.cat((values[:, :, :4], more[1]), 2))
    with pytest.raises(UsageError, match="5 positions cannot be cut to 6"):
        cache.truncate(6)
    with pytest.raises(UsageError, match="5 positions cannot be cut to -1"):
        cache.truncate(-1)


def test_a_filled_cache_holds_what_it_was_given() -> None:
    keys, values = pair(2, 3)
    cache = Cache.filled(keys, values)
    assert cache.length == 3
    assert torch.equal(cache.keys, keys)
    assert torch.equal(cache.values, values)
    cache.reorder(torch.tensor([1, 0]))
    assert torch.equal(cache.keys, keys[[1, 0]])


def test_writing_behind_a_filled_cache_leaves_what_it_was_given_alone() -> None:
    keys, values = pair(2, 3)
    cache, before = Cache.filled(keys, values), keys.clone()
    cache.truncate(1)
    cache.append(*pair(2, 1))
    assert torch.equal(keys, before)


def lent(n_rows: int, n_positions: int) -> tuple[Tensor, Tensor]:
    """A pair whose memory lies as that of a cache, so that it can be used without a copy."""
    keys, values = torch.randn(n_positions, n_rows, 2, 4), torch.randn(n_positions, n_rows, 2, 3)
    return keys.permute(1, 2, 0, 3), values.permute(1, 2, 0, 3)


def test_lent_tensors_are_read_without_a_copy_and_never_written() -> None:
    given = lent(2, 3)
    keys, values = (tensor.clone() for tensor in given)
    cut = Cache.filled(*given)
    assert cut.keys.data_ptr() == given[0].data_ptr()
    cut.truncate(1)
    more = pair(2, 1)
    assert torch.equal(cut.append(*more)[0], torch.cat((keys[:, :, :1], more[0]), 2))
    swapped = Cache.filled(*given)
    for order in ([1, 0], [1, 1], [0, 0]):  # from the second on, room that was left is used again
        swapped.reorder(torch.tensor(order))
    assert torch.equal(swapped.keys, keys[[0, 0]])
    assert torch.equal(swapped.values, values[[0, 0]])
    assert torch.equal(given[0], keys)
    assert torch.equal(given[1], values)


def test_a_cache_may_forget_everything() -> None:
    cache = Cache(4)
    cache.append(*pair(2, 3))
    cache.truncate(0)
    assert (cache.length, cache.keys.shape[2], cache.values.shape[2]) == (0, 0, 0)
    keys, values = pair(2, 2)
    assert torch.equal(cache.append(keys, values)[0], keys)
    assert torch.equal(cache.values, values)


def test_every_layer_has_its_own_cache_and_is_reordered_alike() -> None:
    caches = [Cache(5) for _ in range(3)]
    assert len({id(cache) for cache in caches}) == 3
    assert [cache.capacity for cache in caches] == [5, 5, 5]
    held = [cache.append(*pair(2, 2))[0].clone() for cache in caches[:2]]
    reorder_all(caches, torch.tensor([1, 1]))  # the third is empty still
    for cache, keys in zip(caches[:2], held, strict=True):
        assert torch.equal(cache.keys, keys[[1, 1]])


def test_what_a_cache_refuses() -> None:
    with pytest.raises(UsageError, match="at least one position, not 0"):
        Cache(0)
    with pytest.raises(UsageError, match="still empty"):
        _ = Cache(4).keys
    with pytest.raises(UsageError, match="still empty"):
        _ = Cache(4).values
    cache = Cache(4)
    cache.append(*pair(2, 1))
    with pytest.raises(ShapeError, match="2 rows cannot take 3 rows"):
        cache.append(*pair(3, 1))
