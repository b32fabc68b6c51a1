"""Many sequences in one tensor: padded rows, or one packed row.

    Rows(ids, lengths)                          (B, T), row b real up to lengths[b]; without lengths all of it
    Rows.packed(ids, lengths, longest=32)       (1, T), documents of the given lengths end to end, no padding

A model that takes `Rows` works on either: the rows know their mask and their positions. `longest` is a plain number,
so that nothing has to ask the device how long the longest document is.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.attention.masks import Causal, Documents, Mask, Padding
from regard.config.keyed_draws import keyed
from regard.errors import ShapeError


@dataclass(frozen=True)
class Rows:
    """Token ids and where they end. `documents` is set for a packed row."""

    ids: Tensor
    lengths: Tensor | None = None
    documents: Documents | None = None
    document_positions: Tensor | None = None

    @classmethod
    def of(cls, ids: Tensor | Rows) -> Rows:
        """Accept a plain tensor (B, T) of full rows."""
        if isinstance(ids, Rows):
            return ids
        if ids.ndim != 2 or ids.is_floating_point():
            raise ShapeError(f"token ids are whole numbers (batch, positions), got {ids.dtype} {tuple(ids.shape)}")
        return cls(ids)

    @classmethod
    def packed(cls, ids: Tensor, lengths: Tensor, *, longest: int) -> Rows:
        """One row of documents (T,) or (1, T), each at most `longest` long."""
        ids = ids.reshape(1, -1)
        ends = lengths.cumsum(0)
        places = torch.arange(ids.shape[1], device=ids.device)
        owners = torch.searchsorted(ends, places, right=True).clamp(max=len(lengths) - 1)
        positions = (places - (ends - lengths)[owners]).clamp(0, longest - 1)
        return cls(ids, lengths, Documents(lengths, longest=longest), positions[None])

    @classmethod
    def end_to_end(cls, sentences: Sequence[Tensor]) -> Rows:
        """One row of whole sentences (T,) that lie on a processor: `packed`, made of plain numbers."""
        lengths = [len(ids) for ids in sentences]
        places = torch.tensor([place for n in lengths for place in range(n)])
        documents = Documents(torch.tensor(lengths), longest=max(lengths))
        return cls(torch.cat(list(sentences))[None], documents.lengths, documents, places[None])

    @property
    def longest(self) -> int:
        """An upper bound of the positions in one sequence."""
        return self.ids.shape[1] if self.documents is None else self.documents.longest

    @property
    def positions(self) -> Tensor | None:
        """Where each token stands in its document, (1, T); None where that is simply 0, 1, 2, …"""
        return self.document_positions

    def drawing(self) -> AbstractContextManager[None]:
        """Where a model's layers draw for these rows: in a packed one, by key, each document its own."""
        draws = keyed()
        if draws is None or self.documents is None:
            return nullcontext()
        return draws.documents(self.documents.lengths, self.ids.shape[1])

    def mask(self) -> Mask | None:
        """Which keys are real to a query of the same rows."""
        if self.documents is not None:
            return self.documents
        return None if self.lengths is None else Padding(self.lengths)

    def causal_mask(self) -> Mask:
        """The same for queries that look back only."""
        own = self.mask()
        return Causal() if own is None else own & Causal()

    def mask_for(self, queries: Rows) -> Mask | None:
        """Which of these rows' keys are real to queries of other rows: cross-attention."""
        if self.documents is None:
            return self.mask()
        if queries.documents is None:
            raise ShapeError("a packed source needs a packed target: both are packed or both are padded")
        longest = max(self.documents.longest, queries.documents.longest)
        return Documents(queries.documents.lengths, self.documents.lengths, longest=longest)
