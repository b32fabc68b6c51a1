"""What each position computes by itself between two looks at the others.

    FeedForward         W₂ · f(W₁x + b₁) + b₂            f = ReLU: Vaswani et al. (2017)
    GatedFeedForward    W₂ · (f(W_gate x) ⊙ W₁x)         f = SiLU: SwiGLU, f = GELU: GEGLU, Shazeer (2020)

Both map (..., D) → (..., D) through a hidden width F.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.config.twins import twin
from regard.errors import UsageError
from regard.layers.dropout import drop

ActivationName = Literal["relu", "gelu", "gelu_tanh", "silu"]


def _gelu_tanh(hidden: Tensor) -> Tensor:
    """x · (1 + tanh u) / 2 = x · σ(2u): the same function, and compilers make a quicker σ than tanh."""
    if not torch.compiler.is_compiling():
        return F.gelu(hidden, approximate="tanh")
    x = hidden if hidden.dtype.itemsize > 4 else hidden.float()
    return (x * torch.sigmoid(x * (_SLOPE + 0.044715 * _SLOPE * x * x))).to(hidden.dtype)


_SLOPE = 2 * math.sqrt(2 / math.pi)
_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": _gelu_tanh,
    "silu": F.silu,
}


def activation_of(name: ActivationName) -> Callable[[Tensor], Tensor]:
    """The function a config names."""
    if name not in _ACTIVATIONS:
        raise UsageError(f"no activation is called {name!r}; there are {sorted(_ACTIVATIONS)}")
    return _ACTIVATIONS[name]


class FeedForward(nn.Module):
    """Two linear layers with an activation between them."""

    def __init__(
        self,
        d_model: int,
        d_hidden: int,
        *,
        activation: ActivationName = "relu",
        dropout: float = 0.0,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.inner = nn.Linear(d_model, d_hidden, bias=bias)
        self.outer = nn.Linear(d_hidden, d_model, bias=bias)
        self.activation = activation_of(activation)
        self.dropout = dropout
        _reset(self)

    def forward(self, hidden: Tensor) -> Tensor:
        """(..., D) → (..., D), each position by itself."""
        if (
            self.training
            and self.activation is F.relu
            and not self.dropout
            and (fast := twin("feedforward")) is not None
        ):
            made: Tensor | None = fast(hidden, self.inner, self.outer)
            if made is not None:
                return made
        output: Tensor = self.outer(self.activate(self.first(hidden)))
        return output

    @property
    def first(self) -> nn.Module:
        """The first linear layer."""
        return self.inner

    def activate(self, inner: Tensor) -> Tensor:
        """What stands between the two linear layers: (..., F) → (..., F)."""
        return drop(self.activation(inner), self.dropout, training=self.training)


class GatedFeedForward(nn.Module):
    """A linear layer, weighed feature by feature by an activated second one, and a way back."""

    def __init__(
        self,
        d_model: int,
        d_hidden: int,
        *,
        activation: ActivationName = "silu",
        dropout: float = 0.0,
        bias: bool = False,
    ) -> None:
        super().__init__()
        self.gate_inner = nn.Linear(d_model, 2 * d_hidden, bias=bias)
        self.outer = nn.Linear(d_hidden, d_model, bias=bias)
        self.activation = activation_of(activation)
        self.dropout = dropout
        _reset(self)

    def forward(self, hidden: Tensor) -> Tensor:
        """(..., D) → (..., D), each position by itself."""
        output: Tensor = self.outer(self.activate(self.first(hidden)))
        return output

    @property
    def first(self) -> nn.Module:
        """The first linear layer."""
        return self.gate_inner

    def activate(self, gate_inner: Tensor) -> Tensor:
        """What stands between the two linear layers: (..., 2F) → (..., F)."""
        gate, inner = gate_inner.chunk(2, -1)
        return drop(self.activation(gate) * inner, self.dropout, training=self.training)


def _reset(part: nn.Module) -> None:
    """Glorot for the matrices, zero for the biases."""
    for layer in part.children():
        if isinstance(layer, nn.Linear):
            nn.init.xavier_uniform_(layer.weight)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
