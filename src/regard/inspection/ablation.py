"""What a head is good for: silence it, and see what the model says then.

A head is silenced by setting its output, before the projection that mixes the heads, to zero. Its effect is measured
at every place of the output:

    kl         Σ p ln(p / p′), mean over the places: how far the distributions move
    change     ln p′(given) − ln p(given), mean: below zero where the head helped to say what was said
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.attention import watch
from regard.attention.taps import Tap
from regard.errors import UsageError
from regard.inspection.capture import tap_kinds
from regard.inspection.comparison import ranked_heads
from regard.inspection.forward_case import ForwardCase


@dataclass(frozen=True, eq=False)
class Ablation:
    """The effect of silencing each head of a kind: `kl` and `change`, (L, H) each; no `change` where none was given."""

    kind: str
    layers: tuple[int, ...]
    kl: NDArray[np.float64]
    change: NDArray[np.float64] | None

    def ranked(self) -> list[tuple[int, int, float]]:
        """(layer, head, kl), the head whose silence moves most first."""
        return ranked_heads(self.kl, self.layers, range(self.kl.shape[1]))


@torch.inference_mode()
def ablate_heads(case: ForwardCase, kind: str, *, layers: Collection[int] | None = None) -> Ablation:
    """Silence each head of a kind in turn, in all layers or some; it runs the model once a head, and once more."""
    taps = _taps(case, kind, layers)
    counts: dict[int, int] = {}

    def count(layer: int, output: Tensor) -> Tensor:
        counts[layer] = output.shape[1]
        return output

    with _changing(taps, count):
        before = case.log_probs(case.run())
    given = [(position, index) for position, index in enumerate(case.given) if index is not None]
    kl, change = [], []
    for layer in taps:
        for head in range(counts[layer]):
            after = _silenced(case, {layer: taps[layer]}, head)
            kl.append(float((before.exp() * (before - after)).sum(-1).mean()))
            if given:
                places, ids = (list(side) for side in zip(*given, strict=True))
                change.append(float((after - before)[places, ids].mean()))
    shape = (len(taps), -1)
    effect = np.array(change).reshape(shape) if given else None
    return Ablation(kind, tuple(taps), np.array(kl).reshape(shape), effect)


@torch.inference_mode()
def silence(case: ForwardCase, kind: str, *, layer: int, head: int) -> Tensor:
    """The log-probabilities (places, choices) of the model with one head silenced."""
    return _silenced(case, _taps(case, kind, [layer]), head)


def _silenced(case: ForwardCase, taps: dict[int, Tap], head: int) -> Tensor:
    def change(layer: int, output: Tensor) -> Tensor:
        if not 0 <= head < output.shape[1]:
            raise UsageError(f"there is no head {head}; layer {layer} has heads 0 to {output.shape[1] - 1}")
        silent = output.clone()
        silent[:, head] = 0
        return silent

    with _changing(taps, change):
        return case.log_probs(case.run())


def _taps(case: ForwardCase, kind: str, layers: Collection[int] | None) -> dict[int, Tap]:
    """The places of attention of a kind, by layer; `watch` counts them, and refuses what is not there."""
    with watch(case.module, kinds=tap_kinds(case, [kind]), layers=layers) as seen:
        parts = [part for part in case.module.modules() if isinstance(part, Tap)]
        return {watcher.layer: tap for tap in parts for watcher in tap.watchers if watcher.seen is seen}


@contextmanager
def _changing(taps: dict[int, Tap], change: Callable[[int, Tensor], Tensor]) -> Iterator[None]:
    """While the block runs, what leaves the taps (B, H, T, E) is what `change` makes of it."""
    with ExitStack() as hooks:
        for layer, tap in taps.items():
            hook = tap.register_forward_hook(lambda _, __, output, layer=layer: change(layer, output))
            hooks.enter_context(hook)
        yield
