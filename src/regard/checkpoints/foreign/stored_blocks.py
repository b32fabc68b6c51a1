"""Matrices of a file that are written in blocks: rows of bytes, which can be joined and re-ordered as they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.checkpoints.foreign.names import Rule
from regard.layers.block_weights import BLOCK, BlockFormat, BlockMatrix


@dataclass(frozen=True)
class StoredBlocks:
    """A matrix as its file has it: rows (Dout, bytes of a row)."""

    rows: Tensor
    form: BlockFormat

    @property
    def shape(self) -> torch.Size:
        """(Dout, Din)."""
        return torch.Size((len(self.rows), self.rows.shape[1] // self.form.size * BLOCK))

    def __len__(self) -> int:
        return len(self.rows)


def join_stored(rule: Rule, parts: Sequence[Tensor | StoredBlocks]) -> Tensor | BlockMatrix:
    """One weight of ours: in blocks, where all its parts are in blocks of one format, else in single precision."""
    blocks = [part for part in parts if isinstance(part, StoredBlocks)]
    if len(blocks) == len(parts) and len({part.form for part in blocks}) == 1 and not rule.transposed:
        return BlockMatrix(rule.join(part.rows for part in blocks), blocks[0].form)
    plain = (BlockMatrix(part.rows, part.form).plain() if isinstance(part, StoredBlocks) else part for part in parts)
    return rule.join(part.to(torch.float32) for part in plain)
