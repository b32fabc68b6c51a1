"""Linear layers in blocks against numpy in double precision, on each kind of processor that can be tried here."""

import numpy as np
import pytest
import torch
from torch import nn

from regard.fast.cpu.large_pages import move_together
from regard.fast.cpu.native import NativeBlocks, loaded, why
from regard.fast.cpu.packed_linear import pack_linears
from regard.layers.block_weights import FORMATS, BlockLinear, BlockMatrix

gguf = pytest.importorskip("gguf")
quants = pytest.importorskip("gguf.quants")


@pytest.fixture(scope="module", params=["native", "haswell"])
def kernels(request):
    found = loaded(machine=request.param)
    if found is None:
        pytest.skip(why(machine=request.param))
    return found


def matrix_of(form, n_out, n_in):
    kind = gguf.GGMLQuantizationType[form]
    numbers = np.random.default_rng(n_out).standard_normal((n_out, n_in)).astype(np.float32)
    stored = quants.quantize(numbers, kind)
    return BlockMatrix(torch.from_numpy(stored), FORMATS[form]), quants.dequantize(stored, kind).astype(np.float64)


def rounded(rows):
    """What the kernels see of rows: each 32 numbers in 127 steps of the largest."""
    blocks = rows.numpy().astype(np.float64).reshape(len(rows), -1, 32)
    steps = np.maximum(np.abs(blocks).max(-1, keepdims=True), 1e-30) / 127
    return (np.round(blocks / steps) * steps).reshape(len(rows), -1)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize(("n_out", "n_in"), [(1, 32), (16, 64), (77, 160)])
def test_products_are_those_of_the_blocks(kernels, form, n_out, n_in):
    matrix, exact = matrix_of(form, n_out, n_in)
    bias, rows = torch.randn(n_out), torch.randn(19, n_in)
    rows[3] = 0.0
    found = NativeBlocks(kernels, matrix, bias=bias)(rows).numpy()
    wanted = rounded(rows) @ exact.T + bias.numpy()
    np.testing.assert_allclose(found, wanted, atol=2e-5 * np.abs(wanted).max())


@pytest.mark.parametrize("form", FORMATS)
def test_a_row_is_the_same_in_any_company_and_with_any_threads(kernels, form):
    layer, rows = NativeBlocks(kernels, matrix_of(form, 2048, 160)[0]), torch.randn(101, 160)
    n_threads = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        together = layer(rows)
        assert all(torch.equal(layer(rows[i : i + n]), together[i : i + n]) for i, n in ((0, 1), (7, 3), (90, 11)))
        torch.set_num_threads(1)
        assert torch.equal(layer(rows), together)
    finally:
        torch.set_num_threads(n_threads)


@pytest.mark.parametrize("form", FORMATS)
def test_plain_numbers_and_looked_up_rows_are_exact(kernels, form):
    matrix, exact = matrix_of(form, 37, 96)
    ids = torch.tensor([[3, 36], [0, 17]])
    assert np.array_equal(matrix.plain().double().numpy(), exact)
    assert torch.equal(matrix.rows(ids), matrix.plain()[ids])
    assert torch.equal(NativeBlocks(kernels, matrix).rows(ids), matrix.plain()[ids])


def test_what_is_not_a_number_is_seen(kernels):
    rows = torch.randn(2, 64)
    rows[0, 5] = float("nan")
    found = NativeBlocks(kernels, matrix_of("Q4_1", 16, 64)[0])(rows)
    assert found[0].isnan().all()
    assert found[1].isfinite().all()


def test_matrices_move_together_and_stay_what_they_are():
    matrices = [matrix_of(form, 40, 64)[0] for form in FORMATS]
    before = [matrix.plain() for matrix in matrices]
    move_together([*matrices, matrices[0]])
    assert len({matrix.tiles.untyped_storage().data_ptr() for matrix in matrices}) == 1
    assert all(torch.equal(matrix.plain(), plain) for matrix, plain in zip(matrices, before, strict=True))


def test_packed_layers_multiply_with_the_matrices_that_moved():
    if loaded() is None:
        pytest.skip(why())
    layers = nn.Sequential(*(BlockLinear(matrix_of("Q8_0", n, 64)[0]) for n in (64, 32)), nn.Linear(32, 8))
    packed = pack_linears(layers)
    blocks = [layer.blocks.tiles for layer in packed[:2]]
    assert len({tiles.untyped_storage().data_ptr() for tiles in blocks}) == 1
    assert [layer.native.structure.weights for layer in packed[:2]] == [tiles.data_ptr() for tiles in blocks]
