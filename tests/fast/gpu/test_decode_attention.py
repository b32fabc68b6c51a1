"""One query a row over slots and sources: the kernels equal the written-out form, and that equals plain attention."""

import pytest
import torch

from regard.attention import Cache, MultiHeadAttention, Rotary, ScaledDot, attend
from regard.attention.scores import Additive
from regard.errors import ShapeError, UsageError
from regard.fast.gpu.graph_models import step_heads
from regard.fast.gpu.static_cache import (
    StaticCrossCache,
    StaticKVCache,
    StaticSlots,
    attend_past_explicitly,
    attend_source_explicitly,
)

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
pytestmark = pytest.mark.gpu


def slots_at(*positions, capacity):
    """StaticSlots whose rows have changed places at every step that all of them have behind them."""
    slots, shared = StaticSlots(len(positions), capacity=capacity, device=DEVICE), min(positions)
    slots.restart(torch.tensor(positions, device=DEVICE))
    slots.ancestors[:shared] = torch.randint(0, len(positions), (shared, len(positions)), device=DEVICE)
    return slots


def filled(slots, groups, width, dtype=torch.float32):
    cache = StaticKVCache(slots, groups, width, dtype=dtype)
    cache.keys.normal_()
    cache.values.normal_()
    return cache


def step_of(rows, heads, groups, width, dtype=torch.float32):
    """Query, key and value as slices of one projection: rows lie apart in memory."""
    joint = torch.randn(rows, heads + 2 * groups, width, device=DEVICE).to(dtype)
    return joint.split((heads, groups, groups), 1)


def copied(cache):
    copy = StaticKVCache(cache.slots, *cache.keys.shape[2:], dtype=cache.keys.dtype)
    copy.keys.copy_(cache.keys)
    copy.values.copy_(cache.values)
    return copy


def plainly(q, k, v, cache, scale):
    """Row by row, time by time: what the past is, and `attend` over it."""
    slots, outputs = cache.slots, []
    for row in range(len(q)):
        times = range(int(slots.positions[row]))
        keys, values = (
            torch.stack([held[t, int(slots.ancestors[t, row])] for t in times] + [new[row]])
            for held, new in ((cache.keys, k), (cache.values, v))
        )
        k_1GTE, v_1GTE = keys.transpose(0, 1)[None], values.transpose(0, 1)[None]
        outputs.append(attend(q[row][None, :, None], k_1GTE, v_1GTE, score=ScaledDot(scale))[0, :, 0])
    return torch.stack(outputs)


@pytest.mark.parametrize("shorter", [(0, 0, 0), (0, 3, 5)], ids=["even", "ragged"])
@pytest.mark.parametrize(("heads", "groups", "width"), [(4, 4, 16), (4, 2, 12), (3, 1, 7)], ids=str)
@pytest.mark.parametrize("length", [0, 5, 20])
def test_slots_hold_each_row_s_own_past(heads, groups, width, length, shorter):
    positions = [max(0, length - by) for by in shorter]
    slots = slots_at(*positions, capacity=24)
    cache = filled(slots, groups, width)
    q, k, v = step_of(3, heads, groups, width)
    expected = plainly(q, k, v, cache, 0.3)
    output = attend_past_explicitly(q, k, v, cache=cache, scale=0.3)
    torch.testing.assert_close(output, expected, atol=1e-5, rtol=0)
    assert torch.equal(cache.keys[positions, range(3)], k)
    assert torch.equal(cache.values[positions, range(3)], v)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize(("heads", "groups", "width"), [(4, 4, 16), (4, 2, 12), (3, 1, 7), (2, 2, 128)], ids=str)
@pytest.mark.parametrize("length", [0, 5, 40])
def test_past_kernel_equals_its_twin(heads, groups, width, length, dtype):
    kernels = pytest.importorskip("regard.fast.gpu.decode_attention", reason="Triton is not installed")
    slots = slots_at(length, max(0, length - 3), max(0, length - 33), capacity=48)
    cache = filled(slots, groups, width, dtype)
    twin = copied(cache)
    q, k, v = step_of(3, heads, groups, width, dtype)
    found = kernels.attend_past(q, k, v, cache.keys, cache.values, slots.positions, slots.ancestors, 0.3)
    expected = attend_past_explicitly(q, k, v, cache=twin, scale=0.3)
    tolerance = 2e-6 if dtype == torch.float32 else 2e-2
    torch.testing.assert_close(found, expected, atol=tolerance, rtol=tolerance)
    assert torch.equal(cache.keys, twin.keys)
    assert torch.equal(cache.values, twin.values)


