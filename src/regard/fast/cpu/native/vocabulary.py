"""Scores over a vocabulary, row by row: the largest, and what they sum up to.

Only where the kernels are at hand already; elsewhere None, and the caller computes it with PyTorch.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.fast.cpu.native.loading import Kernels, at_hand

MOST = 64  # numbers to find: the list of the largest is kept sorted by moving them along


def native_top_k(values: Tensor, k: int) -> tuple[Tensor, Tensor] | None:
    """The k largest of each row (N, V), largest first, the first of equals first, and their columns: two of (N, k)."""
    kernels = _kernels_for(values)
    if kernels is None or not 0 < k <= min(MOST, values.shape[1]):
        return None
    found, columns = values.new_empty(len(values), k), torch.empty(len(values), k, dtype=torch.int64)
    kernels.largest(kernels.threads, values.data_ptr(), *values.shape, k, found.data_ptr(), columns.data_ptr())
    return found, columns


def native_log_sum_exp(values: Tensor) -> Tensor | None:
    """log Σ exp of each row (N, V): (N,)."""
    kernels = _kernels_for(values)
    if kernels is None:
        return None
    sums = values.new_empty(len(values))
    kernels.log_sums(kernels.threads, values.data_ptr(), *values.shape, sums.data_ptr())
    return sums


def _kernels_for(values: Tensor) -> Kernels | None:
    plain = values.device.type == "cpu" and values.dtype == torch.float32 and values.ndim == 2
    if not plain or not values.is_contiguous() or values.requires_grad or not values.shape[1]:
        return None
    return at_hand()
