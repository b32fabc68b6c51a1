"""Labelled texts to fine-tune a classifier on, or to train one from scratch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from regard.config.recipe import Recipe
from regard.config.training import TuningConfig
from regard.data.text.labelled import Example
from regard.errors import ConfigError
from regard.metrics.verdict import Baseline, check_class_counts
from regard.models.registry import entry
from regard.tasks.backbones import template_for
from regard.tasks.labels.data import LabelFiles, LabelledSets
from regard.tasks.labels.labeller import Labeller
from regard.tasks.labels.metrics import score_labels, text_of
from regard.tasks.labels.training import LabelTraining
from regard.tasks.measuring import Beside, Scores, measure
from regard.tasks.templates import TemplatedRows
from regard.tasks.tokenizing import tokenizer_for
from regard.training.setup import RunContext, Say, TaskSetup
from regard.training.warm_start import backbone_name, begin_with_backbone, open_start


class LabelSetup(TaskSetup):
    """Examples, their labels, and a classifier."""

    def __init__(self, recipe: Recipe, context: RunContext) -> None:
        super().__init__(recipe)
        self.files = LabelFiles(recipe.data, context.data_root)
        self.sets: LabelledSets = self.files.read(say=context.say if context.group.first else lambda _: None)
        start = open_start(recipe, context.data_root)
        self.tokenizer = tokenizer_for(recipe, context, start, lambda: self._texts(self.sets.train))
        backbone = backbone_name(recipe, start)
        forced = {"n_outputs": self.sets.space.n_outputs} | dict(entry(backbone).head)
        labels = self.sets.space.names or None
        self.model, self.spec = begin_with_backbone(
            recipe, self.tokenizer, start, context, forced=forced, labels=labels
        )
        context.keep(self.sets.space.save)
        self.template = template_for(self.tokenizer, self.spec.options, recipe)
        train = recipe.train
        assert isinstance(train, TuningConfig)
        if train.lm_weight and not entry(backbone).continues:
            raise ConfigError(
                f"train.lm_weight is for a language model below the head, and this one stands on a {backbone}"
            )
        self.task = LabelTraining(
            self.template,
            self.sets.space,
            self.sets.train,
            self.sets.valid,
            budget_tokens=train.batch_tokens,
            seed=train.seed,
            batch_examples=train.batch_examples,
            packed=train.layout == "packed",
            label_smoothing=train.label_smoothing,
            lm_weight=train.lm_weight,
            r_drop=train.r_drop,
            objective=recipe.data.objective,
        )

    def about(self) -> str:
        """The examples and the labels."""
        space = self.sets.space
        what = "numbers" if space.numeric else f"{len(space.names)} labels"
        return f"{len(self.sets.train):,} examples, {what}"

    def remarks(self) -> Iterable[str | None]:
        """Classes that are too rare to be learnt."""
        names = self.sets.space.names
        counts = Counter(example.label for example in self.sets.train)
        yield check_class_counts({name: counts[name] for name in names})

    def counts(self) -> dict[str, Any]:
        """How many examples."""
        return {"examples": len(self.sets.train)}

    def measure(self, say: Say) -> dict[str, dict[str, Any]]:
        """The task's figures on the validation examples, and on every test set."""
        labeller = Labeller(self.model, self.template, self.sets.space)  # type: ignore[arg-type]

        def score(examples: Sequence[Example]) -> Scores:
            return score_labels(labeller, examples, TemplatedRows.of(self.template, map(text_of, examples)))

        sets = {"valid": self.sets.valid} | self.sets.tests
        space, found = self.sets.space, self._baselines(sets)
        figure = "pearson" if space.numeric else "accuracy"
        hints = [] if "start" in self.recipe.model else ["model.start=FOLDER of a pretrained encoder"]
        return measure(sets, score, say=say, beside=Beside(figure, lambda name, _: found[name], hints))

    def _baselines(self, sets: Mapping[str, Sequence[Example]]) -> dict[str, list[Baseline]]:
        from regard.tasks.labels.baselines import label_baselines

        def labels(examples: Sequence[Example]) -> list[Any]:
            numeric = self.sets.space.numeric
            return [float(e.label) if numeric else self.sets.space.encode(e.label) for e in examples]

        tests = {name: (list(map(text_of, examples)), labels(examples)) for name, examples in sets.items()}
        train = self.sets.train
        return label_baselines(list(map(text_of, train)), labels(train), tests, names=self.sets.space.names)

    def _texts(self, examples: list[Example]) -> Any:
        return (part for example in examples for part in (example.text, example.pair) if part is not None)
