"""Linear layers as a processor likes them, for inference: weights packed once, in single, bf16 or int8 precision.

    quick = quicken(model, "int8")        a copy of the model; the original stays as it was

A decoding step multiplies a few rows by every weight of the model, so it takes as long as reading the weights. Packed
weights are read in one sweep, bf16 halves and int8 quarters what there is to read. int8 weights have a scale for each
output, and the inputs are rounded to 8 bits row by row of the batch as they come (dynamic quantisation).
"""

from __future__ import annotations

import warnings
from copy import deepcopy
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor, nn

from regard.errors import UsageError
from regard.layers.embeddings import Embedding

Precision = Literal["fp32", "bf16", "int8"]
Model = TypeVar("Model", bound=nn.Module)

_ROWS = 16  # for how many rows the packing is made; others work as well


class QuickLinear(nn.Module):
    """A linear layer with its weight packed; it holds the plain weight too, and learns nothing."""

    def __init__(self, weight: Tensor, bias: Tensor | None, *, precision: Precision) -> None:
        super().__init__()
        self.weight, self.bias = weight, bias
        self.precision = precision
        self._dtype = torch.bfloat16 if precision == "bf16" else torch.float32
        self._bias = None if bias is None else bias.detach().to(self._dtype)
        self._packed: Any = _int8(weight, bias) if precision == "int8" else _packed(weight, self._dtype)

    def forward(self, hidden: Tensor) -> Tensor:
        """(..., Din) → (..., Dout)."""
        if self.precision == "int8":
            output: Tensor = torch.ops.quantized.linear_dynamic(hidden, self._packed, True)
            return output
        output = torch.ops.mkldnn._linear_pointwise(
            hidden.to(self._dtype).contiguous(), self._packed, self._bias, "none", [], ""
        )
        return output.to(hidden.dtype)


def quicken(model: Model, precision: Precision = "fp32") -> Model:
    """A copy of a model on the CPU whose linear layers and tied outputs are packed."""
    if precision not in ("fp32", "bf16", "int8"):
        raise UsageError(f"precision is {precision!r}; allowed are 'fp32', 'bf16' and 'int8'")
    copy = deepcopy(model).eval()
    if not torch.backends.mkldnn.is_available():
        return copy
    for parent in list(copy.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.Linear):
                setattr(parent, name, QuickLinear(child.weight, child.bias, precision=precision))
            elif isinstance(child, Embedding) and child.quick is None:
                child.quick = QuickLinear(child.weight, None, precision=precision)
    return copy


def _packed(weight: Tensor, dtype: torch.dtype) -> Tensor:
    packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight.detach().to(dtype).contiguous(), _ROWS)
    return packed


def _int8(weight: Tensor, bias: Tensor | None) -> Any:
    weight = weight.detach().float()
    scales = weight.abs().amax(1).clamp(min=torch.finfo(torch.float32).tiny) / 127
    zeros = torch.zeros(len(weight), dtype=torch.int64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch wants this done in another package; its kernels are these
        rounded = torch.quantize_per_channel(weight, scales, zeros, 0, torch.qint8)
    return torch.ops.quantized.linear_prepack(rounded, None if bias is None else bias.detach().float())
