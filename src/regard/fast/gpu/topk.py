"""The best of long rows of logits on a GPU, in one pass: a Triton kernel, one program a row and chunk of columns.

    logits (N, V) → the k best of each of C chunks, their columns, and what the chunk adds to the softmax

What comes next ranks a few numbers a chunk instead of a vocabulary, and needs no second pass for log-probabilities.
"""

# Triton compiles the functions; annotations mean something else to it.
# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

CHUNK = 4096  # columns that one program ranks in registers


@triton.jit
def _chunks_kernel(LOGITS, VALUES, COLUMNS, PEAKS, SUMS, BANNED, FORBIDDEN, n_columns, row_stride,
                   K: tl.constexpr, CHUNK: tl.constexpr, ON_DEVICE: tl.constexpr, MASKED: tl.constexpr,
                   HALF: tl.constexpr):  # fmt: skip
    banned = tl.load(BANNED) if ON_DEVICE else BANNED
    row, chunk = tl.program_id(0).to(tl.int64), tl.program_id(1)
    columns = chunk * CHUNK + tl.arange(0, CHUNK)
    logits = tl.load(LOGITS + row * row_stride + columns, columns < n_columns, other=float("-inf")).to(tl.float32)
    at = row * tl.num_programs(1) + chunk
    peak = tl.max(logits, 0)
    tl.store(PEAKS + at, peak)
    tl.store(SUMS + at, tl.sum(tl.exp(logits - tl.where(peak == float("-inf"), 0.0, peak)), 0))
    # Not a number ranks first, so that a damaged model is noticed rather than avoided.
    ranks = tl.where(logits != logits, float("inf"), logits)
    ranks = tl.where(columns == banned, float("-inf"), ranks)
    if MASKED:
        forbidden = tl.load(FORBIDDEN + columns, columns < n_columns, other=1)
        ranks = tl.where(forbidden != 0, float("-inf"), ranks)
    if HALF:
        # A bfloat16 is 16 bits: put before those of its place, the earlier the larger, the best is one whole number.
        bits = ranks.to(tl.int32, bitcast=True)
        packed = (tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits) & -65536) | (CHUNK - 1 - tl.arange(0, CHUNK))
        for i in tl.static_range(K):
            best = tl.max(packed, 0)
            bits = best & -65536
            value = tl.where(bits < 0, bits ^ 0x7FFF0000, bits).to(tl.float32, bitcast=True)
            tl.store(VALUES + at * K + i, value)
            tl.store(COLUMNS + at * K + i, tl.minimum(chunk * CHUNK + CHUNK - 1 - (best & 65535), n_columns - 1))
            packed = tl.where(packed == best, -2139160576, packed)  # minus infinity
    else:
        for i in tl.static_range(K):
            best, place = tl.max(ranks, 0, return_indices=True)
            column = chunk * CHUNK + place
            tl.store(VALUES + at * K + i, best)
            tl.store(COLUMNS + at * K + i, tl.minimum(column, n_columns - 1))
            ranks = tl.where(columns == column, float("-inf"), ranks)


@dataclass(frozen=True)
class TopKChunks:
    """The best candidates of every row, chunk by chunk, and what the chunks add to the softmax."""

    values: Tensor  # (N, C, k), largest first
    columns: Tensor  # (N, C, k)
    peaks: Tensor  # (N, C)
    sums: Tensor  # (N, C) of exp(logit − peak)


def top_k_of_chunks(
    logits: Tensor, k: int, *, banned: int | Tensor = -1, forbidden: Tensor | None = None
) -> TopKChunks:
    """The k best of every chunk of the logits (N, V).

    Column `banned`, known here or on the device (1,), ranks last, and so do those that are `forbidden` (V,): the
    softmax is over all of them all the same.
    """
    n_rows, n_columns = logits.shape
    width = min(CHUNK, triton.next_power_of_2(n_columns))
    n_chunks = triton.cdiv(n_columns, width)
    values, columns = (
        torch.empty((n_rows, n_chunks, k), dtype=dtype, device=logits.device) for dtype in (torch.float32, torch.int64)
    )
    peaks, sums = torch.empty((2, n_rows, n_chunks), dtype=torch.float32, device=logits.device)
    _chunks_kernel[(n_rows, n_chunks)](
        logits, values, columns, peaks, sums, banned, logits if forbidden is None else forbidden, n_columns,
        logits.stride(0), K=k, CHUNK=width, ON_DEVICE=isinstance(banned, Tensor), MASKED=forbidden is not None,
        HALF=logits.dtype == torch.bfloat16, num_warps=max(1, min(4, width // 512)),
    )  # fmt: skip
    return TopKChunks(values, columns, peaks, sums)
