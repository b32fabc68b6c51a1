"""What a step's logits are followed by, for rows that each write in their own way: one kernel, a program a row.

The same as the plain operations of `row_state`, of which there are two dozen: each would be a kernel of its own.
"""

# Triton compiles the functions; annotations mean something else to it.
# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from regard.decoding.paths import NOTHING
from regard.decoding.plan import Marks
from regard.fast.gpu.topk import TopKChunks

TOKENS, LIMITS, STEPS, DONE, STEPPING, TICKS = 0, 1, 2, 3, 7, 8  # rows of the table in `row_state`


@triton.jit
def _write_kernel(VALUES, COLUMNS, PEAKS, SUMS, LOGITS, TABLE, CHOSEN, LOG_PROBS, POSITIONS,
                  n_chunks, logits_stride, n_all, chosen_stride, eos, pad, NOTHING: tl.constexpr,
                  TOKENS: tl.constexpr, LIMITS: tl.constexpr, STEPS: tl.constexpr, DONE: tl.constexpr,
                  STEPPING: tl.constexpr, TICKS: tl.constexpr, CHUNKS: tl.constexpr):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    chunks = tl.arange(0, CHUNKS)
    at, inside = row * n_chunks + chunks, chunks < n_chunks
    values = tl.load(VALUES + at, inside, other=float("-inf"))
    _, place = tl.max(values, 0, return_indices=True)
    token = tl.sum(tl.where(chunks == place, tl.load(COLUMNS + at, inside, other=0), 0), 0)
    peaks = tl.load(PEAKS + at, inside, other=float("-inf"))
    peak = tl.max(peaks, 0)
    total = tl.sum(tl.load(SUMS + at, inside, other=0.0) * tl.exp(peaks - peak), 0)
    logit = tl.load(LOGITS + row * logits_stride + token).to(tl.float32)
    fed, steps = tl.load(TABLE + TOKENS * n_all + row), tl.load(TABLE + STEPS * n_all + row)
    was_done, tick = tl.load(TABLE + DONE * n_all + row), tl.load(TABLE + TICKS * n_all + row)
    stepping = tl.load(TABLE + STEPPING * n_all + row)
    going = was_done == 0
    over = (token == eos) | (tl.load(TABLE + LIMITS * n_all + row) <= steps + 1)
    tl.store(CHOSEN + tick * chosen_stride + row, tl.where(going, token, NOTHING))
    tl.store(LOG_PROBS + tick * chosen_stride + row, logit - peak - tl.log(total))
    tl.store(TABLE + TOKENS * n_all + row, tl.where(going, tl.where(over, pad, token), fed))
    tl.store(TABLE + STEPS * n_all + row, tl.where(going, steps + 1, steps))
    tl.store(TABLE + DONE * n_all + row, tl.where(going & over, 1, was_done))
    tl.store(TABLE + STEPPING * n_all + row, tl.zeros_like(stepping))
    tl.store(TABLE + TICKS * n_all + row, tick + 1)
    position = tl.load(POSITIONS + row)
    tl.store(POSITIONS + row, tl.where(going | (stepping > 0), position + 1, position))


def write_rows(
    best: TopKChunks,
    clean: TopKChunks,
    logits: Tensor,
    *,
    table: Tensor,
    chosen: Tensor,
    log_probs: Tensor,
    positions: Tensor,
    marks: Marks,
) -> None:
    """Note the best token of each of the first rows, and move them on; `clean` is of the logits (n, V) themselves."""
    n_chunks = best.peaks.shape[1]
    _write_kernel[(len(logits),)](
        best.values, best.columns, clean.peaks, clean.sums, logits, table, chosen, log_probs, positions,
        n_chunks, logits.stride(0), table.stride(0), chosen.stride(0), marks.eos_id, marks.pad_id, NOTHING=NOTHING,
        TOKENS=TOKENS, LIMITS=LIMITS, STEPS=STEPS, DONE=DONE, STEPPING=STEPPING, TICKS=TICKS,
        CHUNKS=triton.next_power_of_2(n_chunks), num_warps=1,
    )  # fmt: skip
