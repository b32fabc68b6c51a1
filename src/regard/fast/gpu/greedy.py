"""Greedy writing that never leaves the device: what a step's logits are followed by, as fixed buffers and one kernel.

    state.begin(limits, step=0, min_length=0)    the rows stand before their first token
    state.choose(logits, positions)              the likeliest token of each row: noted, and fed to the next step

Where the rows stand is read from the device and moved on there, so that a model's step and the choice after it are
recorded as one piece of work. The host only looks now and then who is done.

    N rows · C chunks of the vocabulary · steps up to the capacity
"""

# Triton compiles the functions; annotations mean something else to it.
# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from regard.fast.gpu.topk import top_k_of_chunks

NOTHING = -1  # in a table: the row was done, as in `decoding.paths`


@triton.jit
def _choose_kernel(VALUES, COLUMNS, PEAKS, SUMS, TOKENS, LIMITS, DONE, CHOSEN, LOG_PROBS, STEPS, POSITIONS,
                   MIN_LENGTH, BANNED, n_chunks, eos, pad, NOTHING: tl.constexpr, CHUNKS: tl.constexpr):  # fmt: skip
    row, n_rows = tl.program_id(0), tl.num_programs(0)
    step = tl.load(STEPS + row)
    chunks = tl.arange(0, CHUNKS)
    at, inside = row * n_chunks + chunks, chunks < n_chunks
    values = tl.load(VALUES + at, inside, other=float("-inf"))
    value, place = tl.max(values, 0, return_indices=True)
    token = tl.sum(tl.where(chunks == place, tl.load(COLUMNS + at, inside, other=0), 0), 0)
    peaks = tl.load(PEAKS + at, inside, other=float("-inf"))
    peak = tl.max(peaks, 0)
    total = tl.sum(tl.load(SUMS + at, inside, other=0.0) * tl.exp(peaks - peak), 0)
    was_done = tl.load(DONE + row)
    done = was_done | (token == eos) | (tl.load(LIMITS + row) <= step + 1)
    tl.store(CHOSEN + step * n_rows + row, tl.where(was_done, NOTHING, token))
    tl.store(LOG_PROBS + step * n_rows + row, value - peak - tl.log(total))
    tl.store(DONE + row, done)
    tl.store(TOKENS + row, tl.where(done, pad, token))
    tl.store(STEPS + row, step + 1)
    tl.store(POSITIONS + row, tl.load(POSITIONS + row) + 1)
    if row == 0:  # what is one for all is for one of them to move on: none reads it here
        tl.store(BANNED, tl.where(step + 1 < tl.load(MIN_LENGTH), eos, -1))


class GreedyState:
    """What N rows have written since they began, and which of them are done; `tokens` (N,) are what is fed next."""

    def __init__(
        self, tokens: Tensor, *, capacity: int, eos_id: int, pad_id: int, forbidden: Tensor | None = None
    ) -> None:
        """`forbidden` (V,) are columns that may never be chosen."""
        n_rows, device = len(tokens), tokens.device
        self.forbidden = forbidden
        self.tokens, self.eos_id, self.pad_id = tokens, eos_id, pad_id
        self.limits = torch.zeros(n_rows, dtype=torch.int64, device=device)
        self.done = torch.ones(n_rows, dtype=torch.bool, device=device)
        self.chosen = torch.full((capacity, n_rows), NOTHING, dtype=torch.int64, device=device)
        self.log_probs = torch.zeros((capacity, n_rows), device=device)
        self._steps = torch.zeros(n_rows, dtype=torch.int64, device=device)
        self._min_length, self._banned = torch.zeros((2, 1), dtype=torch.int64, device=device)

    def begin(self, limits: Tensor, *, step: int, min_length: int) -> None:
        """The first rows stand after `step` tokens and write up to their limits (n,); those behind are done."""
        self.done.fill_(True)
        self.done[: len(limits)] = False
        self.limits[: len(limits)] = limits
        self._steps.fill_(step)
        self._min_length.fill_(min_length)
        self._banned.fill_(self.eos_id if step < min_length else -1)

    def choose(self, logits: Tensor, positions: Tensor) -> None:
        """From logits (N, V) the token of each row; the rows' positions (N,) move on."""
        best = top_k_of_chunks(logits, 1, banned=self._banned, forbidden=self.forbidden)
        n_chunks = best.peaks.shape[1]
        _choose_kernel[(len(logits),)](
            best.values, best.columns, best.peaks, best.sums, self.tokens, self.limits, self.done,
            self.chosen, self.log_probs, self._steps, positions, self._min_length, self._banned,
            n_chunks, self.eos_id, self.pad_id,
            NOTHING=NOTHING, CHUNKS=triton.next_power_of_2(n_chunks), num_warps=1,
        )  # fmt: skip
