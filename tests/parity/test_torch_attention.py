"""The same numbers as PyTorch's own: `nn.MultiheadAttention` with its weights copied, and the fused function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import regard
from regard.attention import (
    Causal,
    Dense,
    Documents,
    Mask,
    MultiHeadAttention,
    Padding,
    ScaledDot,
    Window,
    attend,
    attend_explicitly,
)

D, H, B, T, S = 24, 4, 3, 6, 8
LENGTHS = torch.tensor([8, 3, 6])


def twins(kind: str, *, bias: bool, d_memory: int | None = None) -> tuple[MultiHeadAttention, nn.MultiheadAttention]:
    """One attention of ours and one of PyTorch's with the same weights, in double precision."""
    theirs = nn.MultiheadAttention(D, H, bias=bias, kdim=d_memory, vdim=d_memory, batch_first=True).double().eval()
    ours = MultiHeadAttention(D, H, kind=kind, bias=bias, d_memory=d_memory).double().eval()  # type: ignore[arg-type]
    if bias:
        theirs.out_proj.bias.data.normal_()
    ours.out.load_state_dict(theirs.out_proj.state_dict())
    q, k, v = _projections(theirs)
    if kind == "cross":
        ours.query.weight.data.copy_(q)
        ours.key_value.weight.data.copy_(torch.cat((k, v)))
    else:
        ours.query_key_value.weight.data.copy_(torch.cat((q, k, v)))
    if bias:
        theirs.in_proj_bias.data.normal_()
        if kind == "cross":
            ours.query.bias.data.copy_(theirs.in_proj_bias[:D])
            ours.key_value.bias.data.copy_(theirs.in_proj_bias[D:])
        else:
            ours.query_key_value.bias.data.copy_(theirs.in_proj_bias)
    return ours, theirs


def _projections(theirs: nn.MultiheadAttention) -> tuple[Tensor, Tensor, Tensor]:
    if theirs.in_proj_weight is None:  # keys and values of another width
        return theirs.q_proj_weight.data, theirs.k_proj_weight.data, theirs.v_proj_weight.data
    q, k, v = theirs.in_proj_weight.data.chunk(3)
    return q, k, v


def padding(n_keys: int) -> dict[str, Any]:
    """PyTorch's way to say it: True is what may *not* be attended to."""
    return {"key_padding_mask": torch.arange(n_keys) >= LENGTHS.clamp(max=n_keys)[:, None]}


def above_the_diagonal(n: int) -> dict[str, Any]:
    return {"attn_mask": torch.ones(n, n, dtype=torch.bool).triu(1)}


SELF: dict[str, tuple[Mask | None, dict[str, Any]]] = {
    "no mask": (None, {}),
    "padding": (Padding(LENGTHS), padding(T)),
    "causal": (Causal(), above_the_diagonal(T)),
    "causal and padding": (Causal() & Padding(LENGTHS), {**above_the_diagonal(T), **padding(T)}),
}


def assert_equal_modules(
    ours: MultiHeadAttention,
    theirs: nn.MultiheadAttention,
    x: Tensor,
    memory: Tensor,
    mask: Mask | None,
    rule: dict[str, Any],
) -> None:
    expected, weights = theirs(x, memory, memory, need_weights=True, average_attn_weights=False, **rule)
    with regard.watch(ours) as seen:
        output = ours(x, memory, mask=mask) if ours.tap.kind == "cross" else ours(x, mask=mask)
    torch.testing.assert_close(output, expected, atol=1e-12, rtol=0)
    torch.testing.assert_close(seen.only().weights, weights, atol=1e-12, rtol=0)
    pull = torch.randn_like(output)
    inputs = [x] if memory is x else [x, memory]
    mine, reference = torch.autograd.grad(output, inputs, pull), torch.autograd.grad(expected, inputs, pull)
    for one, other in zip(mine, reference, strict=True):
        torch.testing.assert_close(one, other, atol=1e-11, rtol=0)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("case", SELF)
