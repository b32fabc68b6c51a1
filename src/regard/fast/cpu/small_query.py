"""Few queries on a processor: two plain products beat the fused kernel, and a mask is written out once for many calls.

    output = softmax(scale · q kᵀ + bias) v        query (B, H, T, E), keys and values (B, G, S, ·)

A decoding step asks one query a row, or one a beam, of every layer with one and the same mask, which is materialized
once. With fewer key heads, the queries of a group simply ask as one: no key is repeated.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.attention.masks import Mask, Materialized

LARGEST = 4096  # scores a head, T · S: beyond that, the fused kernel, which never writes them all, is as quick
SMALL_QUERY_TYPES = (torch.float32, torch.float64)
COPIED = 64  # keys that are worth a copy, where heads do not lie as the products want them


def suits_small(query: Tensor, key: Tensor, value: Tensor) -> bool:
    """Whether `attend_small` computes this, sooner than the fused kernel: single precision on a CPU, no gradients."""
    if query.device.type != "cpu" or query.dtype not in SMALL_QUERY_TYPES or not _fit(query, key, value):
        return False
    return not (torch.is_grad_enabled() and (query.requires_grad or key.requires_grad or value.requires_grad))


def _fit(query: Tensor, key: Tensor, value: Tensor) -> bool:
    """Whether the shapes are (B, H, T, E), (B, G, S, E), (B, G, S, Ev), few enough, and need no great copy."""
    if not query.ndim == key.ndim == value.ndim == 4:
        return False
    B, H, T, E = query.shape
    G, S = key.shape[1:3]
    fit = key.shape[0] == B and key.shape[3] == E and value.shape[:3] == key.shape[:3] and G > 0 and H % G == 0
    return fit and 0 < T * S <= LARGEST and (S <= COPIED or B == 1 or key.stride(0) == G * key.stride(1))


def attend_small(query: Tensor, key: Tensor, value: Tensor, *, rule: Mask | None, scale: float) -> Tensor:
    """Query (B, H, T, E), keys (B, G, S, E), values (B, G, S, Ev), G heads or groups of them → (B, H, T, Ev)."""
    B, H, T, E = query.shape
    G, S = key.shape[1:3]
    q = query.reshape(B * G, H // G * T, E)
    scores = torch.baddbmm(q.new_empty(()), q, key.reshape(B * G, S, E).mT, beta=0, alpha=scale)
    if isinstance(rule, Materialized):
        scores.view(B, H, T, S).add_(rule.bias)
    output = torch.bmm(scores.softmax(-1), value.reshape(B * G, S, value.shape[-1]))
    return output.view(B, H, T, -1)
