"""What predictions are computed in: fp32, bf16, or int8 where `regard.fast` packs the weights for a CPU."""

from __future__ import annotations

from copy import deepcopy

from torch import nn

from regard.config.twins import SWITCH, twin
from regard.errors import UsageError

PRECISIONS = ("auto", "fp32", "bf16", "int8")


def in_precision(module: nn.Module, precision: str) -> nn.Module:
    """The model to predict with; the one given stays as it is."""
    if precision not in PRECISIONS:
        raise UsageError(f"precision is {precision!r}; allowed are {', '.join(PRECISIONS)}")
    fast = twin("in_precision")
    packed: nn.Module | None = None if fast is None else fast(module, precision)
    if packed is not None:
        return packed
    if precision == "int8" and next(module.parameters()).device.type == "cpu":
        raise UsageError("precision int8 needs regard.fast", hint=f"unset {SWITCH}")
    if precision == "int8":
        raise UsageError("precision int8 is for the CPU", hint="use bf16 on a GPU, or the device cpu")
    return deepcopy(module).bfloat16() if precision == "bf16" else module