def test_self_attention_equals_torch(case: str, bias: bool) -> None:
    mask, rule = SELF[case]
    x = torch.randn(B, T, D, dtype=torch.float64, requires_grad=True)
    assert_equal_modules(*twins("self", bias=bias), x, x, mask, rule)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("d_memory", [None, 10])
@pytest.mark.parametrize("padded", [False, True])
def test_cross_attention_equals_torch(bias: bool, d_memory: int | None, padded: bool) -> None:
    x = torch.randn(B, T, D, dtype=torch.float64, requires_grad=True)
    memory = torch.randn(B, S, d_memory or D, dtype=torch.float64, requires_grad=True)
    mask, rule = (Padding(LENGTHS), padding(S)) if padded else (None, {})
    assert_equal_modules(*twins("cross", bias=bias, d_memory=d_memory), x, memory, mask, rule)


def gaps(offset: int = 0) -> Tensor:
    return torch.arange(S) - torch.arange(T)[:, None] - offset


RANDOM = torch.rand(B, H, T, S, generator=torch.Generator().manual_seed(1)) > 0.3
RANDOM[..., 0] = True
ROWS, COLUMNS = torch.tensor([0, 0, 0, 0, 1, 1]), torch.tensor([0, 0, 0, 1, 1, 1, 1, 1])
KINDS: dict[str, tuple[Mask | None, Tensor | None]] = {
    "none": (None, None),
    "causal": (Causal(), gaps() <= 0),
    "causal after a cache": (Causal(2), gaps(2) <= 0),
    "padding": (Padding(LENGTHS), (torch.arange(S) < LENGTHS[:, None])[:, None, None]),
    "window": (Window(2, 1), (gaps() >= -2) & (gaps() <= 1)),
    "window after a cache": (Window(3, offset=1), (gaps(1) >= -3) & (gaps(1) <= 0)),
    "documents": (Documents([4, 2], [3, 5]), ROWS[:, None] == COLUMNS),
    "dense": (Dense(RANDOM), RANDOM),
    "dense for each head": (Dense(RANDOM[0]), RANDOM[0]),
    "several": (
        Causal(1) & Padding(LENGTHS) & Dense(RANDOM),
        (gaps(1) <= 0) & (torch.arange(S) < LENGTHS[:, None])[:, None, None] & RANDOM,
    ),
}


@pytest.mark.parametrize("way", [attend, attend_explicitly])
@pytest.mark.parametrize("n_kv_heads", [H, 2])
@pytest.mark.parametrize("scale", [None, 0.3])
@pytest.mark.parametrize("kind", KINDS)
def test_every_mask_equals_the_dense_one_given_to_torch(
    kind: str, scale: float | None, n_kv_heads: int, way: Callable[..., Tensor]
) -> None:
    mask, dense = KINDS[kind]
    shapes = ((H, T, 5), (n_kv_heads, S, 5), (n_kv_heads, S, 7))
    inputs = [torch.randn(B, *shape, dtype=torch.float64, requires_grad=True) for shape in shapes]
    query, key, value = inputs
    expected = F.scaled_dot_product_attention(
        query, key, value, attn_mask=dense, scale=scale, enable_gqa=n_kv_heads != H
    )
    output = way(query, key, value, mask=mask, score=ScaledDot(scale))
    torch.testing.assert_close(output, expected, atol=1e-12, rtol=0)
    pull = torch.randn_like(output)
    grads = zip(torch.autograd.grad(output, inputs, pull), torch.autograd.grad(expected, inputs, pull), strict=True)
    for one, other in grads:
        torch.testing.assert_close(one, other, atol=1e-11, rtol=0)


@pytest.mark.parametrize("way", [attend, attend_explicitly])
def test_a_bias_equals_the_float_mask_of_torch(way: Callable[..., Tensor]) -> None:
    query, key, value = (torch.randn(B, H, n, 5, dtype=torch.float64) for n in (T, S, S))
    bias = torch.randn(H, T, S, dtype=torch.float64).masked_fill(~RANDOM[0], float("-inf"))
    expected = F.scaled_dot_product_attention(query, key, value, attn_mask=bias)
    torch.testing.assert_close(way(query, key, value, bias=bias), expected, atol=1e-12, rtol=0)
