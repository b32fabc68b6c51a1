"""Attention of one new query a row, as a decoding step on a GPU has it: two Triton kernels, one program a row and head.

    attend_past      over the row's own past      query (N, H, E), key and value (N, G, E), caches (capacity, N, G, E)
    attend_source    over its source              query (N, H, E), keys and values (n, G, S, E), lengths (n,)

Where each row stands in time is read from the device, so that a recorded step can be replayed at every position; only
positions that are filled are read. At time t the past of row r lies in row ancestors[t, r]: beams that change places
move numbers in this table, never keys. The new key and value are written by the kernel that uses them, and so is the
row's own number at its position.
Softmax is computed as the blocks come, in base 2, and sums are in single precision.
"""

from __future__ import annotations

import math

import triton
import triton.language as tl
from torch import Tensor
from torch.library import triton_op, wrap_triton

_FEW_PROGRAMS = 256  # about what a GPU runs at once: with fewer, each program may take more of it
_MANY_PROGRAMS = 2048  # they are in one another's way, unless each takes little


@triton.jit
def read(KEYS, VALUES, places, seen, features, real):
    """A block of keys and values at `places` (T,): (T, E) each."""
    at = places[:, None] + features[None, :]
    open_ = seen[:, None] & real[None, :]
    return tl.load(KEYS + at, open_, other=0.0), tl.load(VALUES + at, open_, other=0.0)


@triton.jit
def look(q, keys, values, seen, peak, total, output):
    """The running peak, total and weighted sum, gone on with over one block."""
    scores = tl.where(seen, tl.sum(keys.to(tl.float32) * q[None, :], 1), float("-inf"))
    higher = tl.maximum(peak, tl.max(scores, 0))
    shares, kept = tl.exp2(scores - higher), tl.exp2(peak - higher)
    output = output * kept + tl.sum(shares[:, None] * values.to(tl.float32), 0)
    return higher, total * kept + tl.sum(shares, 0), output


@triton.jit
def past(begin, position, row, kv_head, ANCESTORS, n_rows, G,
          E: tl.constexpr, BLOCK: tl.constexpr, ALONE: tl.constexpr):  # fmt: skip
    """Where a block of the past lies, and which of it counts; a row that is alone has no past but its own."""
    times = begin + tl.arange(0, BLOCK)
    seen = times < position
    if ALONE:
        places = (times * G + kv_head) * E
    else:
        rows = tl.load(ANCESTORS + times * n_rows + row, seen, other=0)
        places = ((times * n_rows + rows) * G + kv_head) * E
    return places, seen


@triton.jit
def _past_kernel(Q, K, V, OUT, KEYS, VALUES, POSITIONS, ANCESTORS, scale, sq, sk, sv, n_rows, G,
                  E: tl.constexpr, WIDTH: tl.constexpr, GROUP: tl.constexpr, BLOCK: tl.constexpr,
                  STAGES: tl.constexpr, ALONE: tl.constexpr):  # fmt: skip
    row, head = tl.program_id(0), tl.program_id(1)
    kv_head = head // GROUP
    position = tl.load(POSITIONS + row)
    features = tl.arange(0, WIDTH)
    real = features < E
    q = tl.load(Q + row * sq + head * E + features, real, other=0.0).to(tl.float32)
    q = (q * scale).to(tl.float32)  # a compiler hands the scale over in double precision
    k = tl.load(K + row * sk + kv_head * E + features, real, other=0.0)
    v = tl.load(V + row * sv + kv_head * E + features, real, other=0.0)
    if head == 0 and not ALONE:
        tl.store(ANCESTORS + position * n_rows + row, row)
    if head % GROUP == 0:
        at = ((position * n_rows + row) * G + kv_head) * E + features
        tl.store(KEYS + at, k, real)
        tl.store(VALUES + at, v, real)
    peak, total, output = tl.sum(q * k.to(tl.float32), 0), 1.0, v.to(tl.float32)
    for begin in tl.range(0, position, BLOCK, num_stages=STAGES):
        places, seen = past(begin, position, row, kv_head, ANCESTORS, n_rows, G, E, BLOCK, ALONE)
        keys, values = read(KEYS, VALUES, places, seen, features, real)
        peak, total, output = look(q, keys, values, seen, peak, total, output)
    tl.store(OUT + (row * tl.num_programs(1) + head) * E + features, output / total, real)


