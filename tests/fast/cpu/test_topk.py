"""The largest of many columns, found by groups or by kernels of our own, are those that sorting finds."""

import pytest
import torch

from regard.decoding.stepper import top_1, top_k
from regard.fast.cpu.native import loaded, why


@pytest.fixture(autouse=True, params=["kernels", "PyTorch"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With kernels of our own, where there are some, and without them."""
    if request.param == "PyTorch":
        monkeypatch.setenv("REGARD_NATIVE", "0")
    elif loaded() is None:
        pytest.skip(why())


WIDTHS = [5, 64, 640, 8000, 8003, 20_000]


def rows(n_columns: int, kind: str) -> torch.Tensor:
    draw = torch.Generator().manual_seed(n_columns)
    values = torch.randn((9, n_columns), generator=draw)
    if kind == "ties":
        return values.round()
    if kind == "ends":  # the largest stand first and last
        values[:, 0], values[:, -1] = 9.0, 8.0
    if kind == "closed":  # most of a row is forbidden, and one row entirely
        values[values < 1.5] = -torch.inf
        values[4] = -torch.inf
    return values


@pytest.mark.parametrize("kind", ["plain", "ties", "ends", "closed"])
@pytest.mark.parametrize("n_columns", WIDTHS)
def test_the_first_largest(n_columns: int, kind: str) -> None:
    values = rows(n_columns, kind)
    assert torch.equal(top_1(values), values.argmax(-1))


@pytest.mark.parametrize("kind", ["plain", "ties", "ends", "closed"])
@pytest.mark.parametrize("k", [1, 3, 5])
@pytest.mark.parametrize("n_columns", WIDTHS)
def test_the_k_largest(n_columns: int, k: int, kind: str) -> None:
    values = rows(n_columns, kind)
    found, columns = top_k(values, k)
    assert torch.equal(found, values.topk(k).values)
    assert torch.equal(values.gather(1, columns), found)
    assert all(len(set(row)) == k for row in columns.tolist()), "no column twice"


def test_nan_is_not_lost() -> None:
    values = torch.zeros(2, 8000)
    values[1, 777] = torch.nan
    assert top_k(values, 3)[0][1].isnan().any()
    assert top_1(values)[1] == 777
