"""A classifier of texts or pairs of texts, or a model that reads a number off them.

model = regard.load("runs/sst2")
model("A fine film.")                              → Labelling: label, probability, probabilities
model("A dog runs.\tAn animal moves.")             a pair, parted by a tab
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Unpack

from torch import Tensor, nn

from regard.checkpoints.spec import ModelSpec, Pretrained
from regard.config.recipe import Recipe
from regard.data.text.label_space import LabelSpace
from regard.data.text.labelled import Example
from regard.errors import UsageError
from regard.models.classifier import Classifier
from regard.models.precision import in_precision
from regard.tasks.backbones import longest, template_for
from regard.tasks.base import (
    Predictor,
    ScoreData,
    folder_of,
    one_or_many,
    random_texts,
    refuse_other_labels,
    refuse_target,
    tokenizer_of,
    varied,
)
from regard.tasks.decode_settings import NoSettings
from regard.tasks.files import report_sets
from regard.tasks.labels.data import LabelFiles
from regard.tasks.labels.labeller import Labeller, Labelling
from regard.tasks.labels.metrics import score_labels, text_of
from regard.tasks.measuring import Scores
from regard.tasks.registry import NoOptions
from regard.tasks.templates import TemplatedRows, Text, TextTemplate, measure_texts

if TYPE_CHECKING:
    from regard.inspection.forward_case import ForwardCase
    from regard.inspection.invariants import Check


class LabelPredictor(Predictor[str, Labelling]):
    """A classifier with its tokenizer and its labels."""

    undecoded = "to a classifier: all its labels have their probability"

    def __init__(
        self, module: nn.Module, template: TextTemplate, space: LabelSpace, config: Recipe, *, precision: str = "auto"
    ) -> None:
        super().__init__(module, config)
        quick = in_precision(module, precision)
        assert isinstance(quick, Classifier)
        self.space, self.labeller = space, Labeller(quick, template, space)
        if config.data.pair is not None:
            self.parts = ("first text", "second text")

    @classmethod
    def open(cls, pretrained: Pretrained, recipe: Recipe, module: nn.Module, *, precision: str) -> Self:
        """The predictor of an opened model."""
        template = template_for(tokenizer_of(pretrained), pretrained.options, recipe)
        return cls(module, template, label_space(pretrained), recipe, precision=precision)

    @classmethod
    def reading(cls, pretrained: Pretrained) -> dict[str, Any]:
        """How long its texts may be, and whether it says classes or numbers."""
        return longest(pretrained) | {"labels": "numbers" if pretrained.options["n_outputs"] == 1 else "classes"}

    @classmethod
    def keep(cls, pretrained: Pretrained, folder: Path) -> None:
        """Its labels."""
        label_space(pretrained).save(folder)

    @classmethod
    def for_others(cls, pretrained: Pretrained) -> tuple[ModelSpec, Mapping[str, Tensor], Mapping[str, Any]]:
        """With its labels; numbers were learnt on a scale, and others have no place for one but the last weights."""
        described, tensors, files = super().for_others(pretrained)
        space = label_space(pretrained)
        described = replace(described, labels=space.names or ("LABEL_0",))
        if space.numeric:
            weight, bias = tensors["output.weight"] * space.scale, tensors["output.bias"] * space.scale + space.mean
            tensors = dict(tensors) | {"output.weight": weight, "output.bias": bias}
        return described, tensors, files

    def predict(self, inputs: Sequence[str], **options: Unpack[NoSettings]) -> list[Labelling]:
        """Label each text; a tab parts the two texts of a pair."""
        self.scoring_options(options)
        rows = self._rows([_parts(text) for text in inputs])
        return [self.labeller.labelling(row) for row in self.labeller.outputs(rows)]

    __call__ = one_or_many(predict)

    def case(self, input: str, target: str | None = None, **options: Any) -> ForwardCase:
        """A text, or a pair, ready to be looked at."""
        from regard.inspection.forward_case import text_case

        refuse_target(target)
        template = self.labeller.template
        framed = template([_parts(input)])[0]
        names = () if self.space.numeric else self.space.names
        return text_case(
            self.module, template.tokenizer, framed.ids, segments=framed.segments, says="label", names=names
        )

    def given_examples(self, data: ScoreData) -> Sequence[Example]:
        """The examples of the files given."""
        files = LabelFiles(self.config.data, data.root)
        return files.read_known(files.sources(data.files), self.space)

    def recipe_tests(self, data: ScoreData) -> Mapping[str, Sequence[Example]]:
        """The examples of every test set of the recipe, else those held out."""
        return report_sets(LabelFiles(self.config.data, data.root))

    def score(self, examples: Sequence[Example], options: NoOptions) -> Scores:
        """All figures of the labels of a test set."""
        return score_labels(self.labeller, examples, self._rows([text_of(example) for example in examples]))

    def check_comparable(self, other: Self) -> None:
        """Both know the same labels."""
        if self.space.names != other.space.names:
            raise UsageError(f"the two models have different labels: {_named(self.space)}, and {_named(other.space)}")

    def sample(self, examples: Sequence[Example], n: int) -> list[Text]:
        """The first texts, with what they are paired with, if anything."""
        texts = zip(varied([example.text for example in examples[:n]]), examples, strict=False)
        return [text if example.pair is None else (text, example.pair) for text, example in texts]

    def random_sample(self, n: int) -> list[Text]:
        """Random pieces."""
        return list(random_texts(self.labeller.template.tokenizer, n))

    def promises(self, sample: list[Text]) -> Iterator[Check]:
        """Batching, fused kernels, saving and padding."""
        limit = self.labeller.model.config.backbone.get("n_positions")
        return measure_texts(self.module, self.labeller.template, sample, by_token=False, limit=limit)

    def _rows(self, texts: Sequence[Text]) -> TemplatedRows:
        rows = TemplatedRows.of(self.labeller.template, texts)
        if rows.shortened:
            longest = self.labeller.template.max_tokens
            self.say(f"{rows.shortened:,} of {len(texts):,} texts were cut to {longest:,} tokens")
        return rows


def _named(space: LabelSpace) -> str:
    return "numbers" if space.numeric else ", ".join(space.names)


def _parts(text: str) -> Text:
    first, tab, second = text.partition("\t")
    return (first, second) if tab else first


def label_space(pretrained: Pretrained) -> LabelSpace:
    """What a classifier's outputs mean: the run's labels, else those that were published; one output is a number."""
    folder = folder_of(pretrained)
    n = int(pretrained.options["n_outputs"])
    if (folder / "labels.json").exists():
        space = LabelSpace.load(folder)
        refuse_other_labels(space.n_outputs, n, where=folder / "labels.json")
        return space
    return LabelSpace((pretrained.labels or tuple(f"LABEL_{i}" for i in range(n))) if n > 1 else ())
