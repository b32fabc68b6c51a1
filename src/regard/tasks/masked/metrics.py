"""How well a BERT guesses hidden pieces, and judges which sentences follow one another.

    mlm_loss · mlm_accuracy      nats a hidden piece, and the share of them that it guesses
    nsp_loss · nsp_accuracy      the same of pairs of sentences, where the model judges them

Which pieces are hidden is always the same, so that figures of models with one tokenizer can be compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from regard.data.text.tokenizers import Tokenizer
from regard.metrics.bootstrap import Drawn
from regard.metrics.scores import Metric
from regard.models.bert import Bert
from regard.tasks.masked.batches import Assembler, MaskedBatch
from regard.tasks.masked.config import MaskedData
from regard.tasks.masked.data import masking_of
from regard.tasks.masked.masking import UNUSED
from regard.tasks.masked.sentence_pairs import PairPlan
from regard.tasks.masked.sentences import SentenceCorpus
from regard.tasks.measuring import Scores

_EXAMPLES = 64  # a batch
_AT_ONCE = 1024  # pieces whose scores exist together
Table = NDArray[np.float64]  # (examples, 6): loss, right ones and number of the guesses, then of the judgements


class HiddenPieces:
    """The documents of a corpus as examples with pieces hidden; of a seed, always the same ones."""

    def __init__(self, corpus: SentenceCorpus, tokenizer: Tokenizer, data: MaskedData, *, seed: int = 0) -> None:
        masking = masking_of(tokenizer, data, seed=seed)
        self.data, self.seed = data, seed
        self.assembler = Assembler(corpus, tokenizer, masking, length=data.length, pairs=data.next_sentence)
        self.plan = self.planned(_EXAMPLES)

    def planned(self, most: int, *, budget: int | None = None) -> PairPlan:
        """Batches of at most so many examples and, where that is given, so many pieces with their marks."""
        marks, data = self.assembler.marks, self.data
        return PairPlan(
            self.assembler.corpus,
            room=data.length - marks,
            max_examples=most,
            seed=self.seed,
            budget=budget,
            marks=marks,
            next_sentence=data.next_sentence,
            short=data.short_sequences,
        )

    def batches(self) -> Iterator[MaskedBatch]:
        """The examples, padded."""
        for examples in self.plan.epoch(0):
            yield self.assembler.padded(examples, epoch=0, n_rows=len(examples))


def score_documents(model: Bert, corpus: SentenceCorpus, tokenizer: Tokenizer, data: MaskedData) -> Scores:
    """What a model makes of the documents of a corpus."""
    table = guess_table(model, HiddenPieces(corpus, tokenizer, data).batches(), judges=data.next_sentence)
    how = f"{data.mask_share:.0%} masked, always the same, in examples of up to {data.length} tokens"

    def metrics() -> dict[str, Metric]:
        figures = guess_figures(table)
        return {key: Metric(key.replace("_", " "), value, how, digits=4) for key, value in figures.items()}

    return Scores(corpus.header.documents, "documents", metrics, _compared_by(table))


def score_batches(model: Bert, batches: Iterable[MaskedBatch]) -> Scores:
    """The guesses of the same examples that another model is asked."""
    table = guess_table(model, batches, judges=False)
    return Scores(len(table), "examples", dict, _compared_by(table))


@torch.inference_mode()
def guess_table(model: Bert, batches: Iterable[MaskedBatch], *, judges: bool) -> Table:
    """What is counted of every example."""
    parts = []
    for batch in batches:
        there = batch.to(model.output_weight.device)
        encoded = there.encoded(model)  # (B, T, D)
        sums = _guessed(model, encoded, there)
        if judges:
            sums[:, 3:] = _judged(model.next_sentence(encoded), there.nexts)
        parts.append(sums.cpu().numpy())
    return np.concatenate(parts)


def guess_figures(table: Table) -> dict[str, float]:
    """Loss and accuracy of guesses and, where there are any, of judgements."""
    sums = table.sum(0)
    figures = {"mlm_loss": sums[0] / sums[2], "mlm_accuracy": sums[1] / sums[2]}
    if sums[5]:
        figures |= {"nsp_loss": sums[3] / sums[5], "nsp_accuracy": sums[4] / sums[5]}
    return {name: float(value) for name, value in figures.items()}


def _compared_by(table: Table) -> Any:
    def figures(drawn: Drawn) -> dict[str, float]:
        loss, right, n = table[drawn, :3].sum(0)
        return {"mlm loss": float(loss / n), "mlm accuracy": float(right / n)}

    return figures


def _guessed(model: Bert, encoded: Tensor, batch: MaskedBatch) -> Tensor:
    """Loss, right ones and number of the guesses of each example, and nothing yet of judgements: (B, 6)."""
    used = batch.labels != UNUSED
    places, labels = batch.places[used], batch.labels[used]
    sums = torch.zeros(len(encoded), 6, dtype=torch.float64, device=encoded.device)
    for some_places, some_labels in zip(places.split(_AT_ONCE), labels.split(_AT_ONCE), strict=True):
        logits = model.unembed(model.mlm_hidden(encoded.flatten(0, 1)[some_places])).float()
        losses = F.cross_entropy(logits, some_labels, reduction="none")
        right = logits.argmax(-1) == some_labels
        each = torch.stack((losses, right.float(), torch.ones_like(losses)), 1).double()
        sums[:, :3].index_add_(0, some_places // encoded.shape[1], each)
    return sums


def _judged(logits: Tensor, nexts: Tensor) -> Tensor:
    """Loss, right ones and number of the judgements of each example: (B, 3)."""
    losses = F.cross_entropy(logits.float(), nexts, ignore_index=UNUSED, reduction="none")
    return torch.stack((losses, (logits.argmax(-1) == nexts).float(), (nexts != UNUSED).float()), 1).double()
