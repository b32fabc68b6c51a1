"""Look at a model while it reads and writes: a case becomes a record.

look_at(case, layers=[3], kinds=["cross"], queries=True)      → Look, with weights of what was asked for alone
look_at_points(estimator, [[65_000]])                          → Look, of Nadaraya–Watson: queries × known points
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from regard.errors import UsageError
from regard.inspection.capture import capture, made_of
from regard.inspection.forward_case import ForwardCase, OutputNames, text_case
from regard.inspection.record import PICTURES, Axis, Computed, Look, Map, Outputs
from regard.inspection.words import Words
from regard.models.nadaraya_watson import NadarayaWatson

__all__ = ["PICTURES", "Look", "Words", "look_at", "look_at_points", "text_case"]


@torch.inference_mode()
def look_at(
    case: ForwardCase,
    *,
    layers: Collection[int] | None = None,
    kinds: Collection[str] | None = None,
    queries: bool = False,
    alternatives: int = 5,
) -> Look:
    """Run the model once and keep what it looked at: every attention, or that of some layers and kinds.

    `queries` keeps the queries and keys of the same layers too; `alternatives` says how many of the likeliest outputs
    are kept at each place, and 0 keeps none.
    """
    if alternatives < 0:
        raise UsageError(f"{alternatives} alternatives cannot be kept; allowed is 0 or more")
    maps, output = capture(case, layers=layers, kinds=kinds, queries=queries)
    outputs = None
    if alternatives and case.output_names is not None and case.speaks:
        outputs = _outputs(case, case.output_names, output, alternatives)
    used = {side for attention in maps.values() for side in (attention.rows, attention.columns)}
    used |= {outputs.axis} if outputs else set()
    axes = {name: axis for name, axis in case.axes.items() if name in used}
    return Look(axes, maps, outputs, case.title)


def look_at_points(model: NadarayaWatson, X: npt.ArrayLike, *, queries: bool = False) -> Look:
    """How much each known point counts for each row of X, as one map of one layer and one head."""
    weights = np.asarray(model.weights(X), np.float32)[None, None]
    asked, known = np.asarray(X), model.X_
    axes = {"queries": Axis(_coordinates(asked), "points"), "points": Axis(_coordinates(known), "points")}
    computed = None
    if queries:
        query, keys, score = model.compared(X)
        made = made_of(query[None, None], keys[None, None], score=score)
        assert made is not None
        computed = Computed(made[0], made[1], made[2][None].float().numpy(), made[3][None].float().numpy())
    attention = Map("kernel", "queries", "points", weights, (0,), (0,), computed)
    bandwidth = ", ".join(f"{width:.4g}" for width in model.bandwidth_)
    return Look(axes, {"kernel": attention}, None, f"Nadaraya–Watson, bandwidth {bandwidth}")


def _outputs(case: ForwardCase, names: OutputNames, output: Any, n: int) -> Outputs:
    """The likeliest at each place, and how likely what did come there was."""
    log_probs = case.log_probs(output)
    best = log_probs.topk(min(n, log_probs.shape[-1]))
    given = [
        None if index is None else (names.name(index), float(log_probs[position, index].exp()))
        for position, index in enumerate(names.given)
    ]
    tokens = [[names.name(index) for index in row] for row in best.indices.tolist()]
    return Outputs(names.axis, names.says, tokens, best.values.exp().tolist(), given)


def _coordinates(points: npt.NDArray[Any]) -> list[str]:
    return [", ".join(f"{value:g}" for value in point) for point in points]
