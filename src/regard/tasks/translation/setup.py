"""Sentence pairs to train a translator on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from regard.checkpoints.spec import ModelSpec, Pretrained, with_defaults
from regard.config.recipe import Recipe
from regard.data.text.corpus import Corpus
from regard.errors import CheckpointError, ConfigError
from regard.models.flops import count_parameters
from regard.models.interfaces.text import as_seq2seq
from regard.models.registry import build, entry
from regard.tasks.measuring import measure
from regard.tasks.translation.data import Languages, PairFiles, encode_training, read_pairs
from regard.tasks.translation.metrics import TestPairs, score_pairs
from regard.tasks.translation.training import PairTraining
from regard.tasks.translation.translator import Translator
from regard.training.setup import RunContext, Say
from regard.training.warm_start import load_known, open_start


class TranslationSetup:
    """Pairs, their languages, and a sequence-to-sequence model."""

    def __init__(self, recipe: Recipe, context: RunContext) -> None:
        self.recipe = recipe
        self.files = PairFiles(recipe.data, context.data_root, context.run.path / "data")
        start = open_start(recipe, context.data_root)
        known = None if start is None else _languages_of(start, recipe)

        def prepare(say: Say) -> tuple[Languages, Corpus]:
            return encode_training(self.files, recipe.tokenizer, context.run.path / "data", known=known, say=say)

        self.languages, corpus = context.first(prepare)
        if context.group.first:
            self.languages.save(context.run.path)
        self.task = self._task(corpus, packed=_packed(recipe, context.device))
        self.described = describe(recipe, self.languages, {} if start is None else start.options)
        torch.manual_seed(recipe.train.seed)
        self.model = build(self.described.model, self.described.options)
        if start is not None:
            load_known(self.model, start.tensors, origin=start.origin)

    def introduction(self) -> str:
        """The model's size, the pairs, the padding."""
        model, task = self.recipe.model, self.task
        size = f" {model['size']}" if "size" in model else ""
        return (
            f"{model['name']}{size}: {count_parameters(self.model):,} parameters; {len(task.corpus):,} pairs, "
            f"{task.plan.padding():.1%} padding"
        )

    def facts(self) -> dict[str, Any]:
        """How many pairs, and the fingerprints of the files."""
        sources = {"train": self.files.train, "valid": self.files.valid} | dict(self.files.tests)
        return {
            "pairs": len(self.task.corpus),
            "padding": round(self.task.plan.padding(), 4),
            "fingerprints": {name: source.fingerprint() for name, source in sources.items()},
        }

    def measure(self, say: Say) -> dict[str, dict[str, Any]]:
        """Every test set, translated and scored."""
        model = as_seq2seq(self.model)
        translator, decode = Translator([model], self.languages), self.recipe.decode
        tests = {name: TestPairs.of(source.pairs(), self.languages) for name, source in self.files.tests.items()}
        return measure(tests, lambda pairs: score_pairs(pairs, translator, decode, model=model), say=say)

    def _task(self, corpus: Corpus, *, packed: bool) -> PairTraining:
        train = self.recipe.train
        valid = list(read_pairs(self.files.valid, self.recipe.data, say=lambda _: None))
        return PairTraining(
            self.languages,
            corpus,
            valid,
            budget_tokens=train.batch_tokens,
            seed=train.seed,
            packed=packed,
            label_smoothing=train.label_smoothing,
            r_drop=train.r_drop,
            piece_dropout=self.recipe.tokenizer.dropout,
        )


def describe(recipe: Recipe, languages: Languages, start: Mapping[str, Any]) -> ModelSpec:
    """The model of a recipe, for these vocabularies; what it does not say is as at its start."""
    options = dict(start) | {key: value for key, value in recipe.model.items() if key not in ("name", "start")}
    sizes = {"n_source": len(languages.source.tokenizer), "n_target": len(languages.target.tokenizer)}
    if not languages.joint:  # two vocabularies cannot share one matrix
        options = dict(entry(recipe.model["name"]).separate_vocabularies) | options
    return with_defaults(ModelSpec(recipe.task, recipe.model["name"], options | sizes))


def _languages_of(start: Pretrained, recipe: Recipe) -> Languages:
    """The vocabularies that a translator was trained with."""
    name = recipe.model["name"]
    if start.model != name:
        alike = start.task == recipe.task
        raise ConfigError(
            f"{start.origin} is a {start.model}; model.name says {name!r}",
            hint=f"set model.name={start.model}" if alike else "start from a translator",
        )
    if start.tokenizer is None:
        raise CheckpointError(f"{start.origin}: there is no tokenizer beside the weights")
    return Languages.of(start.tokenizer, start.target_tokenizer, moses=recipe.data.moses)


def _packed(recipe: Recipe, device: torch.device) -> bool:
    """Packed where it pays by itself: a model that can read such rows, on a GPU."""
    packs = entry(recipe.model["name"]).packs
    if recipe.train.layout != "auto":
        if recipe.train.layout == "packed" and not packs:
            raise ConfigError("train.layout=packed is for Transformers; recurrent models read padded rows")
        return recipe.train.layout == "packed"
    return device.type == "cuda" and packs
