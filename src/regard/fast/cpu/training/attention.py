"""Attention of short sentences on a processor, with gradients: a sentence and a group of heads at a time.

    query (B, H, T, E)   key, value (B, G, S, E)        in float32 or bfloat16, E a multiple of 16

PyTorch's kernel is made for long rows: of thirty positions it pads, masks and copies more than it computes. Here the
weights of a sentence fit next to the processor, are kept for the way back, and keys that a mask hides do not exist.
bfloat16 is widened when read and rounded when written; all sums are in single precision.
"""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from regard.attention.masks import Both, Causal, Documents, Mask, Padding
from regard.fast.cpu.native import Kernels
from regard.fast.cpu.native.structures import Strided, TrainedAttention

LONGEST = 128  # positions of a sentence: beyond, PyTorch's kernel needs less memory and is as quick
LANES = 16
_TYPES = (torch.float32, torch.bfloat16)


class Sentences(NamedTuple):
    """Where each sentence's queries and keys lie among all tokens, as the kernels read it."""

    table: np.ndarray[tuple[int, int], np.dtype[np.int64]]  # (N, 6): see `Sentence` in the kernels
    n_weights: int
    causal: bool


def suits(query: Tensor, key: Tensor, value: Tensor) -> bool:
    """Whether these are heads of short rows, to be trained."""
    if not query.ndim == key.ndim == value.ndim == 4 or query.device.type != "cpu":
        return False
    B, H, _, E = query.shape
    same = key.shape == value.shape and key.shape[0] == B and key.shape[3] == E and H % key.shape[1] == 0
    learns = torch.is_grad_enabled() and (query.requires_grad or key.requires_grad or value.requires_grad)
    kind = query.dtype in _TYPES and query.dtype == key.dtype == value.dtype
    return same and learns and kind and E % LANES == 0 and query.numel() > 0 and key.numel() > 0


def sentences_of(mask: Mask | None, query: Tensor, key: Tensor) -> Sentences | None:
    """What a mask amounts to, if all it says is where sentences end and whether they look ahead."""
    (B, H, T, _), S = query.shape, key.shape[2]
    parts = () if mask is None else mask.parts if isinstance(mask, Both) else (mask,)
    causal = [part for part in parts if isinstance(part, Causal)]
    others = [part for part in parts if not isinstance(part, Causal)]
    if len(causal) > 1 or len(others) > 1 or any(part.offset for part in causal):
        return None
    table = np.zeros((B, 6), dtype=np.int64)
    if others and isinstance(others[0], Documents):
        documents = others[0]
        if B != 1 or (causal and documents.key_lengths is not documents.lengths):
            return None
        documents.check(T, S)
        queries, keys = documents.lengths.numpy(), documents.key_lengths.numpy()
        table = np.zeros((len(queries), 6), dtype=np.int64)
        table[:, 0], table[:, 1] = queries.cumsum() - queries, queries
        table[:, 2], table[:, 3], table[:, 4] = keys.cumsum() - keys, keys, keys
    elif others and not (isinstance(others[0], Padding) and others[0].lengths.shape == (B,)):
        return None
    else:
        rows = np.arange(B)
        table[:, 0], table[:, 1], table[:, 2], table[:, 4] = rows * T, T, rows * S, S
        lengths = others[0].lengths.numpy() if others and isinstance(others[0], Padding) else S
        table[:, 3] = np.clip(lengths, 0, S)
    if table[:, 1].max() > LONGEST or table[:, 3].max() > LONGEST:
        return None
    sizes = H * table[:, 1] * (-(-table[:, 3] // LANES) * LANES)
    table[:, 5] = sizes.cumsum() - sizes
    return Sentences(table, int(sizes.sum()), bool(causal))


def attend_trained(
    kernels: Kernels, query: Tensor, key: Tensor, value: Tensor, *, sentences: Sentences, scale: float
) -> Tensor:
    """(B, H, T, E): what each query sees of its own sentence."""
    output: Tensor = _Attention.apply(query, key, value, kernels, sentences, scale)  # type: ignore[no-untyped-call]
    return output


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, kernels: Kernels, sentences: Sentences, scale: float
    ) -> Tensor:
        heads = [_by_tokens(x) for x in (query, key, value)]
        weights = torch.empty(sentences.n_weights)
        output = _empty_like(heads[0])
        ctx.save_for_backward(*heads, weights)
        ctx.kernels, ctx.sentences, ctx.scale = kernels, sentences, scale
        call = _call(heads, output, sentences=sentences, weights=weights, scale=scale)
        kernels.attend(kernels.threads, ctypes.addressof(call), 0)
        return output

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        *heads, weights = ctx.saved_tensors
        grad = _by_tokens(grads[0])
        found = [_empty_like(x) for x in heads]
        call = _call(heads, heads[0], sentences=ctx.sentences, weights=weights, scale=ctx.scale)
        call.d_output, (call.d_query, call.d_key, call.d_value) = _strided(grad), map(_strided, found)
        ctx.kernels.attend(ctx.kernels.threads, ctypes.addressof(call), 1)
        return *found, None, None, None


def _call(
    heads: list[Tensor], output: Tensor, *, sentences: Sentences, weights: Tensor, scale: float
) -> TrainedAttention:
    query, key, _ = heads
    none = Strided(None, 0, 0)
    return TrainedAttention(
        *map(_strided, (*heads, output)),
        *(none,) * 4,
        weights.data_ptr(),
        sentences.table.ctypes.data,
        len(sentences.table),
        query.shape[1],
        key.shape[1],
        query.shape[3],
        sentences.causal,
        query.dtype == torch.bfloat16,
        scale,
    )


def _by_tokens(heads: Tensor) -> Tensor:
    """Heads (B, H, T, E) whose tokens lie at equal steps, whatever row they are in."""
    B, _, T, E = heads.shape
    even = B == 1 or heads.stride(0) == T * heads.stride(2)
    return heads if even and (E == 1 or heads.stride(3) == 1) else _empty_like(heads).copy_(heads)


def _empty_like(heads: Tensor) -> Tensor:
    """Room for heads (B, H, T, E), a token's side by side: what flattens them copies nothing."""
    B, H, T, E = heads.shape
    return heads.new_empty((B, T, H, E)).transpose(1, 2)


def _strided(heads: Tensor) -> Strided:
    return Strided(heads.data_ptr(), heads.stride(2), heads.stride(1))
