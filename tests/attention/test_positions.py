"""Positions: the shift matrix of the lectures, the turning of rotary heads, ALiBi's published slopes."""

from __future__ import annotations

import copy
import math
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from torch import Tensor

from regard.attention import ALiBi, Learned, Rotary, Sinusoidal, Stretch, shift_matrix, sinusoidal
from regard.errors import ShapeError, UsageError

WIDTHS = [2, 4, 6, 64, 128]


def test_the_sinusoid_follows_its_formula() -> None:
    table = sinusoidal(50, 6, dtype=torch.float64)
    for t in (0, 1, 7, 49):
        for pair in range(3):
            angle = t / 10000 ** (2 * pair / 6)
            assert table[t, 2 * pair].item() == pytest.approx(math.sin(angle), abs=1e-13)
            assert table[t, 2 * pair + 1].item() == pytest.approx(math.cos(angle), abs=1e-13)
    assert sinusoidal(3, 4).dtype == torch.float32
    assert sinusoidal(3, 4, base=100.0)[1, 2].item() == pytest.approx(math.sin(0.1))


@pytest.mark.parametrize("d_model", WIDTHS)
def test_the_shift_matrix_moves_every_position(d_model: int) -> None:
    table = sinusoidal(400, d_model, dtype=torch.float64)
    for shift in (0, 1, 2, 17, 100, 333):
        moved = table[: 400 - shift] @ shift_matrix(shift, d_model).T
        torch.testing.assert_close(moved, table[shift:], atol=1e-12, rtol=0)
    back = table[5:] @ shift_matrix(-5, d_model).T
    torch.testing.assert_close(back, table[:-5], atol=1e-12, rtol=0)


@pytest.mark.parametrize("d_model", WIDTHS)
def test_shift_matrices_are_rotations_that_compose(d_model: int) -> None:
    identity = torch.eye(d_model, dtype=torch.float64)
    for a, b in [(1, 2), (10, -3), (40, 60), (0.5, 0.25)]:
        one, other = shift_matrix(a, d_model), shift_matrix(b, d_model)
        torch.testing.assert_close(one @ one.T, identity, atol=1e-12, rtol=0)
        torch.testing.assert_close(one @ other, shift_matrix(a + b, d_model), atol=1e-12, rtol=0)
    assert torch.equal(shift_matrix(0, d_model), identity)
    assert not torch.allclose(shift_matrix(1, d_model), identity)


def test_sines_and_cosines_need_an_even_width() -> None:
    for broken in (lambda: sinusoidal(3, 7), lambda: shift_matrix(1, 7), lambda: Rotary(7), lambda: Sinusoidal(7)):
        with pytest.raises(ShapeError, match="even, not 7"):
            broken()


def test_sinusoidal_adds_the_table_and_grows() -> None:
    module = Sinusoidal(8, n_positions=4)
    assert module.state_dict() == {}
    table = sinusoidal(300, 8)
    embedded = torch.randn(2, 3, 8)
    assert torch.equal(module(embedded), embedded + table[:3])
    assert torch.equal(module(embedded, offset=250), embedded + table[250:253])
    assert torch.equal(module(embedded), embedded + table[:3])
    positions = torch.tensor([[0, 5, 299], [1, 1, 2]])
    module.reserve(300)
    assert torch.equal(module(embedded, positions=positions), embedded + table[positions])
    assert module(embedded.bfloat16()).dtype == torch.bfloat16


def test_learned_positions_end() -> None:
    module = Learned(8, n_positions=5)
    embedded = torch.randn(2, 3, 8)
    weight = module.table.weight
    assert torch.equal(module(embedded, offset=2), embedded + weight[2:5])
    positions = torch.tensor([[4, 0, 0], [1, 2, 3]])
    assert torch.equal(module(embedded, positions=positions), embedded + weight[positions])
    with pytest.raises(ShapeError, match=r"6 positions are more than the 5"):
        module(torch.randn(2, 6, 8))
    with pytest.raises(ShapeError, match=r"8 positions are more than the 5"):
        module(embedded, offset=5)
    module.reserve(5)
    with pytest.raises(ShapeError, match=r"9 positions are more than the 5"):
        module.reserve(9)


def turned_in_numpy(heads: Tensor, positions: Tensor, *, interleaved: bool) -> Tensor:
    """Each pair of features as one complex number, multiplied by e^(i ω t)."""
    x, width = heads.double().numpy(), heads.shape[-1]
    half = width // 2
    pairs = x[..., 0::2] + 1j * x[..., 1::2] if interleaved else x[..., :half] + 1j * x[..., half:]
    rates = 10000.0 ** (-np.arange(0, width, 2) / width)
    turned = pairs * np.exp(1j * positions.numpy()[:, None] * rates)
    result = np.empty_like(x)
    first, second = (slice(0, None, 2), slice(1, None, 2)) if interleaved else (slice(half), slice(half, None))
    result[..., first], result[..., second] = turned.real, turned.imag
    return torch.from_numpy(result)


