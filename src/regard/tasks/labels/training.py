"""Labelling as something to train: batches of framed texts, their loss, and how good the labels are so far.

A loss is summed over examples, and `n_tokens` counts examples: the trainer divides by it. `label_loss` says what it is
made of; the T̄ of its language model's part is the mean number of predicted tokens a *training* example has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data.batching.packing import PackedPlan, pack
from regard.data.batching.plan import EpochPlan, Indices, example_plan, pad
from regard.data.batching.tensors import TensorBatch
from regard.data.text.label_space import LabelSpace
from regard.data.text.labelled import Example
from regard.errors import ConfigError
from regard.metrics.cross_entropy import Losses
from regard.models.classifier import Classifier
from regard.tasks.labels.labeller import Labeller
from regard.tasks.labels.loss import NOTHING, label_loss
from regard.tasks.labels.metrics import encoded, label_figures, mean_loss, text_of
from regard.tasks.templates import TemplatedRows, TextTemplate
from regard.training.batching import BatchPlanMixin


@dataclass(frozen=True)
class LabelBatch(TensorBatch):
    """Framed texts and their targets as tensors. `real` says which rows are examples; `longest` is set if packed.

    `following` holds what the language model is to predict at each token; None where nobody asks.
    """

    ids: Tensor
    lengths: Tensor
    segments: Tensor
    targets: Tensor
    real: Tensor
    n_tokens: int
    longest: int | None = None
    following: Tensor | None = None

    @property
    def n_rows(self) -> int:
        """How many rows or documents there are, filling included."""
        return len(self.lengths)


class LabelTraining(BatchPlanMixin):
    """What the trainer asks of the task: batches in a fixed order, their loss, and an evaluation."""

    unit = "examples"
    _loss = staticmethod(label_loss)

    def __init__(
        self,
        template: TextTemplate,
        space: LabelSpace,
        train: Sequence[Example],
        valid: Sequence[Example],
        *,
        budget_tokens: int,
        seed: int,
        batch_examples: int = 0,
        packed: bool = False,
        label_smoothing: float = 0.0,
        lm_weight: float = 0.0,
        r_drop: float = 0.0,
        objective: str | None = None,
    ) -> None:
        self.template, self.space, self.valid = template, space, list(valid)
        self.label_smoothing, self.lm_weight, self.r_drop = label_smoothing, lm_weight, r_drop
        self.objective = _objective(objective, space)
        self.rows = TemplatedRows.of(template, (text_of(example) for example in train))
        self.valid_rows = TemplatedRows.of(template, (text_of(example) for example in valid))
        self.targets = encoded(space, train)
        self.plan: EpochPlan = (
            PackedPlan(self.rows.lengths, self.rows.lengths, budget_tokens=budget_tokens, seed=seed)
            if packed
            else example_plan(self.rows.lengths, budget_tokens=budget_tokens, batch_examples=batch_examples, seed=seed)
        )
        self._lm_scale = lm_weight / max(1.0, float((self.rows.lengths - 1).mean()))
        self.few_lengths = 16 if batch_examples else 0

    def batch(self, indices: Indices) -> LabelBatch:
        """The examples of these numbers as one batch; none are a batch without examples."""
        rows = [self.rows.ids(int(i)) for i in indices]
        segments = [self.rows.segments(int(i)) for i in indices]
        following = [np.append(ids[1:], NOTHING) for ids in rows] if self.lm_weight else None
        targets = torch.from_numpy(self.targets[indices])
        n, pad_id = len(indices), self.template.tokenizer.pad_id
        if not isinstance(self.plan, PackedPlan):
            ids, lengths = pad(rows, pad_id, multiple_of=self.multiple_of, most=self.template.max_tokens)
            padded_segments, _ = pad(segments, 0, length=ids.shape[1])
            coming = None if following is None else pad(following, NOTHING, length=ids.shape[1])[0]
            return LabelBatch(
                ids, lengths, padded_segments, targets, torch.ones(n, dtype=torch.bool), n, following=coming
            )
        plan = self.plan
        room = {"budget_tokens": plan.budget_tokens, "max_documents": plan.max_documents, "longest": plan.longest}
        ids, lengths = pack(rows, pad_id, **room)
        coming = None if following is None else pack(following, NOTHING, **room)[0][None]
        targets = F.pad(targets, (0, plan.max_documents - n))
        real = torch.arange(plan.max_documents) < n
        return LabelBatch(
            ids[None], lengths, pack(segments, 0, **room)[0][None], targets, real, n, plan.longest, coming
        )

    def loss(self, model: Classifier, batch: LabelBatch) -> Losses:
        """The summed loss of a batch's examples, with gradients."""
        tensors = (batch.ids, batch.lengths, batch.segments, batch.targets, batch.real, batch.following)
        return Losses(*self._loss(model, *tensors, batch.longest, self.label_smoothing, self._lm_scale, self.r_drop))

    def evaluate(self, model: Classifier) -> dict[str, float]:
        """The loss of an example and all figures on the validation data."""
        outputs = self._labeller(model).outputs(self.valid_rows)
        return {"valid_loss": mean_loss(self.space, outputs, self.valid)} | label_figures(
            self.space, outputs, self.valid
        )

    def samples(self, model: Classifier, n: int) -> list[tuple[str, str, str]]:
        """The first few validation examples: text, label, and what the model says."""
        examples = self.valid[:n]
        labellings = self._labeller(model)([text_of(example) for example in examples])
        texts = [" ⏎ ".join((e.text,) if e.pair is None else (e.text, e.pair)) for e in examples]
        return [
            (text, e.label, labelling.label) for text, e, labelling in zip(texts, examples, labellings, strict=True)
        ]

    def _labeller(self, model: Classifier) -> Labeller:
        return Labeller(model, self.template, self.space)


def _objective(given: str | None, space: LabelSpace) -> str:
    """The figure that decides: more is better of all that are allowed."""
    allowed = ["pearson", "spearman"] if space.numeric else ["accuracy", "matthews", "macro_f1"]
    allowed += ["f1"] if len(space.names) == 2 else []
    if given is not None and given not in allowed:
        raise ConfigError(f"data.objective is {given!r}; allowed: {', '.join(allowed)}")
    return given or allowed[0]
