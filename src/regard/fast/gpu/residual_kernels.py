"""norm(hidden + drop(part)) and its gradients on a GPU: two Triton kernels, each one pass over the rows.

    add_and_norm(hidden, part, norm, dropout=…)      (..., D) → (..., D), in training
    sum_and_norm(hidden, part, norm)                 the sum too, for blocks whose norms come first

A compiler draws for dropout twice, sixty operations an element, and sums the gradients of weight and bias in a pass
whose programs wait for each other. Here an element's draw is a hash of its place and the layer's seeds, which costs
seven operations and is made again in the backward pass; each program of that takes every n-th block of rows, and keeps
its part of both sums.

    x ↦ x ^ x ≫ 16 · m₁ ↦ x ^ x ≫ 15 + seed · m₂ ↦ x ^ x ≫ 16          Ellis's "lowbias32", a second seed in between
"""

# Triton compiles the functions; annotations mean something else to it.
# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"

from __future__ import annotations

from typing import TypeGuard

import torch
import triton
import triton.language as tl
from torch import Tensor, nn
from torch.library import triton_op, wrap_triton

from regard.layers.norms import LayerNorm, RMSNorm, working_precision

WIDEST = 4096  # D: a program has whole rows
_BLOCK = 2048  # elements that a program has at a time
_FEW_ROWS = 2048  # of which each has a program of its own
_PRECISIONS = (torch.float32, torch.bfloat16, torch.float16)
_PROGRAMS = 528  # of the backward pass: four for each processor of a large GPU


@triton.jit
def _kept(rows, columns, SEEDS, least, D: tl.constexpr):
    """Which elements stay: those whose 32 bits are `least` or more."""
    x = (rows.to(tl.uint32) * D + columns.to(tl.uint32)) ^ tl.load(SEEDS).to(tl.uint32)
    x = (x ^ (x >> 16)) * 0x7FEB352D
    x = ((x ^ (x >> 15)) + tl.load(SEEDS + 1).to(tl.uint32)) * 0x846CA68B
    return (x ^ (x >> 16)).to(tl.int64) >= least


@triton.jit
def _forward_kernel(HIDDEN, PART, WEIGHT, BIAS, SEEDS, OUT, SUM, CENTRES, SCALES, n_rows, least, factor, epsilon,
                    D: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr, CENTRED: tl.constexpr,
                    DROPPED: tl.constexpr, BIASED: tl.constexpr):  # fmt: skip
    rows, columns = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None], tl.arange(0, WIDTH)[None, :]
    inside = columns < D
    real, at = (rows < n_rows) & inside, rows.to(tl.int64) * D + columns
    part = tl.load(PART + at, real, other=0.0).to(tl.float32)
    if DROPPED:
        part = tl.where(_kept(rows, columns, SEEDS, least, D), part * factor, 0.0)
    rounded = (tl.load(HIDDEN + at, real, other=0.0).to(tl.float32) + part).to(SUM.dtype.element_ty)
    x = rounded.to(tl.float32)
    centre = tl.sum(x, 1)[:, None] / D if CENTRED else tl.zeros([ROWS, 1], tl.float32)
    apart = tl.where(inside, x - centre, 0.0)
    scale = 1.0 / tl.sqrt(tl.sum(apart * apart, 1)[:, None] / D + epsilon)
    y = apart * scale * tl.load(WEIGHT + columns, inside, other=0.0).to(tl.float32)
    if BIASED:
        y += tl.load(BIAS + columns, inside, other=0.0).to(tl.float32)
    tl.store(SUM + at, rounded, real)
    tl.store(OUT + at, y.to(OUT.dtype.element_ty), real)
    tl.store(CENTRES + rows, centre, rows < n_rows)
    tl.store(SCALES + rows, scale, rows < n_rows)


