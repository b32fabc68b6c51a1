"""A classifier of texts or pairs of texts, or a model that reads a number off them.

model = regard.load("runs/sst2")
model("A fine film.")                              → Labelling: label, probability, probabilities
model("A dog runs.\tAn animal moves.")             a pair, parted by a tab
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from torch import nn

from regard.data.label_space import LabelSpace
from regard.data.labelled import Example
from regard.errors import UsageError
from regard.inspection.look import Look, look_at_text
from regard.models.classifier import Classifier
from regard.predictors.base import Evaluation, Predictor, TestData, check_texts, test_sets
from regard.tasks.framer import FramedRows, Framer, Text
from regard.tasks.label_training import metrics, text_of
from regard.tasks.labeller import Labeller, Labelling
from regard.tasks.labels import LabelFiles
from regard.training.recipe import Recipe


class LabelPredictor(Predictor[Labelling]):
    """A classifier with its tokenizer and its labels."""

    def __init__(self, module: nn.Module, framer: Framer, space: LabelSpace, config: Recipe) -> None:
        super().__init__(module, config)
        assert isinstance(module, Classifier)
        self.space, self.labeller = space, Labeller(module, framer, space)

    def predict(
        self, texts: Sequence[str], *, keys: Sequence[int] | None = None, k: int | None = None, **options: Any
    ) -> list[Labelling]:
        """Label each text; a tab parts the two texts of a pair."""
        if options:
            raise UsageError(f"decode.{next(iter(options))} means nothing to a classifier")
        return self.labeller([_parts(text) for text in texts])

    def look(self, text: str, **options: Any) -> Look:
        """Where each piece of a text looked, and where the label was read off, if by attention."""
        check_texts([text])
        framer = self.labeller.framer
        framed = framer([_parts(text)])[0]
        return look_at_text(self.module, framer.tokenizer, framed.ids, segments=framed.segments)

    def evaluate(self, data: TestData, **options: Any) -> Iterator[Evaluation]:
        """The figures of the task on each test set, with 95 % intervals."""
        files = LabelFiles(self.config.data, data.root)
        if data.files:
            found = {data.files[0]: files.read_known(files.sources(data.files), self.space)}
        else:
            sets = files.read()
            found = sets.tests or {"valid": sets.valid}
        for name, examples in test_sets(found).items():
            yield self._evaluation(name, examples)

    def _evaluation(self, name: str, examples: Sequence[Example]) -> Evaluation:
        rows = FramedRows.of(self.labeller.framer, (text_of(example) for example in examples))
        outputs = self.labeller.outputs(rows)
        said = [self.labeller.labelling(row).plain() for row in outputs]
        return Evaluation(name, len(examples), "examples", metrics(self.space, outputs, examples), said)


def _parts(text: str) -> Text:
    first, tab, second = text.partition("\t")
    return (first, second) if tab else first
