"""Language modelling as something to train: rows of a stream, the loss of each next token, and how well it reads.

    ids (B, T)      T tokens from anywhere in the text, without padding; documents follow one another
    labels (B, T)   the same, one token later

The validation text is read whole, in windows of T that do not overlap; see `perplexity` for finer measures.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard.data.batching.plan import Indices
from regard.data.batching.rows import RowOrder, RowPlan
from regard.data.batching.tensors import TensorBatch
from regard.data.text.markers import Markers
from regard.data.text.streams import TokenStream
from regard.data.text.tokenizers import Tokenizer
from regard.decoding import DecodeOptions
from regard.metrics.cross_entropy import Losses, linear_cross_entropy
from regard.models.interfaces.text import LanguageModel
from regard.tasks.language.detokenizer import text_after
from regard.tasks.language.metrics import UNCOUNTED, measure_ids
from regard.tasks.language.writer import Writer, WritingModel
from regard.training.batching import BatchPlanMixin


@dataclass(frozen=True)
class TextBatch(TensorBatch):
    """Ids (B, T) and what comes after each (B, T)."""

    ids: Tensor
    labels: Tensor

    @property
    def n_tokens(self) -> int:
        """How many predictions the loss sums over: all."""
        return self.labels.numel()


def language_loss(model: LanguageModel, ids: Tensor, labels: Tensor, smoothing: float) -> tuple[Tensor, Tensor, Tensor]:
    """Summed loss, negative log-likelihood and tokens: tensors in, tensors out, so that it compiles whole."""
    losses = linear_cross_entropy(
        model.hidden(ids).flatten(0, 1),
        model.output_weight,
        labels.flatten(),
        smoothing=smoothing,
        ignore_id=UNCOUNTED,
        bias=model.output_bias,
    )
    return losses.total, losses.nll, losses.n_tokens


class LanguageTraining(BatchPlanMixin):
    """What the trainer asks of the task: batches in a fixed order, their loss, and an evaluation."""

    objective = "valid_log_likelihood"
    fixed_shape = True
    plan: RowPlan
    _loss = staticmethod(language_loss)

    def __init__(
        self,
        tokenizer: Tokenizer,
        train: TokenStream,
        valid: TokenStream,
        *,
        context: int,
        budget_tokens: int,
        seed: int,
        order: RowOrder = "rows",
        separated: bool = True,
        label_smoothing: float = 0.0,
        decode: DecodeOptions | None = None,
    ) -> None:
        self.tokenizer, self.train, self.valid = tokenizer, train, valid
        self.context, self.separated, self.label_smoothing = context, separated, label_smoothing
        rows = max(1, budget_tokens // context)
        self.plan = RowPlan(len(train), context, rows_per_batch=rows, seed=seed, order=order)
        self.decode = decode or DecodeOptions(strategy="sample", temperature=0.8, max_length=min(64, context))

    def batch(self, starts: Indices) -> TextBatch:
        """The rows that begin there as one batch."""
        rows = torch.from_numpy(self.train.rows(starts, self.context + 1))
        return TextBatch(rows[:, :-1].contiguous(), rows[:, 1:].contiguous())

    @property
    def batches_an_epoch(self) -> int:
        """How many batches the first pass over the data takes."""
        return max(1, self.plan.rows_per_epoch // self.plan.rows_per_batch)

    def loss(self, model: LanguageModel, batch: TextBatch) -> Losses:
        """The summed loss of a batch, with gradients."""
        return Losses(*self._loss(model, batch.ids, batch.labels, self.label_smoothing))

    def evaluate(self, model: LanguageModel) -> dict[str, float]:
        """Loss a token, perplexity and bits a character on the validation text."""
        measure = measure_ids(
            model,
            self.tokenizer,
            self.valid.ids,
            extent=self.valid.extent,
            marks=Markers.of(self.tokenizer, separated=self.separated),
            context=self.context,
            stride=self.context,
        )
        return {
            "valid_nll": measure.loss,
            "valid_log_likelihood": -measure.loss,
            "perplexity": measure.perplexity,
            "bits_per_character": measure.bits_per_character,
        }

    def samples(self, model: WritingModel, n: int) -> list[tuple[str, str, str]]:
        """A few places of the validation text: what stands there, how it goes on, and how the model goes on."""
        room = max(1, min(32, self.context // 2, len(self.valid) - 1))
        starts = np.linspace(0, max(0, len(self.valid) - room - self.decode.max_length), n, dtype=np.int64)
        prompts = [self.valid.ids[start : start + room].tolist() for start in starts]
        after = [self.valid.ids[start + room :][: self.decode.max_length].tolist() for start in starts]
        writer = Writer([model], self.tokenizer, context=self.context, separated=self.separated)
        continuations = writer.continue_ids(prompts, self.decode)
        return [
            (self.tokenizer.decode(prompt), text_after(self.tokenizer, prompt, real), several[0].text)
            for prompt, real, several in zip(prompts, after, continuations, strict=True)
        ]
