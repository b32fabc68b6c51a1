"""Attention of one new query a row over its own past, split in time: a Triton kernel, a program a row, head and split.

    attend_split_kv    query (N, H, E), key and value (N, G, E), a cache → outputs (N, S, H · E), sums (N, S, H)

One row has too few heads to keep a GPU busy. Here each of S programs sees every S-th block of a head's past, and says
what it found, and how much that counts: the sum of exp2(scores), as a power of two. Whoever reads the outputs weighs
them, as `gemv` does on the way to a product. By `programmatic_launch` it asks for its first block of the past, where no
kernel of this step writes, before it waits for the query. The rest is as `decode_attention` has it.
"""

# Triton compiles the functions; annotations mean something else to it.
# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

from regard.fast.gpu.decode_attention import look, past, read
from regard.fast.gpu.few_rows.programmatic_launch import programmatic_launch
from regard.fast.gpu.static_cache import StaticKVCache

BLOCK, WARPS = 128, 4  # positions that a program looks at together, of 64 features, and what it has for that
SPLITS = 8  # at most


@triton.jit
def _split_kv_kernel(Q, K, V, OUTPUTS, SUMS, KEYS, VALUES, POSITIONS, ANCESTORS, scale, sq, sk, sv, n_rows, G,
                   E: tl.constexpr, WIDTH: tl.constexpr, GROUP: tl.constexpr, BLOCK: tl.constexpr,
                   ALONE: tl.constexpr, PDL: tl.constexpr):  # fmt: skip
    if PDL:
        tl.extra.cuda.gdc_launch_dependents()
    row, head, split = tl.program_id(0), tl.program_id(1), tl.program_id(2).to(tl.int64)
    n_heads, n_splits = tl.num_programs(1), tl.num_programs(2)
    kv_head = head // GROUP
    position = tl.load(POSITIONS + row)
    features = tl.arange(0, WIDTH)
    real = features < E
    places, seen = past(split * BLOCK, position, row, kv_head, ANCESTORS, n_rows, G, E, BLOCK, ALONE)
    keys, values = read(KEYS, VALUES, places, seen, features, real)
    if PDL:
        tl.extra.cuda.gdc_wait()
    q = tl.load(Q + row * sq + head * E + features, real, other=0.0).to(tl.float32)
    q = q * scale
    new = features < tl.where(split == 0, E, 0)  # the first split has the new key and value
    k = tl.load(K + row * sk + kv_head * E + features, new, other=0.0)
    v = tl.load(V + row * sv + kv_head * E + features, new, other=0.0)
    if head == 0 and split == 0 and not ALONE:
        tl.store(ANCESTORS + position * n_rows + row, row)
    if head % GROUP == 0:
        at = ((position * n_rows + row) * G + kv_head) * E + features
        tl.store(KEYS + at, k, new)
        tl.store(VALUES + at, v, new)
    peak = tl.where(split == 0, tl.sum(q * k.to(tl.float32), 0), -1e30)  # not -inf: there may be nothing to see at all
    total, output = 1.0, v.to(tl.float32)
    peak, total, output = look(q, keys, values, seen, peak, total, output)
    for begin in range((split + n_splits) * BLOCK, position, n_splits * BLOCK):
        places, seen = past(begin, position, row, kv_head, ANCESTORS, n_rows, G, E, BLOCK, ALONE)
        keys, values = read(KEYS, VALUES, places, seen, features, real)
        peak, total, output = look(q, keys, values, seen, peak, total, output)
    at = (row * n_splits + split) * n_heads + head
    tl.store(OUTPUTS + at * E + features, output / total, real)
    tl.store(SUMS + at, peak + tl.log2(total))


def attend_split_kv(
    query: Tensor, key: Tensor, value: Tensor, *, cache: StaticKVCache, scale: float
) -> tuple[Tensor, Tensor]:
    """Cache key and value (N, G, E) at the rows' positions, and attend: outputs (N, S, H · E), sums (N, S, H).

    Of all three, each row lies together in memory.
    """
    (N, H, E), G, slots = query.shape, key.shape[1], cache.slots
    width = triton.next_power_of_2(E)
    block = max(16, BLOCK * 64 // max(64, width))
    n_splits = min(SPLITS, triton.cdiv(slots.capacity, block))
    outputs = torch.empty((N, n_splits, H * E), dtype=torch.float32, device=query.device)
    sums = torch.empty((N, n_splits, H), dtype=torch.float32, device=query.device)
    _split_kv_kernel[(N, H, n_splits)](
        query, key, value, outputs, sums, cache.keys, cache.values, slots.positions, slots.ancestors,
        scale * math.log2(math.e), query.stride(0), key.stride(0), value.stride(0), cache.keys.shape[1], G,
        E=E, WIDTH=width, GROUP=H // G, BLOCK=block, ALONE=cache.keys.shape[1] == 1,
        num_warps=WARPS, **programmatic_launch(query.device),
    )  # fmt: skip
    return outputs, sums
