"""The product with a vocabulary's matrix, whatever its size, on a GPU.

    hidden (N, D), weight (V, D) → logits (N, V)

Matrix products write sixteen bytes at a time; where the rows of a result begin anywhere else, as with GPT-2's 50,257
words, they go by kernels of another age, which take six times as long. Here rows have room up to the next such place,
and the last few words are a small product of their own.
"""

from __future__ import annotations

import torch
from torch import Tensor

_WORDS = 64  # to multiples of so many the quick kernels keep


def is_ragged(weight: Tensor) -> bool:
    """Whether a matrix is one that others are slow with."""
    half = weight.is_cuda and weight.dtype in (torch.bfloat16, torch.float16)
    return half and weight.is_contiguous() and weight.shape[0] % 8 != 0 and weight.shape[0] > _WORDS


def output_product(hidden: Tensor, weight: Tensor) -> Tensor:
    """The logits, a row of which is longer in memory than they are."""
    n_words = len(weight)
    whole = n_words // _WORDS * _WORDS
    room = hidden.new_empty(len(hidden), whole + _WORDS)
    torch.mm(hidden, weight[:whole].T, out=room[:, :whole])
    torch.mm(hidden, weight[whole:].T, out=room[:, whole:n_words])
    return room[:, :n_words]
