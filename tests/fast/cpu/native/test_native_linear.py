"""The packed layer multiplies as PyTorch does, at every size, and a row never feels its neighbours."""

import ctypes
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from regard.fast.cpu.native import Kernels, NativeLinear, loaded, loading, why

SIZES = [(1, 1), (3, 5), (16, 32), (33, 7), (31, 64), (64, 31), (130, 66), (100, 257), (512, 96)]  # inputs, outputs
MACHINES = ["native", "haswell"]  # this one, and one without AVX-512 and tiles


@pytest.fixture(params=MACHINES)
def kernels(request) -> Kernels:
    found = loaded(machine=request.param)
    if found is None:
        pytest.skip(why(machine=request.param))
    return found


def exact(weight, rows, *, bias=None, relu=False):
    product = rows.double() @ weight.double().T
    product = product if bias is None else product + bias.double()
    return (product.relu() if relu else product).float()


def rounded_rows(rows, *, bits, positive):
    """Whole numbers and the size of a step, row by row."""
    steps = 2**bits - 1 if positive else 2 ** (bits - 1) - 1
    largest = rows.abs().amax(-1, keepdim=True).clamp(min=torch.finfo(torch.float32).tiny)
    return (rows * (steps / largest)).round(), largest / steps


@pytest.mark.parametrize("n_rows", [1, 2, 8, 13, 97])
@pytest.mark.parametrize(("n_in", "n_out"), SIZES)
def test_single_precision(kernels, n_in, n_out, n_rows):
    weight, rows, bias = torch.randn(n_out, n_in), torch.randn(n_rows, n_in), torch.randn(n_out)
    found = NativeLinear(kernels, weight, bias=bias)(rows)
    torch.testing.assert_close(found, exact(weight, rows, bias=bias), rtol=1e-5, atol=1e-4)
    rectified = NativeLinear(kernels, weight, bias=bias, activation="relu")(rows)
    assert torch.equal(rectified, found.relu())


@pytest.mark.parametrize(("activation", "approximate"), [("gelu", "none"), ("gelu_tanh", "tanh")])
def test_gelu_is_exact_to_the_last_bits(kernels, activation, approximate):
    """All along the numbers, and where they are so large that nothing or everything is left of them."""
    x = torch.cat([torch.linspace(-12, 12, 100_001), torch.tensor([0.0, 1e-30, -1e-30, 50.0, -50.0, 3e4, -3e4])])
    layer = NativeLinear(kernels, torch.ones(1, 1), activation=activation)
    found, exact = layer(x[:, None])[:, 0], torch.nn.functional.gelu(x.double(), approximate=approximate)
    assert ((found - exact).abs() / x.abs().clamp(min=1)).max() < 3e-7


@pytest.mark.parametrize("n_rows", [1, 9, 97])
@pytest.mark.parametrize(("n_in", "n_out"), SIZES)
def test_bfloat(kernels, n_in, n_out, n_rows):
    if not kernels.has_bfloat:
        pytest.skip("this processor has no bf16")
    weight, rows = torch.randn(n_out, n_in).bfloat16(), torch.randn(n_rows, n_in)
    found = NativeLinear(kernels, weight)(rows)
    torch.testing.assert_close(found, exact(weight, rows.bfloat16()), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("n_rows", [1, 9, 97])
@pytest.mark.parametrize(("n_in", "n_out"), SIZES)
def test_eight_bits(kernels, n_in, n_out, n_rows, positive):
    """Exactly the product of whole numbers, scaled: no sum overflows, and nothing is rounded but the inputs."""
    weight = torch.randint(-128, 128, (n_out, n_in), dtype=torch.int8)
    scales, bias = torch.rand(n_out) + 0.5, torch.randn(n_out)
    rows = torch.randn(n_rows, n_in)
    rows = rows.abs() if positive else rows
    rows[n_rows // 2] = rows[n_rows // 2].abs().amax()  # a row of the largest numbers there are
    layer = NativeLinear(kernels, weight, bias=bias, scales=scales, positive=positive)
    whole, step = rounded_rows(rows, bits=kernels.bits, positive=positive)
    expected = exact(weight, whole) * step * scales + bias
    torch.testing.assert_close(layer(rows), expected, rtol=1e-5, atol=1e-4)


def test_rows_of_nothing_and_no_rows(kernels):
    weight = torch.randint(-127, 128, (40, 20), dtype=torch.int8)
    bias = torch.randn(40)
    for positive in (False, True):
        layer = NativeLinear(kernels, weight, bias=bias, scales=torch.ones(40), positive=positive)
        assert torch.equal(layer(torch.zeros(3, 20)), bias.expand(3, 40))
        assert layer(torch.zeros(0, 20)).shape == (0, 40)
        assert layer(torch.zeros(2, 0, 20)).shape == (2, 0, 40)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8])
