"""One vector for a sequence: padding never counts, and packed documents give what padded rows give."""

import pytest
import torch
from torch import Tensor

from regard.attention import Additive, Dot, Rows, ScaledDot, watch
from regard.layers.pooling import AttentionPooling, first_token, last_token, mean_of_tokens

LENGTHS = (4, 1, 3)
POOLS = {"first": first_token, "last": last_token, "mean": mean_of_tokens}


def both_layouts() -> tuple[tuple[Tensor, Rows], tuple[Tensor, Rows]]:
    """The same three sequences padded, with rubbish in the padding, and packed behind filler and empty documents."""
    texts = [torch.randn(n, 6, dtype=torch.float64) for n in LENGTHS]
    padded = torch.full((3, 4, 6), 1e6, dtype=torch.float64)
    for row, text in zip(padded, texts, strict=True):
        row[: len(text)] = text
    packed = torch.cat([*texts, torch.full((3, 6), -1e6, dtype=torch.float64)])[None]
    lengths = torch.tensor([*LENGTHS, 3, 0])
    rows = Rows.packed(torch.zeros(11, dtype=torch.long), lengths, longest=4)
    return (padded, Rows(torch.zeros(3, 4, dtype=torch.long), torch.tensor(LENGTHS))), (packed, rows)


@pytest.mark.parametrize("name", POOLS)
def test_packed_is_padded(name: str) -> None:
    (padded, rows), (packed, documents) = both_layouts()
    expected = {"first": 0, "last": -1}
    for i, vector in enumerate(POOLS[name](padded, rows)):
        real = padded[i, : LENGTHS[i]]
        torch.testing.assert_close(vector, real.mean(0) if name == "mean" else real[expected[name]])
    torch.testing.assert_close(POOLS[name](packed, documents)[:3], POOLS[name](padded, rows))
    assert POOLS[name](packed, documents).shape == (5, 6)


@pytest.mark.parametrize("name", POOLS)
def test_rows_without_lengths_are_full(name: str) -> None:
    encoded = torch.randn(2, 3, 5)
    ids = torch.zeros(2, 3, dtype=torch.long)
    torch.testing.assert_close(
        POOLS[name](encoded, Rows(ids)), POOLS[name](encoded, Rows(ids, torch.tensor([3, 3]))), rtol=1e-6, atol=1e-6
    )


@pytest.mark.parametrize("score", [Dot, ScaledDot, lambda: Additive(6).double()])
def test_a_learned_query_looks_at_real_tokens_only(score) -> None:
    pool = AttentionPooling(6, score=score()).double()
    (padded, rows), (packed, documents) = both_layouts()
    with watch(pool, kinds=["cross"]) as seen:
        pooled = pool(padded, rows)
    weights = seen.only().weights  # (3, 1, 1, 4)
    assert weights.shape == (3, 1, 1, 4)
    for i, length in enumerate(LENGTHS):
        assert float(weights[i, 0, 0, length:].sum()) == 0
        torch.testing.assert_close(weights[i, 0, 0, :length] @ padded[i, :length], pooled[i])
    torch.testing.assert_close(pool(packed, documents)[:3], pooled)
    pooled.sum().backward()
    assert pool.query.grad is not None
    assert bool((pool.query.grad != 0).any())
