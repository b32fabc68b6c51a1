"""What predictions are computed in: the weights packed on a CPU, cast on a GPU."""

from __future__ import annotations

from copy import deepcopy

from torch import nn

from regard.errors import UsageError
from regard.fast.cpu.packed_linear import quicken

PRECISIONS = ("auto", "fp32", "bf16", "int8")


def in_precision(module: nn.Module, precision: str) -> nn.Module:
    """The model to decode with; the one given stays as it is."""
    if precision not in PRECISIONS:
        raise UsageError(f"precision is {precision!r}; allowed are {', '.join(PRECISIONS)}")
    if next(module.parameters()).device.type == "cpu":
        return quicken(module, "bf16" if precision == "bf16" else "int8" if precision == "int8" else "fp32")
    if precision == "int8":
        raise UsageError("precision int8 is for the CPU", hint="use bf16 on a GPU, or the device cpu")
    return deepcopy(module).bfloat16() if precision == "bf16" else module
