"""Each score function: its formula, its gradient, its two halves, and what it refuses."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

import oracle
from regard.attention import (
    MLP,
    Additive,
    Dense,
    Dot,
    Gaussian,
    General,
    Prepared,
    ScaledDot,
    SoftCap,
    attend,
    attend_explicitly,
    attention_weights,
)
from regard.errors import ShapeError, UsageError

NAMES = sorted(oracle.SCORES)


def double(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


@pytest.mark.parametrize("name", NAMES)
def test_scores_follow_their_formula(name: str) -> None:
    query, key = double(2, 5, 4), double(2, 3, 4)
    score = oracle.SCORES[name](4).double()
    expected = torch.from_numpy(oracle.scores(score, query.numpy(), key.numpy()))
    assert score(query, key).shape == (2, 5, 3)
    torch.testing.assert_close(score(query, key), expected, atol=1e-13, rtol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_preparing_once_and_comparing_often_is_the_whole_score(name: str) -> None:
    query, key = double(2, 5, 4), double(2, 3, 4)
    score = oracle.SCORES[name](4).double()
    prepared = score.prepare(key)
    assert isinstance(prepared, Prepared)
    steps = [score.compare(query[:, t : t + 1], prepared) for t in range(5)]
    torch.testing.assert_close(torch.cat(steps, 1), score(query, key), atol=1e-13, rtol=0)


@pytest.mark.parametrize("name", NAMES)
def test_a_score_that_says_it_is_a_dot_product_is_one(name: str) -> None:
    query, key = double(5, 4), double(3, 4)
    score = oracle.SCORES[name](4).double()
    scale = score.dot_scale(4)
    assert (scale is None) == (name in {"gaussian", "additive", "mlp", "soft_cap", "soft_cap_additive"})
    if scale is not None:
        torch.testing.assert_close(score(query, key), scale * query @ score.prepare(key).keys.T, atol=1e-13, rtol=0)


@pytest.mark.parametrize("way", [attend, attend_explicitly])
@pytest.mark.parametrize("name", NAMES)
def test_gradients_are_right_with_an_empty_row(name: str, way: type[object]) -> None:
    score = oracle.SCORES[name](3).double()
    allowed = torch.tensor([[True, False, True, True], [False] * 4])
    inputs = [double(1, 2, 2, 3), double(1, 1, 4, 3), double(1, 1, 4, 2), double(2, 4)]
    inputs = [tensor.requires_grad_() for tensor in inputs]
    parameters = list(score.parameters())

    def attended(query: Tensor, key: Tensor, value: Tensor, bias: Tensor, *_: Tensor) -> Tensor:
        output = way(query, key, value, score=score, mask=Dense(allowed), bias=bias)  # type: ignore[call-arg]
        assert isinstance(output, Tensor)
        return output

    assert torch.autograd.gradcheck(attended, (*inputs, *parameters))


def test_the_lectures_table_for_x_15() -> None:
    """softmax(−(x − xᵢ)²) at x = 15 over 10, 20, 30: half, half, nothing."""
    points = torch.tensor([[10.0], [20.0], [30.0]])
    lecture = Gaussian(1 / math.sqrt(2))
    assert lecture(torch.tensor([[15.0]]), points).tolist() == [pytest.approx([-25.0, -25.0, -225.0], rel=1e-6)]
    weights = attention_weights(torch.tensor([[15.0]]), points, score=lecture)
    assert weights.tolist() == [pytest.approx([0.5, 0.5, 0.0], abs=1e-6)]


def test_gaussian_keeps_its_digits_far_from_zero() -> None:
    score = Gaussian(1.0)
    query, key = torch.tensor([[4096.0]]), torch.tensor([[4096.5], [4097.0]])
    assert score(query, key).tolist() == [pytest.approx([-0.125, -0.5])]


def test_gaussian_takes_a_bandwidth_for_each_feature() -> None:
    score = Gaussian(torch.tensor([1.0, 2.0]))
    assert score(torch.zeros(1, 2), torch.tensor([[1.0, 0.0], [0.0, 2.0], [3.0, 4.0]])).tolist() == [[-0.5, -0.5, -6.5]]


def test_gaussian_gradient_is_finite_where_query_and_key_meet() -> None:
    point = torch.ones(1, 2, requires_grad=True)
    attend(point, torch.ones(2, 2), torch.eye(2), score=Gaussian()).sum().backward()
    assert point.grad is not None
    assert point.grad.isfinite().all()


def test_the_scale_keeps_random_scores_at_unit_variance() -> None:
    query, key = torch.randn(400, 256), torch.randn(400, 256)
    assert ScaledDot()(query, key).std().item() == pytest.approx(1.0, abs=0.05)
    assert Dot()(query, key).std().item() == pytest.approx(16.0, abs=0.8)


def test_a_soft_cap_bounds_scores_and_leaves_small_ones() -> None:
    capped = SoftCap(Dot(), 2.0)
    key = torch.tensor([[100.0], [-100.0], [0.01]])
    assert capped(torch.ones(1, 1), key).tolist() == [pytest.approx([2.0, -2.0, 0.01], abs=1e-5)]


@pytest.mark.parametrize("make", [General, Additive, MLP])
def test_learned_scores_compare_different_widths(make: type[General] | type[Additive]) -> None:
    score = make(6, 4).double()
    query, key, value = double(2, 3, 5, 6), double(2, 3, 7, 4), double(2, 3, 7, 2)
    expected = torch.from_numpy(oracle.attention(query, key, value, score=score))
    torch.testing.assert_close(attend(query, key, value, score=score), expected, atol=1e-12, rtol=0)


def test_different_widths_are_refused_with_both_numbers() -> None:
    for score in (Dot(), ScaledDot(), Gaussian(), SoftCap(Dot(), 1.0)):
        with pytest.raises(ShapeError, match=r"width 4 .* width 5") as caught:
            score(torch.randn(3, 4), torch.randn(3, 5))
        assert "General" in (caught.value.hint or "")


def test_numbers_that_make_no_score_are_refused() -> None:
    with pytest.raises(UsageError, match=r"greater than 0, not -1.0"):
        Gaussian(-1.0)
    with pytest.raises(UsageError, match=r"greater than 0, not 0"):
        Gaussian(0)
    with pytest.raises(UsageError, match=r"greater than 0, not 0.0"):
        SoftCap(Dot(), 0.0)
