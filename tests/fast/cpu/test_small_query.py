"""Few queries on a processor: the plain products, their twin, and masks that are written out once."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from regard.attention import Cache, Causal, Padding, attend, attend_explicitly, core
from regard.attention.masks import Materialized, materialize
from regard.fast.cpu.small_query import LARGEST, attend_small, suits_small

CPU = torch.device("cpu")
SHAPES = {  # B, H, G, T, S
    "one query": (3, 4, 4, 1, 6),
    "one key": (3, 4, 4, 1, 1),
    "beams": (2, 4, 4, 5, 15),
    "groups": (2, 6, 2, 1, 7),
    "groups of beams": (2, 6, 3, 4, 7),
    "one group": (2, 4, 1, 2, 5),
}


def inputs(name: str, *, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    B, H, G, T, S = SHAPES[name]
    draw = torch.Generator().manual_seed(seed)
    shapes = ((B, H, T, 8), (B, G, S, 8), (B, G, S, 3))
    query, key, value = (torch.randn(shape, generator=draw, dtype=torch.float64) for shape in shapes)
    return query, key, value


@pytest.fixture
def fused_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing may reach the fused kernel while this is on."""

    def refuse(*args: object, **options: object) -> Tensor:
        raise AssertionError("the fused kernel was called")

    monkeypatch.setattr(core, "_fused", refuse)


@pytest.mark.usefixtures("fused_is_off")
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("name", SHAPES)
def test_equals_the_explicit_twin(name: str, masked: bool) -> None:
    query, key, value = inputs(name)
    B, _, _, T, S = SHAPES[name]
    allowed = torch.rand((B, 1, T, S), generator=torch.Generator().manual_seed(1)) > 0.5
    allowed[..., 0] = True
    mask = Materialized(allowed) if masked else None
    found = attend(query, key, value, score=core.ScaledDot(), mask=mask)
    torch.testing.assert_close(found, attend_explicitly(query, key, value, mask=allowed if masked else None))


@pytest.mark.usefixtures("fused_is_off")
def test_a_step_behind_a_cache_needs_no_mask() -> None:
    query, key, value = inputs("one query")
    cache = Cache(9)
    held = cache.append(key, value)
    found = attend(query, *held, mask=Causal(offset=5))
    torch.testing.assert_close(found, attend_explicitly(query, key, value))


def test_what_is_left_to_the_fused_kernel() -> None:
    query, key, value = inputs("beams")
    assert suits_small(query, key, value)
    assert not suits_small(query.bfloat16(), key.bfloat16(), value.bfloat16())
    assert not suits_small(query.requires_grad_(), key, value)
    with torch.no_grad():
        assert suits_small(query, key, value)
    many = torch.randn(1, 1, LARGEST // 8 + 1, 2)
    assert not suits_small(torch.randn(1, 1, 8, 2), many, many)
    assert suits_small(torch.randn(1, 1, 7, 2), many, many)
    apart = torch.randn(2, 100, 4, 2).transpose(1, 2)  # to bring heads together would copy every key
    assert not suits_small(torch.randn(2, 4, 1, 2), apart, apart)
    assert suits_small(torch.randn(2, 4, 1, 2), apart.contiguous(), apart.contiguous())


def test_gradients_and_other_masks_take_the_usual_way() -> None:
    query, key, value = inputs("beams")
    query.requires_grad_()
    attend(query, key, value, score=core.ScaledDot()).sum().backward()
    assert query.grad is not None
    lengths = [15, 0]
    found = attend(query.detach(), key, value, mask=Padding(lengths))
    torch.testing.assert_close(found, attend_explicitly(query.detach(), key, value, mask=Padding(lengths)))
    assert torch.equal(found[1], torch.zeros_like(found[1])), "nothing to attend to gives zeros"


def test_a_mask_is_written_out_where_that_helps() -> None:
    written = materialize(Padding([3, 1]), 1, 3, device=CPU)
    assert isinstance(written, Materialized)
    assert torch.equal(written.bias == 0, written.allowed)
    assert torch.equal(written.dense(1, 3, n_leading=2, device=CPU)[1, 0, 0], torch.tensor([True, False, False]))
    assert materialize(None, 1, 3, device=CPU) is None
    assert materialize(Padding([3, 3]), 1, 3, device=CPU) is None, "it forbids nothing"
    empty, elsewhere = Padding([3, 0]), Padding([3, 1])
    assert materialize(empty, 1, 3, device=CPU) is empty, "zeros are made elsewhere"
    assert materialize(elsewhere, 1, 3, device=torch.device("meta")) is elsewhere


def test_neighbours_change_nothing() -> None:
    query, key, value = (x.float() for x in inputs("beams"))
    whole = attend_small(query, key, value, rule=None, scale=0.3)
    for row in range(2):
        alone = attend_small(query[row, None], key[row, None], value[row, None], rule=None, scale=0.3)
        torch.testing.assert_close(alone[0], whole[row], rtol=0, atol=1e-6)
