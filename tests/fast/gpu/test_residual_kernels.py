"""The kernels for a sum and its norm equal the layers, values and gradients, on Triton's interpreter or a GPU."""

import pytest
import torch
import torch.nn.functional as F

from regard.layers.norms import LayerNorm, RMSNorm

pytest.importorskip("triton", reason="Triton is not installed: it is part of the dev extra on Linux")

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
pytestmark = pytest.mark.gpu

NORMS = {
    "layer": lambda width: LayerNorm(width),
    "without biases": lambda width: LayerNorm(width, bias=False),
    "rms": lambda width: RMSNorm(width, eps=1e-5),
}


def drawn_norm(name, width):
    norm = NORMS[name](width).to(DEVICE)
    for parameter in norm.parameters():
        torch.nn.init.normal_(parameter, 1.0, 0.5)
    return norm


def gradients(output, leaves):
    torch.manual_seed(2)
    return torch.autograd.grad(output, leaves, torch.randn_like(output))


@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize(("n_rows", "width"), [(3, 40), (1, 64), (2100, 24)])
def test_equals_the_layers(name, n_rows, width):
    from regard.fast.gpu.residual_kernels import add_and_norm, sum_and_norm

    torch.manual_seed(1)
    norm = drawn_norm(name, width)
    hidden, part = (torch.randn(n_rows, 1, width, device=DEVICE, requires_grad=True) for _ in range(2))
    leaves = [hidden, part, *norm.parameters()]
    expected, found = norm(hidden + part), add_and_norm(hidden, part, norm, dropout=0.0)
    torch.testing.assert_close(found, expected, atol=2e-5, rtol=0)
    for right, ours in zip(gradients(expected, leaves), gradients(found, leaves), strict=True):
        torch.testing.assert_close(ours, right, atol=2e-4, rtol=2e-4)
    total, normed = sum_and_norm(hidden.detach(), part.detach(), norm)
    assert torch.equal(total, (hidden + part).detach())
    assert torch.equal(normed, found)


def test_dropout_drops_its_share_and_its_gradients_with_it():
    from regard.fast.gpu.residual_kernels import add_and_norm

    n_rows, width, share = 500, 96, 0.3
    norm = LayerNorm(width).to(DEVICE)
    hidden = torch.zeros(n_rows, width, device=DEVICE)
    part = torch.randn(n_rows, width, device=DEVICE, requires_grad=True)
    torch.manual_seed(3)
    output = add_and_norm(hidden, part, norm, dropout=share)
    (gradient,) = gradients(output, [part])
    kept = gradient != 0
    assert abs(kept.float().mean().item() - (1 - share)) < 0.01
    assert abs(kept.float().mean(0) - (1 - share)).max() < 0.12, "no column is favoured"
    expected = norm(torch.where(kept, part / (1 - share), 0.0))
    torch.testing.assert_close(output, expected, atol=2e-5, rtol=0)
    (right,) = gradients(expected, [part])
    torch.testing.assert_close(gradient, right, atol=2e-4, rtol=2e-4)
    torch.manual_seed(3)
    assert torch.equal(add_and_norm(hidden, part, norm, dropout=share), output), "the generator decides the draws"
    assert not torch.equal(add_and_norm(hidden, part, norm, dropout=share), output)


@pytest.mark.skipif(DEVICE.type != "cuda", reason="half precision and the compiler need a GPU")
@pytest.mark.parametrize("compiled", [False, True])
def test_what_is_trained_goes_through_them(compiled, monkeypatch):
    from regard.fast.gpu import residual_kernels
    from regard.layers.blocks import Residual

    torch.manual_seed(0)
    residual = Residual(128, dropout=0.1).to(DEVICE).train()
    linear = torch.nn.Linear(128, 128).to(DEVICE)
    hidden = torch.randn(1, 3000, 128, device=DEVICE, dtype=torch.bfloat16, requires_grad=True)
    asked, real = [], residual_kernels.suits
    monkeypatch.setattr(residual_kernels, "suits", lambda *given: asked.append(1) or real(*given))

    def run(hidden):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            return residual(hidden, linear).float().square().mean()

    loss = (torch.compile(run) if compiled else run)(hidden)
    loss.backward()
    assert abs(loss.item() - 1.0) < 0.01
    assert hidden.grad.isfinite().all()
    assert linear.weight.grad.abs().max() > 0
    assert asked or compiled


def test_output_of_a_vocabulary_of_any_size():
    from regard.fast.gpu.output_product import is_ragged, output_product

    dtype = torch.bfloat16 if DEVICE.type == "cuda" else torch.float32
    hidden, weight = (torch.randn(n, 64, device=DEVICE, dtype=dtype) for n in (5, 203))
    assert is_ragged(weight) == (DEVICE.type == "cuda")
    assert not is_ragged(weight[:200])
    logits, expected = output_product(hidden, weight), F.linear(hidden, weight)
    assert logits.shape == expected.shape
    assert logits.stride(0) % 8 == 0
    torch.testing.assert_close(logits, expected)
