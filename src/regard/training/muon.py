"""Muon (Jordan et al., 2024): momentum whose every update is made orthogonal, for the matrices inside a model.

    M ← μM + (1 − μ)G        U = (1 − μ)G + μM        W ← (1 − ηλ)W − η · 0.2 √max(A, B) · orthogonal(U)      W: (A, B)

The factor 0.2 √max(A, B) gives updates the size of AdamW's, so that one rate serves both (Liu et al., 2025).

Why not `torch.optim.Muon`: a joint projection holds several matrices in one parameter (queries, keys and values), and
orthogonalising them together would couple what the model uses apart. Here a group of parameters may name the rows of
its parts, `{"params": …, "splits": (A₁, A₂, …)}`. Parts of one shape, all over the model, are orthogonalised in one
batch of products, where torch goes through them one by one, and in float32 where there is no GPU.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

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
        alike: dict[tuple[Any, ...], list[tuple[Tensor, Tensor]]] = {}
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                update = self._momentum(parameter, group["momentum"])
                parameter.mul_(1 - group["lr"] * group["weight_decay"])
                splits = group["splits"] or [len(parameter)]
                for pair in zip(parameter.split(splits), update.split(splits), strict=True):
                    key = (*pair[0].shape, group["lr"], parameter.device, parameter.dtype)
                    alike.setdefault(key, []).append(pair)
        for (rows, columns, lr, *_), pairs in alike.items():
            updates = orthogonal(torch.stack([update for _, update in pairs]))
            updates = updates * (-lr * _SCALE * max(rows, columns) ** 0.5)
            torch._foreach_add_([part for part, _ in pairs], list(updates.unbind()))

    def _momentum(self, parameter: Tensor, momentum: float) -> Tensor:
        """Nesterov's look ahead: the gradient, moved towards the running mean that already holds it."""
        gradient, state = parameter.grad, self.state[parameter]
        assert gradient is not None
        if "momentum" not in state:
            state["momentum"] = torch.zeros_like(parameter)
        state["momentum"].lerp_(gradient, 1 - momentum)
        return gradient.lerp(state["momentum"], momentum)


def _check(parameter: Tensor, splits: Iterable[int] | None) -> None:
    if parameter.ndim != 2:
        raise ShapeError(
            f"muon works on matrices, got a parameter {list(parameter.shape)}", hint="give such parameters to AdamW"
        )
    if splits is not None and sum(splits) != len(parameter):
        raise ShapeError(f"parts of {list(splits)} rows do not make up a matrix of {len(parameter)}")
