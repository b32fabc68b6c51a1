"""Products of a row or two with a matrix equal PyTorch's, on Triton's interpreter or a GPU."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

gemv = pytest.importorskip(
    "regard.fast.gpu.few_rows.gemv", reason="Triton is not installed: it is part of the dev extra on Linux"
)

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
pytestmark = pytest.mark.gpu
TOLERANCES = {torch.float64: 1e-12, torch.float32: 2e-5, torch.bfloat16: 4e-2}  # the interpreter cuts bits off
ACTIVATIONS = {
    "none": lambda x: x,
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
}


def random(*shape, dtype=torch.float64):
    return torch.randn(shape, dtype=torch.float64).to(DEVICE, dtype)


def linear(n_inputs, n_outputs, *, dtype, biased=True):
    """A weight whose products are about one, and a bias."""
    weight = random(n_outputs, n_inputs) / n_inputs**0.5
    return weight.to(dtype), random(n_outputs, dtype=dtype) if biased else None


def close(found, expected, dtype):
    assert found.dtype == dtype
    torch.testing.assert_close(found, expected, atol=TOLERANCES[dtype], rtol=TOLERANCES[dtype])


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize(("n_inputs", "n_outputs"), [(7, 3), (512, 8), (700, 13)], ids=str)
@pytest.mark.parametrize("biased", [False, True])
def test_products_of_few_rows(n_inputs, n_outputs, biased, dtype):
    weight, bias = linear(n_inputs, n_outputs, dtype=dtype, biased=biased)
    hidden = random(2, 1, 2 * n_inputs, dtype=dtype)[..., ::2]  # not together in memory
    close(gemv.gemv_linear(hidden, weight, bias), F.linear(hidden.contiguous(), weight, bias), dtype)


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("norm", ["layer", "layer without bias", "rms"])
@pytest.mark.parametrize(("n_inputs", "n_outputs"), [(24, 19), (768, 6)], ids=str)
def test_a_norm_before_a_product(n_inputs, n_outputs, norm, dtype):
    weight, bias = linear(n_inputs, n_outputs, dtype=dtype)
    hidden, scale, shift = 3 * random(2, n_inputs) + 5, random(n_inputs), random(n_inputs)
    hidden, scale, shift = hidden.to(dtype), scale.to(dtype), None if norm != "layer" else shift.to(dtype)
    if norm == "rms":
        normed = F.rms_norm(hidden, (n_inputs,), scale, 1e-3)
    else:
        normed = F.layer_norm(hidden, (n_inputs,), scale, shift, 1e-3)
    given = gemv.GemvNorm(scale, shift, 1e-3, norm != "rms")
    close(gemv.gemv(hidden, weight, bias, norm=given), F.linear(normed, weight, bias), dtype)


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_an_activation_and_a_residual_behind_it(activation, gated, dtype):
    weight, bias = linear(24, 38 if gated else 19, dtype=dtype)
    hidden, residual = random(3, 24, dtype=dtype), random(3, 19, dtype=dtype)
    product, inner = F.linear(hidden, weight, bias), torch.ones((), dtype=dtype, device=DEVICE)
    if gated:
        product, inner = product.chunk(2, -1)
    expected = ACTIVATIONS[activation](product) * inner
    options = {"activation": activation, "gated": gated}
    close(gemv.gemv(hidden, weight, bias, **options), expected, dtype)
    close(gemv.gemv(hidden, weight, bias, residual=residual, **options), expected + residual, dtype)


@pytest.mark.parametrize(("activation", "large"), [("silu", 200.0), ("gelu_tanh", 50.0), ("gelu", 50.0)])
@pytest.mark.filterwarnings("ignore:overflow")
def test_activations_far_out(activation, large):
    weight = torch.tensor([[large], [-large], [0.0]], device=DEVICE)
    found = gemv.gemv(torch.ones(1, 1, device=DEVICE), weight, activation=activation)
    torch.testing.assert_close(found, torch.tensor([[large, 0.0, 0.0]], device=DEVICE))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_a_row_is_the_same_to_the_bit_whoever_is_beside_it(dtype):
    weight, bias = linear(72, 2 * gemv.OUTPUTS + 3, dtype=dtype)
    hidden, norm = random(8, 72, dtype=dtype), gemv.GemvNorm(random(72, dtype=dtype), None, 1e-5, True)
    alone = [gemv.gemv(row[None], weight, bias, norm=norm, activation="gelu_tanh") for row in hidden]
    for n_rows in (2, 3, 4, 5, 6, 8):
        together = gemv.gemv(hidden[:n_rows], weight, bias, norm=norm, activation="gelu_tanh")
        assert torch.equal(together, torch.cat(alone[:n_rows]))


@pytest.mark.parametrize("n_splits", [1, 2, 5])
@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
def test_splits_are_merged_before_a_product(n_splits, dtype):
    weight, bias = linear(24, 19, dtype=dtype)
    parts, sums = random(2, n_splits, 24, dtype=torch.float32), 5 * random(2, n_splits, 3, dtype=torch.float32)
    if n_splits > 1:
        sums[0, 1] = -1e30  # nothing was seen there
    shares = (sums.double() * 0.6931471805599453).softmax(1)
    hidden = (parts.double().unflatten(2, (3, 8)) * shares[..., None]).sum(1).flatten(1)
    found = gemv.gemv(parts, weight, bias, split_sums=sums, residual=random(2, 19, dtype=dtype) * 0)
    assert found.dtype == dtype
    tolerance = max(TOLERANCES[dtype], 1e-5)  # parts come in single precision
    torch.testing.assert_close(found, F.linear(hidden.to(dtype), weight, bias), atol=tolerance, rtol=tolerance)


def test_many_outputs(monkeypatch):
    monkeypatch.setattr(gemv, "MANY", 50)
    assert gemv.sizes(49, 1024)[0] == gemv.OUTPUTS
    assert gemv.sizes(50, 1024)[0] == gemv.MANY_OUTPUTS
    weight, hidden = linear(24, 57, dtype=torch.float64, biased=False)[0], random(1, 24)
    close(gemv.gemv(hidden, weight), hidden @ weight.T, torch.float64)


def test_sizes_fit_a_program():
    for n_outputs in (1, 768, 50257):
        for width in (1, 16, 1024, 4096, gemv.LONGEST):
            n, warps = gemv.sizes(n_outputs, width)
            assert n & (n - 1) == warps & (warps - 1) == 0, "powers of two"
            assert n * width <= gemv.TILE
            assert 1 <= warps <= gemv.MOST_WARPS


def test_only_few_rows_go_this_way(monkeypatch):
    calls = []
    monkeypatch.setattr(gemv, "gemv_linear", lambda *args: calls.append(len(args)) or F.linear(*args))
    linear, tied = nn.Linear(8, 4).to(DEVICE), torch.randn(5, 8, device=DEVICE)
    rows = torch.randn(3, 1, 8, device=DEVICE)
    with torch.no_grad(), gemv.GemvLinears(most=2):
        linear(rows)
        linear(rows.double().float())
        assert calls == []
        assert linear(rows[:2]).shape == (2, 1, 4)
        assert F.linear(rows[:1], tied).shape == (1, 1, 5)
        assert calls == [3, 3]
        F.linear(rows[:1].double(), tied.double())
        F.linear(rows[:1], tied.T.contiguous().T)
        with torch.autocast(DEVICE.type, torch.bfloat16):
            linear(rows[:1])
    linear(rows[:1])
    assert calls == [3, 3]
