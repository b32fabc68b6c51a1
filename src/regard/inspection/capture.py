"""Run a case and keep what its attention looked at: the weights that were asked for, and no others.

Weights are computed beside the fused kernels by `regard.attention.watch`, only in the layers and kinds asked for.
Queries and keys are picked up where they enter attention, heads apart, positions turned in, keys prepared.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.attention import MLP, Additive, Gaussian, Prepared, Score, watch
from regard.attention.core import SCALED_DOT, repeat_groups
from regard.attention.taps import Kind, Seen, Tap
from regard.errors import UsageError
from regard.inspection.forward_case import ForwardCase
from regard.inspection.record import Computed, Form, Map, Weights

Made = tuple[Form, float, Tensor, Tensor, Tensor | None]  # form, scale, queries (H, T, E), keys (H, S, E), vector (E,)


def capture(
    case: ForwardCase, *, layers: Collection[int] | None, kinds: Collection[str] | None, queries: bool
) -> tuple[dict[str, Map], Any]:
    """The maps by kind, and what the model gave."""
    asked = tap_kinds(case, kinds)
    with watch(case.module, layers=layers, kinds=asked) as seen, _entering(case, seen, queries=queries) as made:
        output = case.run()
    maps = [_map(case, seen, kind, made) for kind in sorted({sight.kind for sight in seen})]
    return {attention.kind: attention for attention in maps}, output


def tap_kinds(case: ForwardCase, kinds: Collection[str] | None) -> list[Kind] | None:
    """The kinds that taps go by, of those that records go by."""
    if kinds is None:
        return None
    known: dict[str, Kind] = {name: kind for kind, (name, _, _) in case.sides.items()}
    if unknown := sorted(set(kinds) - set(known)):
        raise UsageError(f"no attention of kind {unknown[0]!r} is in this model; there may be {', '.join(known)}")
    return [known[kind] for kind in kinds]


def _map(case: ForwardCase, seen: Seen, kind: Kind, made: dict[tuple[str, int], list[Made | None]]) -> Map:
    """Layers stacked: (L, H, T, S).

    A model that feeds its attention back takes one step after another, and each is a sight of one row.
    """
    layers = sorted({sight.layer for sight in seen.where(kind=kind)})
    stacked = [torch.cat([sight.weights[0] for sight in seen.where(kind=kind, layer=n)], 1) for n in layers]
    name, rows, columns = case.sides[kind]
    computed = _computed([made[kind, n] for n in layers]) if made else None
    weights = _array(torch.stack(stacked))
    return Map(name, rows, columns, weights, tuple(layers), tuple(range(weights.shape[1])), computed)


def _computed(layers: Sequence[Sequence[Made | None]]) -> Computed | None:
    """Queries and keys of all layers, where every layer's score is one that can be shown."""
    whole = []
    for steps in layers:
        known = [step for step in steps if step is not None]
        if len(known) < len(steps):
            return None
        form, scale, _, keys, vector = known[-1]
        whole.append((form, scale, torch.cat([step[2] for step in known], 1), keys, vector))
    vectors = [layer[4] for layer in whole if layer[4] is not None]
    return Computed(
        whole[0][0],
        whole[0][1],
        _array(torch.stack([layer[2] for layer in whole])),
        _array(torch.stack([layer[3] for layer in whole])),
        _array(torch.stack(vectors)) if vectors else None,
    )


@contextmanager
def _entering(case: ForwardCase, seen: Seen, *, queries: bool) -> Iterator[dict[tuple[str, int], list[Made | None]]]:
    """Keep what enters the watched taps while the block runs, by kind and layer, one entry a call."""
    made: dict[tuple[str, int], list[Made | None]] = {}
    taps = [part for part in case.module.modules() if isinstance(part, Tap)] if queries else []
    with ExitStack() as hooks:
        for tap in taps:
            for watcher in tap.watchers:
                if watcher.seen is seen:
                    kept = made.setdefault((tap.kind, watcher.layer), [])
                    hooks.enter_context(tap.register_forward_pre_hook(_keeping(kept), with_kwargs=True))
        yield made


def _keeping(kept: list[Made | None]) -> Any:
    def keep(_: Tap, inputs: tuple[Any, ...], options: dict[str, Any]) -> None:
        query, key = inputs[:2]
        score = options.get("score") or SCALED_DOT
        plain = options.get("bias") is None  # with a bias the scores are not what the query and the key make
        kept.append(made_of(query, key, score=score) if plain else None)

    return keep


def made_of(query: Tensor, key: Tensor | Prepared, *, score: Score) -> Made | None:
    """How weights of (1, H, T, E) and (1, H, S, E) come about, for the scores that can be taken apart by dimension."""
    keys = key.keys if isinstance(key, Prepared) else score.prepare(key).keys
    keys = repeat_groups(keys, query)
    scale = score.dot_scale(query.shape[-1])
    if scale is not None:
        return "dot", scale, query[0], keys[0], None
    if isinstance(score, Additive):
        form: Form = "relu" if isinstance(score, MLP) else "tanh"
        return form, 1.0, score.query(query)[0], keys[0], score.out.weight[0]
    if isinstance(score, Gaussian):
        return "gaussian", 1.0, score.prepare(query).keys[0], keys[0], None
    return None


def _array(tensor: Tensor) -> Weights:
    array: Weights = np.ascontiguousarray(tensor.detach().float().cpu().numpy())
    return array