@triton.jit
def _backward_kernel(GRAD, SUM, WEIGHT, SEEDS, CENTRES, SCALES, D_SUM, D_PART, D_WEIGHTS, D_BIASES,
                     n_rows, least, factor, D: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr,
                     CENTRED: tl.constexpr, DROPPED: tl.constexpr):  # fmt: skip
    first, columns = tl.program_id(0) * ROWS, tl.arange(0, WIDTH)[None, :]
    inside = columns < D
    weight = tl.load(WEIGHT + columns, inside, other=0.0).to(tl.float32)
    d_weight, d_bias = tl.zeros([ROWS, WIDTH], tl.float32), tl.zeros([ROWS, WIDTH], tl.float32)
    for begin in range(first, n_rows, tl.num_programs(0) * ROWS):
        rows = begin + tl.arange(0, ROWS)[:, None]
        real, at = (rows < n_rows) & inside, rows.to(tl.int64) * D + columns
        grad = tl.load(GRAD + at, real, other=0.0).to(tl.float32)
        x = tl.load(SUM + at, real, other=0.0).to(tl.float32)
        scale = tl.load(SCALES + rows, rows < n_rows, other=0.0)
        x = tl.where(inside, (x - tl.load(CENTRES + rows, rows < n_rows, other=0.0)) * scale, 0.0)
        d_weight += grad * x
        d_bias += grad
        scaled = grad * weight
        d_sum = scaled - x * (tl.sum(scaled * x, 1)[:, None] / D)
        if CENTRED:
            d_sum -= tl.sum(scaled, 1)[:, None] / D
        d_sum *= scale
        tl.store(D_SUM + at, d_sum.to(D_SUM.dtype.element_ty), real)
        if DROPPED:
            d_part = tl.where(_kept(rows, columns, SEEDS, least, D), d_sum * factor, 0.0)
            tl.store(D_PART + at, d_part.to(D_PART.dtype.element_ty), real)
    at, inside = tl.program_id(0) * D + tl.arange(0, WIDTH), tl.arange(0, WIDTH) < D
    tl.store(D_WEIGHTS + at, tl.sum(d_weight, 0), inside)
    tl.store(D_BIASES + at, tl.sum(d_bias, 0), inside)


