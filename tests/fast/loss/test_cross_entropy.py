"""The fused losses against the plain ones of PyTorch, values and gradients."""

import pytest
import torch
import torch.nn.functional as F

from regard.config.twins import resolve
from regard.errors import ShapeError, UsageError
from regard.fast.loss.precomputed_gradients import parts
from regard.fast.loss.symmetric_kl import chunked_symmetric_kl
from regard.metrics.cross_entropy import Losses, linear_cross_entropy
from regard.metrics.r_drop import symmetric_kl


@pytest.fixture(autouse=True)
def looked_up():
    """As whoever compiles does first: what stands in is not looked up while a compiler traces."""
    resolve()


N, D, V = 13, 6, 17


def inputs(dtype=torch.float64, *, biased=False):
    hidden = torch.randn(N, D, dtype=dtype, requires_grad=True)
    weight = torch.randn(V, D, dtype=dtype, requires_grad=True)
    bias = torch.randn(V, dtype=dtype, requires_grad=True) if biased else None
    labels = torch.randint(1, V, (N,))
    labels[[0, 5, 6, N - 1]] = 0
    return hidden, weight, bias, labels


def plain(hidden, weight, bias, labels, *, smoothing, ignore_id=0):
    logits = F.linear(hidden, weight, bias)
    return F.cross_entropy(logits, labels, ignore_index=ignore_id, label_smoothing=smoothing, reduction="sum")


def copies(*tensors):
    return [None if t is None else t.detach().clone().requires_grad_() for t in tensors]


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("chunk", [None, 1, 4, 12, 13, 100])
@pytest.mark.parametrize("compiling", [False, True])
def test_equals_cross_entropy(smoothing, biased, chunk, compiling, monkeypatch):
    # While compiling, and on a GPU, ignored rows are masked instead of left out.
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: compiling)
    hidden, weight, bias, labels = inputs(biased=biased)
    expected = plain(hidden, weight, bias, labels, smoothing=smoothing)
    (expected / 7).backward()
    mine = copies(hidden, weight, bias)
    losses = linear_cross_entropy(mine[0], mine[1], labels, smoothing=smoothing, bias=mine[2], chunk=chunk)
    (losses.total / 7).backward()
    torch.testing.assert_close(losses.total, expected)
    torch.testing.assert_close(losses.nll, plain(hidden, weight, bias, labels, smoothing=0.0).detach())
    assert not losses.nll.requires_grad
    assert losses.n_tokens.item() == N - 4
    for got, want in zip(mine, (hidden, weight, bias), strict=True):
        assert want is None or torch.allclose(got.grad, want.grad, rtol=1e-9, atol=1e-12)
    assert mine[0].grad[labels == 0].abs().max() == 0


def test_gradcheck():
    hidden, weight, bias, labels = inputs(biased=True)

    def loss(h, w, b):
        return linear_cross_entropy(h, w, labels, smoothing=0.2, bias=b, chunk=5).total

    assert torch.autograd.gradcheck(loss, (hidden, weight, bias))


@pytest.mark.parametrize("frozen", [0, 1])
def test_only_what_asks_gets_a_gradient(frozen):
    mine = list(inputs()[:2])
    labels = inputs()[3]
    mine[frozen] = mine[frozen].detach()
    theirs = copies(*mine)
    linear_cross_entropy(mine[0], mine[1], labels).total.backward()
    plain(*theirs, None, labels, smoothing=0.0).backward()
    assert mine[frozen].grad is None
    torch.testing.assert_close(mine[1 - frozen].grad, theirs[1 - frozen].grad)


def test_leading_dimensions_are_flattened():
    hidden, weight, _, labels = inputs()
    hidden, labels = hidden[:12].detach().view(3, 4, D).requires_grad_(), labels[:12].view(3, 4)
    theirs = copies(hidden, weight)
    linear_cross_entropy(hidden, weight, labels, smoothing=0.1).total.backward()
    plain(theirs[0].flatten(0, 1), theirs[1], None, labels.flatten(), smoothing=0.1).backward()
    torch.testing.assert_close(hidden.grad, theirs[0].grad)