@pytest.mark.parametrize("block", [16, 32])
def test_blocks_go_on_where_the_last_one_ended(block, monkeypatch):
    kernels = pytest.importorskip("regard.fast.gpu.decode_attention", reason="Triton is not installed")
    monkeypatch.setattr(kernels, "_block", lambda *sizes, most: block)
    slots = slots_at(70, 33, capacity=80)
    cache = filled(slots, 2, 16)
    q, k, v = step_of(2, 2, 2, 16)
    expected = plainly(q, k, v, cache, 1.0)
    found = kernels.attend_past(q, k, v, cache.keys, cache.values, slots.positions, slots.ancestors, 1.0)
    torch.testing.assert_close(found, expected, atol=2e-6, rtol=1e-5)


def sources_of(lengths, groups, n_keys, width, *, per_source, dtype=torch.float32):
    lengths = torch.tensor(lengths, device=DEVICE)
    cache = StaticCrossCache(lengths, (len(lengths), groups, n_keys, width), per_source=per_source, dtype=dtype)
    cache.keys.normal_()
    cache.values.normal_()
    return cache


@pytest.mark.parametrize(("heads", "groups", "width"), [(4, 4, 16), (4, 2, 12), (3, 1, 7)], ids=str)
@pytest.mark.parametrize("per_source", [1, 3])
def test_sources_are_shared_by_neighbours(heads, groups, width, per_source):
    kernels = pytest.importorskip("regard.fast.gpu.decode_attention", reason="Triton is not installed")
    cache = sources_of((37, 1, 0), groups, 40, width, per_source=per_source)
    query = step_of(3 * per_source, heads, groups, width)[0]
    expected = torch.zeros_like(query)
    for row in range(2 * per_source):
        source = row // per_source
        keys, values = (x[source : source + 1, :, : int(cache.lengths[source])] for x in (cache.keys, cache.values))
        expected[row] = attend(query[row][None, :, None], keys, values, score=ScaledDot(0.3))[0, :, 0]
    twin = attend_source_explicitly(query, cache=cache, scale=0.3)
    torch.testing.assert_close(twin, expected, atol=1e-5, rtol=0)
    found = kernels.attend_source(query, cache.keys, cache.values, cache.lengths, per_source, 0.3)
    torch.testing.assert_close(found, twin, atol=2e-6, rtol=0)
    assert found[2 * per_source :].abs().max() == 0, "a source without keys gives zeros"


def test_sources_kernel_in_half_precision():
    kernels = pytest.importorskip("regard.fast.gpu.decode_attention", reason="Triton is not installed")
    cache = sources_of((20, 33), 2, 33, 16, per_source=2, dtype=torch.bfloat16)
    query = step_of(4, 2, 2, 16, torch.bfloat16)[0]
    found = kernels.attend_source(query, cache.keys, cache.values, cache.lengths, 2, 0.3)
    expected = attend_source_explicitly(query, cache=cache, scale=0.3)
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found, expected, atol=2e-2, rtol=2e-2)


@pytest.mark.parametrize("rotary", [False, True])
def test_heads_step_over_static_caches_as_over_a_cache(rotary):
    heads = MultiHeadAttention(12, 4, kind="masked", n_kv_heads=2, d_head=6, rotary=Rotary(6) if rotary else None)
    heads = heads.to(DEVICE).eval()
    plain, slots = Cache(8), StaticSlots(3, capacity=8, device=DEVICE)
    cache = StaticKVCache(slots, 2, 6, dtype=torch.float32)
    rows = torch.tensor([2, 0, 0], device=DEVICE)
    for length in range(5):
        hidden = torch.randn(3, 1, 12, device=DEVICE)
        with torch.no_grad():
            expected = heads(hidden, cache=plain)
            found = step_heads(heads, hidden, cache, slots.positions[:, None])
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
        slots.positions.add_(1)
        plain.reorder(rows)
        slots.reorder(rows, length=length + 1)


def test_refusals():
    slots = StaticSlots(3, capacity=4, device=DEVICE)
    cache, source = StaticKVCache(slots, 2, 6, dtype=torch.float32), sources_of((4, 4), 2, 4, 6, per_source=2)
    two = torch.zeros(2, 2, 6, device=DEVICE)
    with pytest.raises(ShapeError, match="a cache of 3 rows cannot take 2 rows"):
        cache.attend(two, two, two, scale=1.0)
    with pytest.raises(ShapeError, match="2 sources of 2 rows cannot take 2 rows"):
        source.attend(two, scale=1.0)
    additive = MultiHeadAttention(12, 2, kind="masked", score=Additive(6, 6)).to(DEVICE)
    with pytest.raises(UsageError, match="static caches compare by dot products, and the score is Additive"):
        step_heads(additive, torch.zeros(3, 1, 12, device=DEVICE), cache, slots.positions[:, None])
