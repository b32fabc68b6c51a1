"""A classifier of texts or pairs of texts, or a model that reads a number off them.

model = regard.load("runs/sst2")
model("A fine film.")                              → Labelling: label, probability, probabilities
model("A dog runs.\tAn animal moves.")             a pair, parted by a tab
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from torch import Tensor, nn

from regard.checkpoints.spec import ModelSpec, Pretrained
from regard.config.recipe import Recipe
from regard.data.text.label_space import LabelSpace
from regard.data.text.labelled import Example
from regard.errors import UsageError
from regard.inspection.forward_case import ForwardCase
from regard.inspection.invariants import Check, Given, Trial, measure_alone, measure_reading
from regard.inspection.look import text_case
from regard.metrics.comparing import Compared, Figures, paired
from regard.metrics.scores import Outputs
from regard.models.classifier import Classifier
from regard.tasks.backbones import longest, template_for
from regard.tasks.base import (
    Evaluation,
    Predictor,
    ScoreData,
    check_texts,
    first_of,
    folder_of,
    random_texts,
    refuse_options,
    refuse_target,
    test_sets,
    tokenizer_of,
    varied,
)
from regard.tasks.labels.data import LabelFiles
from regard.tasks.labels.labeller import Labeller, Labelling
from regard.tasks.labels.metrics import class_figures, number_figures
from regard.tasks.labels.training import encoded, metrics, text_of
from regard.tasks.templates import TemplatedRows, Text, TextTemplate, padded


class LabelPredictor(Predictor[Labelling]):
    """A classifier with its tokenizer and its labels."""

    def __init__(self, module: nn.Module, template: TextTemplate, space: LabelSpace, config: Recipe) -> None:
        super().__init__(module, config)
        assert isinstance(module, Classifier)
        self.space, self.labeller = space, Labeller(module, template, space)

    @classmethod
    def open(cls, found: Pretrained, recipe: Recipe, module: nn.Module, *, precision: str) -> Self:
        """The predictor of an opened model."""
        return cls(module, template_for(tokenizer_of(found), found.options, recipe), label_space(found), recipe)

    @classmethod
    def reading(cls, found: Pretrained) -> dict[str, Any]:
        """How long its texts may be, and whether it says classes or numbers."""
        return longest(found) | {"labels": "numbers" if found.options["n_outputs"] == 1 else "classes"}

    @classmethod
    def keep(cls, found: Pretrained, folder: Path) -> None:
        """Its labels."""
        label_space(found).save(folder)

    @classmethod
    def for_others(cls, found: Pretrained) -> tuple[ModelSpec, Mapping[str, Tensor], Mapping[str, Any]]:
        """With its labels; numbers were learnt on a scale, and others have no place for one but the last weights."""
        described, tensors, files = super().for_others(found)
        space = label_space(found)
        described = replace(described, labels=space.names or ("LABEL_0",))
        if space.numeric:
            weight, bias = tensors["output.weight"] * space.scale, tensors["output.bias"] * space.scale + space.mean
            tensors = dict(tensors) | {"output.weight": weight, "output.bias": bias}
        return described, tensors, files

    def predict(self, texts: Sequence[str], *, keys: Sequence[int] | None = None, **options: Any) -> list[Labelling]:
        """Label each text; a tab parts the two texts of a pair."""
        refuse_options(options, "to a classifier: all its labels have their probability")
        rows = self._rows([_parts(text) for text in texts])
        return [self.labeller.labelling(row) for row in self.labeller.outputs(rows)]

    def case(self, text: str, target: str | None = None, **options: Any) -> ForwardCase:
        """A text, or a pair, ready to be looked at."""
        check_texts([text])
        refuse_target(target)
        template = self.labeller.template
        framed = template([_parts(text)])[0]
        names = () if self.space.numeric else self.space.names
        return text_case(
            self.module, template.tokenizer, framed.ids, segments=framed.segments, says="label", names=names
        )

    def tests(self, data: ScoreData) -> Mapping[str, Sequence[Example]]:
        """The examples to score on, by name: those of the files given, else of every test set of the recipe."""
        files = LabelFiles(self.config.data, data.root)
        if data.files:
            return {data.files[0]: files.read_known(files.sources(data.files), self.space)}
        if not self.config.data.train:  # it was trained elsewhere
            return test_sets({})
        sets = files.read()
        return test_sets(sets.tests or {"valid": sets.valid})

    def evaluate(self, data: ScoreData, **options: Any) -> Iterator[Evaluation]:
        """The figures of the task on each test set, with 95 % intervals."""
        refuse_options(options, "to a classifier: all its labels have their probability")
        for name, examples in self.tests(data).items():
            outputs = self._outputs(examples)
            said = [self.labeller.labelling(row).plain() for row in outputs]
            yield Evaluation(name, len(examples), "examples", metrics(self.space, outputs, examples), said)

    def compare(
        self, other: Any, data: ScoreData, *, resamples: int = 1000, seed: int = 1, **options: Any
    ) -> Iterator[Compared]:
        """All figures of both models' labels of the same examples."""
        refuse_options(options, "to a classifier: all its labels have their probability")
        self._check_same_task(other)
        if self.space.names != other.space.names:
            raise UsageError(f"the two models have different labels: {_named(self.space)}, and {_named(other.space)}")
        for name, examples in self.tests(data).items():
            systems = (self._figures(examples), other._figures(examples))
            found = paired(systems, len(examples), resamples=resamples, seed=seed)
            yield Compared(name, len(examples), "examples", found)

    def verify(self, data: ScoreData, *, n: int = 24) -> Iterator[Check]:
        """What this model promises, measured on texts of a test set, or on random pieces."""
        name, examples = first_of(lambda: self.tests(data), n)
        tokenizer, texts = self.labeller.template.tokenizer, varied([example.text for example in examples])
        if len(texts) < 2:
            name, texts = "random pieces", random_texts(tokenizer, n)
        self.say(f"on {len(texts)} texts of {name}")
        pairs = [example.pair for example in examples] if len(examples) > 1 else [None] * len(texts)
        framed = [text if pair is None else (text, pair) for text, pair in zip(texts, pairs, strict=True)]
        rows = TemplatedRows.of(self.labeller.template, framed)
        device = next(self.module.parameters()).device
        given, segments = padded(rows, range(len(rows)), tokenizer.pad_id, device=device)
        limit = self.labeller.model.config.backbone.get("n_positions")
        trial = Trial(self.module, Given((given,), segments), by_token=False, limit=limit)
        yield measure_alone(trial)
        yield from measure_reading(trial)

    def _rows(self, texts: Sequence[Text]) -> TemplatedRows:
        rows = TemplatedRows.of(self.labeller.template, texts)
        if rows.shortened:
            longest = self.labeller.template.max_tokens
            self.say(f"{rows.shortened:,} of {len(texts):,} texts were cut to {longest:,} tokens")
        return rows

    def _outputs(self, examples: Sequence[Example]) -> Outputs:
        return self.labeller.outputs(self._rows([text_of(example) for example in examples]))

    def _figures(self, examples: Sequence[Example]) -> Figures:
        outputs = self._outputs(examples)
        if self.space.numeric:
            truth = np.array([float(example.label) for example in examples])
            numbers = self.space.mean + self.space.scale * outputs[:, 0]
            return lambda drawn: number_figures(truth[drawn], numbers[drawn])
        labels, said, n = encoded(self.space, examples), outputs.argmax(1), len(self.space.names)
        return lambda drawn: class_figures(labels[drawn], said[drawn], n_classes=n)


def _named(space: LabelSpace) -> str:
    return "numbers" if space.numeric else ", ".join(space.names)


def _parts(text: str) -> Text:
    first, tab, second = text.partition("\t")
    return (first, second) if tab else first


def label_space(found: Pretrained) -> LabelSpace:
    """What a classifier's outputs mean: the run's labels, else those that were published; one output is a number."""
    folder = folder_of(found)
    if (folder / "labels.json").exists():
        return LabelSpace.load(folder)
    n = int(found.options["n_outputs"])
    return LabelSpace((found.labels or tuple(f"LABEL_{i}" for i in range(n))) if n > 1 else ())
