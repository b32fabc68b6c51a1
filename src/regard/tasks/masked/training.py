"""Masked language modelling with next-sentence prediction as something to train (Devlin et al., 2018).

The loss is a sum, which the trainer divides by the number of guessed pieces of all batches of a step:

    Σ mlm + w · Σ nsp        w = mean number of guessed pieces an example has

The mean is taken once, over the first examples of the training documents, and stays. So the mean loss of a pair is
added to the mean loss of a guessed piece, but for how far the examples of one step are from the average; and as w is a
constant, batches that are accumulated, shared or packed add up to exactly one big batch.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data.batching.tensors import rows_of
from regard.data.text.tokenizers import Tokenizer
from regard.errors import ConfigError
from regard.metrics.cross_entropy import Losses, linear_cross_entropy
from regard.models.bert import Bert
from regard.tasks.masked.batches import MaskedBatch
from regard.tasks.masked.config import MaskedData
from regard.tasks.masked.masking import UNUSED
from regard.tasks.masked.metrics import HiddenPieces, guess_figures, guess_table
from regard.tasks.masked.sentence_pairs import Examples, Ints
from regard.tasks.masked.sentences import SentenceCorpus
from regard.training.batching import BatchPlanMixin


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
    nsp_loss = F.cross_entropy(logits, nexts, ignore_index=UNUSED, reduction="sum")
    return losses.total + nsp_weight * nsp_loss, losses.nll, losses.n_tokens


class MaskedTraining(BatchPlanMixin):
    """What the trainer asks of the task: batches in a fixed order, their loss, and an evaluation."""

    objective = "mlm_accuracy"
    fixed_shape = True
    _loss = staticmethod(masked_loss)

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
        hidden, self.valid = HiddenPieces(train, tokenizer, data, seed=seed), HiddenPieces(valid, tokenizer, data)
        self._train, most = hidden.assembler, budget_tokens // data.length
        first = next(hidden.plan.blocks(0))
        if packed:  # a third more than an average batch holds
            most = max(most, int(budget_tokens / float(first.lengths.mean() + self._train.marks) * 4 / 3))
        self.plan = hidden.planned(most, budget=budget_tokens if packed else None)
        self.nsp_weight = float(self._train.masking.counts(first.lengths).mean()) if data.next_sentence else 0.0

    def share(self, examples: Examples, *, epoch: int, rank: int, world: int) -> MaskedBatch:
        """One process's share of a batch; an empty one is a batch without tokens."""
        return self.batch(examples[rank::world], epoch=epoch, world=world)

    def numbers(self, examples: Examples) -> Ints:
        """The numbers of examples in their epoch."""
        return examples.numbers

    def batch(self, examples: Examples, *, epoch: int, world: int = 1) -> MaskedBatch:
        """A share of at most one in `world` of a batch's examples; an empty share is a batch without tokens."""
        if self.is_packed:
            return self._train.packed(examples, epoch=epoch, budget=self.budget, most=self.plan.max_examples)
        return self._train.padded(examples, epoch=epoch, n_rows=-(-self.plan.max_examples // world))

    def loss(self, model: Bert, batch: MaskedBatch) -> Losses:
        """The summed loss of a batch's guesses and judgements, with gradients; `nll` is that of the guesses alone."""
        tensors = (batch.ids, batch.lengths, batch.segments, batch.places, batch.labels, batch.nexts)
        return Losses(*self._loss(model, *tensors, batch.longest, self.nsp_weight))

    def evaluate(self, model: Bert) -> dict[str, float]:
        """Loss and accuracy of guesses and judgements on the validation documents, always the same ones."""
        return guess_figures(guess_table(model, self.valid.batches(), judges=bool(self.nsp_weight)))

    @torch.no_grad()
    def samples(self, model: Bert, n: int) -> list[tuple[str, str, str]]:
        """A few validation examples: with pieces hidden, as they were, and with the model's guesses."""
        assembler = self.valid.assembler
        examples = next(self.valid.plan.epoch(0))[:n]
        rows = assembler.hidden(examples, epoch=0)
        batch = assembler.padded(examples, epoch=0, n_rows=len(examples)).to(model.output_weight.device)
        chosen = batch.encoded(model).flatten(0, 1).index_select(0, batch.places)
        guesses = model.unembed(model.mlm_hidden(chosen)).argmax(-1).cpu().numpy().reshape(rows.masked.places.shape)
        texts, decode = [], self.tokenizer.decode
        for row, places, labels, guess in zip(rows.whole, rows.masked.places, rows.masked.labels, guesses, strict=True):
            asked = places[labels != UNUSED]
            filled = row.copy()
            filled[asked] = guess[labels != UNUSED]
            first, *others = np.split(row, asked)
            hidden = " <mask> ".join([decode(first), *(decode(part[1:]) for part in others)])
            texts.append((hidden, decode(row), decode(filled)))
        return texts
