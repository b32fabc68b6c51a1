"""What training does to rows by themselves on a processor, each in one pass over memory instead of five.

drop_trained       dropout from 16-bit draws, which are all that is kept for the way back: the textbook's bits
add_and_norm       norm(hidden + drop(part)), a post-norm block's residual
score_gradients    the softmax of scores and their loss, overwritten by its gradient
"""

from __future__ import annotations

import ctypes
from typing import Any

import torch
from torch import Tensor, nn

from regard.config.keyed_draws import LEVELS
from regard.fast.cpu.native import Kernels
from regard.fast.cpu.native.structures import Dropping, Residual
from regard.layers.dropout import draws_for

LANES, ROWS_AT_ONCE = 16, 32  # as in the kernels
TYPES = (torch.float32, torch.bfloat16)


def suits(*rows: Tensor) -> bool:
    """Whether these are rows of one shape and type on a processor, lying in order, and somebody learns by them."""
    first = rows[0]
    return (
        torch.is_grad_enabled()
        and any(x.requires_grad for x in rows)
        and first.device.type == "cpu"
        and first.dtype in TYPES
        and first.numel() > 0
        and all(x.shape == first.shape and x.dtype == first.dtype and x.is_contiguous() for x in rows)
    )


def suits_norm(norm: nn.Module, hidden: Tensor) -> bool:
    """Whether a norm is a layer norm in single precision over a width of whole lanes."""
    return (
        isinstance(norm, nn.LayerNorm)
        and norm.normalized_shape == hidden.shape[-1:]
        and type(norm.weight) in (Tensor, nn.Parameter)  # not a part of one
        and norm.weight.dtype == torch.float32
        and hidden.shape[-1] % LANES == 0
    )


def drop_trained(kernels: Kernels, tensor: Tensor, draws: Tensor, *, least: int, scale: float) -> Tensor:
    """The tensor with what draws below `least` dropped, and the rest scaled."""
    scale = scale if tensor.dtype == torch.float32 else float(torch.tensor(scale, dtype=tensor.dtype))
    dropped: Tensor = _Drop.apply(tensor, draws, kernels, least, scale)  # type: ignore[no-untyped-call]
    return dropped


class _Drop(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, draws: Tensor, kernels: Kernels, least: int, scale: float) -> Tensor:
        ctx.save_for_backward(draws)
        ctx.kernels, ctx.least, ctx.scale = kernels, least, scale
        return _dropped(kernels, tensor, Dropping(draws.data_ptr(), least, scale))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (draws,) = ctx.saved_tensors
        dropping = Dropping(draws.data_ptr(), ctx.least, ctx.scale)
        return _dropped(ctx.kernels, grads[0].contiguous(), dropping), None, None, None, None


def _dropped(kernels: Kernels, tensor: Tensor, dropping: Dropping) -> Tensor:
    result, half = torch.empty_like(tensor), tensor.dtype == torch.bfloat16
    address = ctypes.addressof(dropping)
    kernels.drop(kernels.threads, address, tensor.data_ptr(), tensor.numel(), half, result.data_ptr())
    return result


def add_and_norm(kernels: Kernels, hidden: Tensor, part: Tensor, *, norm: nn.LayerNorm, dropout: float) -> Tensor:
    """norm(hidden + drop(part)), with the draws that `drop` would make."""
    draws = draws_for(part) if dropout else None
    n_dropped = round(dropout * LEVELS)
    dropping = (n_dropped - LEVELS // 2, LEVELS / (LEVELS - n_dropped))
    normed: Tensor = _AddAndNorm.apply(  # type: ignore[no-untyped-call]
        hidden, part, norm.weight, norm.bias, draws, kernels, norm.eps, dropping
    )
    return normed


class _AddAndNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        part: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        draws: Tensor | None,
        kernels: Kernels,
        epsilon: float,
        dropping: tuple[int, float],
    ) -> Tensor:
        output, sums = torch.empty_like(hidden), torch.empty_like(hidden)
        scales = torch.empty(hidden.shape[:-1].numel(), 2)
        call = _residual(sums, scales, weight, bias, draws, epsilon, dropping)
        call.x, call.part, call.y = hidden.data_ptr(), part.data_ptr(), output.data_ptr()
        kernels.residual(kernels.threads, ctypes.addressof(call), 0)
        ctx.save_for_backward(sums, scales, weight, bias, draws)
        ctx.facts = kernels, epsilon, dropping
        return output

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        sums, scales, weight, bias, draws = ctx.saved_tensors
        kernels, epsilon, dropping = ctx.facts
        grad = grads[0].contiguous()
        d_hidden = torch.empty_like(sums)
        d_part = d_hidden if draws is None else torch.empty_like(sums)
        d_weight, d_bias = torch.empty_like(weight), None if bias is None else torch.empty_like(bias)
        room = torch.empty(-(-len(scales) // ROWS_AT_ONCE), 2, len(weight))
        call = _residual(sums, scales, weight, bias, draws, epsilon, dropping)
        call.d_y, call.d_x, call.d_part = grad.data_ptr(), d_hidden.data_ptr(), d_part.data_ptr()
        call.d_weight, call.d_bias, call.room = d_weight.data_ptr(), _address(d_bias), room.data_ptr()
        kernels.residual(kernels.threads, ctypes.addressof(call), 1)
        return d_hidden, d_part, d_weight, d_bias, None, None, None, None


def _residual(
    sums: Tensor,
    scales: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    draws: Tensor | None,
    epsilon: float,
    dropping: tuple[int, float],
) -> Residual:
    return Residual(
        sums=sums.data_ptr(),
        scales=scales.data_ptr(),
        weight=weight.data_ptr(),
        bias=_address(bias),
        n_rows=len(scales),
        d=len(weight),
        half=sums.dtype == torch.bfloat16,
        epsilon=epsilon,
        dropping=Dropping(_address(draws), *dropping),
    )


def suits_scores(states: Tensor, labels: Tensor, n_classes: int) -> bool:
    """Whether the scores of these states are for the kernel; labels that do not exist are left to who says so."""
    if states.device.type != "cpu" or states.dtype not in TYPES or not len(labels):
        return False
    return int(labels.min()) >= 0 and int(labels.max()) < n_classes


def score_gradients(kernels: Kernels, scores: Tensor, labels: Tensor, *, kept: float) -> tuple[Tensor, Tensor]:
    """The log-sum-exp of each row and its label's score, (n, 1); `scores` become softmax(scores) − kept · 1[label]."""
    norms, gold = torch.empty(len(scores), 1), torch.empty(len(scores), 1)
    labels = labels.contiguous()
    kernels.score_gradients(
        kernels.threads,
        scores.data_ptr(),
        *scores.shape,
        scores.dtype == torch.bfloat16,
        labels.data_ptr(),
        kept,
        norms.data_ptr(),
        gold.data_ptr(),
    )
    return norms, gold


def _address(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()