def test_a_row_is_the_same_in_every_batch_bit_for_bit(kernels, dtype):
    if dtype == torch.bfloat16 and not kernels.has_bfloat:
        pytest.skip("this processor has no bf16")
    weight = torch.randint(-127, 128, (72, 130)).to(dtype)
    scales = torch.rand(72) if dtype == torch.int8 else None
    layer = NativeLinear(kernels, weight, scales=scales)
    rows = torch.randn(301, 130) * torch.logspace(-3, 3, 301)[:, None]
    together = layer(rows)
    for n in (1, 2, 3, 7, 8, 9, 15, 16, 17, 96, 97, 200):
        assert torch.equal(layer(rows[:n]), together[:n]), n
        assert torch.equal(layer(rows[-n:]), together[-n:]), n


@pytest.mark.parametrize("activation", ["none", "relu", "gelu"])
@pytest.mark.parametrize(("n_in", "n_out"), [(64, 32), (128, 31), (512, 96), (2048, 40)])
def test_tiles_add_up_to_what_single_rows_come_to(kernels, n_in, n_out, activation):
    """Where a processor has tiles, so many rows and inputs are multiplied in them: not a bit is another."""
    weight = torch.randint(-128, 128, (n_out, n_in), dtype=torch.int8)
    layer = NativeLinear(kernels, weight, bias=torch.randn(n_out), scales=torch.rand(n_out), activation=activation)
    rows = torch.randn(203, n_in) * torch.logspace(-3, 3, 203)[:, None]
    alone = torch.cat([layer(row[None]) for row in rows])
    for n in (3, 4, 5, 15, 16, 17, 31, 32, 33, 49, 63, 64, 65, 95, 96, 97, 129, 203):
        assert torch.equal(layer(rows[:n]), alone[:n]), n


@pytest.mark.parametrize("activation", ["relu", "gelu", "gelu_tanh"])
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8])
def test_what_is_no_number_is_not_lost(kernels, dtype, bad, activation):
    if dtype == torch.bfloat16 and not kernels.has_bfloat:
        pytest.skip("this processor has no bf16")
    weight = torch.randint(-127, 128, (40, 50)).to(dtype)
    weight[:, 17] = 0
    layer = NativeLinear(kernels, weight, scales=torch.ones(40) if dtype == torch.int8 else None, activation=activation)
    rows = torch.randn(9, 50)
    rows[4, 17] = bad  # nothing or infinitely much, times zero
    found = layer(rows)
    assert found[4].isnan().all()
    assert not found[[0, 1, 2, 3, 5, 6, 7, 8]].isnan().any()


def test_many_rows_threads_and_other_layouts(kernels):
    weight = torch.randn(300, 200)
    layer = NativeLinear(kernels, weight)
    rows = torch.randn(1000, 200)
    torch.testing.assert_close(layer(rows), exact(weight, rows), rtol=1e-5, atol=1e-4)
    before = torch.get_num_threads()
    try:
        results = []
        for n in (1, 2, 3):
            torch.set_num_threads(n)
            results.append(layer(rows))
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(result, results[0]) for result in results), "who computes a piece changes nothing"
    turned = torch.randn(200, 6, 4).transpose(0, 2)  # (4, 6, 200), not contiguous
    torch.testing.assert_close(layer(turned), exact(weight, turned), rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(layer(rows.double()), layer(rows))


def test_threads_that_ask_first_at_the_same_time_get_the_same_runtime():
    """Its address is handed out: another one would be gone as soon as somebody looked there."""
    together = threading.Barrier(8)
    turns = sys.getswitchinterval()

    def address(n_threads):
        together.wait(20)
        return ctypes.addressof(loading._runtime(n_threads))

    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            for n_threads in range(1000, 1050):
                assert len(set(pool.map(address, [n_threads] * 8))) == 1
    finally:
        sys.setswitchinterval(turns)
        for n_threads in range(1000, 1050):
            loading._runtimes.pop(n_threads, None)
