"""Attention once more, in numpy and double precision, one row at a time: what the fast code has to agree with.

Nothing here comes from `regard.attention.core`; scores read their parameters from the modules, masks their numbers
from the descriptions, and each rule is written out again as a question about one query and one key.

    attention(q, k, v)      q (..., T, Dq), k (..., S, Dk), v (..., S, Ev)  →  (..., T, Ev)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from regard.attention import (
    MLP,
    Additive,
    Both,
    Causal,
    Dense,
    Documents,
    Dot,
    Gaussian,
    General,
    Mask,
    Padding,
    ScaledDot,
    Score,
    Since,
    SoftCap,
    Window,
)

Array = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

SCORES: dict[str, Callable[[int], Score]] = {
    "gaussian": lambda width: Gaussian(1.3),
    "dot": lambda width: Dot(),
    "scaled_dot": lambda width: ScaledDot(),
    "scaled_by_hand": lambda width: ScaledDot(0.7),
    "general": lambda width: General(width),
    "additive": lambda width: Additive(width, d_hidden=7),
    "mlp": lambda width: MLP(width, d_hidden=7),
    "soft_cap": lambda width: SoftCap(ScaledDot(), 0.8),
    "soft_cap_additive": lambda width: SoftCap(Additive(width), 0.3),
}


def array(tensor: Tensor) -> Array:
    numbers: Array = tensor.detach().to(torch.float64).numpy()
    return numbers


def attention(
    q: Tensor, k: Tensor, v: Tensor, *, score: Score, mask: Mask | None = None, bias: Tensor | None = None
) -> Array:
    """The weighted sum, double precision, from the definition."""
    weights = attention_weights(q, k, score=score, mask=mask, bias=bias)
    return np.asarray(np.matmul(weights, _one_a_head(array(v), weights)))


def attention_weights(
    q: Tensor, k: Tensor, *, score: Score, mask: Mask | None = None, bias: Tensor | None = None
) -> Array:
    queries = array(q)
    numbers = scores(score, queries, _one_a_head(array(k), queries))
    allowed = mask_table(mask, numbers.shape)
    if bias is not None:
        numbers = numbers + array(bias)
    weights = np.zeros_like(numbers)
    for row in np.ndindex(*numbers.shape[:-1]):
        weights[row] = _softmax(numbers[row], allowed[row])
    return weights


def _softmax(numbers: Array, allowed: Flags) -> Array:
    """A distribution over what is allowed and not minus infinity; zeros where there is no such thing."""
    allowed = allowed & (numbers > -np.inf)
    result = np.zeros_like(numbers)
    if allowed.any():
        exponentials = np.exp(numbers[allowed] - numbers[allowed].max())
        result[allowed] = exponentials / exponentials.sum()
    return result


def _one_a_head(shared: Array, queries: Array) -> Array:
    """Key or value heads shared by groups of neighbouring query heads, one copy each."""
    if shared.ndim < 3 or queries.ndim < 3 or 1 in (shared.shape[-3], queries.shape[-3]):
        return shared
    return np.repeat(shared, queries.shape[-3] // shared.shape[-3], axis=-3)


def scores(score: Score, q: Array, k: Array) -> Array:
    """Each score function from its formula, for every pair of query and key."""
    if isinstance(score, SoftCap):
        return np.asarray(score.cap * np.tanh(scores(score.score, q, k) / score.cap))
    pairs = (np.expand_dims(q, -2), np.expand_dims(k, -3))  # (..., T, 1, Dq), (..., 1, S, Dk)
    if isinstance(score, Gaussian):
        distance = (pairs[0] - pairs[1]) / array(score.bandwidth)
        return np.asarray(-(distance**2).sum(-1) / 2)
    if isinstance(score, Additive):  # and MLP, which is one with another bend and a bias
        hidden = _linear(score.query, pairs[0]) + _linear(score.key, pairs[1])
        bent = np.maximum(hidden, 0) if isinstance(score, MLP) else np.tanh(hidden)
        return _linear(score.out, bent)[..., 0]
    if isinstance(score, General):
        return np.asarray((pairs[0] * _linear(score.weight, pairs[1])).sum(-1))
    products = (pairs[0] * pairs[1]).sum(-1)
    if isinstance(score, ScaledDot):
        return np.asarray(products / np.sqrt(q.shape[-1]) if score.scale is None else products * score.scale)
    assert type(score) is Dot
    return np.asarray(products)


def _linear(layer: nn.Linear, x: Array) -> Array:
    result = np.matmul(x, array(layer.weight).T)
    return result if layer.bias is None else np.asarray(result + array(layer.bias))


def mask_table(mask: Mask | None, shape: tuple[int, ...]) -> Flags:
    """Ask the rule about each query and key of scores of this shape."""
    table = np.ones(shape, dtype=bool)
    if isinstance(mask, Dense):
        return np.asarray(table & mask.allowed.numpy(), dtype=bool)
    if isinstance(mask, Both):
        return np.asarray(np.all([mask_table(part, shape) for part in mask.parts], axis=0))
    if mask is None:
        return table
    for place in np.ndindex(*shape):
        table[place] = _may(mask, place)
    return table


def _may(mask: Mask, place: tuple[int, ...]) -> bool:
    *rows, i, j = place
    if isinstance(mask, Causal):
        return j <= i + mask.offset
    if isinstance(mask, Window):
        return i + mask.offset - mask.left <= j <= i + mask.offset + mask.right
    if isinstance(mask, Padding):
        return j < int(mask.lengths[tuple(rows[: mask.lengths.ndim])])
    if isinstance(mask, Since):
        return j >= int(mask.starts[tuple(rows[: mask.starts.ndim])])
    assert isinstance(mask, Documents)
    return _document(mask.lengths, i) == _document(mask.key_lengths, j)


def _document(lengths: Any, position: int) -> int:
    """Which document a position of the packed row stands in."""
    for number, length in enumerate(lengths.tolist()):
        if position < length:
            return number
        position -= length
    raise AssertionError("the position lies behind the last document")
