"""The one function and its explicit twin: held to the numpy oracle, to one another, and to the definition."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from torch import Tensor

import oracle
from regard.attention import (
    Causal,
    Dense,
    Documents,
    Mask,
    Padding,
    Prepared,
    ScaledDot,
    Since,
    Window,
    attend,
    attend_explicitly,
    attention_weights,
    sinusoidal,
    weigh,
)
from regard.attention.core import _batch_of_heads
from regard.errors import MaskError, ShapeError

BOTH_WAYS = pytest.mark.parametrize("way", [attend, attend_explicitly])
TOLERANCE = {torch.float64: 1e-11, torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}
LEADING = [  # of query, key, value
    ((), (), ()),
    ((2,), (2,), (2,)),
    ((2, 3), (2, 3), (2, 3)),
    ((2, 1, 3), (2, 1, 3), (2, 1, 3)),
    ((2, 3), (3,), ()),  # missing dimensions
    ((), (2, 3), (2, 3)),
    ((2, 3), (1, 3), (2, 1)),  # dimensions of one
    ((1, 3), (2, 3), (2, 3)),
    ((2, 1), (2, 3), (2, 3)),  # one query head, many key heads
    ((4,), (2,), (2,)),  # groups of heads
    ((2, 4), (2, 2), (2, 2)),
    ((2, 4), (2, 1), (2, 1)),
    ((2, 4), (2, 4), (2, 2)),  # values shared, keys not
    ((2, 2, 4), (2, 1, 2), (1, 2, 2)),
]


def tensors(*shapes: tuple[int, ...], dtype: torch.dtype = torch.float64, seed: int = 0) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype) for shape in shapes]


def scores_shape(query: Tensor, key: Tensor) -> tuple[int, ...]:
    """(..., T, S) of the scores: a group of query heads counts as they are."""
    lead = list(key.shape[:-2])
    if lead and query.ndim > 2 and query.shape[-3] > 1:
        lead[-1] = query.shape[-3]
    return (*torch.broadcast_shapes(query.shape[:-2], tuple(lead)), query.shape[-2], key.shape[-2])


def draw_mask(draw: st.DrawFn, shape: tuple[int, ...]) -> Mask | None:
    """One kind of mask or several at once, for scores of this shape."""
    *lead, n_queries, n_keys = shape
    generator = torch.Generator().manual_seed(draw(st.integers(0, 99)))

    def cuts(total: int) -> list[int]:
        cut = draw(st.integers(0, total))
        return [cut, 0, total - cut]

    def padding() -> Mask:
        kept = draw(st.integers(1, len(lead)))
        return Padding(torch.randint(0, n_keys + 1, lead[:kept], generator=generator))

    def since() -> Mask:
        return Since(torch.randint(0, n_keys + 1, lead[:1], generator=generator))

    def dense() -> Mask:
        sizes = shape[draw(st.integers(0, len(shape) - 1)) :]
        return Dense(torch.rand(sizes, generator=generator) > 0.4)

    kinds: dict[str, Callable[[], Mask]] = {
        "causal": lambda: Causal(draw(st.integers(-2, 3))),
        "window": lambda: Window(draw(st.integers(0, 3)), draw(st.integers(0, 2)), offset=draw(st.integers(-1, 3))),
        "documents": lambda: Documents(cuts(n_queries), cuts(n_keys)),
        "dense": dense,
    }
    if lead:
        kinds |= {"padding": padding, "since": since}
    mask = None
    for name in draw(st.lists(st.sampled_from(sorted(kinds)), max_size=3)):
        mask = kinds[name]() if mask is None else mask & kinds[name]()
    return mask


@pytest.mark.parametrize("name", sorted(oracle.SCORES))
@pytest.mark.parametrize("leading", LEADING, ids=str)
@settings(deadline=None, max_examples=6, derandomize=True, phases=[Phase.generate])
@given(data=st.data())
def test_both_ways_equal_the_oracle(name: str, leading: tuple[tuple[int, ...], ...], data: st.DataObject) -> None:
    n_queries, n_keys = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 6))
    width, d_value = data.draw(st.sampled_from([1, 4, 5])), data.draw(st.integers(1, 6))
    score = oracle.SCORES[name](width)
    learned = any(True for _ in score.parameters())  # half-precision linear layers are slow on a CPU: tested below
    dtype = data.draw(st.sampled_from(list(TOLERANCE)[: 2 if learned else 4]))
    score = score.to(dtype)
    sizes = ((n_queries, width), (n_keys, width), (n_keys, d_value))
    shapes = [(*lead, *size) for lead, size in zip(leading, sizes, strict=True)]
    query, key, value = tensors(*shapes, dtype=dtype, seed=data.draw(st.integers(0, 99)))
    full = scores_shape(query, key)
    mask = data.draw(st.composite(draw_mask)(full))
    bias_size = data.draw(st.sampled_from([None, 1, 2, len(full)]))
    bias = None
    if bias_size is not None:
        (bias,) = tensors(full[-bias_size:], dtype=dtype)
        bias = bias.masked_fill(bias < -1, -math.inf)
    expected = torch.from_numpy(oracle.attention(query, key, value, score=score, mask=mask, bias=bias))
    for way in (attend, attend_explicitly):
        output = way(query, key, value, score=score, mask=mask, bias=bias)
        assert output.dtype == dtype
        torch.testing.assert_close(output.double(), expected, atol=TOLERANCE[dtype], rtol=TOLERANCE[dtype])


@pytest.mark.parametrize("name", sorted(oracle.SCORES))
@pytest.mark.parametrize("dtype", list(TOLERANCE))
def test_every_score_in_every_precision_equals_the_oracle(name: str, dtype: torch.dtype) -> None:
    query, key, value = tensors((2, 4, 5, 8), (2, 2, 7, 8), (2, 2, 7, 3), dtype=dtype)
    score, mask = oracle.SCORES[name](8).to(dtype), Causal(2) & Padding([7, 0])
    expected = torch.from_numpy(oracle.attention(query, key, value, score=score, mask=mask))
    for way in (attend, attend_explicitly):
        output = way(query, key, value, score=score, mask=mask).double()
        torch.testing.assert_close(output, expected, atol=TOLERANCE[dtype], rtol=TOLERANCE[dtype])


@pytest.mark.parametrize("name", sorted(oracle.SCORES))
def test_rows_of_weights_sum_to_one_and_masked_weights_are_exactly_zero(name: str) -> None:
    query, key = tensors((2, 3, 6, 8), (2, 3, 9, 8), dtype=torch.float32)
    mask = Window(2, 1, offset=2) & Padding([9, 5])
    with torch.no_grad():
        weights = attention_weights(query, key, score=oracle.SCORES[name](8), mask=mask)
    allowed = torch.from_numpy(oracle.mask_table(mask, (2, 3, 6, 9)))
    assert (weights[~allowed] == 0).all()
    assert (weights[allowed] > 0).all()
    has_any = allowed.any(-1)
    assert not has_any.all()  # the second row of the batch ends before the window of its last query
    torch.testing.assert_close(weights.sum(-1), has_any.float(), atol=1e-6, rtol=0)


def test_self_attention_is_permutation_equivariant_until_positions_break_it() -> None:
    (x,) = tensors((2, 7, 16))
    order = torch.tensor([3, 0, 6, 1, 5, 2, 4])
    there = attend(x[:, order], x[:, order], x[:, order])
    torch.testing.assert_close(there, attend(x, x, x)[:, order], atol=1e-12, rtol=0)
    places = sinusoidal(7, 16, dtype=torch.float64)
    placed, moved = x + places, x[:, order] + places
    assert (attend(moved, moved, moved) - attend(placed, placed, placed)[:, order]).abs().max() > 0.05


@pytest.mark.parametrize("n_positions", [5, 64, 300])
def test_a_later_token_leaves_earlier_causal_outputs_bitwise_equal(n_positions: int) -> None:
    query, key, value = tensors(*[(2, 2, n_positions, 16)] * 3, dtype=torch.float32)
    before = attend(query, key, value, mask=Causal())
    cut = n_positions // 2
    for tensor in (query, key, value):
        tensor[..., cut:, :] = 7 * tensor[..., cut:, :] + 1
    after = attend(query, key, value, mask=Causal())
    assert torch.equal(after[..., :cut, :], before[..., :cut, :])
    assert not torch.equal(after[..., cut:, :], before[..., cut:, :])


@BOTH_WAYS
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_what_stands_in_the_padding_does_not_matter(way: Callable[..., Tensor], dtype: torch.dtype) -> None:
    query, key, value = tensors((2, 3, 5, 8), (2, 3, 40, 8), (2, 3, 40, 8), dtype=dtype)
    before = way(query, key, value, mask=Padding([40, 33]))
    key[1, :, 33:], value[1, :, 33:] = 1e4, -1e4
    after = way(query, key, value, mask=Padding([40, 33]))
    assert torch.equal(after, before)
    assert after.isfinite().all()


def test_the_lectures_scores_give_their_weights() -> None:
    query = torch.zeros(1, 64)
    query[0, 0] = 8.0
    key = torch.zeros(4, 64)
    key[:, 0] = torch.tensor([14.0, 12.0, 2.0, 1.0])
    assert (query @ key.T).tolist() == [[112.0, 96.0, 16.0, 8.0]]
    weights = attention_weights(query, key)
    assert [round(weight, 3) for weight in weights[0].tolist()] == [0.881, 0.119, 0.0, 0.0]
    torch.testing.assert_close(attend(query, key, torch.eye(4)), weights)


@BOTH_WAYS
def test_prepared_keys_stand_in_for_keys(way: Callable[..., Tensor]) -> None:
    query, key, value = tensors((2, 4, 3, 8), (2, 2, 6, 8), (2, 2, 6, 5))
    for make in oracle.SCORES.values():
        score = make(8).double()
        prepared = score.prepare(key)
        whole = way(query, key, value, score=score, mask=Causal(3))
        torch.testing.assert_close(way(query, prepared, value, score=score, mask=Causal(3)), whole, rtol=0, atol=0)
        for t in range(3):  # one decoding step after the other, over the same prepared keys
            step = way(query[:, :, t : t + 1], prepared, value, score=score, mask=Causal(3 + t))
            torch.testing.assert_close(step, whole[:, :, t : t + 1], atol=1e-12, rtol=0)


def test_weigh_is_the_other_half_of_attend() -> None:
    query, key, value = tensors((2, 4, 3, 8), (2, 2, 6, 8), (2, 2, 6, 5))
    weights = attention_weights(query, key)
    assert weights.shape == (2, 4, 3, 6)
    torch.testing.assert_close(weigh(weights, value), attend(query, key, value), atol=1e-12, rtol=0)


@BOTH_WAYS
def test_dropout_keeps_the_expected_output(way: Callable[..., Tensor]) -> None:
    n = 20000
    query, key = torch.zeros(n, 1, 1), torch.zeros(n, 2, 1)
    value = torch.ones(n, 2, 1)
    output = way(query, key, value, dropout=0.25).flatten()
    kinds = sorted({round(number, 4) for number in output.tolist()})
    assert kinds == [0.0, 0.6667, 1.3333]  # none, one or both of the weights kept, made up for by 1/(1 − p)
    assert output.mean().item() == pytest.approx(1.0, abs=0.02)


@BOTH_WAYS
@pytest.mark.parametrize("lead", [(), (2,), (2, 3), (2, 1, 3)])
def test_no_keys_at_all_give_zeros(way: Callable[..., Tensor], lead: tuple[int, ...]) -> None:
    query, key, value = torch.randn(*lead, 4, 8), torch.randn(*lead, 0, 8), torch.randn(*lead, 0, 5)
    for mask in (None, Causal(), Window(1)):
        assert torch.equal(way(query, key, value, mask=mask), torch.zeros(*lead, 4, 5))
    assert way(query[..., :0, :], query, query).shape == (*lead, 0, 8)


def test_a_bias_too_large_for_half_precision_is_still_only_a_bias() -> None:
    query, key, value = tensors((1, 2, 3, 4), (1, 2, 5, 4), (1, 2, 5, 4), dtype=torch.float16)
    bias = torch.full((3, 5), -1e5)  # the same everywhere: it cancels in the softmax
    torch.testing.assert_close(attend(query, key, value, bias=bias), attend(query, key, value), atol=2e-2, rtol=0)


@pytest.mark.parametrize("kind", [torch.float32, torch.int64, torch.uint8])
@BOTH_WAYS
def test_a_mask_that_is_not_boolean_is_refused(way: Callable[..., Tensor], kind: torch.dtype) -> None:
    x = torch.randn(2, 3, 4)
    with pytest.raises(MaskError, match=f"boolean.*not {kind}") as caught:
        way(x, x, x, mask=torch.ones(3, 3, dtype=kind))
    assert caught.value.hint is not None
    assert "bias" in caught.value.hint
    with pytest.raises(MaskError, match="not list"):
        way(x, x, x, mask=[[True]])


BAD_SHAPES: dict[str, tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], str]] = {
    "fewer values than keys": ((2, 3, 5, 8), (2, 3, 6, 8), (2, 3, 7, 8), r"\b6\b.*\b7\b"),
    "widths": ((2, 3, 5, 8), (2, 3, 6, 9), (2, 3, 6, 8), r"\b8\b.*\b9\b"),
    "batches of queries and keys": ((4, 3, 5, 8), (3, 3, 6, 8), (3, 3, 6, 8), r"\b4\b.*\b3\b"),
    "batches of keys and values": ((4, 3, 5, 8), (4, 3, 6, 8), (2, 3, 6, 8), r"\b4\b.*\b2\b"),
    "heads of queries and keys": ((2, 4, 5, 8), (2, 3, 6, 8), (2, 3, 6, 8), r"\b4\b.*\b3\b"),
    "heads of queries and values": ((2, 4, 5, 8), (2, 4, 6, 8), (2, 3, 6, 8), r"\b4\b.*\b3\b"),
    "nothing but a width": ((8,), (8,), (8,), r"\(8,\)"),
    "no positions": ((2, 4, 5, 8), (8,), (2, 4, 6, 8), r"\(8,\)"),
}


@BOTH_WAYS
@pytest.mark.parametrize("case", BAD_SHAPES)
def test_sizes_that_do_not_fit_are_named(way: Callable[..., Tensor], case: str) -> None:
    query, key, value, message = BAD_SHAPES[case]
    with pytest.raises(ShapeError, match=message):
        way(torch.randn(query), torch.randn(key), torch.randn(value))


@BOTH_WAYS
def test_a_bias_that_does_not_fit_is_named(way: Callable[..., Tensor]) -> None:
    query, key = torch.randn(2, 3, 5, 8), torch.randn(2, 3, 6, 8)
    with pytest.raises(ShapeError, match=r"\(5, 7\).* 5 queries × 6 keys"):
        way(query, key, key, bias=torch.zeros(5, 7))
    with pytest.raises(ShapeError, match=r"\b4\b.*\b3\b|\b3\b.*\b4\b"):
        way(query, key, key, bias=torch.zeros(4, 5, 6))
    for kind in (torch.bool, torch.int64):
        with pytest.raises(ShapeError, match=f"not {kind}"):
            way(query, key, key, bias=torch.zeros(5, 6, dtype=kind))


def test_the_default_score_is_the_scaled_dot_product() -> None:
    query, key, value = tensors((3, 16), (5, 16), (5, 2))
    assert torch.equal(attend(query, key, value), attend(query, key, value, score=ScaledDot(0.25)))
    assert not torch.equal(attend(query, key, value), attend(query, Prepared(key), value, score=ScaledDot(0.5)))


@pytest.mark.parametrize(
    ("query", "key", "value", "fits"),
    [
        ((2, 6, 5, 4), (2, 6, 7, 4), (2, 6, 7, 3), True),
        ((2, 6, 5, 4), (2, 3, 7, 4), (2, 3, 7, 3), True),  # two heads share one
        ((2, 6, 5, 4), (2, 4, 7, 4), (2, 4, 7, 3), False),
        ((2, 6, 5, 4), (1, 6, 7, 4), (1, 6, 7, 3), False),
        ((2, 6, 5, 4), (2, 6, 7, 4), (2, 3, 7, 3), False),
        ((6, 5, 4), (6, 7, 4), (6, 7, 3), False),
    ],
)
def test_kernels_are_given_what_they_can_take(
    query: tuple[int, ...], key: tuple[int, ...], value: tuple[int, ...], fits: bool
) -> None:
    assert _batch_of_heads(*(torch.zeros(shape) for shape in (query, key, value))) is fits


def test_every_leading_dimension_has_to_fit() -> None:
    query, key = torch.randn(3, 2, 1, 4, 8), torch.randn(5, 2, 1, 6, 8)
    with pytest.raises(ShapeError, match="a batch of 3 queries does not fit a batch of 5 keys"):
        attend(query, key, key)
    with pytest.raises(ShapeError, match="a batch of 3 keys does not fit a batch of 5 values"):
        attend(query, key[:3], key)
    assert attend(query, key[:1], key[:1]).shape == (3, 2, 1, 4, 8)