@pytest.mark.parametrize("interleaved", [False, True])
def test_rotary_turns_each_pair_by_its_angle(interleaved: bool) -> None:
    heads, positions = torch.randn(2, 3, 5, 8), torch.tensor([0, 1, 2, 50, 400])
    expected = turned_in_numpy(heads, positions, interleaved=interleaved)
    output = Rotary(8, interleaved=interleaved)(heads, positions=positions)
    torch.testing.assert_close(output.double(), expected, atol=2e-4, rtol=0)
    assert torch.equal(output[..., 0, :], heads[..., 0, :])
    exact = Rotary(8, interleaved=interleaved)(heads.double(), positions=positions)
    torch.testing.assert_close(exact, expected, atol=1e-12, rtol=0)


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("d_rotary", [None, 4])
def test_rotary_scores_depend_on_distance_alone(interleaved: bool, d_rotary: int | None) -> None:
    rotary = Rotary(8, interleaved=interleaved, d_rotary=d_rotary)
    query, key = torch.randn(2, 1, 2, 6, 8, dtype=torch.float64)
    here = rotary(query, offset=3) @ rotary(key).mT
    there = rotary(query, offset=103) @ rotary(key, offset=100).mT
    torch.testing.assert_close(here, there, atol=1e-12, rtol=0)
    elsewhere = rotary(query, offset=4) @ rotary(key).mT
    assert (here - elsewhere).abs().max() > 0.1


def test_interleaved_and_half_split_are_permutations_of_each_other() -> None:
    heads = torch.randn(2, 3, 5, 8)
    order = torch.tensor([0, 4, 1, 5, 2, 6, 3, 7])  # feature l beside feature l + E/2
    half = Rotary(8)(heads, offset=7)
    interleaved = Rotary(8, interleaved=True)(heads[..., order], offset=7)
    torch.testing.assert_close(interleaved, half[..., order], atol=1e-6, rtol=0)


def test_partial_rotary_leaves_the_rest_untouched() -> None:
    heads = torch.randn(2, 3, 5, 8)
    output = Rotary(8, d_rotary=4)(heads, offset=3)
    assert torch.equal(output[..., 4:], heads[..., 4:])
    assert torch.equal(output[..., :4], Rotary(4)(heads[..., :4], offset=3))
    with pytest.raises(ShapeError, match=r"10 features .* head of 8"):
        Rotary(8, d_rotary=10)


def test_a_stretch_over_all_features_is_a_shorter_way() -> None:
    heads, positions = torch.randn(3, 8), torch.tensor([0, 6, 30])
    slow = Rotary(8, stretch=Stretch(factor=3.0))(heads, positions=positions)
    torch.testing.assert_close(slow, Rotary(8)(heads, positions=positions // 3))


def test_a_stretch_with_a_trained_length_slows_only_what_turns_slowly() -> None:
    plain, stretch = Rotary(8, base=100.0).rates, Stretch(factor=4.0, n_trained=40, low=1.0, high=3.0)
    turns = 40 * plain / (2 * math.pi)  # 6.37, 2.01, 0.64, 0.20
    kept = (turns[1] - 1.0) / 2.0
    expected = torch.stack((plain[0], plain[1] * kept + plain[1] / 4 * (1 - kept), plain[2] / 4, plain[3] / 4))
    torch.testing.assert_close(Rotary(8, base=100.0, stretch=stretch).rates, expected)
    with pytest.raises(UsageError, match=r"a factor above 0 and low < high, not 2\.0, 4\.0 and 4\.0"):
        Stretch(factor=2.0, low=4.0)


def test_rotary_positions_of_each_row() -> None:
    rotary, heads = Rotary(8), torch.randn(2, 3, 4, 8)
    positions = torch.tensor([[0, 1, 2, 3], [7, 8, 9, 20]])
    output = rotary(heads, positions=positions)
    assert torch.equal(output[0], rotary(heads[0], positions=positions[0]))
    assert torch.equal(output[1], rotary(heads[1], positions=positions[1]))
    assert torch.equal(output[:1], rotary(heads[:1]))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_rotary_in_half_precision_keeps_its_angles(dtype: torch.dtype) -> None:
    """Converting a model rounds its weights; rounded angles would lose every far position."""
    rotary, positions = Rotary(64), torch.tensor([0, 10, 2000, 30000])
    heads = torch.randn(1, 2, 4, 64).to(dtype)
    exact = rotary(heads.float(), positions=positions)
    for module in (rotary, copy.deepcopy(rotary).to(dtype)):
        output = module(heads, positions=positions)
        assert output.dtype == dtype
        torch.testing.assert_close(output.float(), exact, atol=2e-2, rtol=2e-2)


def test_alibi_slopes_are_the_published_ones() -> None:
    assert ALiBi(8).slopes.tolist() == [2.0**-i for i in range(1, 9)]
    assert ALiBi(1).slopes.tolist() == [2.0**-8]
    twelve = [2.0**-i for i in range(1, 9)] + [2.0**-0.5, 2.0**-1.5, 2.0**-2.5, 2.0**-3.5]
    assert ALiBi(12).slopes.tolist() == pytest.approx(twelve)
    assert ALiBi(16).slopes.tolist() == pytest.approx([2.0 ** (-i / 2) for i in range(1, 17)])
    with pytest.raises(UsageError, match="not 0"):
        ALiBi(0)


def test_alibi_bias_by_hand() -> None:
    bias = ALiBi(8)(3, 4)
    assert bias.shape == (8, 3, 4)
    assert bias[0].tolist() == [[0.0, -0.5, -1.0, -1.5], [-0.5, 0.0, -0.5, -1.0], [-1.0, -0.5, 0.0, -0.5]]
    assert bias[2, 0].tolist() == [0.0, -0.125, -0.25, -0.375]
    assert torch.equal(ALiBi(8)(1, 4, offset=2), bias[:, 2:3])


def test_threads_that_want_more_positions_all_get_theirs() -> None:
    module, turns = Sinusoidal(8, n_positions=2), sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            for _ in range(20):
                module.table = module.table[:2]
                list(pool.map(module.reserve, [3, 2000, 5, 9, 1000, 17, 33, 65]))
                assert len(module.table) >= 2000
    finally:
        sys.setswitchinterval(turns)