@pytest.mark.parametrize("compiling", [False, True])
def test_rows_that_do_not_count_may_hold_anything(compiling, monkeypatch):
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: compiling)
    hidden, weight, _, labels = inputs()
    clean = copies(hidden, weight)
    expected = plain(*clean, None, labels, smoothing=0.1)
    expected.backward()
    dirty = hidden.detach().clone()
    dirty[labels == 0] = float("nan")
    dirty.requires_grad_()
    labels = labels.masked_fill(labels == 0, -100)
    losses = linear_cross_entropy(dirty, weight, labels, smoothing=0.1, ignore_id=-100)
    losses.total.backward()
    torch.testing.assert_close(losses.total, expected)
    torch.testing.assert_close(weight.grad, clean[1].grad)
    torch.testing.assert_close(dirty.grad, clean[0].grad)


@pytest.mark.parametrize("compiling", [False, True])
@pytest.mark.parametrize("n", [0, 5])
def test_nothing_but_padding_is_zero(n, compiling, monkeypatch):
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: compiling)
    hidden, weight, bias, _ = inputs(biased=True)
    hidden = hidden[:n].detach().requires_grad_()
    losses = linear_cross_entropy(hidden, weight, torch.zeros(n, dtype=torch.long), smoothing=0.1, bias=bias)
    losses.total.backward()
    assert [losses.total.item(), losses.nll.item(), losses.n_tokens.item()] == [0, 0, 0]
    assert all(not t.grad.any() for t in (hidden, weight, bias))


def test_extreme_scores_stay_finite():
    hidden, weight = torch.tensor([[300.0], [300.0]]), torch.tensor([[1.0], [-1.0], [0.5]])
    hidden.requires_grad_()
    losses = linear_cross_entropy(hidden, weight, torch.tensor([1, 2]))
    losses.total.backward()
    assert losses.nll.item() == pytest.approx(600 + 150)
    torch.testing.assert_close(hidden.grad, torch.tensor([[2.0], [0.5]]))


def test_evaluation_makes_no_gradients(monkeypatch):
    hidden, weight, _, labels = inputs()
    expected = plain(hidden, weight, None, labels, smoothing=0.1)
    monkeypatch.setattr("regard.fast.loss.cross_entropy._collect", lambda *args, **named: pytest.fail("gradient work"))
    with torch.no_grad():
        losses = linear_cross_entropy(hidden, weight, labels, smoothing=0.1)
    assert not losses.total.requires_grad
    torch.testing.assert_close(losses.total, expected.detach())


def test_backward_can_be_repeated():
    hidden, weight, _, labels = inputs()
    total = linear_cross_entropy(hidden, weight, labels).total
    total.backward(retain_graph=True)
    once = weight.grad.clone()
    total.backward()
    torch.testing.assert_close(weight.grad, 2 * once)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_stays_near(dtype):
    hidden, weight, _, labels = inputs()
    expected = plain(hidden, weight, None, labels, smoothing=0.1)
    expected.backward()
    mine = hidden.detach().to(dtype).requires_grad_(), weight.detach().to(dtype).requires_grad_()
    losses = linear_cross_entropy(*mine, labels, smoothing=0.1, chunk=3)
    losses.total.backward()
    assert losses.total.dtype == losses.nll.dtype == torch.float32
    torch.testing.assert_close(losses.total.double(), expected, rtol=0.02, atol=0)
    for got, want in zip(mine, (hidden, weight), strict=True):
        assert got.grad.dtype == dtype
        torch.testing.assert_close(got.grad.double(), want.grad, rtol=0.05, atol=0.05)


@pytest.mark.parametrize("hidden_dtype", [torch.float32, torch.bfloat16])
def test_under_autocast_the_weight_gets_its_gradient_in_float32(hidden_dtype):
    hidden, weight, _, labels = inputs(torch.float32)
    expected = plain(hidden, weight, None, labels, smoothing=0.1)
    expected.backward()
    mine = hidden.detach().to(hidden_dtype).requires_grad_(), weight.detach().clone().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        losses = linear_cross_entropy(*mine, labels, smoothing=0.1)
    losses.total.backward()
    assert mine[0].grad.dtype == hidden_dtype
    assert mine[1].grad.dtype == torch.float32
    torch.testing.assert_close(losses.total, expected, rtol=0.02, atol=0)
    rounded = linear_cross_entropy(hidden.detach().bfloat16(), weight.detach(), labels, smoothing=0.1)
    assert torch.equal(losses.total, rounded.total), "the product is bfloat16's"
    torch.testing.assert_close(mine[1].grad, weight.grad, rtol=0.05, atol=0.05)


