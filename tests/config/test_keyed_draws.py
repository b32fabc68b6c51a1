"""Draws by key: right rates, independent of one another, and of everything but what they are for."""

from __future__ import annotations

import math

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from regard.attention import Documents, attend
from regard.config.keyed_draws import keyed, keyed_draws, recomputation, repeated
from regard.config.random_numbers import beta, integers, normal, uniform, uniforms
from regard.config.twins import SWITCH, reset
from regard.data.batching.hashing import hashed
from regard.errors import UsageError
from regard.layers.dropout import drop

CPU = torch.device("cpu")


def keys(n: int, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(hashed(seed, torch.arange(n).numpy()).view("int64"))


def dropped(*shape: int, p: float = 0.25, seed: int = 0) -> torch.Tensor:
    with keyed_draws(keys(shape[0], seed)):
        return (drop(torch.ones(*shape), p, training=True) == 0).double()


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_the_rate_is_right_everywhere(p: float) -> None:
    """Over all elements, in each row, at each position, in each feature: within five deviations."""
    zeros = dropped(40, 50, 64, p=p)
    for dims in ((0, 1, 2), (1, 2), (0, 2), (0, 1)):
        share = zeros.mean(dims)
        n = zeros.numel() / share.numel()
        assert float((share - p).abs().max()) < 5 * math.sqrt(p * (1 - p) / n)
    kept = drop(torch.ones(8, 9), p, training=True).unique()
    assert len(kept) == 2 and float(kept[1]) == pytest.approx(1 / (1 - p), rel=1e-4)  # noqa: PT018


def test_calls_rows_positions_and_features_are_independent() -> None:
    shape = (64, 32, 64)
    with keyed_draws(keys(shape[0])):
        first, second = ((drop(torch.ones(shape), 0.5, training=True) == 0).double() for _ in range(2))
    pairs = [(first, second), (first, dropped(*shape, p=0.5, seed=1))]
    pairs += [(first.roll(1, dim), first) for dim in range(3)] + [(first.roll(4, 2), first)]
    for one, other in pairs:
        related = ((one - 0.5) * (other - 0.5)).mean() * 4
        assert abs(float(related)) < 5 / math.sqrt(first.numel())


def test_an_example_draws_the_same_beside_any_others_and_at_any_width() -> None:
    whole = dropped(6, 20, 10)
    with keyed_draws(keys(6)[[4, 1]]):
        part = (drop(torch.ones(2, 13, 10), 0.25, training=True) == 0).double()
    assert torch.equal(part, whole[[4, 1], :13])


def test_a_packed_row_draws_what_padded_ones_do(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    lengths, width = [3, 7, 5], 7
    padded = torch.randn(3, 2, width, 8, dtype=torch.float64)
    packed = torch.cat([padded[i, :, :n] for i, n in enumerate(lengths)], 1)[None]
    real = torch.arange(width) < torch.tensor(lengths)[:, None]
    with keyed_draws(keys(3)):
        one = attend(padded, padded, padded, mask=real[:, None, None, :].expand(-1, -1, width, -1), dropout=0.3)
        whole = drop(torch.ones(3, width, 4), 0.3, training=True)
    mask = Documents(lengths)
    for switch in ("1", "0"):
        monkeypatch.setenv(SWITCH, switch)
        reset()
        with keyed_draws(keys(3)) as draws, draws.documents(torch.tensor(lengths), sum(lengths)):
            other = attend(packed, packed, packed, mask=mask, dropout=0.3)
            end_to_end = drop(torch.ones(1, sum(lengths), 4), 0.3, training=True)
        torch.testing.assert_close(other[0].transpose(0, 1), one.transpose(1, 2)[real], rtol=1e-12, atol=1e-12)
        assert torch.equal(end_to_end[0], whole[real])
    reset()


def test_numbers_have_their_distributions() -> None:
    n = 40_000
    with keyed_draws(keys(n)):
        even, gauss, whole = uniform((n,), CPU, low=-1, high=3), normal((n, 2), CPU), integers(-2, 3, n, CPU)
        small, large = beta(0.2, n, CPU), beta(2.0, n, CPU)
        two = uniforms(2, n, CPU)
    assert -1 <= float(even.min()) < float(even.max()) < 3
    assert float(even.mean()) == pytest.approx(1, abs=0.03)
    assert float(even.var()) == pytest.approx(16 / 12, rel=0.03)
    assert gauss.mean(0).tolist() == pytest.approx([0, 0], abs=0.03)
    assert gauss.var(0).tolist() == pytest.approx([1, 1], rel=0.03)
    assert float((gauss.abs() > 1.96).double().mean()) == pytest.approx(0.05, abs=0.004)
    assert torch.bincount(whole + 2).div(n).tolist() == pytest.approx([0.2] * 5, abs=0.01)
    for drawn, alpha in ((small, 0.2), (large, 2.0)):
        assert float(drawn.mean()) == pytest.approx(0.5, abs=0.01)
        assert float(drawn.var()) == pytest.approx(1 / (4 * (2 * alpha + 1)), rel=0.03)
        fourth = 3 / (16 * (2 * alpha + 1) * (2 * alpha + 3))  # of the symmetric beta distribution
        assert float((drawn - 0.5).pow(4).mean()) == pytest.approx(fourth, rel=0.05)
    assert two.shape == (2, n)
    assert float(torch.corrcoef(torch.stack([*two, even]))[0, 1:].abs().max()) < 0.025


def test_a_batch_that_comes_twice_draws_twice() -> None:
    with keyed_draws(keys(3)), repeated(2):
        both = drop(torch.ones(6, 40), 0.5, training=True)
    assert torch.equal(both[:3] == 0, dropped(3, 40, p=0.5) == 1)
    assert not torch.equal(both[:3], both[3:])


def test_rows_that_belong_to_no_example_are_refused() -> None:
    with keyed_draws(keys(4)), pytest.raises(UsageError, match="6 rows draw by key, and there are keys for 4 examples"):
        drop(torch.ones(6, 3), 0.5, training=True)


def test_what_is_computed_again_draws_again() -> None:
    """With the same gradients as without; who forgets to say so is told."""

    def block(x: torch.Tensor) -> torch.Tensor:
        return drop(drop(x, 0.5, training=True).sin(), 0.5, training=True)

    def gradient(**how: object) -> torch.Tensor:
        x = torch.linspace(0, 1, 60).view(3, 20).requires_grad_()
        with keyed_draws(keys(3)):
            middle = checkpoint(block, x, use_reentrant=False, **how) if how else block(x)
            drop(middle, 0.5, training=True).sum().backward()
        assert x.grad is not None
        return x.grad

    assert torch.equal(gradient(context_fn=recomputation), gradient())
    with pytest.raises(UsageError, match="computed again in the backward pass"):
        gradient(determinism_check="default")
    assert keyed() is None
