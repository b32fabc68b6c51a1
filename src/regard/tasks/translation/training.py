"""Translation as something to train: batches of pairs, their loss, and how well the model translates so far."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from regard.config.keyed_draws import reading
from regard.data.batching.packing import PackedPlan
from regard.data.batching.plan import BatchPlan, Indices
from regard.data.batching.tensors import rows_of
from regard.data.text.corpus import Corpus
from regard.data.text.pairs import Pair
from regard.decoding import DecodeOptions
from regard.metrics.cross_entropy import Losses, linear_cross_entropy
from regard.metrics.r_drop import symmetric_kl
from regard.metrics.scores import bleu, exact_match
from regard.models.interfaces.text import Seq2SeqModel
from regard.tasks.translation.batches import PairBatch, batch_of
from regard.tasks.translation.bpe_dropout_corpus import Both, BpeDropoutCorpus, fitting
from regard.tasks.translation.data import Languages
from regard.tasks.translation.metrics import usual_cut
from regard.tasks.translation.translator import Translator
from regard.training.batching import BatchPlanMixin


def pair_loss(
    model: Seq2SeqModel,
    source: Tensor,
    source_lengths: Tensor,
    target: Tensor,
    target_lengths: Tensor,
    labels: Tensor,
    longest: int | None,
    smoothing: float,
    r_drop: float,
    pad_id: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """Summed loss, negative log-likelihood and tokens of a batch: tensors in, tensors out, so that it compiles whole.

    With R-Drop two passes with different dropout both have to be right, and to agree with each other.
    """
    rows = rows_of(source, source_lengths, longest), rows_of(target, target_lengths, longest)
    states = []
    for number in range(2 if r_drop else 1):
        with reading(number):
            states.append(model.hidden(*rows).flatten(0, 1))
    labels = labels.flatten()
    losses = [
        linear_cross_entropy(
            x, model.output_weight, labels, smoothing=smoothing, ignore_id=pad_id, bias=model.output_bias
        )
        for x in states
    ]
    total = losses[0].total
    if r_drop:
        apart = symmetric_kl(model.unembed(states[0]), model.unembed(states[1]), labels, ignore_id=pad_id)
        total = (losses[0].total + losses[1].total) / 2 + r_drop * apart
    return total, losses[0].nll, losses[0].n_tokens


class PairTraining(BatchPlanMixin):
    """What the trainer asks of the task: batches in a fixed order, their loss, and an evaluation."""

    objective = "bleu"
    plan: PackedPlan | BatchPlan
    _loss = staticmethod(pair_loss)

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
        self.label_smoothing, self.r_drop, self._pad_id = label_smoothing, r_drop, languages.target.tokenizer.pad_id
        self.decode = decode or DecodeOptions(max_ratio=2.0, max_extra=10)
        source_lengths, target_lengths = corpus.source_lengths + 1, corpus.target_lengths + 1
        self._recuts = BpeDropoutCorpus(languages, corpus, rate=piece_dropout, seed=seed) if piece_dropout else None
        if self._recuts:
            source_lengths, target_lengths = self._recuts.expected(source_lengths, target_lengths, most=budget_tokens)
        kind = PackedPlan if packed else BatchPlan
        self.plan = kind(source_lengths, target_lengths, budget_tokens=budget_tokens, seed=seed)

    def share(self, examples: Indices, *, epoch: int, rank: int, world: int) -> PairBatch:
        """One process's share of a batch; an empty one is a batch without tokens."""
        return self.batch(examples, epoch=epoch, share=slice(rank, None, world))

    def batch(self, indices: Indices, *, epoch: int, share: slice = slice(None)) -> PairBatch:
        """A share of the examples of these numbers as one batch; an empty share is a batch without tokens."""
        sources, targets = self._examples(indices, epoch=epoch, share=share)
        return batch_of(self.languages, sources, targets, plan=self.plan)

    def loss(self, model: Seq2SeqModel, batch: PairBatch) -> Losses:
        """The summed loss of a batch's target tokens, with gradients."""
        tensors = (batch.source, batch.source_lengths, batch.target, batch.target_lengths, batch.labels)
        return Losses(*self._loss(model, *tensors, batch.longest, self.label_smoothing, self.r_drop, self._pad_id))

    def evaluate(self, model: Seq2SeqModel) -> dict[str, float]:
        """Loss a token and BLEU on the validation pairs, decoded as they will be in use."""
        translations = self._translator(model)([pair.source for pair in self.valid], self.decode)
        hypotheses = [several[0].text for several in translations]
        references = [pair.target for pair in self.valid]
        nll, n_tokens = self._valid_nll(model)
        return {
            "valid_nll": nll / n_tokens,
            "bleu": bleu(hypotheses, references, **usual_cut(self.languages)).value,
            "exact": exact_match(hypotheses, references).value,
        }

    def samples(self, model: Seq2SeqModel, n: int) -> list[tuple[str, str, str]]:
        """The first few validation sentences: source, reference, translation."""
        shown = self.valid[:n]
        translations = self._translator(model)([pair.source for pair in shown], self.decode)
        return [(pair.source, pair.target, out[0].text) for pair, out in zip(shown, translations, strict=True)]

    def _translator(self, model: Seq2SeqModel) -> Translator:
        return Translator([model], self.languages, batch_tokens=16_384)

    def _examples(self, indices: Indices, *, epoch: int, share: slice) -> Both:
        if self._recuts is None:
            return self._stored(indices[share])
        if not isinstance(self.plan, PackedPlan):
            return self._recuts.pairs(indices[share], epoch=epoch)
        # What fits is decided for the whole batch, so that the shares of several processes make up one process's.
        room = {"budget": self.plan.budget_tokens, "longest": self.plan.longest}
        sources, targets = fitting(self._recuts.pairs(indices, epoch=epoch), self._stored(indices), **room)
        return sources.take(share), targets.take(share)

    def _stored(self, indices: Indices) -> Both:
        return self.corpus.sources(indices), self.corpus.targets(indices)

    @torch.no_grad()
    def _valid_nll(self, model: Seq2SeqModel) -> tuple[float, int]:
        device, total, count = model.output_weight.device, 0.0, 0
        sources = self.languages.source.encode([pair.source for pair in self.valid])
        targets = self.languages.target.encode([pair.target for pair in self.valid])
        order = np.argsort([len(ids) for ids in targets], kind="stable")
        for chunk in np.array_split(order, max(1, len(order) // 64)):
            batch = batch_of(self.languages, [sources[i] for i in chunk], [targets[i] for i in chunk]).to(device)
            hidden = model.hidden(*batch.rows()).flatten(0, 1)
            losses = linear_cross_entropy(
                hidden, model.output_weight, batch.labels.flatten(), ignore_id=self._pad_id, bias=model.output_bias
            )
            total, count = total + float(losses.nll), count + batch.n_tokens
        return total, count