def test_compiled_without_a_break_and_for_any_number_of_rows():
    compiled = torch.compile(
        lambda h, w, y: linear_cross_entropy(h, w, y, smoothing=0.1, chunk=8), backend="aot_eager", fullgraph=True
    )
    hidden, weight, _, labels = inputs()
    for n in (13, 12, 9):
        mine, theirs = copies(hidden[:n], weight), copies(hidden[:n], weight)
        losses = compiled(*mine, labels[:n])
        losses.total.backward()
        expected = plain(*theirs, None, labels[:n], smoothing=0.1)
        expected.backward()
        torch.testing.assert_close(losses.total, expected)
        torch.testing.assert_close(mine[0].grad, theirs[0].grad)
        torch.testing.assert_close(mine[1].grad, theirs[1].grad)


@pytest.fixture
def by_kernel(monkeypatch):
    """The way of a GPU, on Triton's interpreter where there is none."""
    pytest.importorskip("triton", reason="Triton is not installed: it is part of the dev extra on Linux")
    monkeypatch.setattr("regard.fast.loss.cross_entropy._suits_kernel", lambda hidden, n_classes: True)
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


@pytest.mark.gpu
@pytest.mark.parametrize("n_classes", [17, 9000])  # one round of the kernel, and two with a rest
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("aligned", [False, True])
def test_the_kernel_equals_its_explicit_twin(dtype, n_classes, aligned, by_kernel):
    from regard.fast.loss.cross_entropy import _overwrite
    from regard.fast.loss.softmax_kernel import overwrite_by_gradient, room_for

    scores = torch.randn(5, n_classes, device=by_kernel).mul_(10).to(dtype)
    if aligned:
        room = room_for(5, n_classes, like=scores)
        assert room.stride() == (-(-n_classes // 16) * 16, 1)
        room._base.fill_(float("nan"))  # whatever stands behind a row
        scores = room.copy_(scores)
    scores[1, -1] = 300.0
    labels = torch.tensor([3, 16, n_classes - 1, 0, n_classes // 2], device=by_kernel)
    exact = scores.double()
    expected = _overwrite(exact, labels[:, None], kept=0.9)
    found = overwrite_by_gradient(scores, labels, kept=0.9)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours.double(), theirs[:, 0], rtol=1e-6, atol=1e-5)
    rounding = {torch.float32: 1e-6, torch.bfloat16: 8e-3}[dtype]  # the interpreter cuts bits off
    torch.testing.assert_close(scores.double(), exact, rtol=rounding, atol=1e-6)
    assert scores[1, 0] == 0, "beside a score of 300 nothing is left"


@pytest.mark.gpu
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("compiled", [False, True])
def test_by_the_kernel_it_equals_cross_entropy(smoothing, biased, compiled, by_kernel):
    loss = torch.compile(linear_cross_entropy, backend="aot_eager", fullgraph=True, dynamic=False)
    loss = loss if compiled else linear_cross_entropy
    hidden, weight, bias, labels = inputs(torch.float32, biased=biased)
    labels = labels.to(by_kernel)
    theirs = copies(*(None if x is None else x.to(by_kernel).double() for x in (hidden, weight, bias)))
    expected = plain(*theirs, labels, smoothing=smoothing)
    (expected / 7).backward()
    mine = copies(*(None if x is None else x.to(by_kernel) for x in (hidden, weight, bias)))
    losses = loss(mine[0], mine[1], labels, smoothing=smoothing, bias=mine[2], chunk=4)
    (losses.total / 7).backward()
    torch.testing.assert_close(losses.total.double(), expected, rtol=1e-5, atol=0)
    assert losses.n_tokens.item() == N - 4
    for got, want in zip(mine, theirs, strict=True):
        assert want is None or torch.allclose(got.grad.double(), want.grad, rtol=1e-4, atol=1e-5)


@pytest.mark.gpu
def test_the_operation_tells_a_compiler_the_truth(by_kernel):
    from regard.fast.loss.cross_entropy import _sweep_as_one

    hidden, weight, bias, labels = (x.detach().to(by_kernel) for x in inputs(torch.float32, biased=True))
    for wanted in ((True, True, True), (True, False, False)):
        arguments = (hidden, weight, bias, labels, 0.1, 0, 4, *wanted, False)
        torch.library.opcheck(_sweep_as_one, arguments, test_utils=("test_schema", "test_faketensor"))


@pytest.mark.gpu
def test_by_the_kernel_scores_keep_the_precision_of_the_product(by_kernel):
    hidden, weight, _, labels = inputs(torch.float32)
    expected = plain(hidden, weight, None, labels, smoothing=0.1)
    expected.backward()
    mine = copies(hidden.to(by_kernel), weight.to(by_kernel))
    with torch.autocast(by_kernel.type, torch.bfloat16):
        losses = linear_cross_entropy(*mine, labels.to(by_kernel), smoothing=0.1)
    losses.total.backward()
    torch.testing.assert_close(losses.total.cpu(), expected, rtol=0.02, atol=0)
    for got, want in zip(mine, (hidden, weight), strict=True):
        assert got.grad.dtype == torch.float32
        torch.testing.assert_close(got.grad.cpu(), want.grad, rtol=0.05, atol=0.05)


@pytest.mark.gpu
def test_a_language_models_loss_compiles_whole_with_its_gradients_made_forward(by_kernel):
    from functorch.compile import make_boxed_func
    from torch._dynamo.backends.common import aot_autograd

    from regard.models.gpt import GPT, GPTConfig
    from regard.tasks.language.training import language_loss

    graphs = []

    def keep(graph, examples):
        graphs.append([str(node.target) for node in graph.graph.nodes])
        return make_boxed_func(graph)

    model = GPT(GPTConfig(n_tokens=40, d_model=16, n_heads=2, n_layers=1, n_positions=8, dropout=0.0)).to(by_kernel)
    ids = torch.randint(0, 40, (2, 9), device=by_kernel)
    whole = torch.compile(language_loss, backend=aot_autograd(fw_compiler=keep), fullgraph=True, dynamic=False)
    gradients = []
    for loss in (language_loss, whole):
        with torch.autocast(by_kernel.type, torch.bfloat16):
            total, _, n_tokens = loss(model, ids[:, :-1], ids[:, 1:], 0.0)
        gradients.append(torch.autograd.grad(total / n_tokens, list(model.parameters())))
    for plain_one, compiled_one in zip(*gradients, strict=True):
        assert compiled_one.dtype == torch.float32
        torch.testing.assert_close(compiled_one, plain_one, rtol=0.02, atol=1e-4)
    forward, backward = graphs
    assert forward.count("regard.linear_cross_entropy.default") == 1
    assert not any("regard" in target for target in backward)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("biased", [False, True])
def test_left_to_the_compiler_it_is_the_same(smoothing, biased):
    from regard.fast.loss.cross_entropy import _left_to_the_compiler

    hidden, weight, bias, labels = inputs(torch.float32, biased=biased)
    theirs, mine = copies(hidden, weight, bias), copies(hidden, weight, bias)
    expected = plain(*theirs, labels, smoothing=smoothing)
    expected.backward()
    losses = Losses(*_left_to_the_compiler(*mine, labels, smoothing=smoothing, ignore_id=0))
    losses.total.backward()
    torch.testing.assert_close(losses.total, expected)
    for got, want in zip(mine, theirs, strict=True):
        assert want is None or torch.allclose(got.grad, want.grad, rtol=1e-4, atol=1e-5)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("chunk", [None, 300])
@pytest.mark.parametrize("kernel", [False, True])
def test_on_a_gpu(half, compiled, chunk, kernel, monkeypatch):
    if not kernel:
        monkeypatch.setattr("regard.fast.loss.cross_entropy._suits_kernel", lambda hidden, n_classes: False)
    torch.compiler.reset()
    loss = torch.compile(linear_cross_entropy, dynamic=False, fullgraph=True) if compiled else linear_cross_entropy
    hidden, weight = torch.randn(1000, 64, device="cuda"), torch.randn(5000, 64, device="cuda") / 8
    labels = torch.randint(0, 20, (1000,), device="cuda")
    theirs = copies(hidden.double(), weight.double())
    expected = plain(*theirs, None, labels, smoothing=0.1)
    expected.backward()
    mine = copies(hidden, weight)
    with torch.autocast("cuda", torch.bfloat16, enabled=half):
        losses = loss(*mine, labels, smoothing=0.1, chunk=chunk)
    losses.total.backward()
    torch.testing.assert_close(losses.total.double(), expected, rtol=1e-3, atol=0)
    for got, want in zip(mine, theirs, strict=True):
        assert got.grad.dtype == torch.float32
        apart = (got.grad.double() - want.grad).norm() / want.grad.norm()  # bf16 keeps 8 bits: 4e-3 a product
        assert apart < (1e-2 if half else 1e-4)


@pytest.mark.parametrize(("n", "chunk", "sizes"), [(5, 9, [5]), (9, 9, [9]), (10, 9, [5, 5]), (9, 3, [3, 3, 3, 0])])
def test_parts_are_equal_and_cover_all(n, chunk, sizes):
    assert [len(range(n)[part]) for part in parts(n, chunk)] == sizes
    assert [i for part in parts(n, chunk) for i in range(n)[part]] == list(range(n))


def kl_by_torch(a, b, labels, *, ignore_id=0):
    p, q = a.log_softmax(-1), b.log_softmax(-1)
    both = F.kl_div(q, p, log_target=True, reduction="none") + F.kl_div(p, q, log_target=True, reduction="none")
    return (both.sum(-1) * (labels != ignore_id)).sum() / 2


@pytest.mark.parametrize("chunk", [None, 1, 4])
def test_symmetric_kl_equals_the_plain_one(chunk):
    a, b = (torch.randn(2, N, V, dtype=torch.float64, requires_grad=True) for _ in range(2))
    labels = torch.stack([inputs()[3] for _ in range(2)])
    theirs = copies(a, b)
    expected = kl_by_torch(*theirs, labels)
    (3 * expected).backward()
    got = chunked_symmetric_kl(a, b, labels, ignore_id=0, chunk=chunk)
    (3 * got).backward()
    torch.testing.assert_close(got, expected)
    torch.testing.assert_close(a.grad, theirs[0].grad)
    torch.testing.assert_close(b.grad, theirs[1].grad)


def test_symmetric_kl_gradcheck_and_zero_for_equals():
    a, b = (torch.randn(N, V, dtype=torch.float64, requires_grad=True) for _ in range(2))
    labels = inputs()[3]
    torch.autograd.gradcheck(lambda x, y: chunked_symmetric_kl(x, y, labels, ignore_id=0, chunk=5), (a, b))
    assert symmetric_kl(a, a + 3.0, labels).item() == pytest.approx(0.0, abs=1e-12)


def test_symmetric_kl_gives_a_gradient_to_who_asks():
    a, b, labels = torch.randn(N, V, requires_grad=True), torch.randn(N, V), inputs()[3]
    symmetric_kl(a, b, labels).backward()
    assert b.grad is None
    assert a.grad.abs().sum() > 0
    with torch.no_grad():
        assert not symmetric_kl(a, b, labels).requires_grad


def test_what_is_refused():
    hidden, weight, _, labels = inputs()
    with pytest.raises(ShapeError, match=r"hidden states \[13, 6\] do not fit a weight \[6, 17\]"):
        linear_cross_entropy(hidden, weight.t(), labels)
    with pytest.raises(ShapeError, match=r"labels \[12\]; they are"):
        linear_cross_entropy(hidden, weight, labels[:12])
    with pytest.raises(UsageError, match=r"label smoothing is 1\.0; it goes from 0 to below 1"):
        linear_cross_entropy(hidden, weight, labels, smoothing=1.0)
    with pytest.raises(ShapeError, match=r"got \[13, 17\] and \[13, 16\] for labels \[13\]"):
        symmetric_kl(torch.zeros(13, 17), torch.zeros(13, 16), labels)
