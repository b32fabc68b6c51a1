"""A cache with its heads first in memory holds what the other one holds, whatever is done to it."""

import pytest
import torch

from regard.attention import Cache
from regard.errors import ShapeError, UsageError
from regard.fast.cpu.head_cache import HalfHeadCache, HeadCache


def both(kind=HeadCache, *, capacity=4, n_rows=6):
    """The same contents in both: whole numbers, which bfloat16 holds exactly."""
    caches = kind(capacity), Cache(capacity)
    draw = torch.Generator().manual_seed(0)
    for n in (1, 2, 3):
        keys, values = (torch.randint(-99, 99, (n_rows, 2, n, 5), generator=draw).float() for _ in range(2))
        for cache in caches:
            cache.append(keys, values)
    return caches


def alike(one, other):
    assert one.length == other.length
    assert torch.equal(one.keys, other.keys)
    assert torch.equal(one.values, other.values)
    assert one.keys.dtype == torch.float32


def append(caches, n_rows, n=1):
    new = torch.randint(-99, 99, (n_rows, 2, n, 5)).float()
    for cache in caches:
        cache.append(new, new + 1)


@pytest.mark.parametrize("kind", [HeadCache, HalfHeadCache])
def test_everything_that_is_done_to_a_cache(kind):
    caches = both(kind)
    alike(*caches)
    for rows in (torch.tensor([5, 5, 0, 1, 2, 3]), torch.tensor([3, 1]), torch.tensor([0, 0, 1, 1])):
        for cache in caches:
            cache.reorder(rows)
        append(caches, len(rows))
        alike(*caches)
    for cache in caches:
        cache.truncate(3)
        cache.fold(2)
    append(caches, 2, 2)
    alike(*caches)
    places = torch.tensor([[0, 7], [2, 1], [7, 3]])
    for cache in caches:
        cache.take(places, torch.tensor([1, 0]))
    append(caches, 2, 9)
    alike(*caches)


@pytest.mark.parametrize("kind", [HeadCache, HalfHeadCache])
def test_a_filled_one_is_read_and_never_written(kind):
    keys, values = torch.ones(2, 3, 4, 5), torch.ones(2, 3, 4, 5)
    cache = kind.filled(keys, values)
    cache.append(torch.zeros(2, 3, 1, 5), torch.zeros(2, 3, 1, 5))
    assert cache.length == 5
    assert torch.equal(cache.keys[:, :, :4], keys)
    assert cache.room()[0].dtype == kind.dtype


def test_lent_tensors_stay_as_they_are():
    given = torch.randn(2, 3, 4, 5), torch.randn(2, 3, 4, 5)
    keys, values = (tensor.clone() for tensor in given)
    cut = HeadCache.filled(*given)
    cut.truncate(2)
    cut.append(torch.zeros(2, 3, 1, 5), torch.zeros(2, 3, 1, 5))
    swapped = HeadCache.filled(*given)
    for order in ([1, 0], [1, 1], [0, 0]):  # from the second on, room that was left is used again
        swapped.reorder(torch.tensor(order))
    assert torch.equal(swapped.keys, keys[[0, 0]])
    assert torch.equal(given[0], keys)
    assert torch.equal(given[1], values)


def test_beams_of_a_source_fold_in_their_order():
    keys = torch.arange(12.0).view(6, 1, 2, 1)  # row r holds 2 r and 2 r + 1
    cache = HeadCache(2)
    cache.append(keys, -keys)
    cache.fold(3)
    assert cache.keys[:, 0, :, 0].tolist() == [[0, 2, 4, 1, 3, 5], [6, 8, 10, 7, 9, 11]]
    assert cache.values[:, 0, :, 0].tolist() == [[0, -2, -4, -1, -3, -5], [-6, -8, -10, -7, -9, -11]]


def test_claimed_room_is_the_callers_to_write():
    cache = HeadCache(2)
    with pytest.raises(UsageError, match="claim room or append"):
        cache.room()
    with pytest.raises(UsageError, match="still empty"):
        _ = cache.keys
    cache.claim(1, (2, 3, 4))
    cache.room()[0][:, :, 0] = 7
    cache.claim(2, (2, 3, 4))
    assert cache.length == 3
    assert cache.keys.shape == (2, 3, 3, 4)
    assert (cache.keys[:, :, 0] == 7).all(), "what was there has moved along"
    with pytest.raises(ShapeError, match="a cache of 2 rows cannot take 5 rows"):
        cache.claim(1, (5, 3, 4))
