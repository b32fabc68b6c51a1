"""The loss over a vocabulary: label-smoothed cross-entropy of states projected by a matrix, summed over real tokens.

    z = W h (+ b)        loss = lse(z) − (1 − ε) · z[label] − ε/V · Σ z        hidden (..., D), W (V, D), labels (...)

This is the textbook: all scores stand in memory at once. `regard.fast.loss` computes them a part of the rows at a time,
with their gradient, and stands in wherever it is allowed to.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.config.twins import twin
from regard.errors import ShapeError, UsageError


class Losses(NamedTuple):
    """Summed over a batch: the loss with gradients, the plain negative log-likelihood, and the tokens it is over."""

    total: Tensor
    nll: Tensor
    n_tokens: Tensor


def linear_cross_entropy(
    hidden: Tensor,
    weight: Tensor,
    labels: Tensor,
    *,
    smoothing: float = 0.0,
    ignore_id: int = 0,
    chunk: int | None = None,
    bias: Tensor | None = None,
) -> Losses:
    """Cross-entropy of `hidden` (..., D), projected by `weight` (V, D), against labels (...), summed.

    Tokens labelled `ignore_id` count for nothing. `chunk` is the largest number of rows whose scores need exist at
    once. Half-precision states meet the weight in their own precision; all that follows the product is float32.
    """
    _check(hidden, weight, labels=labels, smoothing=smoothing)
    if (fast := twin("cross_entropy")) is not None:
        return Losses(*fast(hidden, weight, labels, smoothing=smoothing, ignore_id=ignore_id, chunk=chunk, bias=bias))
    labels = labels.flatten()
    real = labels != ignore_id
    states = hidden.flatten(0, -2).masked_fill(~real[:, None], 0)  # whatever stood there, even NaN, reaches no sum
    scores = F.linear(states, weight.to(states.dtype), None if bias is None else bias.to(states.dtype))
    scores = scores if scores.dtype == torch.float64 else scores.float()
    total = F.cross_entropy(scores, labels, ignore_index=ignore_id, label_smoothing=smoothing, reduction="sum")
    nll = F.cross_entropy(scores.detach(), labels, ignore_index=ignore_id, reduction="sum")
    return Losses(total, nll, real.sum())


def _check(hidden: Tensor, weight: Tensor, *, labels: Tensor, smoothing: float) -> None:
    if hidden.shape[:-1] != labels.shape or hidden.shape[-1] != weight.shape[1]:
        raise ShapeError(
            f"hidden states {list(hidden.shape)} do not fit a weight {list(weight.shape)} "
            f"and labels {list(labels.shape)}; they are (..., D), (V, D) and (...)"
        )
    if not 0 <= smoothing < 1:
        raise UsageError(f"label smoothing is {smoothing}; it goes from 0 to below 1")
