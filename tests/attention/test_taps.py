"""Watching: it shows the weights, changes no bit of the output, and leaves nothing behind."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import oracle
import regard
from regard.attention import (
    ALiBi,
    Causal,
    Dense,
    Documents,
    Mask,
    MultiHeadAttention,
    Padding,
    Sight,
    Tap,
    attention_weights,
    taps,
    watch,
)
from regard.errors import UsageError

D, H, T, S = 16, 4, 6, 5


class Stack(nn.Module):
    """Layers of masked self-attention and cross-attention, added up."""

    def __init__(self, n_layers: int = 2, *, dropout: float = 0.0, n_kv_heads: int | None = None) -> None:
        super().__init__()
        options: dict[str, Any] = {"dropout": dropout, "n_kv_heads": n_kv_heads}
        self.own = nn.ModuleList(MultiHeadAttention(D, H, kind="masked", **options) for _ in range(n_layers))
        self.other = nn.ModuleList(MultiHeadAttention(D, H, kind="cross", **options) for _ in range(n_layers))

    def forward(self, x: Tensor, memory: Tensor, mask: Mask | None = None) -> Tensor:
        for own, other in zip(self.own, self.other, strict=True):
            x = x + own(x, mask=mask or Causal())
            x = x + other(x, memory)
        return x


@pytest.fixture
def inputs() -> tuple[Tensor, Tensor]:
    return torch.randn(2, T, D), torch.randn(2, S, D)


def queries_and_keys(module: MultiHeadAttention, x: Tensor) -> tuple[Tensor, Tensor]:
    """Queries (B, H, T, E) and keys (B, G, T, E) from the projection's own rows."""
    e, g = module.d_head, module.n_kv_heads
    q, k, _ = module.query_key_value(x).split((module.n_heads * e, g * e, g * e), -1)
    return q.unflatten(-1, (-1, e)).transpose(1, 2), k.unflatten(-1, (-1, e)).transpose(1, 2)


@pytest.mark.parametrize("options", [{}, {"heads": [1]}, {"heads": [3, 0], "kinds": ["cross"]}, {"layers": [1]}])
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("n_kv_heads", [None, 2])
def test_the_output_keeps_every_bit(
    inputs: tuple[Tensor, Tensor], options: dict[str, Any], training: bool, n_kv_heads: int | None
) -> None:
    model = Stack(dropout=0.3, n_kv_heads=n_kv_heads).train(training)
    torch.manual_seed(5)
    plain = model(*inputs)
    plain.sum().backward()
    gradients = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    torch.manual_seed(5)
    with watch(model, **options) as seen:
        watched = model(*inputs)
    watched.sum().backward()
    assert len(seen) > 0
    assert torch.equal(watched, plain)
    for name, p in model.named_parameters():
        assert p.grad is not None
        assert torch.equal(p.grad, gradients[name]), name
    assert all(not sight.weights.requires_grad for sight in seen)


def test_sights_are_what_was_asked_for(inputs: tuple[Tensor, Tensor]) -> None:
    model = Stack(3)
    with watch(model) as seen:
        model(*inputs)
    assert [(s.kind, s.layer) for s in seen] == [(kind, n) for n in range(3) for kind in ("masked", "cross")]
    assert [s.name for s in seen] == [f"{part}.{n}" for n in range(3) for part in ("own", "other")]
    assert seen.only(kind="cross", layer=2).weights.shape == (2, H, T, S)
    assert seen.only(kind="masked", layer=0).heads == (0, 1, 2, 3)
    with watch(model, kinds=["cross"], layers=[0, 2], heads=[2, 1]) as some:
        model(*inputs)
        model(*inputs)
    assert [(s.kind, s.layer, s.heads) for s in some] == [("cross", 0, (1, 2)), ("cross", 2, (1, 2))] * 2
    for sight in some:
        every = seen.only(kind="cross", layer=sight.layer).weights
        torch.testing.assert_close(sight.weights, every[:, 1:3], atol=1e-6, rtol=0)
    assert len(some.where(layer=2)) == 2
    assert some.where(kind="masked") == []
    with pytest.raises(UsageError, match=r"2 sights of kind=None, layer=2, not one.*\('cross', 0\)"):
        some.only(layer=2)
    with pytest.raises(UsageError, match=r"0 sights of kind=self"):
        some.only(kind="self")


