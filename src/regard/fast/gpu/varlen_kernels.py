"""Attention over many short documents: a Triton kernel that keeps one document and one head on one processor.

    query (T, H, E), key and value (S, H, E), packed; starts (N + 1,) say where each document begins

Flash kernels cut sequences into blocks of 128 positions; a sentence of 25 tokens leaves most of a block empty. Here a
block holds a whole document, the weights never leave the registers, and the backward pass computes them again. Each
size of block is a launch of its own, which passes over the documents of other sizes: one long document does not make
all others slow. Documents have at most 128 positions; a document without keys gives zeros.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.library import triton_op, wrap_triton


@triton.jit
def _weights(q, k, n_queries, n_keys, scale, M: tl.constexpr, N: tl.constexpr, CAUSAL: tl.constexpr):
    """softmax(scale · qkᵀ) where allowed, zeros elsewhere: (M, N)."""
    rows, columns = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    allowed = (columns < n_keys) & (rows < n_queries)
    if CAUSAL:
        allowed = allowed & (columns <= rows)
    scores = tl.where(allowed, tl.dot(q, tl.trans(k), input_precision="ieee") * scale, float("-inf"))
    peak = tl.max(scores, 1)[:, None]
    shares = tl.exp(scores - tl.where(peak == float("-inf"), 0.0, peak))
    total = tl.sum(shares, 1)[:, None]
    return shares / tl.where(total == 0.0, 1.0, total)


@triton.jit
def _rows(pointer, first, count, head, stride, E: tl.constexpr, L: tl.constexpr):
    """Where one head's rows of one document lie, and which of the L are real."""
    rows = tl.arange(0, L)[:, None]
    places = pointer + (first + rows) * stride + head * E + tl.arange(0, E)[None, :]
    return places, rows < count


@triton.jit
def _forward_kernel(Q, K, V, OUT, QS, KS, scale, sq, sk, sv, so,
                    H: tl.constexpr, E: tl.constexpr, OVER: tl.constexpr, M: tl.constexpr, N: tl.constexpr,
                    CAUSAL: tl.constexpr):  # fmt: skip
    document, head = tl.program_id(0) // H, tl.program_id(0) % H  # heads of one row lie together
    q0, k0 = tl.load(QS + document), tl.load(KS + document)
    n_queries, n_keys = tl.load(QS + document + 1) - q0, tl.load(KS + document + 1) - k0
    longer = tl.maximum(n_queries, n_keys)
    if (longer > OVER) & (longer <= M) & (n_queries > 0):
        q_at, q_real = _rows(Q, q0, n_queries, head, sq, E, M)
        k_at, k_real = _rows(K, k0, n_keys, head, sk, E, N)
        v_at, v_real = _rows(V, k0, n_keys, head, sv, E, N)
        o_at, o_real = _rows(OUT, q0, n_queries, head, so, E, M)
        q, k = tl.load(q_at, q_real, other=0.0), tl.load(k_at, k_real, other=0.0)
        v = tl.load(v_at, v_real, other=0.0)
        p = _weights(q, k, n_queries, n_keys, scale, M, N, CAUSAL)
        tl.store(o_at, tl.dot(p.to(v.dtype), v, input_precision="ieee").to(v.dtype), o_real)


