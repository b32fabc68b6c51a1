"""Masked language modelling with next-sentence prediction as something to train (Devlin et al., 2018).

The loss is a sum, which the trainer divides by the number of guessed pieces of all batches of a step:

    Σ mlm + w · Σ nsp        w = mean number of guessed pieces an example has

The mean is taken once, over the first examples of the training documents, and stays. So the mean loss of a pair is
added to the mean loss of a guessed piece, but for how far the examples of one step are from the average; and as w is a
constant, batches that are accumulated, shared or packed add up to exactly one big batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data.batching.plan import Position
from regard.data.text.tokenizers import Tokenizer
from regard.errors import ConfigError
from regard.metrics.cross_entropy import Losses, linear_cross_entropy
from regard.models.bert import Bert
from regard.tasks.masked.batches import Assembler, MaskedBatch
from regard.tasks.masked.config import MaskedData
from regard.tasks.masked.data import masking_of
from regard.tasks.masked.masking import UNUSED
from regard.tasks.masked.sentence_pairs import Examples, PairPlan
from regard.tasks.masked.sentences import SentenceCorpus
from regard.tasks.translation.training import rows_of
from regard.training.batching import BatchPlanMixin
from regard.training.compiling import compiled

_VALID_EXAMPLES = 64  # a batch
_AT_ONCE = 1024  # pieces whose scores exist together while evaluating


class MaskedTraining(BatchPlanMixin):
    """What the trainer asks of the task: batches in a fixed order, their loss, and an evaluation."""

    objective = "mlm_accuracy"

    def __init__(
        self,
        tokenizer: Tokenizer,
        train: SentenceCorpus,
        valid: SentenceCorpus,
        *,
        data: MaskedData,
        budget_tokens: int,
        seed: int,
        packed: bool = False,
    ) -> None:
        if budget_tokens < data.length:
            raise ConfigError(
                f"a batch has {budget_tokens} tokens, one example {data.length}",
                hint="raise train.batch_tokens, or lower data.length",
            )
        self.tokenizer, self.data, self.budget, self.is_packed = tokenizer, data, budget_tokens, packed
        shape: Any = {"length": data.length, "pairs": data.next_sentence}
        self._train = Assembler(train, tokenizer, masking_of(tokenizer, data, seed=seed), **shape)
        self._valid = Assembler(valid, tokenizer, masking_of(tokenizer, data, seed=0), **shape)
        self.valid_plan = self._plan(valid, most=_VALID_EXAMPLES, seed=0)
        most = budget_tokens // data.length
        first = next(self._plan(train, most=most, seed=seed).blocks(0))
        if packed:  # a third more than an average batch holds
            most = max(most, int(budget_tokens / float(first.lengths.mean() + self._train.marks) * 4 / 3))
        self.plan = self._plan(train, most=most, seed=seed, budget=budget_tokens if packed else None)
        self.nsp_weight = float(self._train.masking.counts(first.lengths).mean()) if data.next_sentence else 0.0
        self._loss: Callable[..., tuple[Tensor, Tensor, Tensor]] = masked_loss

    def batches(self, position: Position, *, rank: int = 0, world: int = 1) -> Iterator[tuple[Position, MaskedBatch]]:
        """Batches without end from a position on; each of `world` processes gets its share of every batch."""
        before = position
        for after, examples in self.plan.iterate(position):
            yield after, self.batch(examples[rank::world], epoch=before.epoch, world=world)
            before = after

    def batch(self, examples: Examples, *, epoch: int, world: int = 1) -> MaskedBatch:
        """A share of at most one in `world` of a batch's examples; an empty share is a batch without tokens."""
        if self.is_packed:
            return self._train.packed(examples, epoch=epoch, budget=self.budget, most=self.plan.max_examples)
        return self._train.padded(examples, epoch=epoch, n_rows=-(-self.plan.max_examples // world))

    @property
    def static_shapes(self) -> bool:
        """Whether all batches have one shape: they do."""
        return True

    def record(self) -> bool:
        """The device's work can be recorded."""
        return True

    def compile(self) -> None:
        """Let the compiler fuse what the loss computes."""
        self._loss = compiled(masked_loss)

    def loss(self, model: Bert, batch: MaskedBatch) -> Losses:
        """The summed loss of a batch's guesses and judgements, with gradients; `nll` is that of the guesses alone."""
        tensors = (batch.ids, batch.lengths, batch.segments, batch.places, batch.labels, batch.nexts)
        return Losses(*self._loss(model, *tensors, batch.longest, self.nsp_weight))

    @torch.no_grad()
    def evaluate(self, model: Bert) -> dict[str, float]:
        """Loss and accuracy of guesses and judgements on the validation documents, always the same ones."""
        sums = np.zeros(6)
        for batch in self.valid_batches():
            there = batch.to(model.output_weight.device)
            encoded = _encode(model, there)
            sums[:3] += _guessed(model, encoded, there)
            if self.nsp_weight:
                sums[3:] += _judged(model.next_sentence(encoded), there.nexts)
        figures = {"mlm_loss": sums[0] / sums[2], "mlm_accuracy": sums[1] / sums[2]}
        if self.nsp_weight:
            figures |= {"nsp_loss": sums[3] / sums[5], "nsp_accuracy": sums[4] / sums[5]}
        return {name: float(value) for name, value in figures.items()}

    def valid_batches(self) -> Iterator[MaskedBatch]:
        """The validation examples, padded, with pieces hidden that are always the same."""
        for examples in self.valid_plan.epoch(0):
            yield self._valid.padded(examples, epoch=0, n_rows=len(examples))

    @torch.no_grad()
    def samples(self, model: Bert, n: int) -> list[tuple[str, str, str]]:
        """A few validation examples: with pieces hidden, as they were, and with the model's guesses."""
        examples = next(self.valid_plan.epoch(0))[:n]
        found = self._valid.hidden(examples, epoch=0)
        batch = self._valid.padded(examples, epoch=0, n_rows=len(examples)).to(model.output_weight.device)
        chosen = _encode(model, batch).flatten(0, 1).index_select(0, batch.places)
        guesses = model.unembed(model.mlm_hidden(chosen)).argmax(-1).cpu().numpy().reshape(found.masked.places.shape)
        texts, decode = [], self.tokenizer.decode
        for row, places, labels, guess in zip(
            found.whole, found.masked.places, found.masked.labels, guesses, strict=True
        ):
            asked = places[labels != UNUSED]
            filled = row.copy()
            filled[asked] = guess[labels != UNUSED]
            first, *others = np.split(row, asked)
            hidden = " <mask> ".join([decode(first), *(decode(part[1:]) for part in others)])
            texts.append((hidden, decode(row), decode(filled)))
        return texts

    def _plan(self, corpus: SentenceCorpus, *, most: int, seed: int, budget: int | None = None) -> PairPlan:
        marks, data = self._train.marks, self.data
        return PairPlan(
            corpus,
            room=data.length - marks,
            max_examples=most,
            seed=seed,
            budget=budget,
            marks=marks,
            next_sentence=data.next_sentence,
            short=data.short_sequences,
        )


def masked_loss(
    model: Bert,
    ids: Tensor,
    lengths: Tensor,
    segments: Tensor,
    places: Tensor,
    labels: Tensor,
    nexts: Tensor,
    longest: int | None,
    nsp_weight: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Summed loss, negative log-likelihood and number of the guesses: tensors in, tensors out, so that it compiles."""
    rows = rows_of(ids, lengths, longest)
    encoded = model.encode(rows, segments=segments if model.config.n_segments else None)
    chosen = encoded.flatten(0, 1).index_select(0, places)  # (N, D)
    losses = linear_cross_entropy(
        model.mlm_hidden(chosen), model.output_weight, labels, ignore_id=UNUSED, bias=model.output_bias
    )
    if not nsp_weight:
        return losses.total, losses.nll, losses.n_tokens
    logits = model.next_sentence(encoded, rows)
    judged = F.cross_entropy(logits, nexts, ignore_index=UNUSED, reduction="sum")
    return losses.total + nsp_weight * judged, losses.nll, losses.n_tokens


def _encode(model: Bert, batch: MaskedBatch) -> Tensor:
    return model.encode(batch.rows(), segments=batch.segments if model.config.n_segments else None)


def _guessed(model: Bert, encoded: Tensor, batch: MaskedBatch) -> list[float]:
    """Summed loss, right ones and number of the guesses of a batch."""
    used = batch.labels != UNUSED
    states, labels = encoded.flatten(0, 1)[batch.places[used]], batch.labels[used]
    sums = [0.0, 0.0, float(len(labels))]
    for some, right in zip(states.split(_AT_ONCE), labels.split(_AT_ONCE), strict=True):
        logits = model.unembed(model.mlm_hidden(some))
        sums[0] += float(F.cross_entropy(logits.float(), right, reduction="sum"))
        sums[1] += float((logits.argmax(-1) == right).sum())
    return sums


def _judged(logits: Tensor, nexts: Tensor) -> list[float]:
    """Summed loss, right ones and number of the judgements of a batch."""
    loss = F.cross_entropy(logits.float(), nexts, ignore_index=UNUSED, reduction="sum")
    return [float(loss), float((logits.argmax(-1) == nexts).sum()), float((nexts != UNUSED).sum())]
