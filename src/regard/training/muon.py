"""Muon (Jordan et al., 2024): momentum whose every update is made orthogonal, for the matrices inside a model.

    M ← μM + (1 − μ)G        U = (1 − μ)G + μM        W ← (1 − ηλ)W − η · 0.2 √max(A, B) · orthogonal(U)      W: (A, B)

The factor 0.2 √max(A, B) gives updates the size of AdamW's, so that one rate serves both (Liu et al., 2025).

Why not `torch.optim.Muon`: a joint projection holds several matrices in one parameter (queries, keys and values), and
orthogonalising them together would couple what the model uses apart. Here a group of parameters may name the rows of
its parts, `{"params": …, "splits": (A₁, A₂, …)}`. Parts of one shape, all over the model, are orthogonalised in one
batch of products, where torch goes through them one by one, and in float32 where there is no GPU.

Where processes hold the rows of a matrix in parts, so do they its momentum. An update needs the whole matrix: it is
gathered in every process, made orthogonal there, and each takes the rows of its part.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.checkpoints.shards import first_row, gather, local_part, placed_like
from regard.errors import ShapeError

# Chosen by Jordan et al. to be steep at zero: five steps bring singular values between 0.7 and 1.2, not exactly to 1.
_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
_SCALE = 0.2


def orthogonal(matrices: Tensor, *, steps: int = 5) -> Tensor:
    """The nearest orthogonal matrix of each, roughly: (n, A, B) → (n, A, B), by Newton–Schulz iteration."""
    a, b, c = _COEFFICIENTS
    x = matrices.bfloat16() if matrices.is_cuda else matrices.clone()
    if x.shape[1] > x.shape[2]:
        x = x.mT
    x = x / x.norm(dim=(1, 2), keepdim=True).clamp_min(1e-7)
    for _ in range(steps):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    x = x.mT if matrices.shape[1] > matrices.shape[2] else x
    return x.to(matrices.dtype)


class Muon(torch.optim.Optimizer):
    """Muon for matrices. A group's `splits` are the rows of the parts of its parameters; without it, each is one."""

    def __init__(
        self, params: Iterable[dict[str, Any]], *, lr: float | Tensor, weight_decay: float = 0.0, momentum: float = 0.95
    ) -> None:
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay, "momentum": momentum, "splits": None})
        for group in self.param_groups:
            for parameter in group["params"]:
                _check(parameter, group["splits"])

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update every matrix that has a gradient."""
        alike: dict[tuple[Any, ...], list[tuple[_Held, Tensor]]] = {}
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                update = self._momentum(parameter, group["momentum"])
                local_part(parameter).mul_(1 - group["lr"] * group["weight_decay"])
                splits = group["splits"] or [len(parameter)]
                for pair in _parts(parameter, update, splits):
                    key = (*pair[1].shape, group["lr"], parameter.device, parameter.dtype)
                    alike.setdefault(key, []).append(pair)
        for (rows, columns, lr, *_), pairs in alike.items():
            updates = orthogonal(torch.stack([update for _, update in pairs]))
            updates = updates * (-lr * _SCALE * max(rows, columns) ** 0.5)
            kept = [update[held.rows] for (held, _), update in zip(pairs, updates.unbind(), strict=True)]
            torch._foreach_add_([held.weights for held, _ in pairs], kept)

    def _momentum(self, parameter: Tensor, momentum: float) -> Tensor:
        """Nesterov's look ahead: the gradient, moved towards the running mean that already holds it."""
        assert parameter.grad is not None
        gradient, state = local_part(parameter.grad), self.state[parameter]
        if "momentum" not in state:
            state["momentum"] = torch.zeros_like(parameter)
        mean = local_part(state["momentum"])
        mean.lerp_(gradient, 1 - momentum)
        return placed_like(gradient.lerp(mean, momentum), parameter)


class _Held(NamedTuple):
    """What this process holds of one of a parameter's parts: the weights, and which of the part's rows they are."""

    weights: Tensor
    rows: slice


def _parts(parameter: Tensor, update: Tensor, splits: Sequence[int]) -> Iterator[tuple[_Held, Tensor]]:
    """The parts of a parameter, as far as they are held here, each with its whole update."""
    local = local_part(parameter)
    first = first_row(parameter)
    whole = gather(update)
    begin = 0
    for part in whole.split(list(splits)):
        low, high = (min(max(row - first, 0), len(local)) for row in (begin, begin + len(part)))
        yield _Held(local[low:high], slice(first + low - begin, first + high - begin) if high > low else slice(0)), part
        begin += len(part)


def _check(parameter: Tensor, splits: Iterable[int] | None) -> None:
    if parameter.ndim != 2:
        raise ShapeError(
            f"muon works on matrices, got a parameter {list(parameter.shape)}", hint="give such parameters to AdamW"
        )
    if splits is not None and sum(splits) != len(parameter):
        raise ShapeError(f"parts of {list(splits)} rows do not make up a matrix of {len(parameter)}")
