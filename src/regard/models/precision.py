"""What predictions are computed in: fp32, bf16, or int8 where `regard.fast` packs the weights for a CPU."""

from __future__ import annotations

from copy import deepcopy

import torch
from torch import Tensor, nn

from regard.config.processor import check_bf16
from regard.config.twins import SWITCH, twin
from regard.errors import UsageError

PRECISIONS = ("auto", "fp32", "bf16", "int8")


def in_double(model: nn.Module, inputs: Tensor) -> Tensor:
    """What a model reads, in double precision where its weights are."""
    return inputs.double() if next(model.parameters()).dtype == torch.float64 else inputs


def in_single(model: nn.Module) -> nn.Module:
    """A model as it is used, where it was trained in double precision."""
    return deepcopy(model).float() if next(model.parameters()).dtype == torch.float64 else model


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
    if precision == "bf16":
        check_bf16(next(module.parameters()).device)
    return deepcopy(module).bfloat16() if precision == "bf16" else module
