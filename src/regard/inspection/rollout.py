"""What a piece looks at through all layers together: attention rollout (Abnar and Zuidema, 2020).

    R₀ = I,    Rₗ = (½ A₁… + ½ I) Rₗ₋₁,    A the mean of a layer's heads

A token at layer l is a mixture of tokens at layer l − 1, weighed by attention, and of itself, for the path around
attention carries as much. The product says how much of each input there is in each output: rows sum to one.
"""

from __future__ import annotations

import numpy as np

from regard.errors import UsageError
from regard.inspection.record import Look, MapKind, Weights


def roll_out(look: Look, kind: MapKind | None = None, *, upto: int | None = None, residual: float = 0.5) -> Weights:
    """The rollout (T, T) through the layers of a text's attention to itself, all of them or those up to one.

    `residual` is the share that goes around attention at each layer.
    """
    if kind is None:
        kind = next((own for own in ("self", "masked") if own in look.maps), None)
    if kind not in ("self", "masked") or kind not in look.maps:
        raise UsageError(
            f"rollout goes through layers of a text's attention to itself; seen was {', '.join(look.maps)}",
            hint="it works for kinds self and masked",
        )
    if not 0 <= residual < 1:
        raise UsageError(f"a residual share of {residual} is not from 0 up to, but not including, 1")
    attention = look.maps[kind]
    if attention.layers != tuple(range(len(attention.layers))):
        raise UsageError(
            f"rollout needs every layer, and the record has {list(attention.layers)}", hint="look without layers="
        )
    last = attention.layers[-1] if upto is None else upto
    attention.of_layer(last)  # refuses what is not there
    rolled = np.eye(attention.weights.shape[-1])
    for layer in attention.weights[: last + 1]:
        mixed = (1 - residual) * layer.mean(0, dtype=np.float64) + residual * np.eye(len(rolled))
        rolled = mixed @ rolled
    return rolled.astype(np.float32)