@triton.jit
def _backward_kernel(Q, K, V, DO, DQ, DK, DV, QS, KS, scale, sq, sk, sv, sdo, sdq, sdk, sdv,
                     H: tl.constexpr, E: tl.constexpr, OVER: tl.constexpr, M: tl.constexpr, N: tl.constexpr,
                     CAUSAL: tl.constexpr):  # fmt: skip
    document, head = tl.program_id(0) // H, tl.program_id(0) % H
    q0, k0 = tl.load(QS + document), tl.load(KS + document)
    n_queries, n_keys = tl.load(QS + document + 1) - q0, tl.load(KS + document + 1) - k0
    longer = tl.maximum(n_queries, n_keys)
    if (longer > OVER) & (longer <= M):
        q_at, q_real = _rows(Q, q0, n_queries, head, sq, E, M)
        k_at, k_real = _rows(K, k0, n_keys, head, sk, E, N)
        v_at, v_real = _rows(V, k0, n_keys, head, sv, E, N)
        do_at, do_real = _rows(DO, q0, n_queries, head, sdo, E, M)
        q, k = tl.load(q_at, q_real, other=0.0), tl.load(k_at, k_real, other=0.0)
        v, do = tl.load(v_at, v_real, other=0.0), tl.load(do_at, do_real, other=0.0)
        p = _weights(q, k, n_queries, n_keys, scale, M, N, CAUSAL)
        dp = tl.dot(do, tl.trans(v), input_precision="ieee")
        ds = (p * (dp - tl.sum(p * dp, 1)[:, None]) * scale).to(q.dtype)
        dq_at, dq_real = _rows(DQ, q0, n_queries, head, sdq, E, M)
        dk_at, dk_real = _rows(DK, k0, n_keys, head, sdk, E, N)
        dv_at, dv_real = _rows(DV, k0, n_keys, head, sdv, E, N)
        tl.store(dq_at, tl.dot(ds, k, input_precision="ieee").to(q.dtype), dq_real)
        tl.store(dk_at, tl.dot(tl.trans(ds), q, input_precision="ieee").to(q.dtype), dk_real)
        tl.store(dv_at, tl.dot(tl.trans(p.to(do.dtype)), do, input_precision="ieee").to(q.dtype), dv_real)


@triton_op("regard::varlen_attention", mutates_args={})
def varlen_attention(
    query: Tensor, key: Tensor, value: Tensor, starts: Tensor, key_starts: Tensor,
    longest: int, scale: float, causal: bool,
) -> Tensor:  # fmt: skip
    """Attend within each document: (T, H, E). The last two dimensions of each tensor lie together in memory."""
    output = torch.empty_like(query, memory_format=torch.contiguous_format)
    grid = ((starts.shape[0] - 1) * query.shape[1],)
    for over, block in _blocks(longest):
        wrap_triton(_forward_kernel)[grid](
            query, key, value, output, starts, key_starts, scale,
            *(x.stride(0) for x in (query, key, value, output)),
            H=query.shape[1], E=query.shape[2], OVER=over, M=block, N=block, CAUSAL=causal, num_warps=_warps(block),
        )  # fmt: skip
    return output


@triton_op("regard::varlen_attention_backward", mutates_args={})
def varlen_attention_backward(
    grad: Tensor, query: Tensor, key: Tensor, value: Tensor, starts: Tensor, key_starts: Tensor,
    longest: int, scale: float, causal: bool,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """The gradients of query, key and value."""
    grads = [torch.empty_like(x, memory_format=torch.contiguous_format) for x in (query, key, value)]
    grid = ((starts.shape[0] - 1) * query.shape[1],)
    for over, block in _blocks(longest):
        wrap_triton(_backward_kernel)[grid](
            query, key, value, grad, *grads, starts, key_starts, scale,
            *(x.stride(0) for x in (query, key, value, grad, *grads)),
            H=query.shape[1], E=query.shape[2], OVER=over, M=block, N=block, CAUSAL=causal, num_warps=_warps(block),
        )  # fmt: skip
    return grads[0], grads[1], grads[2]


def _keep(ctx, inputs, output) -> None:
    ctx.save_for_backward(*inputs[:5])
    ctx.rest = inputs[5:]


def _backward(ctx, grad):
    grads = varlen_attention_backward(grad.contiguous(), *ctx.saved_tensors, *ctx.rest)
    return (*grads, None, None, None, None, None)


varlen_attention.register_autograd(_backward, setup_context=_keep)


def _blocks(longest: int) -> list[tuple[int, int]]:
    """Sizes of blocks up to the one that holds the longest document, each with the size below it.

    They are powers of two, of which tensor cores want 16 at least; sentences share 32 rather than a launch more.
    """
    largest = max(16, 1 << (longest - 1).bit_length())
    sizes = [size for size in (32, 64) if size < largest] + [largest]
    return list(zip([0, *sizes], sizes, strict=False))


def _warps(block: int) -> int:
    return {16: 1, 32: 2, 64: 4, 128: 8}[block]
