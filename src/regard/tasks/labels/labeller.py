"""What a text, or a pair of texts, is: its class with the probabilities of all, or a number.

    labeller(["A dog runs.", ("A dog runs.", "An animal moves.")])     → one Labelling each

Texts are grouped by length and read together; what comes out does not depend on who shared the batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from regard.data.text.label_space import LabelSpace
from regard.metrics.scores import Outputs, probabilities
from regard.models.classifier import Classifier
from regard.tasks.templates import TemplatedRows, Text, TextTemplate, batches


@dataclass(frozen=True)
class Labelling:
    """A label, how probable it is, and the probabilities of all labels, most probable first.

    Of numbers, `value` is the number, `label` the same written out, and there are no probabilities.
    """

    label: str
    probability: float | None = None
    probabilities: dict[str, float] = field(default_factory=dict)
    value: float | None = None

    def plain(self) -> str:
        """As one line of text."""
        return self.label

    def record(self) -> dict[str, Any]:
        """As a JSON object."""
        if self.value is not None:
            return {"value": self.value}
        return {"label": self.label, "probability": self.probability, "probabilities": self.probabilities}


class Labeller:
    """Labels texts with one model."""

    def __init__(
        self, model: Classifier, template: TextTemplate, space: LabelSpace, *, batch_tokens: int = 16_384
    ) -> None:
        self.model, self.template, self.space, self.batch_tokens = model, template, space, batch_tokens

    def __call__(self, texts: Sequence[Text]) -> list[Labelling]:
        """What each text, or pair of texts, is."""
        return [self.labelling(row) for row in self.outputs(TemplatedRows.of(self.template, texts))]

    def labelling(self, output: Outputs) -> Labelling:
        """What the outputs (n_outputs,) for one text mean."""
        if self.space.numeric:
            value = float(self.space.decode(output[0]))
            return Labelling(f"{value:.4g}", value=value)
        shares = probabilities(output)
        order = np.argsort(-shares, kind="stable")
        named = {self.space.names[i]: float(shares[i]) for i in order}
        return Labelling(self.space.names[order[0]], float(shares[order[0]]), named)

    @torch.inference_mode()
    def outputs(self, rows: TemplatedRows) -> Outputs:
        """What the model gives for framed rows: (n, n_outputs), in double precision from here on."""
        device = self.model.output.weight.device
        outputs = np.zeros((len(rows), self.model.config.n_outputs))
        pad_id = self.template.tokenizer.pad_id
        for chunk, given, segments in batches(
            rows, self.model, budget_tokens=self.batch_tokens, pad_id=pad_id, device=device
        ):
            outputs[chunk] = self.model(given, segments=segments).double().cpu().numpy()
        return outputs
