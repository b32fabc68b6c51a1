"""Attention over one packed row of documents: no padding is computed, and no T × S mask is ever written.

    query (1, H, T, E) or (H, T, E), key and value likewise; documents lie end to end along T and S

On a GPU in half precision this is the kernel for short documents where they are short, else PyTorch's variable-length
flash kernel. Elsewhere the documents are unpacked into a padded batch (N, H, longest, E), attended to, and packed
again: N · longest² instead of T · S.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention.core import attend_explicitly
from regard.attention.masks import Both, Causal, Documents, Mask
from regard.attention.scores import ScaledDot
from regard.config.keyed_draws import keyed

HALF_TYPES = (torch.float16, torch.bfloat16)
KERNEL_LENGTH, KERNEL_WIDTHS = 128, (16, 32, 64, 128)  # longest document and head widths that our own kernel takes


def varlen_rule(rule: Mask | None, query: Tensor, key: Tensor, value: Tensor) -> tuple[Documents, bool] | None:
    """The documents and whether they are causal, if that is all the rule says and the row is a single one."""
    if not isinstance(rule, Both | Documents):
        return None
    parts = rule.parts if isinstance(rule, Both) else (rule,)
    documents = [part for part in parts if isinstance(part, Documents)]
    others = [part for part in parts if not isinstance(part, Documents)]
    if len(documents) != 1 or query.ndim not in (3, 4) or (query.ndim == 4 and query.shape[0] != 1):
        return None
    if not _single_rows(query, key, value):
        return None
    causal = len(others) == 1 and isinstance(others[0], Causal) and others[0].offset == 0
    # In cross-attention the causal line crosses document borders: only equal lengths make it one line per document.
    if others and not (causal and documents[0].key_lengths is documents[0].lengths):
        return None
    return documents[0], causal


def attend_varlen(
    query: Tensor, key: Tensor, value: Tensor, *, documents: Documents, causal: bool, scale: float, dropout: float
) -> Tensor:
    """Attend within each document: output (..., T, Ev) in the packed order."""
    shape = (*query.shape[:-1], value.shape[-1])
    documents.check(query.shape[-2], key.shape[-2])
    rows = [x.reshape(x.shape[-3:]).transpose(0, 1) for x in (query, key, value)]  # (T, H, E), (S, G, E), (S, G, Ev)
    attend_rows = _kernel if _has_kernel(query, value, dropout) else _padded
    output = attend_rows(*rows, documents=documents, causal=causal, scale=scale, dropout=dropout)
    return output.transpose(0, 1).reshape(shape)


def _single_rows(query: Tensor, key: Tensor, value: Tensor) -> bool:
    """Whether nothing has to be broadcast, and there is something to attend to."""
    if any(x.ndim != query.ndim or x.shape[:-3] != query.shape[:-3] for x in (key, value)):
        return False
    fits = key.shape[-3] == value.shape[-3] and query.shape[-3] % key.shape[-3] == 0
    return fits and query.shape[-2] > 0 and key.shape[-2] > 0


def _has_kernel(query: Tensor, value: Tensor, dropout: float) -> bool:
    return query.is_cuda and query.dtype in HALF_TYPES and query.shape[-1] == value.shape[-1] and dropout == 0.0


def _kernel(
    query: Tensor, key: Tensor, value: Tensor, *, documents: Documents, causal: bool, scale: float, dropout: float
) -> Tensor:
    from torch.nn.attention.varlen import varlen_attn  # here, because it loads the whole compiler

    groups = query.shape[1] // key.shape[1]
    if groups > 1:
        key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    starts, key_starts = _starts(documents.lengths, query.device), _starts(documents.key_lengths, query.device)
    longest = documents.longest
    if longest <= KERNEL_LENGTH and query.shape[-1] in KERNEL_WIDTHS:
        from regard.fast.gpu.varlen_kernels import varlen_attention  # here, because Triton comes with GPU builds only

        rows = [x if x.stride()[1:] == (x.shape[2], 1) else x.contiguous() for x in (query, key, value)]
        output: Tensor = varlen_attention(*rows, starts, key_starts, longest, scale, causal)
        return output
    window = (-1, 0 if causal else -1)
    attended = varlen_attn(query, key, value, starts, key_starts, longest, longest, scale=scale, window_size=window)
    assert isinstance(attended, Tensor)
    return attended


def _padded(
    query: Tensor, key: Tensor, value: Tensor, *, documents: Documents, causal: bool, scale: float, dropout: float
) -> Tensor:
    lengths, key_lengths = documents.lengths.to(query.device), documents.key_lengths.to(query.device)
    q_NHTE = _unpack(query, lengths, documents.longest).transpose(1, 2)
    k_NGSE = _unpack(key, key_lengths, documents.longest).transpose(1, 2)
    v_NGSE = _unpack(value, key_lengths, documents.longest).transpose(1, 2)
    columns = torch.arange(documents.longest, device=query.device)
    allowed = (columns < key_lengths[:, None])[:, None, None, :]
    if causal:
        allowed = allowed & (columns <= columns[:, None])
    alive = allowed.any(-1, keepdim=True)  # a document without keys gives zeros
    if dropout and keyed() is not None:
        output = attend_explicitly(
            q_NHTE, k_NGSE, v_NGSE, score=ScaledDot(scale), mask=allowed | ~alive, dropout=dropout
        )
        return _pack(output.masked_fill(~alive, 0.0).transpose(1, 2), lengths, query.shape[0])
    output = F.scaled_dot_product_attention(
        q_NHTE,
        k_NGSE,
        v_NGSE,
        attn_mask=allowed | ~alive,
        dropout_p=dropout,
        scale=scale,
        enable_gqa=query.shape[1] != key.shape[1],
    )
    return _pack(output.masked_fill(~alive, 0.0).transpose(1, 2), lengths, query.shape[0])


def _starts(lengths: Tensor, device: torch.device) -> Tensor:
    """Where each document starts, and where the last one ends: (N + 1,) as the kernel wants it."""
    return F.pad(lengths.to(device).cumsum(0), (1, 0)).to(torch.int32)


def _unpack(rows: Tensor, lengths: Tensor, longest: int) -> Tensor:
    """(T, H, E) packed → (N, longest, H, E) padded with whatever row is near; the mask hides it."""
    starts = lengths.cumsum(0) - lengths
    index = (starts[:, None] + torch.arange(longest, device=rows.device)).clamp(max=rows.shape[0] - 1)
    return rows.index_select(0, index.flatten()).view(*index.shape, *rows.shape[1:])


def _pack(padded: Tensor, lengths: Tensor, n_rows: int) -> Tensor:
    """(N, longest, H, E) padded → (T, H, E) packed."""
    positions = torch.arange(n_rows, device=padded.device)
    owners = torch.searchsorted(lengths.cumsum(0), positions, right=True).clamp(max=len(lengths) - 1)
    starts = lengths.cumsum(0) - lengths
    return padded.flatten(0, 1).index_select(0, owners * padded.shape[1] + positions - starts[owners])
