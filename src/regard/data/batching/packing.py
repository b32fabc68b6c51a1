"""Batches without padding: examples end to end until a budget of tokens is full, for models that read packed rows.

Every batch fills at most `budget_tokens` on either side and holds at most `max_documents` examples, so that all batches
have one static shape: (budget,) ids and (max_documents,) lengths. Examples come in random order, not by length: what
goes together is as random as it can be. Everything follows from (seed, epoch).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from regard.data.batching.plan import EpochPlan, Indices, check_lengths
from regard.data.batching.ragged import Ragged
from regard.errors import UsageError

if TYPE_CHECKING:
    from torch import Tensor


class PackedPlan(EpochPlan):
    """Which examples share a packed batch, epoch by epoch."""

    def __init__(
        self, source_lengths: npt.ArrayLike, target_lengths: npt.ArrayLike, *, budget_tokens: int, seed: int
    ) -> None:
        self.source_lengths, self.target_lengths = np.asarray(source_lengths), np.asarray(target_lengths)
        self.budget_tokens, self.seed = budget_tokens, seed
        longer = np.maximum(self.source_lengths, self.target_lengths)
        check_lengths(longer, budget_tokens)
        self.longest = int(longer.max())
        # A quarter more than the average batch holds; the filler takes up to one document for each `longest` tokens.
        usual = 1.25 * budget_tokens / float(longer.mean())
        self.max_documents = max(1, int(usual)) + -(-budget_tokens // self.longest)

    def epoch(self, number: int) -> list[Indices]:
        """The batches of an epoch: index arrays that together hold every example once."""
        order = np.random.default_rng([self.seed, number]).permutation(len(self.source_lengths))
        source, target = np.cumsum(self.source_lengths[order]), np.cumsum(self.target_lengths[order])
        most = self.max_documents - -(-self.budget_tokens // self.longest)
        batches, start, base = [], 0, (0, 0)
        while start < len(order):
            end = min(
                int(np.searchsorted(source, base[0] + self.budget_tokens, side="right")),
                int(np.searchsorted(target, base[1] + self.budget_tokens, side="right")),
                start + max(1, most),
            )
            batches.append(order[start:end])
            start, base = end, (int(source[end - 1]), int(target[end - 1]))
        return batches

    def padding(self, epoch: int = 0) -> float:
        """The share of filler in the tokens of an epoch, both sides together."""
        room = 2 * self.budget_tokens * len(self.epoch(epoch))
        return 1.0 - int(self.source_lengths.sum() + self.target_lengths.sum()) / room


def pack(
    sequences: Ragged | Sequence[npt.NDArray[Any]], pad_id: int, *, budget_tokens: int, max_documents: int, longest: int
) -> tuple[Tensor, Tensor]:
    """Sequences end to end in (budget,) ids, and their lengths (max_documents,), zeros behind the last.

    What is left of the budget is filled with documents of padding, so that every position belongs to one.
    """
    import torch

    rows = Ragged.of(sequences)
    used = len(rows.ids)
    if used > budget_tokens:
        raise UsageError(f"{used} tokens do not fit a budget of {budget_tokens}")
    ids = np.full(budget_tokens, pad_id, np.int64)
    ids[:used] = rows.ids
    lengths = np.zeros(max_documents, np.int64)
    lengths[: len(rows)] = rows.lengths
    whole, rest = divmod(budget_tokens - used, longest)
    filler = [longest] * whole + ([rest] if rest else [])
    lengths[len(rows) : len(rows) + len(filler)] = filler
    return torch.from_numpy(ids), torch.from_numpy(lengths)
