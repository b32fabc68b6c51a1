"""Products of our own in training: against float64, and as layers of a model."""

import copy

import pytest
import torch
from torch import Tensor, nn

from regard.fast.cpu.native import Kernels, loaded, why
from regard.fast.cpu.native.loading import training_kernels
from regard.fast.cpu.training.linear import feed_forward, product, suits, use_products
from regard.fast.select import training_kernels as trained
from regard.layers.feedforward import FeedForward

CPU = torch.device("cpu")
SIZES = [(1, 1, 1), (5, 7, 3), (33, 40, 129), (200, 300, 701), (29, 64, 255), (20, 1100, 48), (257, 256, 1025)]


@pytest.fixture(params=["native", "haswell"])
def kernels(request: pytest.FixtureRequest) -> Kernels:
    found = loaded(machine=request.param)
    if found is None:
        pytest.skip(why(machine=request.param))
    return found


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True), (True, True)])
def test_products(kernels: Kernels, size: tuple[int, int, int], turned: tuple[bool, bool]) -> None:
    torch.manual_seed(0)
    m, n, k = size
    a = torch.randn(k, m).t() if turned[0] else torch.randn(m, k)
    b = torch.randn(n, k).t() if turned[1] else torch.randn(k, n)
    bias, opened = torch.randn(n), torch.randn(m, n)
    exact = a.double() @ b.double()
    size_of = exact.abs().max() + 1
    for found, twin in (
        (product(kernels, a, b), exact),
        (product(kernels, a, b, bias=bias, relu=True), (exact + bias).relu()),
        (product(kernels, a, b, opened=opened), torch.where(opened > 0, exact, 0)),
    ):
        assert (found.double() - twin).abs().max() / size_of < 1e-6


def test_the_number_of_threads_changes_no_bit(kernels: Kernels) -> None:
    a, b, before = torch.randn(300, 600), torch.randn(600, 90), torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = product(kernels, a, b)
        for n_threads in (2, 3):
            torch.set_num_threads(n_threads)
            assert torch.equal(product(kernels, a, b), alone)
    finally:
        torch.set_num_threads(before)


def gradients(layer: nn.Module, hidden: Tensor) -> list[Tensor]:
    hidden = hidden.clone().requires_grad_()
    output = layer(hidden)
    return [output.detach(), *torch.autograd.grad(output.sin().sum(), (hidden, *layer.parameters()))]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("part", ["linear", "feedforward"])
def test_layers_equal_the_textbook(part: str, bias: bool) -> None:
    torch.manual_seed(0)
    made = nn.Linear(96, 160, bias=bias) if part == "linear" else FeedForward(96, 160, bias=bias)
    layer, hidden = nn.Sequential(made).train(), torch.randn(30, 11, 96)
    exact = gradients(copy.deepcopy(layer).double(), hidden.double())
    with trained(layer, CPU):
        own = gradients(layer, hidden)
        assert suits(hidden, *[x for x in layer.modules() if isinstance(x, nn.Linear)])
    for one, twin in zip(own, exact, strict=True):
        assert (one.double() - twin).abs().max() / twin.abs().max() < 2e-6


def test_feed_forward_rectifies(kernels: Kernels) -> None:
    torch.manual_seed(0)
    layer, hidden = FeedForward(32, 48), torch.randn(9, 32)
    torch.testing.assert_close(feed_forward(kernels, hidden, layer.inner, layer.outer), layer(hidden))


def test_layers_are_as_they_were_afterwards() -> None:
    layer, hidden = nn.Linear(128, 128), torch.randn(500, 128)
    before = layer(hidden)
    undo = use_products(layer)
    with training_kernels(CPU):
        inside = layer(hidden)
        with torch.no_grad():
            assert torch.equal(layer(hidden), before)
    undo()
    assert "forward" not in vars(layer)
    assert torch.equal(layer(hidden), before)
    torch.testing.assert_close(inside, before)
    assert not suits(hidden.double(), layer)
    assert not suits(hidden[:1], layer)
