"""Attention of a step between its products: what the textbook sees, for each decoding by itself."""

from __future__ import annotations

import pytest
import torch

import regard.fast.cpu.packed_linear as packing
from regard.attention import Cache, MultiHeadAttention
from regard.fast.cpu.head_cache import HeadCache
from regard.fast.cpu.look_back import kernels_for, look_back
from regard.fast.cpu.native import loaded, why
from regard.fast.cpu.packed_linear import pack_linears

SHAPES = {"heads of 64": (128, 2, 2), "groups": (96, 6, 2), "odd heads": (44, 4, 4), "heads of 32": (64, 2, 1)}


@pytest.fixture(params=["native", "haswell"])
def machine(request, monkeypatch):
    """This processor's kernels, and those of one without AVX-512."""
    kernels = loaded(machine=request.param)
    if kernels is None:
        pytest.skip(why(machine=request.param))
    monkeypatch.setattr(packing, "loaded", lambda: kernels)
    return kernels


def heads_of(shape):
    torch.manual_seed(0)
    d_model, n_heads, n_groups = SHAPES[shape]
    return pack_linears(MultiHeadAttention(d_model, n_heads, n_kv_heads=n_groups, kind="masked")).eval()


def filled(kind, heads, n_rows, length, seed):
    draw = torch.Generator().manual_seed(seed)
    cache = kind(4)
    shape = (n_rows, heads.n_kv_heads, length, heads.d_head)
    cache.append(torch.randn(shape, generator=draw), torch.randn(shape, generator=draw))
    return cache


@torch.inference_mode()
@pytest.mark.parametrize("shape", SHAPES)
def test_it_sees_what_the_textbook_sees(shape, machine):
    heads, counts, lengths = heads_of(shape), (1, 3, 1, 2), (1, 17, 40, 300)
    width = (heads.n_heads + 2 * heads.n_kv_heads) * heads.d_head
    fast, plain = ([filled(kind, heads, *facts) for facts in zip(counts, lengths, range(4), strict=True)]
                   for kind in (HeadCache, Cache))  # fmt: skip
    for step in range(3):
        projected = torch.randn(sum(counts), 1, width, generator=torch.Generator().manual_seed(step))
        seen = look_back(kernels_for(heads), heads, projected, fast, counts)
        each = zip(projected.split(counts), plain, strict=True)
        expected = [heads.look_back(own, mask=None, cache=cache, positions=None) for own, cache in each]
        torch.testing.assert_close(seen, torch.cat(expected), rtol=1e-5, atol=1e-5)
        for one, other in zip(fast, plain, strict=True):
            assert torch.equal(one.keys, other.keys)
            assert torch.equal(one.values, other.values)


@torch.inference_mode()
@pytest.mark.parametrize("shape", SHAPES)
def test_a_row_does_not_feel_the_others(shape, machine):
    heads, counts, lengths = heads_of(shape), (1, 3, 1, 2), (1, 17, 40, 300)
    width = (heads.n_heads + 2 * heads.n_kv_heads) * heads.d_head
    together, alone = ([filled(HeadCache, heads, *facts) for facts in zip(counts, lengths, range(4), strict=True)]
                       for _ in range(2))  # fmt: skip
    projected = torch.randn(sum(counts), 1, width)
    seen = look_back(kernels_for(heads), heads, projected, together, counts)
    for own, fed, cache, n in zip(seen.split(counts), projected.split(counts), alone, counts, strict=True):
        assert torch.equal(own, look_back(kernels_for(heads), heads, fed, [cache], [n]))


def test_who_is_watched_or_learns_is_left_to_the_textbook(machine):
    heads = heads_of("groups")
    assert kernels_for(heads) is not None
    assert kernels_for(heads.train()) is None
    assert kernels_for(MultiHeadAttention(44, 4)) is None
