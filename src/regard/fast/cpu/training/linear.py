"""Linear layers that are trained in single precision on a processor, by products of our own.

    y = x · Wᵀ + b        x (..., Din), W (Dout, Din)         dx = dy · W,  dW = dyᵀ · x,  db = Σ dy

Forwards and towards the inputs the kernels are quicker than PyTorch's library, and their bits do not depend on the
number of threads; the product for the weights is the library's. A feed-forward layer with ReLU is made as one: what
is rectified, and what is closed on the way back, is so while the products are written.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from types import MethodType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.fast.cpu.native import Kernels
from regard.fast.cpu.native.loading import for_training
from regard.fast.cpu.native.structures import Product

WORTH_IT = 2**21  # multiplications, below which calling takes longer than is won


def suits(hidden: Tensor, *layers: nn.Linear) -> bool:
    """Whether rows and layers are in single precision on a processor, and enough of them."""
    return (
        torch.is_grad_enabled()
        and hidden.device.type == "cpu"
        and hidden.dtype == torch.float32
        and not torch.is_autocast_enabled("cpu")
        and all(type(layer) is nn.Linear and _is_plain(layer.weight) for layer in layers)
        and hidden.shape[:-1].numel() * layers[0].weight.numel() >= WORTH_IT
    )


def _is_plain(weight: Tensor) -> bool:
    """Whether a matrix lies in memory as it is, in single precision; a part of one does not."""
    return type(weight) in (Tensor, nn.Parameter) and weight.dtype == torch.float32 and weight.is_contiguous()


def product(
    kernels: Kernels,
    a: Tensor,
    b: Tensor,
    *,
    bias: Tensor | None = None,
    relu: bool = False,
    opened: Tensor | None = None,
) -> Tensor:
    """a (M, K) · b (K, N), each in order or transposed; `opened` (M, N) is above 0 where the result is not to be 0."""
    result = torch.empty(a.shape[0], b.shape[1])
    call = Product(
        a.data_ptr(),
        b.data_ptr(),
        result.data_ptr(),
        None if bias is None else bias.data_ptr(),
        None if opened is None else opened.data_ptr(),
        *result.shape,
        a.shape[1],
        *a.stride(),
        *b.stride(),
        0,
        relu,
    )
    kernels.product(kernels.threads, ctypes.addressof(call))
    return result


def use_products(model: nn.Module) -> Callable[[], None]:
    """Let the linear layers of a model use the kernels while `for_training` says so; what is given back undoes it."""
    layers = [layer for layer in model.modules() if type(layer) is nn.Linear and "forward" not in vars(layer)]
    for layer in layers:
        layer.forward = MethodType(_forward, layer)  # type: ignore[method-assign]  # a copy of the layer has its own

    def undo() -> None:
        for layer in layers:
            vars(layer).pop("forward", None)

    return undo


def _forward(layer: nn.Linear, hidden: Tensor) -> Tensor:
    kernels = for_training()
    if kernels is None or not suits(hidden, layer):
        return F.linear(hidden, layer.weight, layer.bias)
    output: Tensor = _Linear.apply(hidden, layer.weight, layer.bias, kernels)  # type: ignore[no-untyped-call]
    return output


def feed_forward(kernels: Kernels, hidden: Tensor, inner: nn.Linear, outer: nn.Linear) -> Tensor:
    """outer(relu(inner(hidden)))"""
    output: Tensor = _FeedForward.apply(  # type: ignore[no-untyped-call]
        hidden, inner.weight, inner.bias, outer.weight, outer.bias, kernels
    )
    return output


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, kernels: Kernels) -> Tensor:
        rows = hidden.reshape(-1, hidden.shape[-1]).contiguous()
        ctx.save_for_backward(rows, weight)
        ctx.kernels, ctx.shape = kernels, hidden.shape
        return product(kernels, rows, weight.t(), bias=bias).view(*hidden.shape[:-1], -1)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        rows, weight = ctx.saved_tensors
        grad = grads[0].reshape(-1, len(weight)).contiguous()
        wants = ctx.needs_input_grad
        return (
            product(ctx.kernels, grad, weight).view(ctx.shape) if wants[0] else None,
            grad.t() @ rows if wants[1] else None,
            grad.sum(0) if wants[2] else None,
            None,
        )


class _FeedForward(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, w1: Tensor, b1: Tensor | None, w2: Tensor, b2: Tensor | None, kernels: Kernels
    ) -> Tensor:
        rows = hidden.reshape(-1, hidden.shape[-1]).contiguous()
        inner = product(kernels, rows, w1.t(), bias=b1, relu=True)
        ctx.save_for_backward(rows, inner, w1, w2)
        ctx.kernels, ctx.shape = kernels, hidden.shape
        return product(kernels, inner, w2.t(), bias=b2).view(*hidden.shape[:-1], -1)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        rows, inner, w1, w2 = ctx.saved_tensors
        grad = grads[0].reshape(-1, len(w2)).contiguous()
        wants = ctx.needs_input_grad
        d_inner = product(ctx.kernels, grad, w2, opened=inner)
        return (
            product(ctx.kernels, d_inner, w1).view(ctx.shape) if wants[0] else None,
            d_inner.t() @ rows if wants[1] else None,
            d_inner.sum(0) if wants[2] else None,
            grad.t() @ inner if wants[3] else None,
            grad.sum(0) if wants[4] else None,
            None,
        )
