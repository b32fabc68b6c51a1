"""Padded rows without their padding: on a processor, what is not there takes no time.

packed = without_padding(rows)        one packed row of the same sentences, and
packed.restored(hidden)               (1, N, D) → (B, T, D), zeros where the padding was
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from regard.attention import MultiHeadAttention, Rows
from regard.fast.cpu.training.attention import LANES, LONGEST


class WithoutPadding(NamedTuple):
    """A packed row, and where its tokens stood."""

    rows: Rows
    places: Tensor  # (N,) of B · T
    shape: torch.Size  # (B, T)

    def restored(self, hidden: Tensor) -> Tensor:
        """Hidden states (1, N, D) where they stood, (B, T, D)."""
        width = hidden.shape[-1]
        room = hidden.new_zeros(self.shape.numel(), width)
        return room.index_copy(0, self.places, hidden[0]).view(*self.shape, width)


def without_padding(rows: Rows) -> WithoutPadding | None:
    """The rows as one packed row; None where they are packed, or too long, or nobody knows how long they are."""
    ids, lengths = rows.ids, rows.lengths
    if rows.documents is not None or lengths is None or ids.device.type != "cpu" or not 0 < ids.shape[1] <= LONGEST:
        return None
    lengths = lengths.clamp(0, ids.shape[1])
    places = (torch.arange(ids.shape[1]) < lengths[:, None]).flatten().nonzero()[:, 0]
    if not len(places):
        return None
    packed = Rows.packed(ids.flatten()[places], lengths, longest=ids.shape[1])
    return WithoutPadding(packed, places, ids.shape)


def attends_packed(model: nn.Module) -> bool:
    """Whether all that a model attends to is for the kernels, which take packed rows, and nobody watches."""
    return all(
        isinstance(heads, MultiHeadAttention)
        and not heads.dropout
        and not heads.tap.watchers
        and heads.d_head % LANES == 0
        and heads.score.dot_scale(heads.d_head) is not None
        for heads in model.modules()
        if hasattr(heads, "tap")
    )
