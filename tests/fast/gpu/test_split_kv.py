"""Attention in parts equals the written-out form once its parts are merged, on Triton's interpreter or a GPU."""

import pytest
import torch
from test_decode_attention import DEVICE, copied, filled, slots_at, step_of

from regard.fast.gpu.few_rows.programmatic_launch import programmatic_launch
from regard.fast.gpu.static_cache import attend_past_explicitly

split_kv = pytest.importorskip(
    "regard.fast.gpu.few_rows.split_kv", reason="Triton is not installed: it is part of the dev extra on Linux"
)
pytestmark = pytest.mark.gpu


def merged(outputs, sums):
    """Outputs (N, S, H · E) weighed by sums (N, S, H): (N, H, E)."""
    shares = (sums * 0.6931471805599453).softmax(1)
    return (outputs.unflatten(2, (sums.shape[2], -1)) * shares[..., None]).sum(1)


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize(("heads", "groups", "width"), [(4, 4, 16), (4, 2, 12), (3, 1, 7)], ids=str)
@pytest.mark.parametrize("length", [0, 5, 40, 95])
def test_splits_come_to_the_same(rows, heads, groups, width, length, monkeypatch):
    monkeypatch.setattr(split_kv, "BLOCK", 16)
    monkeypatch.setattr(split_kv, "SPLITS", 2)  # so that a part has several blocks
    slots = slots_at(*[length, max(0, length - 3), 0][:rows], capacity=96)
    cache = filled(slots, groups, width)
    twin = copied(cache)
    q, k, v = step_of(rows, heads, groups, width)
    expected = attend_past_explicitly(q, k, v, cache=twin, scale=0.3)
    outputs, sums = split_kv.attend_split_kv(q, k, v, cache=cache, scale=0.3)
    assert outputs.shape == (rows, 2, heads * width)
    torch.testing.assert_close(merged(outputs, sums), expected, atol=1e-5, rtol=0)
    assert torch.equal(cache.keys, twin.keys)
    assert torch.equal(cache.values, twin.values)


def test_a_row_is_the_same_to_the_bit_whoever_is_beside_it():
    slots, alone = (slots_at(*[20] * rows, capacity=32) for rows in (3, 1))
    slots.ancestors[:] = torch.arange(3, device=DEVICE)
    cache, own = filled(slots, 2, 16), filled(alone, 2, 16)
    own.keys[:, 0], own.values[:, 0] = cache.keys[:, 1], cache.values[:, 1]
    q, k, v = step_of(3, 4, 2, 16)
    together = split_kv.attend_split_kv(q, k, v, cache=cache, scale=0.3)
    alone = split_kv.attend_split_kv(q[1:2], k[1:2], v[1:2], cache=own, scale=0.3)
    assert all(torch.equal(one[1:2], other) for one, other in zip(together, alone, strict=True))


def test_half_precision():
    slots = slots_at(40, capacity=300)
    cache = filled(slots, 2, 64, torch.bfloat16)
    twin = copied(cache)
    q, k, v = step_of(1, 4, 2, 64, torch.bfloat16)
    outputs, sums = split_kv.attend_split_kv(q, k, v, cache=cache, scale=0.1)
    expected = attend_past_explicitly(q, k, v, cache=twin, scale=0.1)
    assert outputs.dtype == sums.dtype == torch.float32
    torch.testing.assert_close(merged(outputs, sums).bfloat16(), expected, atol=2e-2, rtol=2e-2)


def test_kernels_launch_programmatically_on_hopper_and_later_only(monkeypatch):
    assert programmatic_launch(torch.device("cpu")) == {"PDL": False}
    gpu = torch.device("cuda", 0)
    for capability, expected in {
        (8, 9): {"PDL": False},
        (9, 0): {"PDL": True, "launch_pdl": True},
    }.items():
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device, found=capability: found)
        assert programmatic_launch(gpu) == expected
