"""Sentence pairs as batches.

padded   (B, S) and (B, T), sentences of like length together
packed   (1, budget) each, sentences end to end: no padding, one static shape; for models that read packed rows
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from regard.attention import Rows
from regard.data.batching.packing import PackedPlan, pack
from regard.data.batching.plan import BatchPlan, pad
from regard.data.batching.ragged import Ids, Ragged
from regard.data.batching.tensors import TensorBatch, rows_of
from regard.tasks.translation.data import Languages


@dataclass(frozen=True)
class PairBatch(TensorBatch):
    """Ids of a batch as tensors. `longest` is set for a packed one."""

    source: Tensor
    source_lengths: Tensor
    target: Tensor
    target_lengths: Tensor
    labels: Tensor
    n_tokens: int
    longest: int | None = None

    @property
    def n_rows(self) -> int:
        """How many rows or documents there are, filling included."""
        return len(self.source_lengths)

    def rows(self) -> tuple[Rows, Rows]:
        """Source and target as models read them."""
        return (
            rows_of(self.source, self.source_lengths, self.longest),
            rows_of(self.target, self.target_lengths, self.longest),
        )


def batch_of(
    languages: Languages,
    sources: Ragged | Sequence[Ids],
    targets: Ragged | Sequence[Ids],
    *,
    plan: PackedPlan | BatchPlan | None = None,
) -> PairBatch:
    """Ids of sentence pairs as a batch, with the marks around them: packed where the plan packs, padded otherwise."""
    source, target = languages.source.tokenizer, languages.target.tokenizer
    read, targets = Ragged.of(sources).marked(last=source.eos_id), Ragged.of(targets)
    fed, labels = targets.marked(first=target.bos_id), targets.marked(last=target.eos_id)
    sides = (read, source.pad_id), (fed, target.pad_id), (labels, target.pad_id)
    if isinstance(plan, PackedPlan):
        room = {"budget_tokens": plan.budget_tokens, "max_documents": plan.max_documents, "longest": plan.longest}
        packed = [pack(side, pad_id, **room) for side, pad_id in sides]
        return PairBatch(*packed[0], *packed[1], packed[2][0], len(labels.ids), longest=plan.longest)
    padded = [pad(side, pad_id) for side, pad_id in sides]
    return PairBatch(*padded[0], *padded[1], padded[2][0], len(labels.ids))
