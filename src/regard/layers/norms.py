"""Keep the scale of hidden states steady: layer norm (Ba et al., 2016) and its root-mean-square form (2019).

    norm_of("layer")(d_model)      a module (..., D) → (..., D)

PyTorch's own modules do the work; this file is the closed list of their names for configs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

from torch import nn

from regard.errors import UsageError

NormName = Literal["layer", "rms"]
NormMaker = Callable[[int], nn.Module]

LayerNorm = nn.LayerNorm
RMSNorm = nn.RMSNorm


def norm_of(name: NormName, *, epsilon: float = 1e-5, bias: bool = True) -> NormMaker:
    """A function that makes a norm for a width. `bias` is for layer norm; the other has none."""
    if name == "layer":
        return partial(LayerNorm, eps=epsilon, bias=bias)
    if name == "rms":
        return partial(RMSNorm, eps=epsilon)
    raise UsageError(f"no norm is called {name!r}; there are 'layer' and 'rms'")
