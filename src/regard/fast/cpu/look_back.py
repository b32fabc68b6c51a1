"""Self-attention of a decoding step between its products, for rows of several decodings, in one call of the kernels.

    projected (N, 1, (H + 2G) · E), a past of each decoding → (N, 1, H · E)

New keys and values go behind the past of their row, and its queries look at all of it, position after position in the
order they came. `MultiHeadAttention.look_back` is the readable twin, decoding by decoding.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import torch
from torch import Tensor

from regard.attention import Cache, MultiHeadAttention, ScaledDot
from regard.fast.cpu.head_cache import HeadCache
from regard.fast.cpu.native import Kernels
from regard.fast.cpu.native.structures import LookBack, LookBackRows
from regard.fast.cpu.packed_linear import PackedLinear


def kernels_for(heads: MultiHeadAttention) -> Kernels | None:
    """The kernels that heads are packed for, if they compare by scaled dot products and nobody watches or learns."""
    packed = heads.out if isinstance(heads.out, PackedLinear) else None
    plain = type(heads.score) is ScaledDot and not (heads.tap.watchers or heads.training)
    return packed.native.kernels if plain and packed is not None and packed.native is not None else None


def look_back(
    kernels: Kernels, heads: MultiHeadAttention, projected: Tensor, past: Sequence[HeadCache], counts: Sequence[int]
) -> Tensor:
    """What each row sees of its past and of itself; so many rows belong to each of the pasts."""
    H, G, E = heads.n_heads, heads.n_kv_heads, heads.d_head
    projected, parts, first = projected.contiguous(), [], 0
    for cache, n in zip(past, counts, strict=True):
        length = cache.length
        cache.claim(1, (n, G, E))
        keys, values = cache.room()
        parts.append(LookBackRows(keys.data_ptr(), values.data_ptr(), first, n, length, cache.capacity))
        first += n
    seen = projected.new_empty(first, 1, H * E)
    described = (LookBackRows * len(parts))(*parts)
    call = LookBack(
        *(projected.data_ptr(), seen.data_ptr(), ctypes.addressof(described)),
        *(len(parts), H, G, E, heads.score.dot_scale(E)),
    )
    kernels.look_back(kernels.threads, ctypes.addressof(call))
    return seen


def holds(cache: Cache) -> bool:
    """Whether a past lies as the kernels read it."""
    return isinstance(cache, HeadCache) and cache.dtype == torch.float32