@triton.jit
def _source_kernel(Q, OUT, KEYS, VALUES, LENGTHS, scale, sq, S, G, per_source,
                    E: tl.constexpr, WIDTH: tl.constexpr, GROUP: tl.constexpr, BLOCK: tl.constexpr):  # fmt: skip
    row, head = tl.program_id(0), tl.program_id(1)
    source = row // per_source
    length = tl.load(LENGTHS + source)
    features = tl.arange(0, WIDTH)
    real = features < E
    q = tl.load(Q + row * sq + head * E + features, real, other=0.0).to(tl.float32)
    q = (q * scale).to(tl.float32)  # a compiler hands the scale over in double precision
    first = (source.to(tl.int64) * G + head // GROUP) * S
    peak, total, output = -1e30, 0.0, tl.zeros([WIDTH], tl.float32)  # not -inf: there may be nothing to see at all
    for begin in range(0, length, BLOCK):
        times = begin + tl.arange(0, BLOCK)
        keys, values = read(KEYS, VALUES, (first + times) * E, times < length, features, real)
        peak, total, output = look(q, keys, values, times < length, peak, total, output)
    tl.store(OUT + (row * tl.num_programs(1) + head) * E + features, output / tl.maximum(total, 1e-30), real)


@triton_op("regard::attend_past", mutates_args={"keys", "values", "ancestors"})
def attend_past(
    query: Tensor, key: Tensor, value: Tensor, keys: Tensor, values: Tensor,
    positions: Tensor, ancestors: Tensor, scale: float,
) -> Tensor:  # fmt: skip
    """Write key and value (N, G, E) at `positions` (N,) and attend up to there: (N, H, E).

    These are the first rows of the caches, which may have more. ancestors (capacity, ·), where rows are noted as their
    own at this time. Caches lie together in memory, of the others the last two dimensions do. `positions` are int64, so
    that what is counted from them can exceed 2³¹.
    """
    N, H, E = query.shape
    G = key.shape[1]
    output = query.new_empty((N, H, E))
    width, few, many = triton.next_power_of_2(E), N * H <= _FEW_PROGRAMS, N * H > _MANY_PROGRAMS
    block = _block(keys.shape[0], width, most=512 if few else 16 if many else 32)
    wrap_triton(_past_kernel)[(N, H)](
        query, key, value, output, keys, values, positions, ancestors, scale * math.log2(math.e),
        query.stride(0), key.stride(0), value.stride(0), keys.shape[1], G,
        E=E, WIDTH=width, GROUP=H // G, BLOCK=block, STAGES=1 if few else 2, ALONE=keys.shape[1] == 1,
        num_warps=_warps(block, width),
    )  # fmt: skip
    return output


@triton_op("regard::attend_source", mutates_args={})
def attend_source(
    query: Tensor, keys: Tensor, values: Tensor, lengths: Tensor, per_source: int, scale: float
) -> Tensor:
    """Each query (N, H, E) looks at its source, that of row r being r // per_source: (N, H, E); nothing gives zeros."""
    N, H, E = query.shape
    G, S = keys.shape[1:3]
    output = query.new_empty((N, H, E))
    width = triton.next_power_of_2(E)
    block = _block(S, width, most=512 if N * H <= _FEW_PROGRAMS else 128)
    wrap_triton(_source_kernel)[(N, H)](
        query, output, keys, values, lengths, scale * math.log2(math.e), query.stride(0), S, G, per_source,
        E=E, WIDTH=width, GROUP=H // G, BLOCK=block, num_warps=_warps(block, width),
    )  # fmt: skip
    return output


def _block(longest: int, width: int, *, most: int) -> int:
    """How many positions a program looks at together: many where programs are few, or one would wait for the next.

    Where they are many, short blocks leave room for more of them at a time, and the next block comes meanwhile.
    """
    most = max(16, most * 64 // max(64, width))
    return min(most, max(16, int(triton.next_power_of_2(longest))))


def _warps(block: int, width: int) -> int:
    """A warp for every 2,048 numbers of a block: 64 a thread."""
    return max(1, min(16, block * width // 2048))
