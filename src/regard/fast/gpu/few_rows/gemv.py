"""Products of a row or two with a matrix, on a GPU: a Triton kernel that does nothing but read the matrix.

    output = f(norm(x) Wᵀ + b) + residual        x (N, K) with N small, W (O, K), b (O,), residual (N, O)
    output = f(gate) ⊙ inner + residual          [gate; inner] = norm(x) Wᵀ + b, W (2·O, K): gated

Libraries' matrix products are made for tiles of many rows; with one row, a product takes as long as reading W, if
enough of it is asked for at once. Here each program has a few rows of W and all of their loads under way together;
what surrounds a product is a few numbers, so every program does it for itself rather than wait for another kernel.
Numbers are rounded where separate layers round theirs; sums are in single precision, of doubles in double.

    gemv(x, weight, bias, norm=…)        a product with what surrounds it
    embed_step(tokens, slots, table=…)   E[token] + P[position], which a step begins with, one program a row
    with GemvLinears(most=1): model(...)        every `F.linear` of at most so many rows, and no other, goes this way
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor
from torch.overrides import TorchFunctionMode

from regard.fast.gpu.static_cache import StaticSlots

GemvActivation = Literal["none", "relu", "gelu", "gelu_tanh", "silu"]

LONGEST = 8192  # inputs: a program has them all at once
OUTPUTS = 4  # of a program, where a GPU's processors are many for the outputs
MANY_OUTPUTS, MANY = 8, 16384  # of a program, from so many outputs on: what surrounds a product is done less often
TILE, MOST_WARPS = 16384, 8  # numbers of W that a program has at most, and warps for them
PER_THREAD, MANY_PER_THREAD = 32, 64  # numbers of W that a thread has; of many outputs more, as warps wait for memory
_ROWS = (4, 3, 2, 1)  # that a program may do together


class GemvNorm(NamedTuple):
    """A norm in front of a product: layer norm, or where it is not `centred`, the root-mean-square one."""

    weight: Tensor
    bias: Tensor | None
    epsilon: float
    centred: bool


@triton.jit
def _merged(X, SPLIT_SUMS, row, features, inside, K: tl.constexpr, HEADS: tl.constexpr, SPLITS: tl.constexpr):
    heads = features // (K // HEADS)
    x = tl.load(X + row * SPLITS * K + features, inside, other=0.0)
    peak = tl.load(SPLIT_SUMS + row * SPLITS * HEADS + heads, inside, other=0.0)
    total = tl.full(x.shape, 1.0, tl.float32)
    for split in tl.static_range(1, SPLITS):
        other = tl.load(X + (row * SPLITS + split) * K + features, inside, other=0.0)
        counts = tl.load(SPLIT_SUMS + (row * SPLITS + split) * HEADS + heads, inside, other=0.0)
        higher = tl.maximum(peak, counts)
        kept, share = tl.exp2(peak - higher), tl.exp2(counts - higher)
        x, total, peak = x * kept + other * share, total * kept + share, higher
    return x / total


@triton.jit
def _normed(x, inside, scale, shift, K: tl.constexpr, EPSILON: tl.constexpr, CENTRED: tl.constexpr):
    if CENTRED:
        x = tl.where(inside, x - tl.sum(x, 0) / K, 0.0)
    return x * (1.0 / tl.sqrt(tl.sum(x * x, 0) / K + EPSILON)) * scale + shift


@triton.jit
def _activated(x, ACTIVATION: tl.constexpr):
    if ACTIVATION == "relu":
        x = tl.where(x < 0.0, 0.0, x)  # what is not a number stays so
    elif ACTIVATION == "gelu":
        x = 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))
    elif ACTIVATION == "gelu_tanh":
        x = x / (1.0 + tl.exp(-1.5957691216057308 * (x + 0.044715 * x * x * x)))
    elif ACTIVATION == "silu":
        x = x / (1.0 + tl.exp(-x))
    return x


@triton.jit
def _gemv_kernel(X, SPLIT_SUMS, W, BIAS, SCALE, SHIFT, RESIDUAL, OUT, n_outputs, K: tl.constexpr, WIDTH: tl.constexpr,
                 HEADS: tl.constexpr, SPLITS: tl.constexpr,
                 ROWS: tl.constexpr, OUTPUTS: tl.constexpr, EXACT: tl.constexpr, EPSILON: tl.constexpr,
                 NORMED: tl.constexpr, CENTRED: tl.constexpr, SHIFTED: tl.constexpr, BIASED: tl.constexpr,
                 ACTIVATION: tl.constexpr, GATED: tl.constexpr, ADDED: tl.constexpr, PDL: tl.constexpr):  # fmt: skip
    if PDL:
        tl.extra.cuda.gdc_launch_dependents()
    outputs, features = tl.program_id(0) * OUTPUTS + tl.arange(0, OUTPUTS), tl.arange(0, WIDTH)
    real, inside = outputs < n_outputs, features < K
    at, open_ = outputs.to(tl.int64)[:, None] * K + features[None, :], real[:, None] & inside[None, :]
    w = tl.load(W + at, open_, other=0.0)
    if GATED:
        at = (outputs + n_outputs).to(tl.int64)[:, None] * K + features[None, :]
        w_inner = tl.load(W + at, open_, other=0.0)
    if NORMED:
        scale, shift = tl.load(SCALE + features, inside, other=0.0).to(EXACT), 0.0
        if SHIFTED:
            shift = tl.load(SHIFT + features, inside, other=0.0).to(EXACT)
    bias, bias_inner = 0.0, 0.0
    if BIASED:
        bias = tl.load(BIAS + outputs, real, other=0.0).to(EXACT)
        if GATED:
            bias_inner = tl.load(BIAS + n_outputs + outputs, real, other=0.0).to(EXACT)
    if PDL:
        tl.extra.cuda.gdc_wait()
    for i in tl.static_range(ROWS):
        row = tl.program_id(1) * ROWS + i
        if SPLITS > 0:
            x = _merged(X, SPLIT_SUMS, row, features, inside, K, HEADS, SPLITS).to(OUT.dtype.element_ty).to(EXACT)
        else:
            x = tl.load(X + row * K + features, inside, other=0.0).to(EXACT)
        if ADDED:
            residual = tl.load(RESIDUAL + row * n_outputs + outputs, real, other=0.0).to(EXACT)
        if NORMED:
            x = _normed(x, inside, scale, shift, K, EPSILON, CENTRED).to(OUT.dtype.element_ty).to(EXACT)
        y = (tl.sum(w.to(EXACT) * x[None, :], 1) + bias).to(OUT.dtype.element_ty).to(EXACT)
        if ACTIVATION != "none":
            y = _activated(y, ACTIVATION).to(OUT.dtype.element_ty).to(EXACT)
        if GATED:
            inner = tl.sum(w_inner.to(EXACT) * x[None, :], 1) + bias_inner
            y = (y * inner.to(OUT.dtype.element_ty).to(EXACT)).to(OUT.dtype.element_ty).to(EXACT)
        if ADDED:
            y += residual
        tl.store(OUT + row * n_outputs + outputs, y, real)


@triton.jit
def _embed_kernel(TOKENS, POSITIONS, TABLE, PLACES, OUT, n_places,
                  D: tl.constexpr, WIDTH: tl.constexpr, EXACT: tl.constexpr, PLACED: tl.constexpr):  # fmt: skip
    row, features = tl.program_id(0), tl.arange(0, WIDTH)
    inside = features < D
    vector = tl.load(TABLE + tl.load(TOKENS + row) * D + features, inside, other=0.0).to(EXACT)
    if PLACED:
        place = tl.minimum(tl.load(POSITIONS + row), n_places - 1)
        vector += tl.load(PLACES + place * D + features, inside, other=0.0).to(EXACT)
    tl.store(OUT + row * D + features, vector, inside)


def gemv(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    norm: GemvNorm | None = None,
    activation: GemvActivation = "none",
    gated: bool = False,
    residual: Tensor | None = None,
    split_sums: Tensor | None = None,
    launch: dict[str, bool] | None = None,
) -> Tensor:
    """Hidden (..., K), weight (O, K) or gated (2·O, K) → (..., O), plus the residual (..., O); all of one precision.

    With `split_sums` (N, S, H), hidden (N, S, K) is what `attend_split_kv` gives, to be merged first. `launch` is what
    `programmatic_launch` gives, where the kernel ahead belongs to the same chain.
    """
    K, n_outputs = weight.shape[1], weight.shape[0] // 2 if gated else weight.shape[0]
    shape, n_splits = (hidden.shape[:-1], 0) if split_sums is None else (hidden.shape[:1], hidden.shape[1])
    rows = hidden.reshape(math.prod(shape), -1).contiguous()
    output = weight.new_empty((*shape, n_outputs))
    together = next(n for n in _ROWS if len(rows) % n == 0)
    width = triton.next_power_of_2(K)
    n, warps = sizes(n_outputs, width)
    scale, shift, epsilon, centred = norm or (weight, None, 0.0, False)
    _gemv_kernel[(triton.cdiv(n_outputs, n), len(rows) // together)](
        rows, rows if split_sums is None else split_sums, weight, weight if bias is None else bias,
        scale, weight if shift is None else shift,
        weight if residual is None else residual.reshape(-1, n_outputs).contiguous(), output, n_outputs,
        K=K, WIDTH=width, HEADS=1 if split_sums is None else split_sums.shape[2], SPLITS=n_splits,
        ROWS=together, OUTPUTS=n,
        EXACT=tl.float64 if weight.dtype == torch.float64 else tl.float32,
        EPSILON=epsilon, NORMED=norm is not None, CENTRED=centred, SHIFTED=shift is not None, BIASED=bias is not None,
        ACTIVATION=activation, GATED=gated, ADDED=residual is not None, num_warps=warps,
        **(launch or {"PDL": False}),
    )  # fmt: skip
    return output


def sizes(n_outputs: int, width: int) -> tuple[int, int]:
    """How many outputs a program has, and how many warps: the same for any number of rows."""
    few = n_outputs < MANY
    n = min(OUTPUTS if few else MANY_OUTPUTS, max(1, TILE // width))
    return n, max(1, min(MOST_WARPS, n * width // (32 * (PER_THREAD if few else MANY_PER_THREAD))))


def embed_step(tokens: Tensor, slots: StaticSlots, *, table: Tensor, places: Tensor | None) -> Tensor:
    """Vectors (N, D) of tokens where their rows stand; `places` (T, D) are learned positions, precise as the table."""
    D = table.shape[1]
    output = table.new_empty((len(tokens), D))
    _embed_kernel[(len(tokens),)](
        tokens, slots.positions, table, table if places is None else places, output,
        0 if places is None else len(places),
        D=D, WIDTH=triton.next_power_of_2(D), EXACT=tl.float64 if table.dtype == torch.float64 else tl.float32,
        PLACED=places is not None, num_warps=4,
    )  # fmt: skip
    return output


def gemv_linear(hidden: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Hidden (..., K), weight (O, K), bias (O,) → (..., O)."""
    return gemv(hidden, weight, bias)


class GemvLinears(TorchFunctionMode):
    """While it is on, linear layers of at most `most` rows are computed by `gemv_linear`."""

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
            return gemv_linear(*args, *[None] * (3 - len(args)))
        return func(*args, **(kwargs or {}))

    def _suits(self, hidden: Tensor, weight: Tensor, bias: Tensor | None = None) -> bool:
        if hidden.numel() > self.most * weight.shape[1] or not 0 < weight.shape[1] <= LONGEST:
            return False
        alike = hidden.dtype == weight.dtype and (bias is None or bias.dtype == weight.dtype)
        plain = weight.is_contiguous() and not torch.is_autocast_enabled(hidden.device.type)
        return alike and plain and hidden.dtype in (torch.float32, torch.bfloat16, torch.float16)
