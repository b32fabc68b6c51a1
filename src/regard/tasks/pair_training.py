"""Translation as something to train: batches of pairs, their loss, and how well the model translates so far.

padded   (B, S) and (B, T), sentences of like length together
packed   (1, budget) each, sentences end to end: no padding, one static shape; for models that read packed rows
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from regard.attention import Rows
from regard.data import BatchPlan, BpeDropout, Corpus, Pair, Position, pad
from regard.data.batching import Indices
from regard.data.packing import PackedPlan, pack
from regard.decoding import DecodeOptions
from regard.models.protocol import Seq2SeqModel
from regard.tasks.losses import Losses, linear_cross_entropy, symmetric_kl
from regard.tasks.metrics import exact_match
from regard.tasks.pairs import Languages
from regard.tasks.translation import Translator, usual_bleu

Ids = Sequence[int] | npt.NDArray[Any]


@dataclass(frozen=True)
class PairBatch:
    """Ids of a batch as tensors. `longest` is set for a packed one."""

    source: Tensor
    source_lengths: Tensor
    target: Tensor
    target_lengths: Tensor
    labels: Tensor
    n_tokens: int
    longest: int | None = None

    def to(self, device: torch.device) -> PairBatch:
        """The batch on a device; copies run beside the computation where memory is pinned."""
        return self._with(lambda tensor: tensor.to(device, non_blocking=True))

    def pin_memory(self) -> PairBatch:
        """The batch in memory that a GPU can read by itself."""
        return self._with(Tensor.pin_memory)

    def _with(self, change: Callable[[Tensor], Tensor]) -> PairBatch:
        names = ("source", "source_lengths", "target", "target_lengths", "labels")
        return replace(self, **{name: change(getattr(self, name)) for name in names})

    def rows(self) -> tuple[Rows, Rows]:
        """Source and target as models read them."""
        if self.longest is None:
            return Rows(self.source, self.source_lengths), Rows(self.target, self.target_lengths)
        return (
            Rows.packed(self.source, self.source_lengths, longest=self.longest),
            Rows.packed(self.target, self.target_lengths, longest=self.longest),
        )


class PairTraining:
    """What the trainer asks of the task: batches in a fixed order, their loss, and an evaluation."""

    objective = "bleu"

    def __init__(
        self,
        languages: Languages,
        corpus: Corpus,
        valid: Sequence[Pair],
        *,
        budget_tokens: int,
        seed: int,
        packed: bool,
        label_smoothing: float = 0.0,
        r_drop: float = 0.0,
        piece_dropout: float = 0.0,
        decode: DecodeOptions | None = None,
    ) -> None:
        self.languages, self.corpus, self.valid = languages, corpus, list(valid)
        self.label_smoothing, self.r_drop = label_smoothing, r_drop
        self.decode = decode or DecodeOptions(max_ratio=2.0, max_extra=10)
        source_lengths, target_lengths = corpus.source_lengths + 1, corpus.target_lengths + 1
        self.plan: PackedPlan | BatchPlan
        if packed:
            self.plan = PackedPlan(source_lengths, target_lengths, budget_tokens=budget_tokens, seed=seed)
        else:
            self.plan = BatchPlan(source_lengths, target_lengths, budget_tokens=budget_tokens, seed=seed)
        self._cuts = None
        if piece_dropout:
            self._cuts = [
                BpeDropout(side.tokenizer, piece_dropout, seed=seed) for side in (languages.source, languages.target)
            ]

    def batches(self, position: Position, *, rank: int = 0, world: int = 1) -> Iterator[tuple[Position, PairBatch]]:
        """Batches without end from a position on; each of `world` processes gets its share of every batch."""
        before = position
        for after, indices in self.plan.iterate(position):
            yield after, self.batch(indices[rank::world], epoch=before.epoch)
            before = after

    def batch(self, indices: Indices, *, epoch: int) -> PairBatch:
        """The examples of these numbers as one batch; an empty share of a small batch is a batch without tokens."""
        pairs = [self._example(int(i), epoch=epoch) for i in indices]
        sources, targets = [source for source, _ in pairs], [target for _, target in pairs]
        return batch_of(self.languages, sources, targets, plan=self.plan)

    def loss(self, model: Seq2SeqModel, batch: PairBatch) -> Losses:
        """The summed loss of a batch's target tokens, with gradients."""
        if self.r_drop:
            return self._r_drop_loss(model, batch)
        hidden, labels = self._real(model.hidden(*batch.rows()), batch.labels)
        return linear_cross_entropy(
            hidden, model.output_weight, labels, smoothing=self.label_smoothing, ignore_id=self._pad_id
        )

    def evaluate(self, model: Seq2SeqModel) -> dict[str, float]:
        """Loss a token and BLEU on the validation pairs, decoded as they will be in use."""
        hypotheses = [found[0].text for found in self._translator(model)([p.source for p in self.valid], self.decode)]
        references = [pair.target for pair in self.valid]
        nll, n_tokens = self._valid_nll(model)
        return {
            "valid_nll": nll / n_tokens,
            "bleu": usual_bleu(self.languages, hypotheses, references).value,
            "exact": exact_match(hypotheses, references).value,
        }

    def samples(self, model: Seq2SeqModel, n: int) -> list[tuple[str, str, str]]:
        """The first few validation sentences: source, reference, translation."""
        some = self.valid[:n]
        found = self._translator(model)([pair.source for pair in some], self.decode)
        return [(pair.source, pair.target, out[0].text) for pair, out in zip(some, found, strict=True)]

    @property
    def _pad_id(self) -> int:
        return self.languages.target.tokenizer.pad_id

    def _translator(self, model: Seq2SeqModel) -> Translator:
        return Translator([model], self.languages, batch_tokens=16_384)

    def _example(self, index: int, *, epoch: int) -> tuple[Ids, Ids]:
        source, target = self.corpus.source(index), self.corpus.target(index)
        if self._cuts is None:
            return source, target
        return (
            self._cuts[0].recut(source, epoch=epoch, index=index),
            self._cuts[1].recut(target, epoch=epoch, index=index),
        )

    def _real(self, hidden: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Hidden states and labels as rows; where counting costs nothing, without the padding."""
        hidden, labels = hidden.flatten(0, 1), labels.flatten()
        if hidden.device.type == "cpu" and isinstance(self.plan, BatchPlan):
            real = (labels != self._pad_id).nonzero()[:, 0]
            return hidden.index_select(0, real), labels.index_select(0, real)
        return hidden, labels

    def _r_drop_loss(self, model: Seq2SeqModel, batch: PairBatch) -> Losses:
        """Two passes with different dropout, both right, and agreeing with each other."""
        rows = batch.rows()
        (one, labels), (other, _) = (self._real(model.hidden(*rows), batch.labels) for _ in range(2))
        losses = [
            linear_cross_entropy(x, model.output_weight, labels, smoothing=self.label_smoothing, ignore_id=self._pad_id)
            for x in (one, other)
        ]
        apart = symmetric_kl(model.unembed(one), model.unembed(other), labels, ignore_id=self._pad_id)
        total = (losses[0].total + losses[1].total) / 2 + self.r_drop * apart
        return losses[0]._replace(total=total)

    @torch.no_grad()
    def _valid_nll(self, model: Seq2SeqModel) -> tuple[float, int]:
        device, total, count = model.output_weight.device, 0.0, 0
        sources = self.languages.source.encode([pair.source for pair in self.valid])
        targets = self.languages.target.encode([pair.target for pair in self.valid])
        order = np.argsort([len(ids) for ids in targets], kind="stable")
        for chunk in np.array_split(order, max(1, len(order) // 64)):
            batch = batch_of(self.languages, [sources[i] for i in chunk], [targets[i] for i in chunk]).to(device)
            hidden = model.hidden(*batch.rows()).flatten(0, 1)
            losses = linear_cross_entropy(hidden, model.output_weight, batch.labels.flatten(), ignore_id=self._pad_id)
            total, count = total + float(losses.nll), count + batch.n_tokens
        return total, count


def batch_of(
    languages: Languages, sources: Sequence[Ids], targets: Sequence[Ids], *, plan: PackedPlan | BatchPlan | None = None
) -> PairBatch:
    """Ids of sentence pairs as a batch, with the marks around them: packed where the plan packs, padded otherwise."""
    source, target = languages.source.tokenizer, languages.target.tokenizer
    read = [np.append(ids, source.eos_id) for ids in sources]
    fed = [np.insert(ids, 0, target.bos_id) for ids in targets]
    said = [np.append(ids, target.eos_id) for ids in targets]
    if isinstance(plan, PackedPlan):
        room = {"budget_tokens": plan.budget_tokens, "max_documents": plan.max_documents, "longest": plan.longest}
        packed = [pack(side, pad_id, **room) for side, pad_id in ((read, source.pad_id), (fed, target.pad_id))]
        labels = pack(said, target.pad_id, **room)[0]
        return PairBatch(*packed[0], *packed[1], labels, sum(map(len, said)), longest=plan.longest)
    padded = [pad(side, pad_id) for side, pad_id in ((read, source.pad_id), (fed, target.pad_id))]
    return PairBatch(*padded[0], *padded[1], pad(said, target.pad_id)[0], sum(map(len, said)))
