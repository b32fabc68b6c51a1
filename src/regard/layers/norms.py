"""Keep the scale of hidden states steady: layer norm (Ba et al., 2016) and its root-mean-square form (2019).

    norm_of("layer")(d_model)      a module (..., D) → (..., D)

PyTorch's own modules do the work; this file is the closed list of their names for configs. One thing is different:
where matrix products are computed in half precision (autocast), PyTorch would hand on single precision after a norm,
and every pass over hidden states would read and write twice the memory. Here the result has the precision of the
products; means and variances are computed in single precision either way.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.errors import UsageError

NormName = Literal["layer", "rms"]
NormMaker = Callable[[int], nn.Module]


class LayerNorm(nn.LayerNorm):
    """Mean zero, variance one, then scaled and shifted: (..., D) → (..., D)."""

    def forward(self, hidden: Tensor) -> Tensor:
        """In the precision of the matrix products around."""
        working = working_precision(hidden)
        if working is None:
            return F.layer_norm(hidden, self.normalized_shape, self.weight, self.bias, self.eps)
        with torch.autocast(hidden.device.type, enabled=False):
            bias = None if self.bias is None else self.bias.to(working)
            return F.layer_norm(hidden.to(working), self.normalized_shape, self.weight.to(working), bias, self.eps)


class RMSNorm(nn.RMSNorm):
    """Mean square one, then scaled: (..., D) → (..., D)."""

    def forward(self, hidden: Tensor) -> Tensor:
        """In the precision of the matrix products around."""
        working = working_precision(hidden)
        if working is None:
            return F.rms_norm(hidden, self.normalized_shape, self.weight, self.eps)
        with torch.autocast(hidden.device.type, enabled=False):
            return F.rms_norm(hidden.to(working), self.normalized_shape, self.weight.to(working), self.eps)


def norm_of(name: NormName, *, epsilon: float = 1e-5, bias: bool = True) -> NormMaker:
    """A function that makes a norm for a width. `bias` is for layer norm; the other has none."""
    if name == "layer":
        return partial(LayerNorm, eps=epsilon, bias=bias)
    if name == "rms":
        return partial(RMSNorm, eps=epsilon)
    raise UsageError(f"no norm is called {name!r}; there are 'layer' and 'rms'")


def working_precision(hidden: Tensor) -> torch.dtype | None:
    """What matrix products are computed in under autocast; None without it."""
    device = hidden.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None
