"""Which attention mattered for what was said: gradient × attention.

    relevance = max(0, w · ∂ log p / ∂ w)             (L, H, T, S), as in Chefer et al. (2021) for one head

A weight can be large and of no consequence. The gradient of the log-probability of one output with respect to a weight
says what a little more of it would do; times the weight, what it did. It takes one backward pass.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import torch
from torch import Tensor

from regard.attention import watch
from regard.errors import UsageError
from regard.inspection.capture import tap_kinds
from regard.inspection.forward_case import ForwardCase
from regard.inspection.look import look_at
from regard.inspection.record import Look, Map


def weigh_by_gradient(
    case: ForwardCase,
    *,
    position: int = -1,
    choice: int | None = None,
    layers: Collection[int] | None = None,
    kinds: Collection[str] | None = None,
    signed: bool = False,
) -> Look:
    """A record whose weights are gradient × attention, for one output of the model.

    `position` is where the output stands on its axis (the last by default), `choice` which of the outputs is explained:
    a token's id, a label's number; without it, what was given there, else the likeliest. `signed` keeps what spoke
    against it as well. Rows do not sum to one.
    """
    plain = look_at(case, layers=layers, kinds=kinds, alternatives=0)
    with torch.enable_grad(), watch(case.module, layers=layers, kinds=tap_kinds(case, kinds), through=True) as seen:
        log_probs = case.log_probs(case.run())
        explained = log_probs[_checked(position, len(log_probs))]
        sights = list(seen)
        chosen = explained[_choice(case, explained, position, choice)]
        gradients = torch.autograd.grad(chosen, [sight.weights for sight in sights], allow_unused=True)
    relevances: dict[str, dict[int, list[Tensor]]] = {}
    for sight, gradient in zip(sights, gradients, strict=True):
        product = sight.weights.detach() * (torch.zeros_like(sight.weights) if gradient is None else gradient)
        relevance = product if signed else product.clamp(min=0)
        relevances.setdefault(case.sides[sight.kind][0], {}).setdefault(sight.layer, []).append(relevance[0])
    maps = {kind: _with(plain.maps[kind], layers_) for kind, layers_ in relevances.items()}
    return Look(plain.axes, maps, None, "gradient × attention")


def _with(attention: Map, layers: dict[int, list[Tensor]]) -> Map:
    stacked = torch.stack([torch.cat(layers[layer], 1) for layer in attention.layers])
    return replace(attention, weights=stacked.float().cpu().numpy())


def _checked(position: int, n_places: int) -> int:
    if not -n_places <= position < n_places:
        raise UsageError(f"there is no place {position}; the output has {n_places}, from 0 or from −1 backwards")
    return position % n_places


def _choice(case: ForwardCase, explained: Tensor, position: int, choice: int | None) -> int:
    if choice is not None:
        if not 0 <= choice < len(explained):
            raise UsageError(f"there is no choice {choice}; there are {len(explained)}, from 0")
        return choice
    known = case.given[position] if case.given else None
    return int(explained.argmax()) if known is None else known
