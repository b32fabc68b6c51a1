"""Multi-head attention: cached = uncached, grouped = repeated, causal = blind to the future, any score inside."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import oracle
from regard.attention import (
    MLP,
    ALiBi,
    Cache,
    Causal,
    Documents,
    Dot,
    MultiHeadAttention,
    Padding,
    Rotary,
    ScaledDot,
    SoftCap,
    attend_explicitly,
)
from regard.errors import ShapeError, UsageError

D, H, E, T = 16, 4, 4, 7
NAMES = sorted(oracle.SCORES)


def hidden(n_rows: int = 2, n_positions: int = T, width: int = D, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(n_rows, n_positions, width, dtype=dtype)


def heads(*sizes: int, **options: Any) -> MultiHeadAttention:
    """Multi-head attention in double precision whose biases are not zero."""
    module = MultiHeadAttention(*sizes, **options).double()
    for name, parameter in module.named_parameters():
        if name.endswith("bias"):
            nn.init.normal_(parameter)
    return module


def by_hand(module: MultiHeadAttention, x: Tensor, memory: Tensor, **rule: object) -> Tensor:
    """Head by head, from the weights of the projections: no fused product, no grouped heads."""
    e, n_kv = module.d_head, module.n_kv_heads
    if module.tap.kind == "cross":
        q, (k, v) = module.query(x), module.key_value(memory).chunk(2, -1)
    else:
        q, k, v = module.query_key_value(x).split((module.n_heads * e, n_kv * e, n_kv * e), -1)
    outputs = []
    for head in range(module.n_heads):
        group = head // (module.n_heads // n_kv)
        mine, theirs = slice(head * e, head * e + e), slice(group * e, group * e + e)
        outputs.append(attend_explicitly(q[..., mine], k[..., theirs], v[..., theirs], score=module.score, **rule))  # type: ignore[arg-type]
    result: Tensor = module.out(torch.cat(outputs, -1))
    return result


@pytest.mark.parametrize("n_kv_heads", [1, 2, 4])
@pytest.mark.parametrize("kind", ["self", "cross"])
@pytest.mark.parametrize("name", NAMES)
def test_every_score_inside_heads_equals_head_by_head(name: str, kind: str, n_kv_heads: int) -> None:
    score = oracle.SCORES[name](E)
    module = heads(
        D,
        H,
        kind=kind,
        n_kv_heads=n_kv_heads,
        d_memory=10 if kind == "cross" else None,
        score=score,
    )
    x, memory = hidden(), hidden(n_positions=5, width=10)
    mask = Causal() & Padding([T, 3]) if kind == "self" else Padding([5, 0])
    output = module(x, mask=mask) if kind == "self" else module(x, memory, mask=mask)
    expected = by_hand(module, x, memory, mask=mask)
    torch.testing.assert_close(output, expected, atol=1e-12, rtol=0)
    assert output.shape == (2, T, D)


def test_head_width_and_biases_are_free() -> None:
    module = heads(D, 3, d_head=5, bias=False, out_bias=True)
    assert sum(p.numel() for p in module.parameters()) == D * 45 + 15 * D + D
    x = hidden()
    torch.testing.assert_close(module(x), by_hand(module, x, x), atol=1e-12, rtol=0)
    assert MultiHeadAttention(D, H, bias=True, out_bias=False).out.bias is None
    assert MultiHeadAttention(D, H).out.bias is not None
    assert MultiHeadAttention(D, H, bias=False).out.bias is None


def test_grouped_heads_equal_repeated_weights() -> None:
    grouped = heads(D, H, n_kv_heads=2, rotary=Rotary(E))
    full = heads(D, H, rotary=Rotary(E))
    full.out.load_state_dict(grouped.out.state_dict())
    for name in ("weight", "bias"):
        q, k, v = getattr(grouped.query_key_value, name).detach().split((16, 8, 8))
        repeated = [part.unflatten(0, (2, E)).repeat_interleave(2, 0).flatten(0, 1) for part in (k, v)]
        getattr(full.query_key_value, name).data.copy_(torch.cat((q, *repeated)))
    x = hidden()
    torch.testing.assert_close(grouped(x, mask=Causal()), full(x, mask=Causal()), atol=1e-12, rtol=0)


@pytest.mark.parametrize("rotary", [False, True])
@pytest.mark.parametrize("n_positions", [6, 100])
def test_a_later_token_leaves_earlier_outputs_bitwise_equal(n_positions: int, rotary: bool) -> None:
    module = MultiHeadAttention(32, 4, kind="masked", rotary=Rotary(8) if rotary else None).eval()
    x = hidden(n_positions=n_positions, width=32, dtype=torch.float32)
    cut = n_positions // 2
    with torch.no_grad():
        before = module(x, mask=Causal())
        x[:, cut:] = torch.randn_like(x[:, cut:])
        after = module(x, mask=Causal())
    assert torch.equal(after[:, :cut], before[:, :cut])
    assert not torch.equal(after[:, cut:], before[:, cut:])


def test_what_stands_in_the_padding_does_not_matter() -> None:
    module = MultiHeadAttention(D, H).eval()
    x = hidden(dtype=torch.float32)
    before = module(x, mask=Padding([T, 4]))
    x[1, 4:] = 1e6
    after = module(x, mask=Padding([T, 4]))
    assert torch.equal(after[0], before[0])
    assert torch.equal(after[1, :4], before[1, :4])
    assert after.isfinite().all()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("rotary", [False, True])
@pytest.mark.parametrize("chunks", [[1] * T, [3, 1, 1, 2], [5, 2], [T]])
@torch.no_grad()
def test_cached_equals_uncached(name: str, rotary: bool, chunks: list[int]) -> None:
    module = heads(
        D, H, kind="masked", n_kv_heads=2, score=oracle.SCORES[name](E), rotary=Rotary(E) if rotary else None
    )
    x = hidden()
    whole = module(x, mask=Causal())
    cache = Cache(2)
    for part, expected in zip(x.split(chunks, 1), whole.split(chunks, 1), strict=True):
        output = module(part, mask=Causal(cache.length), cache=cache)
        torch.testing.assert_close(output, expected, atol=1e-12, rtol=0)
    assert cache.length == T


@torch.no_grad()
def test_cached_equals_uncached_with_alibi_and_padding() -> None:
    module, alibi = heads(D, H, kind="masked"), ALiBi(H)
    x, lengths = hidden(), Padding([T, 2])
    whole = module(x, mask=Causal() & lengths, bias=alibi(T, T))
    cache = Cache(T)
    for t in range(T):
        bias = alibi(1, t + 1, offset=t)
        step = module(x[:, t : t + 1], mask=Causal(t) & lengths, bias=bias, cache=cache)
        torch.testing.assert_close(step, whole[:, t : t + 1], atol=1e-12, rtol=0)


@pytest.mark.parametrize("name", NAMES)
@torch.no_grad()
def test_a_remembered_memory_equals_the_memory(name: str) -> None:
    module = heads(D, H, kind="cross", d_memory=10, n_kv_heads=2, score=oracle.SCORES[name](E))
    x, memory, mask = hidden(), hidden(n_positions=5, width=10), Padding([5, 3])
    whole = module(x, memory, mask=mask)
    cache = module.prefill(memory)
    for t in range(T):
        step = module(x[:, t : t + 1], cache=cache, mask=mask)
        torch.testing.assert_close(step, whole[:, t : t + 1], atol=1e-12, rtol=0)
    assert cache.length == 5


@torch.no_grad()
def test_reordered_and_truncated_caches_go_on_as_if_it_had_always_been_so() -> None:
    module = heads(D, H, kind="masked", rotary=Rotary(E))
    x, rows = hidden(3), torch.tensor([2, 2, 0, 1])
    cache = Cache(3)
    module(x[:, :4], mask=Causal(), cache=cache)
    cache.reorder(rows)
    new = hidden(4, 2)
    output = module(new, mask=Causal(4), cache=cache)
    expected = module(torch.cat((x[rows, :4], new), 1), mask=Causal())[:, 4:]
    torch.testing.assert_close(output, expected, atol=1e-12, rtol=0)
    cache.truncate(2)
    other = hidden(4, 3)
    output = module(other, mask=Causal(2), cache=cache)
    expected = module(torch.cat((x[rows, :2], other), 1), mask=Causal())[:, 2:]
    torch.testing.assert_close(output, expected, atol=1e-12, rtol=0)


def test_rotary_heads_take_positions_of_their_own() -> None:
    """Packed documents that each count from zero equal the documents apart."""
    module = heads(D, H, kind="masked", rotary=Rotary(E))
    x, lengths = hidden(1), [3, 4]
    positions = torch.tensor([0, 1, 2, 0, 1, 2, 3])
    packed = module(x, mask=Documents(lengths) & Causal(), positions=positions)
    alone = torch.cat([module(part, mask=Causal()) for part in x.split(lengths, 1)], 1)
    torch.testing.assert_close(packed, alone, atol=1e-12, rtol=0)


def test_a_soft_cap_inside_heads() -> None:
    module = heads(D, H, score=SoftCap(ScaledDot(), 1e-6))
    flat = heads(D, H)
    flat.load_state_dict(module.state_dict())
    x = 50 * hidden()
    even = by_hand(module, x, x)
    torch.testing.assert_close(module(x), even, atol=1e-9, rtol=0)
    torch.testing.assert_close(module(x)[:, 0], module(x)[:, 1], atol=1e-4, rtol=0)  # every score capped: an average
    assert (flat(x) - even).abs().max() > 0.1


def test_dropout_acts_in_training_alone() -> None:
    module, x = MultiHeadAttention(D, H, dropout=0.5), hidden(dtype=torch.float32)
    assert not torch.equal(module(x), module(x))
    module.eval()
    assert torch.equal(module(x), module(x))


def test_every_parameter_gets_a_gradient() -> None:
    for kind, score in (("self", None), ("cross", MLP(E)), ("masked", SoftCap(Dot(), 3.0))):
        module = heads(D, H, kind=kind, n_kv_heads=2, score=score)
        x = hidden()
        output = module(x, x) if kind == "cross" else module(x)
        output.square().sum().backward()
        for name, parameter in module.named_parameters():
            assert parameter.grad is not None, name
            assert parameter.grad.abs().sum() > 0, name


def test_what_heads_refuse() -> None:
    with pytest.raises(ShapeError, match=r"width of 10 .* 4 heads") as caught:
        MultiHeadAttention(10, 4)
    assert "d_head" in (caught.value.hint or "")
    with pytest.raises(ShapeError, match=r"6 heads .* 4 key/value heads"):
        MultiHeadAttention(12, 6, n_kv_heads=4)
    with pytest.raises(UsageError, match="only cross-attention"):
        MultiHeadAttention(D, H).prefill(hidden())
    with pytest.raises(UsageError, match="needs a memory"):
        heads(D, H, kind="cross")(hidden())
