"""Packed documents: the same as attending to each document apart, without ever writing a T × S mask."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import oracle
from regard.attention import Causal, Documents, Gaussian, Mask, Padding, ScaledDot, Window, attend, attend_explicitly
from regard.errors import ShapeError

BOTH_WAYS = pytest.mark.parametrize("way", [attend, attend_explicitly])


def leaves(*shapes: tuple[int, ...], dtype: torch.dtype = torch.float64) -> list[Tensor]:
    return [torch.randn(shape, dtype=dtype, requires_grad=True) for shape in shapes]


def apart(
    query: Tensor, key: Tensor, value: Tensor, *, lengths: list[int], key_lengths: list[int], causal: bool
) -> Tensor:
    """Each document cut out, attended to by itself, and laid end to end again."""
    pieces = zip(query.split(lengths, -2), key.split(key_lengths, -2), value.split(key_lengths, -2), strict=True)
    return torch.cat([attend_explicitly(*piece, mask=Causal() if causal else None) for piece in pieces], -2)


def assert_same_values_and_gradients(one: Tensor, other: Tensor, inputs: list[Tensor], *, atol: float) -> None:
    torch.testing.assert_close(one, other, atol=atol, rtol=0)
    pull = torch.randn_like(one)
    grads = zip(torch.autograd.grad(one, inputs, pull), torch.autograd.grad(other, inputs, pull), strict=True)
    for mine, theirs in grads:
        torch.testing.assert_close(mine, theirs, atol=atol, rtol=0)


@BOTH_WAYS
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("heads", [(2, 2), (4, 2), (4, 1)])
@pytest.mark.parametrize("lead", [(), (1,)])
def test_packed_equals_each_document_apart(
    way: Callable[..., Tensor], causal: bool, heads: tuple[int, int], lead: tuple[int, ...]
) -> None:
    lengths = [3, 1, 0, 6, 2]
    inputs = leaves((*lead, heads[0], 12, 8), (*lead, heads[1], 12, 8), (*lead, heads[1], 12, 5))
    mask: Mask = Documents(lengths)
    packed = way(*inputs, mask=mask & Causal() if causal else mask)
    alone = apart(*inputs, lengths=lengths, key_lengths=lengths, causal=causal)
    assert_same_values_and_gradients(packed, alone, inputs, atol=1e-12)


@BOTH_WAYS
@pytest.mark.parametrize("heads", [(2, 2), (4, 2)])
def test_packed_cross_attention_equals_each_document_apart(way: Callable[..., Tensor], heads: tuple[int, int]) -> None:
    lengths, key_lengths = [3, 1, 0, 4], [2, 5, 3, 0]
    inputs = leaves((1, heads[0], 8, 8), (1, heads[1], 10, 8), (1, heads[1], 10, 8))
    packed = way(*inputs, mask=Documents(lengths, key_lengths))
    alone = apart(*inputs, lengths=lengths, key_lengths=key_lengths, causal=False)
    assert (packed[..., 4:, :] == 0).all()  # the last document has no keys
    assert_same_values_and_gradients(packed, alone, inputs, atol=1e-12)


@settings(deadline=None, max_examples=40, derandomize=True)
@given(
    pairs=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=5),
    lead=st.sampled_from([(), (2,), (1, 2), (2, 2)]),
    extra=st.sampled_from(["nothing", "causal", "later", "window"]),
)
def test_packed_equals_the_oracle(pairs: list[tuple[int, int]], lead: tuple[int, ...], extra: str) -> None:
    lengths, key_lengths = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    query, key, value = (
        torch.randn(*lead, n, 4, dtype=torch.float64) for n in (sum(lengths), sum(key_lengths), sum(key_lengths))
    )
    mask: Mask = Documents(lengths, key_lengths)
    more = {"causal": Causal(), "later": Causal(2), "window": Window(1, 1)}
    mask = mask & more[extra] if extra in more else mask
    expected = torch.from_numpy(oracle.attention(query, key, value, score=ScaledDot(), mask=mask))
    torch.testing.assert_close(attend(query, key, value, mask=mask), expected, atol=1e-12, rtol=0)


@pytest.mark.parametrize("extra", [Padding([5]), Window(1), Causal(1), None])
def test_what_the_packed_form_cannot_say_is_still_right(extra: Mask | None) -> None:
    query, key, value = (torch.randn(1, 2, 7, 4, dtype=torch.float64) for _ in range(3))
    mask: Mask = Documents([3, 4])
    bias = torch.randn(7, 7, dtype=torch.float64) if extra is None else None
    mask = mask if extra is None else mask & extra
    for score in (ScaledDot(), Gaussian()):
        expected = torch.from_numpy(oracle.attention(query, key, value, score=score, mask=mask, bias=bias))
        output = attend(query, key, value, score=score, mask=mask, bias=bias)
        torch.testing.assert_close(output, expected, atol=1e-12, rtol=0)


SHAPES: list[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]] = [
    ((1, 2, 7, 4), (3, 2, 7, 4), (3, 2, 7, 4)),  # one row of queries, several of keys
    ((2, 7, 4), (7, 4), (7, 4)),  # keys without heads
    ((1, 1, 7, 4), (1, 3, 7, 4), (1, 3, 7, 4)),  # one query head, several of keys
    ((1, 4, 7, 4), (1, 4, 7, 4), (1, 2, 7, 4)),  # values shared, keys not
    ((7, 4), (7, 4), (7, 4)),
    ((1, 2, 7, 4), (2, 7, 4), (2, 7, 4)),
]


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_leading_dimensions_broadcast_in_packed_rows_too(shapes: tuple[tuple[int, ...], ...]) -> None:
    query, key, value = (torch.randn(shape, dtype=torch.float64) for shape in shapes)
    expected = attend_explicitly(query, key, value, mask=Documents([3, 4]))
    torch.testing.assert_close(attend(query, key, value, mask=Documents([3, 4])), expected, atol=1e-12, rtol=0)


@BOTH_WAYS
def test_documents_without_any_key_give_zeros(way: Callable[..., Tensor]) -> None:
    query, key = torch.randn(1, 2, 5, 4), torch.randn(1, 2, 0, 4)
    assert torch.equal(way(query, key, key, mask=Documents([2, 3], [0, 0])), torch.zeros(1, 2, 5, 4))


@BOTH_WAYS
@pytest.mark.parametrize("lengths", [[3, 3], [3, 5]])
def test_documents_that_do_not_fill_the_row_are_refused(way: Callable[..., Tensor], lengths: list[int]) -> None:
    x = torch.randn(1, 2, 7, 4)
    for mask in (Documents(lengths), Documents(lengths) & Causal()):
        with pytest.raises(ShapeError, match=rf"{sum(lengths)} positions .* row of 7"):
            way(x, x, x, mask=mask)


@pytest.mark.parametrize("causal", [False, True])
def test_a_long_row_never_becomes_a_square(causal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """20 000 positions squared are 400 million flags for one head; a thousand documents of 20 are 400 thousand."""
    largest = 0
    fused = F.scaled_dot_product_attention

    def measured(query: Tensor, key: Tensor, value: Tensor, **options: Any) -> Tensor:
        nonlocal largest
        mask = options.get("attn_mask")
        largest = max(largest, 0 if mask is None else mask.numel(), query.shape[0] * query.shape[-2] * key.shape[-2])
        return fused(query, key, value, **options)

    monkeypatch.setattr(F, "scaled_dot_product_attention", measured)
    monkeypatch.setattr(Documents, "dense", lambda *_, **__: pytest.fail("the T × S mask was written out"))
    lengths = [10, 30] * 500
    query, key, value = leaves(*[(1, 2, 20_000, 8)] * 3, dtype=torch.float32)
    mask: Mask = Documents(lengths)
    start = time.process_time()
    output = attend(query, key, value, mask=mask & Causal() if causal else mask)
    output.sum().backward()
    assert time.process_time() - start < 5
    assert 0 < largest <= 1000 * 30 * 30
    alone = attend(*(x[:, :, -30:] for x in (query, key, value)), mask=Causal() if causal else None)
    torch.testing.assert_close(output[:, :, -30:], alone, atol=1e-5, rtol=0)