_RANDOM = torch.rand(2, H, T, T, generator=torch.Generator().manual_seed(3)) > 0.5
RULES: dict[str, tuple[dict[str, Any], int]] = {
    "nothing": ({}, 2),
    "causal and padding": ({"mask": Causal() & Padding([T, 2])}, 2),
    "a mask a head": ({"mask": Dense(_RANDOM[0])}, 2),
    "a mask a row and a head": ({"mask": Dense(_RANDOM)}, 2),
    "a mask over keys": ({"mask": torch.arange(T) < 4}, 2),
    "a bias a head": ({"bias": ALiBi(H)(T, T), "mask": Causal()}, 2),
    "a bias for all": ({"bias": _RANDOM[0, 0].float()}, 2),
    "documents": ({"mask": Documents([2, 4]) & Causal()}, 1),
}


@pytest.mark.parametrize("heads", [None, [0], [1, 3]])
@pytest.mark.parametrize("n_kv_heads", [1, 2, 4])
@pytest.mark.parametrize("rule", RULES)
def test_recorded_weights_are_the_weights(rule: str, n_kv_heads: int, heads: list[int] | None) -> None:
    options, n_rows = RULES[rule]
    module, x = MultiHeadAttention(D, H, n_kv_heads=n_kv_heads), torch.randn(n_rows, T, D)
    with watch(module, heads=heads) as seen:
        module(x, **options)
    query, key = queries_and_keys(module, x)
    expected = attention_weights(query, key, **options)
    picked = expected if heads is None else expected[:, heads]
    torch.testing.assert_close(seen.only().weights, picked, atol=1e-6, rtol=0)
    mask = options.get("mask")
    from_numpy = oracle.attention_weights(
        query, key, score=module.score, mask=Dense(mask) if isinstance(mask, Tensor) else mask, bias=options.get("bias")
    )
    torch.testing.assert_close(expected.double(), torch.from_numpy(from_numpy), atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", sorted(oracle.SCORES))
def test_every_score_can_be_watched(name: str) -> None:
    module, x = MultiHeadAttention(D, H, n_kv_heads=2, score=oracle.SCORES[name](D // H)), torch.randn(2, T, D)
    plain = module(x, mask=Causal())
    for heads in (None, [2]):
        with watch(module, heads=heads) as seen:
            assert torch.equal(module(x, mask=Causal()), plain)
        expected = attention_weights(*queries_and_keys(module, x), score=module.score, mask=Causal())
        expected = expected if heads is None else expected[:, heads]
        torch.testing.assert_close(seen.only().weights, expected, atol=1e-6, rtol=0)


def nothing_left(model: nn.Module) -> bool:
    return all(part.watchers == () for part in model.modules() if isinstance(part, Tap))


def test_nothing_is_left_behind(inputs: tuple[Tensor, Tensor]) -> None:
    model = Stack()
    keys = list(model.state_dict())
    with watch(model) as seen:
        model(*inputs)
        assert list(model.state_dict()) == keys
    with pytest.raises(TypeError, match="must be Tensor"), watch(model):
        model(inputs[0], "no memory")
    assert len(seen) == 4
    assert nothing_left(model)
    model(*inputs)
    assert len(seen) == 4
    with pytest.raises(UsageError), watch(model, heads=[9]):
        model(*inputs)
    assert nothing_left(model)
    assert list(model.state_dict()) == keys


def test_watches_nest_and_end_in_any_order(inputs: tuple[Tensor, Tensor]) -> None:
    model = Stack()
    with watch(model, layers=[0]) as outer:
        model(*inputs)
        with watch(model, heads=[1], kinds=["cross"]) as inner:
            model(*inputs)
        model(*inputs)
    assert (len(outer), len(inner)) == (6, 2)
    both = outer.where(kind="cross")[1].weights
    torch.testing.assert_close(inner.only(layer=0).weights, both[:, 1:2], atol=1e-6, rtol=0)
    first, second = watch(model), watch(model)
    one, other = first.__enter__(), second.__enter__()
    first.__exit__(None, None, None)
    model(*inputs)
    second.__exit__(None, None, None)
    assert (len(one), len(other)) == (0, 4)
    assert nothing_left(model)


def test_modules_copy_and_pickle(inputs: tuple[Tensor, Tensor]) -> None:
    model = Stack()
    plain = model(*inputs)
    with watch(model):
        model(*inputs)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(other(*inputs), plain)
        with watch(other) as seen:
            other(*inputs)
        assert len(seen) == 4


def test_a_copy_made_while_watched_is_not_watched(inputs: tuple[Tensor, Tensor]) -> None:
    model = Stack()
    with watch(model) as seen:
        model(*inputs)
        copies = [copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
        assert not nothing_left(model)
    assert len(seen) == 4
    assert all(nothing_left(other) for other in copies)


def test_gradients_reach_the_weights_of_a_watch_through(inputs: tuple[Tensor, Tensor]) -> None:
    model = Stack(n_kv_heads=2).double()
    x, memory = (tensor.double() for tensor in inputs)
    plain = model(x, memory)
    with watch(model, through=True, heads=[1]) as seen, watch(model) as beside:
        output = model(x, memory)
    torch.testing.assert_close(output, plain, atol=1e-12, rtol=0)
    for sight in seen:
        assert sight.weights.shape[1] == 1
    assert all(not sight.weights.requires_grad for sight in beside)
    with watch(model, through=True) as seen:
        output = model(x, memory)
    gradients = torch.autograd.grad(output.square().sum(), [sight.weights for sight in seen])
    assert all(gradient.abs().sum() > 0 for gradient in gradients)
    masked = seen.only(kind="masked", layer=0)
    assert masked.weights.shape == (2, H, T, T)


@pytest.mark.parametrize("through", [False, True])
def test_what_cannot_be_watched_is_named(inputs: tuple[Tensor, Tensor], through: bool) -> None:
    model = Stack()
    with pytest.raises(UsageError, match=r"\['corss'\]; there are \['self', 'masked', 'cross'\]"):
        watch(model, kinds=["corss"], through=through).__enter__()  # type: ignore[list-item]
    with pytest.raises(UsageError, match=r"layers=\[7\].*\('cross', 1\)"):
        watch(model, layers=[7], through=through).__enter__()
    with pytest.raises(UsageError, match=r"kinds=\['self'\]"):
        watch(model, kinds=["self"], through=through).__enter__()
    with pytest.raises(UsageError, match="nothing to watch"):
        watch(nn.Linear(2, 2), through=through).__enter__()
    for head in (4, -1):
        with (
            watch(model, heads=[0, head], through=through),
            pytest.raises(UsageError, match=rf"no head {head}: own.0 has heads 0 to 3"),
        ):
            model(*inputs)
    assert nothing_left(model)


def test_the_fused_kernel_stays_on_and_weights_are_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    layers = nn.ModuleList(MultiHeadAttention(D, H) for _ in range(4))
    calls = {"fused": 0, "weights": 0}
    fused, explicit = F.scaled_dot_product_attention, attention_weights

    def counted_fused(*args: Any, **options: Any) -> Tensor:
        calls["fused"] += 1
        return fused(*args, **options)

    def counted_weights(*args: Any, **options: Any) -> Tensor:
        calls["weights"] += 1
        return explicit(*args, **options)

    monkeypatch.setattr(F, "scaled_dot_product_attention", counted_fused)
    monkeypatch.setattr(taps, "attention_weights", counted_weights)
    monkeypatch.setattr("regard.attention.core.attention_weights", counted_weights)
    for options in ({"layers": [2]}, {"layers": [2], "heads": [1]}):
        calls.update(fused=0, weights=0)
        x = torch.randn(2, T, D)
        with watch(layers, **options):  # type: ignore[arg-type]
            for layer in layers:
                x = layer(x, mask=Causal())
        assert calls == {"fused": 4, "weights": 1}


def test_a_compiled_module_can_be_watched(inputs: tuple[Tensor, Tensor]) -> None:
    x = inputs[0]
    module = MultiHeadAttention(D, H)
    plain = module(x, mask=Causal())
    with watch(module) as expected:
        module(x, mask=Causal())
    compiled = torch.compile(module, backend="eager")
    with watch(compiled) as before:  # type: ignore[arg-type]
        assert torch.equal(compiled(x, mask=Causal()), plain)
    assert torch.equal(compiled(x, mask=Causal()), plain)
    with watch(compiled) as after:  # type: ignore[arg-type]
        assert torch.equal(compiled(x, mask=Causal()), plain)
    assert torch.equal(compiled(x, mask=Causal()), plain)
    for seen in (before, after):
        assert torch.equal(seen.only().weights, expected.only().weights)
    assert nothing_left(module)


def test_watch_is_at_the_door() -> None:
    assert regard.watch is watch
    sight = Sight("a", "self", 0, (0,), torch.ones(1, 1, 1, 1))
    with pytest.raises(AttributeError):
        sight.layer = 2  # type: ignore[misc]
