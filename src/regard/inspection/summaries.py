"""What kind of head is this? Figures for each head of a map, the means over its rows.

entropy        −Σ w ln w, in nats: 0 looks at one place, `ceiling` looks at all it may alike
focus          1 − entropy / ceiling
distance       Σ w |t − s|: how many places away it looks; for maps of a text on itself
diagonality    correlation of where a row stands with where it looks: 1 walks along, −1 walks backwards, 0 neither
marks          the share that rests on <s>, </s>, [CLS], [SEP], where heads look that have nothing to look for
first          the share that rests on the first place, whatever stands there
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regard.inspection.record import Look, Map

Array = NDArray[np.float64]


@dataclass(frozen=True)
class HeadSummary:
    """The figures of one head; `distance` is None where rows and columns stand for different things."""

    kind: str
    layer: int
    head: int
    entropy: float
    ceiling: float
    focus: float
    diagonality: float
    marks: float
    first: float
    distance: float | None = None


def summarise(look: Look, kind: str | None = None) -> list[HeadSummary]:
    """The figures of every head of a kind, layer by layer; without a kind, of all maps."""
    maps = look.maps.values() if kind is None else [look.of(kind)]
    return [summary for one in maps for summary in _of_map(look, one)]


def _of_map(look: Look, attention: Map) -> Iterator[HeadSummary]:
    """Layer by layer, for all of them at once would take many times the memory of the record."""
    special = look.axes[attention.columns].marks
    alike = attention.kind in ("self", "masked")
    ceiling = _ceiling(attention.kind, *attention.weights.shape[-2:])
    for number, layer in enumerate(attention.layers):
        weights = attention.weights[number].astype(np.float64)  # (H, T, S)
        rows, columns = np.arange(weights.shape[-2]), np.arange(weights.shape[-1])
        entropy = -np.sum(weights * np.log(np.where(weights > 0, weights, 1)), -1).mean(-1)
        figures = {
            "entropy": entropy,
            "focus": 1 - entropy / ceiling if ceiling else np.ones_like(entropy),
            "diagonality": _correlation(rows.astype(np.float64), weights @ columns),
            "marks": weights[..., special].sum(-1).mean(-1),
            "first": weights[..., 0].mean(-1),
        }
        distance = (weights * np.abs(rows[:, None] - columns)).sum(-1).mean(-1)
        for i, head in enumerate(attention.heads):
            own = {name: float(values[i]) for name, values in figures.items()}
            far = float(distance[i]) if alike else None
            yield HeadSummary(attention.kind, layer, head, ceiling=ceiling, distance=far, **own)


def _ceiling(kind: str, n_rows: int, n_columns: int) -> float:
    """The entropy of looking everywhere alike; who looks back only has fewer places at first."""
    open_to = np.arange(1, n_rows + 1) if kind == "masked" else np.full(n_rows, n_columns)
    return float(np.log(open_to).mean()) if n_rows else 0.0


def _correlation(rows: Array, looked: Array) -> Array:
    """Pearson's, of the rows' places (T,) with the mean places they look at (..., T); 0 where one never varies."""
    a, b = rows - rows.mean(), looked - looked.mean(-1, keepdims=True)
    scale = np.sqrt((a**2).sum() * (b**2).sum(-1))
    correlation: Array = np.divide((a * b).sum(-1), scale, out=np.zeros_like(scale), where=scale > 1e-12)
    return correlation