@triton_op("regard::add_and_norm", mutates_args={})
def _add_and_norm(
    hidden: Tensor, part: Tensor, weight: Tensor, bias: Tensor | None, seeds: Tensor,
    dropout: float, epsilon: float, centred: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """The normed sum of rows (N, D); and for the backward pass the sum, and each row's mean and scale."""
    output, total = torch.empty_like(hidden), torch.empty_like(hidden)
    n_rows, width = hidden.shape
    centres, scales = (hidden.new_empty(n_rows, dtype=torch.float32) for _ in range(2))
    shape = _shape(n_rows, width)
    wrap_triton(_forward_kernel)[(triton.cdiv(n_rows, shape["ROWS"]),)](
        hidden, part, weight, weight if bias is None else bias, seeds, output, total, centres, scales,
        n_rows, *_least_and_factor(dropout), epsilon,
        CENTRED=centred, DROPPED=dropout > 0, BIASED=bias is not None, **shape,
    )  # fmt: skip
    return output, total, centres, scales


@triton_op("regard::add_and_norm_backward", mutates_args={})
def _add_and_norm_backward(
    grad: Tensor, total: Tensor, weight: Tensor, seeds: Tensor, centres: Tensor, scales: Tensor,
    dropout: float, centred: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """The gradients of hidden, part, weight and bias; without dropout that of the part is that of hidden."""
    n_rows, width = grad.shape
    shape = _shape(n_rows, width)
    n_programs = min(_PROGRAMS, triton.cdiv(n_rows, shape["ROWS"]))
    d_sum = torch.empty_like(total)
    d_part = torch.empty_like(total) if dropout else total.new_empty(0)
    sums = [grad.new_empty((n_programs, width), dtype=torch.float32) for _ in range(2)]
    wrap_triton(_backward_kernel)[(n_programs,)](
        grad, total, weight, seeds, centres, scales, d_sum, d_part, *sums,
        n_rows, *_least_and_factor(dropout), CENTRED=centred, DROPPED=dropout > 0, **shape,
    )  # fmt: skip
    d_weight, d_bias = (one.sum(0).to(weight.dtype) for one in sums)
    return d_sum, d_part, d_weight, d_bias


def _keep(ctx, inputs, output) -> None:
    _, _, weight, bias, seeds, dropout, _, centred = inputs
    _, total, centres, scales = output
    ctx.save_for_backward(total, weight, seeds, centres, scales)
    ctx.dropout, ctx.centred, ctx.biased = dropout, centred, bias is not None


def _backward(ctx, grad, *_):
    total, weight, seeds, centres, scales = ctx.saved_tensors
    d_hidden, d_part, d_weight, d_bias = _add_and_norm_backward(
        grad.contiguous(), total, weight, seeds, centres, scales, ctx.dropout, ctx.centred
    )
    d_bias = d_bias if ctx.biased else None
    return d_hidden, d_part if ctx.dropout else d_hidden, d_weight, d_bias, None, None, None, None


_add_and_norm.register_autograd(_backward, setup_context=_keep)


def suits(norm: nn.Module, hidden: Tensor, part: Tensor) -> TypeGuard[LayerNorm | RMSNorm]:
    """Whether the kernels compute this norm of such rows on a GPU, in the precision that it has itself."""
    if type(norm) not in (LayerNorm, RMSNorm) or norm.weight is None or norm.eps is None or not hidden.is_cuda:
        return False
    working = working_precision(hidden) or norm.weight.dtype
    alike = hidden.dtype == part.dtype == working and hidden.shape == part.shape
    return alike and hidden.dtype in _PRECISIONS and hidden.shape[-1] <= WIDEST and hidden.numel() > 0


def add_and_norm(hidden: Tensor, part: Tensor, norm: LayerNorm | RMSNorm, *, dropout: float) -> Tensor:
    """norm(hidden + drop(part))."""
    seeds = torch.randint(-(2**31), 2**31, (2,), device=hidden.device) if dropout else None
    return _rows(hidden, part, norm, seeds=seeds, dropout=dropout)[0]


def sum_and_norm(hidden: Tensor, part: Tensor, norm: LayerNorm | RMSNorm) -> tuple[Tensor, Tensor]:
    """hidden + part, and the norm of that."""
    output, total = _rows(hidden, part, norm, seeds=None, dropout=0.0)
    return total, output


def _rows(
    hidden: Tensor, part: Tensor, norm: LayerNorm | RMSNorm, *, seeds: Tensor | None, dropout: float
) -> tuple[Tensor, Tensor]:
    rows = [x.reshape(-1, x.shape[-1]).contiguous() for x in (hidden, part)]
    seeds = hidden.new_empty(0, dtype=torch.int64) if seeds is None else seeds
    assert norm.eps is not None, "`suits` has said that it has one"
    centred, bias = isinstance(norm, LayerNorm), getattr(norm, "bias", None)
    output, total, _, _ = _add_and_norm(*rows, norm.weight, bias, seeds, dropout, norm.eps, centred)
    return output.view(hidden.shape), total.view(hidden.shape)


def _least_and_factor(dropout: float) -> tuple[int, float]:
    """From which draw on an element is kept, and what it is multiplied by."""
    least = round(dropout * 2**32)
    return least, 2**32 / (2**32 - least)


def _shape(n_rows: int, width: int) -> dict[str, int]:
    """How the kernels see so many rows of so many elements."""
    block = triton.next_power_of_2(width)
    rows = 1 if n_rows <= _FEW_ROWS else max(1, _BLOCK // block)
    return {"D": width, "WIDTH": block, "ROWS": rows, "num_warps": max(1, min(8, rows * block // 512))}
