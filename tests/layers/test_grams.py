"""The bag of grams: what it sums, that padding and neighbours do not count, and that order counts in pairs only."""

import torch

from regard.attention import Rows
from regard.layers.grams import GramScores


def scores(n: int = 64, k: int = 3) -> GramScores:
    layer = GramScores(n, k)
    torch.manual_seed(0)
    torch.nn.init.normal_(layer.weight)
    return layer


def test_it_begins_by_saying_nothing() -> None:
    assert not GramScores(16, 2)(Rows(torch.tensor([[1, 2, 3]]))).any()


def test_padding_and_packing_change_nothing() -> None:
    layer, long, short = scores(), torch.tensor([5, 6, 7, 8]), torch.tensor([9, 4])
    alone = torch.cat([layer(Rows(long[None])), layer(Rows(short[None]))])
    padded = layer(Rows(torch.tensor([[5, 6, 7, 8], [9, 4, 0, 0]]), torch.tensor([4, 2])))
    packed = layer(Rows.packed(torch.cat([long, short]), torch.tensor([4, 2]), longest=4))
    torch.testing.assert_close(padded, alone)
    torch.testing.assert_close(packed, alone)


def test_single_tokens_have_no_order_and_pairs_have() -> None:
    layer = scores(n=100_003)
    one, other = (layer(Rows(torch.tensor([ids]))) for ids in ([1, 2, 3], [3, 2, 1]))
    assert not torch.allclose(one, other)
    with torch.no_grad():
        layer.weight.zero_()
        layer.weight[(torch.arange(4) * 1_000_003) % 100_003] = 1.0
    one, other = (layer(Rows(torch.tensor([ids]))) for ids in ([1, 2, 3], [3, 2, 1]))
    torch.testing.assert_close(one, other)
    torch.testing.assert_close(one, torch.full((1, 3), 32 * 3**0.5))
