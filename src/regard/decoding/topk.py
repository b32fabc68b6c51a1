"""The largest of many, row by row: one, or a few.

A processor's `argmax` and `topk` look at one number after another, while a maximum alone is quick to find. The k
largest numbers of a row lie in the k groups of columns with the largest maxima, so only those are looked through. With
kernels of our own at hand, one pass finds them.
"""

import torch
from torch import Tensor

from regard.fast.cpu.native.vocabulary import largest

_GROUP = 64  # columns to a group
_WORTH_IT = 8  # times as many columns as those looked through in the end


def first_largest(values: Tensor) -> Tensor:
    """The column of each row's largest value, the first of several: (N, V) → (N,)."""
    if (found := largest(values, 1)) is not None:
        return found[1][:, 0]
    n_columns = values.shape[1]
    if values.device.type != "cpu" or n_columns < _WORTH_IT * _GROUP or n_columns % _GROUP:
        return values.argmax(-1)
    grouped: Tensor = values.unflatten(1, (-1, _GROUP))  # (N, groups, columns)
    group = grouped.amax(-1).argmax(-1)
    within: Tensor = grouped[torch.arange(len(values)), group].argmax(-1)
    return group * _GROUP + within


def k_largest(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k largest values of each row, largest first, and their columns: (N, V) → (N, k), (N, k)."""
    if (ranked := largest(values, k)) is not None:
        return ranked
    n_rows, n_columns = values.shape
    n_ranked = (k + 1) * _GROUP
    if values.device.type != "cpu" or n_columns < _WORTH_IT * n_ranked:
        found = values.topk(k)
        return found.values, found.indices
    n_groups = n_columns // _GROUP
    grouped = values[:, : n_groups * _GROUP].unflatten(1, (n_groups, _GROUP))  # (N, groups, columns)
    groups = grouped.amax(-1).topk(k).indices  # (N, k)
    columns = (groups[..., None] * _GROUP + torch.arange(_GROUP)).flatten(1)
    rest = torch.arange(n_groups * _GROUP, n_columns).expand(n_rows, -1)  # what fills no group is ranked as well
    columns = torch.cat((columns, rest), 1)
    best, places = values.gather(1, columns).topk(k)
    return best, columns.gather(1, places)
