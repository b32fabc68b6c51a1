"""What training does to rows by the native kernels: the textbook's results and gradients."""

import pytest
import torch
from torch import Tensor, nn

from regard.fast.cpu.native import Kernels, loaded, why
from regard.fast.cpu.native.loading import for_training, training_kernels
from regard.fast.cpu.training.rows import add_and_norm, drop_trained, score_gradients, suits_scores
from regard.layers.blocks import Residual
from regard.layers.dropout import draws_for, drop
from regard.metrics.cross_entropy import linear_cross_entropy

CPU = torch.device("cpu")


@pytest.fixture(params=["native", "haswell"])
def kernels(request: pytest.FixtureRequest) -> Kernels:
    found = loaded(machine=request.param)
    if found is None:
        pytest.skip(why(machine=request.param))
    return found


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(3, 5, 64), (7,), (1000, 33)])
def test_dropout_keeps_every_bit_of_the_textbook(kernels: Kernels, dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    torch.manual_seed(1)
    x, grad = torch.randn(shape).to(dtype).requires_grad_(), torch.randn(shape).to(dtype)
    torch.manual_seed(2)
    plain = drop(x, 0.3, training=True)
    torch.manual_seed(2)
    n_dropped = round(0.3 * 65536)
    scale = 65536 / (65536 - n_dropped)
    fast = drop_trained(kernels, x, draws_for(x), least=n_dropped - 32768, scale=scale)
    assert torch.equal(plain, fast)
    assert torch.equal(*(torch.autograd.grad(y, x, grad)[0] for y in (plain, fast)))
    assert 0 < int((fast == 0).sum()) < fast.numel()


def settled(kernels: Kernels | None, given: list[Tensor], *, bias: bool, dropout: float) -> list[Tensor]:
    hidden, part, grad = (x.detach().clone().requires_grad_() for x in given)
    norm = nn.LayerNorm(hidden.shape[-1], bias=bias)
    nn.init.normal_(norm.weight, generator=torch.Generator().manual_seed(1))
    norm = norm.double() if kernels is None else norm
    torch.manual_seed(5)
    if kernels is None:
        output = norm(hidden + drop(part, dropout, training=True))
    else:
        output = add_and_norm(kernels, hidden, part, norm=norm, dropout=dropout)
    return [output.detach(), *torch.autograd.grad(output, (hidden, part, *norm.parameters()), grad)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("bias", "dropout"), [(True, 0.1), (False, 0.3), (True, 0.0)])
def test_residuals_equal_the_textbook(kernels: Kernels, dtype: torch.dtype, bias: bool, dropout: float) -> None:
    torch.manual_seed(0)
    given = [(torch.randn(9, 11, 48) * 2 + 1).to(dtype) for _ in range(3)]
    exact = settled(None, [x.double() for x in given], bias=bias, dropout=dropout)
    own = settled(kernels, given, bias=bias, dropout=dropout)
    for one, twin in zip(own, exact, strict=True):
        far = (one.double() - twin).abs().max() / twin.abs().max().clamp(min=1)
        assert far < (2e-6 if dtype == torch.float32 else 2e-2)
    assert own[3].dtype == torch.float32


def test_the_number_of_threads_changes_no_bit(kernels: Kernels) -> None:
    torch.manual_seed(0)
    given, before = [torch.randn(300, 64) for _ in range(3)], torch.get_num_threads()
    found = []
    try:
        for n_threads in (1, 2, 3):
            torch.set_num_threads(n_threads)
            found.append(settled(kernels, given, bias=True, dropout=0.1))
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(a, b) for other in found[1:] for a, b in zip(found[0], other, strict=True))


def test_a_block_in_training_draws_what_the_textbook_draws() -> None:
    torch.manual_seed(0)
    residual = Residual(32, dropout=0.5).train()
    hidden = torch.randn(4, 7, 32, requires_grad=True)
    found = []
    for trained in (False, True):
        torch.manual_seed(3)
        if trained:
            with training_kernels(CPU):
                output = residual(hidden, lambda x: 2 * x)
        else:
            output = residual(hidden, lambda x: 2 * x)
        found.append([output, *torch.autograd.grad(output.square().sum(), (hidden, *residual.parameters()))])
    torch.testing.assert_close(found[1], found[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("n_classes", [5, 16, 1000, 8003])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_score_gradients(kernels: Kernels, n_classes: int, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    scores, labels = (torch.randn(37, n_classes) * 8).to(dtype), torch.randint(n_classes, (37, 1))
    exact = scores.double()
    softmax = exact.softmax(-1)
    softmax.scatter_(1, labels, softmax.gather(1, labels) - 0.9)
    norms, gold = score_gradients(kernels, scores, labels, kept=0.9)
    torch.testing.assert_close(norms.double(), exact.logsumexp(1, keepdim=True), rtol=1e-6, atol=1e-6)
    assert torch.equal(gold.double(), exact.gather(1, labels))
    close = {"rtol": 2e-6, "atol": 1e-7} if dtype == torch.float32 else {"rtol": 8e-3, "atol": 1e-7}
    torch.testing.assert_close(scores.double(), softmax, **close)


def test_scores_that_are_no_numbers_stay_none(kernels: Kernels) -> None:
    scores = torch.zeros(2, 40)
    scores[0, 3] = float("nan")
    norms, _ = score_gradients(kernels, scores, torch.zeros(2, 1, dtype=torch.long), kept=1.0)
    assert norms[0].isnan()
    assert norms[1].isfinite()


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_of_training_equals_the_textbook(smoothing: float) -> None:
    torch.manual_seed(0)
    hidden, weight = torch.randn(50, 32, requires_grad=True), torch.randn(700, 32, requires_grad=True)
    labels = torch.randint(700, (50,))
    labels[:5] = 0
    exact = linear_cross_entropy(hidden.double(), weight.double(), labels, smoothing=smoothing)
    with training_kernels(CPU):
        losses = linear_cross_entropy(hidden, weight, labels, smoothing=smoothing)
    torch.testing.assert_close([x.double() for x in losses], [x.double() for x in exact], rtol=1e-6, atol=1e-4)
    grads = [torch.autograd.grad(one.total, (hidden, weight)) for one in (losses, exact)]
    torch.testing.assert_close(grads[0], grads[1], rtol=1e-4, atol=1e-5)


def test_labels_that_do_not_exist_are_refused_as_ever() -> None:
    hidden, weight = torch.randn(2, 16, requires_grad=True), torch.randn(10, 16)
    assert not suits_scores(hidden, torch.tensor([[3], [10]]), 10)
    with training_kernels(CPU), pytest.raises((RuntimeError, IndexError)):
        linear_cross_entropy(hidden, weight, torch.tensor([3, 10]))
    assert for_training() is None
