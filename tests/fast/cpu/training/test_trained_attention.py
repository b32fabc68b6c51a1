"""Attention of short sentences by the native kernels, forwards and backwards, against the explicit twin in float64."""

import pytest
import torch
from torch import Tensor

from regard.attention import Causal, Documents, Mask, Padding, Window, attend
from regard.attention.core import attend_explicitly
from regard.attention.scores import Prepared
from regard.fast.cpu.native import Kernels, loaded, why
from regard.fast.cpu.native.loading import for_training, training_kernels
from regard.fast.cpu.training.attention import LONGEST, attend_trained, sentences_of, suits

CPU = torch.device("cpu")
SHAPES = [
    (3, 4, 4, 29, 29, 64),
    (2, 4, 2, 7, 7, 32),
    (5, 2, 1, 1, 40, 16),
    (2, 2, 2, 128, 100, 48),
    (3, 4, 4, 17, 30, 64),
]


@pytest.fixture(params=["native", "haswell"])
def kernels(request: pytest.FixtureRequest) -> Kernels:
    found = loaded(machine=request.param)
    if found is None:
        pytest.skip(why(machine=request.param))
    return found


def heads(shape: tuple[int, ...], dtype: torch.dtype) -> list[Tensor]:
    B, H, G, T, S, E = shape
    torch.manual_seed(sum(shape))
    return [torch.randn(size).to(dtype) for size in ((B, H, T, E), (B, G, S, E), (B, G, S, E), (B, H, T, E))]


def explicit(given: list[Tensor], mask: Mask | None) -> list[Tensor]:
    query, key, value, grad = (x.double().requires_grad_() for x in given)
    output = attend_explicitly(query, Prepared(key), value, mask=mask)
    return [output.detach(), *torch.autograd.grad(output, (query, key, value), grad)]


def by_kernels(kernels: Kernels, given: list[Tensor], mask: Mask | None) -> list[Tensor]:
    query, key, value = (x.clone().requires_grad_() for x in given[:3])
    assert suits(query, key, value)
    sentences = sentences_of(mask, query, key)
    assert sentences is not None
    scale = query.shape[-1] ** -0.5
    output = attend_trained(kernels, query, key, value, sentences=sentences, scale=scale)
    return [output.detach(), *torch.autograd.grad(output, (query, key, value), given[3])]


def masks(shape: tuple[int, ...]) -> list[Mask | None]:
    B, _, _, T, S, _ = shape
    lengths = torch.arange(B) * 7 % (S + 1)  # the first has nothing to look at
    return [None, Padding(lengths), *([Causal(), Causal() & Padding(lengths.clamp(min=1))] if T == S else [])]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_it_equals_the_explicit_twin(kernels: Kernels, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    given = heads(shape, dtype)
    for mask in masks(shape):
        for own, twin in zip(by_kernels(kernels, given, mask), explicit(given, mask), strict=True):
            far = (own.double() - twin).abs().max() / twin.abs().max().clamp(min=1)
            assert far < (2e-6 if dtype == torch.float32 else 1e-2)


@pytest.mark.parametrize("causal", [False, True])
def test_packed_documents_equal_the_explicit_twin(kernels: Kernels, causal: bool) -> None:
    documents = Documents(torch.tensor([5, 1, 30, 4]))
    mask = documents & Causal() if causal else documents
    given = heads((1, 4, 2, 40, 40, 32), torch.float32)
    for own, twin in zip(by_kernels(kernels, given, mask), explicit(given, mask), strict=True):
        assert (own.double() - twin).abs().max() < 2e-5


def test_documents_that_look_at_others(kernels: Kernels) -> None:
    mask = Documents(torch.tensor([3, 4]), torch.tensor([6, 0]))
    given = heads((1, 2, 2, 7, 6, 16), torch.float32)
    for own, twin in zip(by_kernels(kernels, given, mask), explicit(given, mask), strict=True):
        assert (own.double() - twin).abs().max() < 2e-5


def test_the_number_of_threads_changes_no_bit(kernels: Kernels) -> None:
    given, before = heads(SHAPES[0], torch.float32), torch.get_num_threads()
    found = []
    try:
        for n_threads in (1, 2, 3):
            torch.set_num_threads(n_threads)
            found.append(by_kernels(kernels, given, Causal()))
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(a, b) for other in found[1:] for a, b in zip(found[0], other, strict=True))


def test_only_what_somebody_trains_runs_on_them() -> None:
    query, key, value, _ = heads(SHAPES[0], torch.float32)
    query.requires_grad_()
    alone = attend(query, Prepared(key), value)
    with training_kernels(CPU):
        trained = attend(query, Prepared(key), value)
        if for_training() is not None:
            assert type(trained.grad_fn).__name__ == "_AttentionBackward"
        with torch.no_grad():
            assert torch.equal(attend(query, Prepared(key), value), attend(query.detach(), Prepared(key), value))
    assert for_training() is None
    assert type(alone.grad_fn).__name__ != "_AttentionBackward"
    torch.testing.assert_close(trained, alone)


def test_long_rows_windows_and_tables_are_left_to_others() -> None:
    query, key, _, _ = heads((1, 2, 2, 8, LONGEST + 1, 16), torch.float32)
    assert sentences_of(None, query, key) is None
    assert sentences_of(Padding(torch.tensor([LONGEST])), query, key) is not None
    assert sentences_of(Window(2), query, key) is None
    assert sentences_of(Causal(offset=1), query, key) is None
    assert not suits(query.half(), key.half(), key.half())
