"""Products of a row or two with a matrix, on a GPU: a Triton kernel that does nothing but read the matrix.

    output = x Wᵀ + b        x (N, K) with N small, W (O, K), b (O,)

Libraries' matrix products are made for tiles of many rows; with one row, a product takes as long as reading W, if
enough of it is asked for at once. Here each program has a few rows of W and all of their loads under way together.

    with ThinProducts(most=1): model(...)        every `F.linear` of at most so many rows, and no other, goes this way
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor
from torch.library import triton_op, wrap_triton
from torch.overrides import TorchFunctionMode

_OUTPUTS, _CHUNK = 4, 512  # of a program: outputs, and how much of their rows it reads at once
_LONGEST = 8192  # inputs: their loads are written out one after another


@triton.jit
def _thin_kernel(X, W, BIAS, OUT, n_outputs, K: tl.constexpr, BIASED: tl.constexpr,
                 OUTPUTS: tl.constexpr, CHUNK: tl.constexpr):  # fmt: skip
    outputs = tl.program_id(0) * OUTPUTS + tl.arange(0, OUTPUTS)
    row = tl.program_id(1)
    real = outputs < n_outputs
    places = W + outputs.to(tl.int64)[:, None] * K
    total = tl.zeros([OUTPUTS, CHUNK], tl.float32)
    for begin in tl.static_range(0, K, CHUNK):
        inputs = begin + tl.arange(0, CHUNK)
        x = tl.load(X + row * K + inputs, inputs < K, other=0.0).to(tl.float32)
        w = tl.load(places + inputs[None, :], real[:, None] & (inputs < K)[None, :], other=0.0).to(tl.float32)
        total += w * x[None, :]
    result = tl.sum(total, 1)
    if BIASED:
        result += tl.load(BIAS + outputs, real, other=0.0).to(tl.float32)
    tl.store(OUT + row * n_outputs + outputs, result, real)


@triton_op("regard::thin_linear", mutates_args={})
def thin_linear(hidden: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Hidden (..., K), weight (O, K), bias (O,) → (..., O)."""
    n_outputs, K = weight.shape
    rows = hidden.reshape(-1, K).contiguous()
    output = hidden.new_empty((*hidden.shape[:-1], n_outputs))
    wrap_triton(_thin_kernel)[(triton.cdiv(n_outputs, _OUTPUTS), len(rows))](
        rows, weight, weight if bias is None else bias, output, n_outputs,
        K=K, BIASED=bias is not None, OUTPUTS=_OUTPUTS, CHUNK=_CHUNK, num_warps=4,
    )  # fmt: skip
    return output


class ThinProducts(TorchFunctionMode):
    """While it is on, linear layers of at most `most` rows are computed by `thin_linear`."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Lead products to the kernel where it can do them."""
        if func is F.linear and not kwargs and self._suits(*args):
            return thin_linear(*args, *[None] * (3 - len(args)))
        return func(*args, **(kwargs or {}))

    def _suits(self, hidden: Tensor, weight: Tensor, bias: Tensor | None = None) -> bool:
        if hidden.numel() > self.most * weight.shape[1] or not 0 < weight.shape[1] <= _LONGEST:
            return False
        alike = hidden.dtype == weight.dtype and (bias is None or bias.dtype == weight.dtype)
        plain = weight.is_contiguous() and not torch.is_autocast_enabled(hidden.device.type)
        return alike and plain and hidden.dtype in (torch.float32, torch.bfloat16, torch.float16)
