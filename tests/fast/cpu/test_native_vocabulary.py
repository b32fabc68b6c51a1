"""The largest of a row and the sum of its exponentials, as PyTorch finds them."""

import math

import pytest
import torch

from regard.fast.cpu.native import loaded, why
from regard.fast.cpu.vocabulary import MOST, log_sum_exp, native_top_k


@pytest.fixture(autouse=True)
def at_hand():
    if loaded() is None:
        pytest.skip(why())


@pytest.mark.parametrize("k", [1, 2, 6, 64])
@pytest.mark.parametrize(("n_rows", "n_columns"), [(1, 64), (3, 100), (17, 1003), (80, 2000)])
def test_the_largest(n_rows, n_columns, k):
    values = torch.randn(n_rows, n_columns)
    found, columns = native_top_k(values, k)
    expected = values.topk(k)
    assert torch.equal(found, expected.values)
    assert torch.equal(columns, expected.indices)


def test_equals_in_their_order():
    values = torch.tensor([[1.0, 3.0, 3.0, 0.0, 3.0] + [2.0] * 40])
    assert native_top_k(values, 4)[1].tolist() == [[1, 2, 4, 5]]
    values = torch.full((2, 50), -math.inf)
    values[1, 33] = 0.0
    found, columns = native_top_k(values, 3)
    assert columns.tolist() == [[0, 1, 2], [33, 0, 1]], "what is forbidden still has its place"
    assert found[0].tolist() == [-math.inf] * 3


def test_what_is_no_number_comes_first():
    values = torch.randn(2, 300)
    values[0, [7, 200, 299]] = math.nan
    found, columns = native_top_k(values, 4)
    assert columns[0, :3].tolist() == [7, 200, 299]
    assert found[0, 3] == values[0].nan_to_num(-9).max()
    assert native_top_k(torch.full((1, 40), math.nan), 2)[1].tolist() == [[0, 1]]


@pytest.mark.parametrize(("n_rows", "n_columns"), [(1, 1), (2, 15), (5, 16), (7, 1001), (80, 2000)])
def test_log_sums(n_rows, n_columns):
    values = torch.randn(n_rows, n_columns) * 10
    values[0, n_columns // 2] = 80.0
    torch.testing.assert_close(log_sum_exp(values), values.double().logsumexp(-1).float(), rtol=1e-6, atol=1e-5)
    nothing = values.clone()
    nothing[0, -1] = math.nan
    assert log_sum_exp(nothing)[0].isnan()
    forbidden = values.clone()
    forbidden[:, : n_columns // 2] = -math.inf
    torch.testing.assert_close(log_sum_exp(forbidden), forbidden.double().logsumexp(-1).float(), rtol=1e-6, atol=1e-5)


def test_a_row_is_the_same_in_every_batch_bit_for_bit():
    values = torch.randn(30, 777)
    assert torch.equal(log_sum_exp(values)[7:8], log_sum_exp(values[7:8]))
    assert torch.equal(native_top_k(values, 5)[0][:3], native_top_k(values[:3], 5)[0])


def test_what_is_left_to_pytorch():
    values = torch.randn(4, 100)
    assert native_top_k(values, MOST + 1) is None
    assert native_top_k(values[:, :3], 2) is None, "not contiguous"
    assert native_top_k(torch.randn(4, 3), 4) is None, "fewer than asked for"
    assert native_top_k(values.double(), 2) is None
    assert log_sum_exp(values.requires_grad_()) is None
