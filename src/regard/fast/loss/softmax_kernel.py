"""Scores over a vocabulary, overwritten by their own gradient: a Triton kernel, one program a row.

    norms, gold = overwrite_by_gradient(scores, labels, kept=0.9)
    scores (n, V) ← softmax(scores) − kept · 1[label]      norms (n,) = log Σ exp(scores)      gold (n,) = scores[label]

A row of 50,000 scores is the largest thing a language model's training step touches. Here it comes from memory once
and goes back once: the second look at it, when its sum is known, finds it in the GPU's cache. Everything between is
float32. Sums go lane by lane, so that threads meet once a row. A row may be followed by room up to a multiple of 16
scores, see `room_for`: aligned rows are read 16 bytes at a time, and multiplied by the fastest kernels.
"""

# Triton compiles the functions; annotations mean something else to it.
# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

_LANES, _WIDTH = 1024, 8  # a thread reads 16 bytes of half precision at once
_WARPS = 16  # few rows at once: together they have to stay in the cache
_ALIGNED = 16  # scores
_LOWEST = -3.0e38  # unlike -inf, it can be taken away from itself


@triton.jit
def _overwrite_kernel(SCORES, LABELS, NORMS, GOLD, stride, n_classes, n_held, kept, lowest,
                      ROOM: tl.constexpr, LANES: tl.constexpr, WIDTH: tl.constexpr):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)  # a batch has more than 2³¹ scores
    scores, label = SCORES + row * stride, tl.load(LABELS + row)
    gold = tl.load(scores + label, (label >= 0) & (label < n_classes), other=0.0).to(tl.float32)
    places = tl.arange(0, LANES)[:, None] * WIDTH + tl.arange(0, WIDTH)[None, :]
    peak, total = tl.full([LANES], lowest, tl.float32), tl.zeros([LANES], tl.float32)
    for start in range(0, n_held, LANES * WIDTH):
        at = start + places
        z = tl.load(scores + at, at < n_held, other=float("-inf"), eviction_policy="evict_last").to(tl.float32)
        if ROOM:
            z = tl.where(at < n_classes, z, float("-inf"))  # whatever stands there
        higher = tl.maximum(peak, tl.max(z, 1))
        total = total * tl.exp(peak - higher) + tl.sum(tl.exp(z - higher[:, None]), 1)
        peak = higher
    top = tl.max(peak, 0)
    norm = top + tl.log(tl.sum(total * tl.exp(peak - top), 0))
    tl.store(NORMS + row, norm)
    tl.store(GOLD + row, gold)
    for start in range(0, n_held, LANES * WIDTH):
        at = start + places
        z = tl.load(scores + at, at < n_held, other=float("-inf"), eviction_policy="evict_first").to(tl.float32)
        if ROOM:
            z = tl.where(at < n_classes, z, float("-inf"))
        gradient = tl.exp(z - norm) - tl.where(at == label, kept, 0.0)
        tl.store(scores + at, gradient.to(SCORES.dtype.element_ty), at < n_held, eviction_policy="evict_first")


def room_for(n_rows: int, n_classes: int, *, like: Tensor) -> Tensor:
    """Room for scores (n, V) whose every row begins at a multiple of 16 of them."""
    return like.new_empty(n_rows, -(-n_classes // _ALIGNED) * _ALIGNED)[:, :n_classes]


def overwrite_by_gradient(scores: Tensor, labels: Tensor, *, kept: float) -> tuple[Tensor, Tensor]:
    """The log-sum-exp of each row and its label's score, (n,) in float32; `scores` (n, V) become their gradient.

    Room between one row and the next is overwritten as well.
    """
    norms, gold = (torch.empty(len(scores), dtype=torch.float32, device=scores.device) for _ in range(2))
    if len(scores):
        n_classes, n_held = scores.shape[1], scores.stride(0)
        _overwrite_kernel[(len(scores),)](
            scores, labels, norms, gold, n_held, n_classes, n_held, kept, _LOWEST, ROOM=n_held > n_classes,
            LANES=_LANES, WIDTH=_WIDTH, num_warps=_WARPS,
        )  # fmt: skip
    return norms, gold
