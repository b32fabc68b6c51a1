"""Two records of one input, side by side: two models, two checkpoints, or a model before and after.

divergence    Jensen–Shannon, in nats, mean over the rows: 0 alike, ln 2 ≈ 0.693 nothing in common      (L, H)
difference    the second's weights minus the first's                                              (L, H, T, S)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regard.errors import UsageError
from regard.inspection.record import Look, Map, Weights

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Comparison:
    """How two maps of a kind differ; `layers` and `heads` are those of both."""

    kind: str
    layers: tuple[int, ...]
    heads: tuple[int, ...]
    divergence: Array
    difference: Weights

    def most_different(self, n: int = 5) -> list[tuple[int, int, float]]:
        """(layer, head, divergence) of the heads that differ most."""
        return ranked_heads(self.divergence, self.layers, self.heads)[:n]


def ranked_heads(figures: Array, layers: Sequence[int], heads: Sequence[int]) -> list[tuple[int, int, float]]:
    """(layer, head, figure) by figures (L, H), the largest first."""
    order = np.argsort(-figures, axis=None, kind="stable")
    places = (np.unravel_index(index, figures.shape) for index in order)
    return [(layers[int(i)], heads[int(j)], float(figures[i, j])) for i, j in places]


def compare(one: Look, other: Look) -> dict[str, Comparison]:
    """Compare the maps that both records have, by kind; they have to be between the same labels."""
    shared = [kind for kind in one.maps if kind in other.maps]
    if not shared:
        raise UsageError(f"the records share no kind: {', '.join(one.maps)}, and {', '.join(other.maps)}")
    return {kind: _compared(one, other, one.maps[kind], other.maps[kind]) for kind in shared}


def _compared(one: Look, other: Look, first: Map, second: Map) -> Comparison:
    for mine, theirs in ((first.rows, second.rows), (first.columns, second.columns)):
        if one.axes[mine].labels != other.axes[theirs].labels:
            raise UsageError(
                f"the records are of different inputs: {one.axes[mine].text[:60]!r}, and "
                f"{other.axes[theirs].text[:60]!r}",
                hint="look at one input with both models; models with other pieces are compared by_words()",
            )
    layers = tuple(layer for layer in first.layers if layer in second.layers)
    heads = tuple(head for head in first.heads if head in second.heads)
    if not layers or not heads:
        raise UsageError(f"the {first.kind} maps share no layer and head: {first.layers}, and {second.layers}")
    before, after = (_picked(attention, layers, heads) for attention in (first, second))
    divergence = np.array([_divergence(a, b) for a, b in zip(before, after, strict=True)])
    return Comparison(first.kind, layers, heads, divergence, after - before)


def _picked(attention: Map, layers: tuple[int, ...], heads: tuple[int, ...]) -> Weights:
    at = [attention.layers.index(layer) for layer in layers], [attention.heads.index(head) for head in heads]
    picked: Weights = attention.weights[np.ix_(*at)]
    return picked


def _divergence(one: Weights, other: Weights) -> Array:
    """Jensen–Shannon between the rows of (H, T, S), their mean: (H,)."""
    p, q = one.astype(np.float64), other.astype(np.float64)
    middle = (p + q) / 2

    def kl(a: Array) -> Array:
        ratio = np.divide(a, middle, out=np.ones_like(a), where=a > 0)
        divergence: Array = (a * np.log(ratio)).sum(-1)
        return divergence

    half: Array = ((kl(p) + kl(q)) / 2).mean(-1)
    return half
