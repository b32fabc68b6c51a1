"""Scores over a vocabulary on a CPU, row by row: the largest, and what they sum up to.

A processor's `argmax` and `topk` look at one number after another, while a maximum alone is quick to find. The k
largest numbers of a row lie in the k groups of columns with the largest maxima, so only those are looked through. With
native kernels at hand, one pass finds them, and another sums up; nobody waits for them to be compiled.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.fast.cpu.native.loading import Kernels, at_hand

MOST = 64  # numbers to find: the list of the largest is kept sorted by moving them along
_GROUP = 64  # columns to a group
_WORTH_IT = 8  # times as many columns as those looked through in the end


def top_k(values: Tensor, k: int) -> tuple[Tensor, Tensor] | None:
    """The k largest of each row (N, V), largest first, and their columns: two of (N, k); None where PyTorch is as fast.

    With k = 1 the column is that of the first of equals.
    """
    if values.device.type != "cpu":
        return None
    return native_top_k(values, k) or (_first_of_groups(values) if k == 1 else _top_k_of_groups(values, k))


def _first_of_groups(values: Tensor) -> tuple[Tensor, Tensor] | None:
    n_columns = values.shape[1]
    if n_columns < _WORTH_IT * _GROUP or n_columns % _GROUP:
        return None
    grouped: Tensor = values.unflatten(1, (-1, _GROUP))  # (N, groups, columns)
    peaks = grouped.amax(-1)
    group = peaks.argmax(-1)
    within: Tensor = grouped[torch.arange(len(values)), group].argmax(-1)
    return peaks.gather(1, group[:, None]), (group * _GROUP + within)[:, None]


def _top_k_of_groups(values: Tensor, k: int) -> tuple[Tensor, Tensor] | None:
    n_rows, n_columns = values.shape
    if n_columns < _WORTH_IT * (k + 1) * _GROUP:
        return None
    n_groups = n_columns // _GROUP
    grouped = values[:, : n_groups * _GROUP].unflatten(1, (n_groups, _GROUP))  # (N, groups, columns)
    groups = grouped.amax(-1).topk(k).indices  # (N, k)
    columns = (groups[..., None] * _GROUP + torch.arange(_GROUP)).flatten(1)
    rest = torch.arange(n_groups * _GROUP, n_columns).expand(n_rows, -1)  # what fills no group is ranked as well
    columns = torch.cat((columns, rest), 1)
    best, places = values.gather(1, columns).topk(k)
    return best, columns.gather(1, places)


def native_top_k(values: Tensor, k: int) -> tuple[Tensor, Tensor] | None:
    """The k largest of each row (N, V), largest first, the first of equals first, and their columns: two of (N, k)."""
    kernels = _kernels_for(values)
    if kernels is None or not 0 < k <= min(MOST, values.shape[1]):
        return None
    ranked, columns = values.new_empty(len(values), k), torch.empty(len(values), k, dtype=torch.int64)
    kernels.largest(kernels.threads, values.data_ptr(), *values.shape, k, ranked.data_ptr(), columns.data_ptr())
    return ranked, columns


def log_sum_exp(values: Tensor) -> Tensor | None:
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
