"""Sentence pairs to train a translator on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

import torch

from regard.config.recipe import Recipe
from regard.data.text.corpus import Corpus
from regard.errors import ConfigError
from regard.metrics.scores import bleu
from regard.metrics.verdict import Baseline
from regard.models.interfaces.text import as_seq2seq
from regard.models.registry import entry
from regard.tasks.measuring import Beside, Scores, measure
from regard.tasks.tokenizing import start_tokenizer
from regard.tasks.translation.data import Languages, PairFiles, encode_training, read_pairs
from regard.tasks.translation.metrics import PLAIN, TestPairs, score_pairs, usual_cut
from regard.tasks.translation.shortlist import ShortlistTable
from regard.tasks.translation.training import PairTraining
from regard.tasks.translation.translator import Translator
from regard.training.setup import RunContext, Say, TaskSetup
from regard.training.warm_start import begin_model, load_known, own_options, start_for


class TranslationSetup(TaskSetup):
    """Pairs, their languages, and a sequence-to-sequence model."""

    def __init__(self, recipe: Recipe, context: RunContext) -> None:
        super().__init__(recipe)
        self.files = PairFiles(recipe.data, context.data_root, context.data)
        start = start_for(recipe, context.data_root)
        moses = recipe.data.moses
        known = None if start is None else Languages.of(start_tokenizer(start), start.target_tokenizer, moses=moses)
        self.languages, corpus = context.first(
            lambda say: encode_training(self.files, recipe.tokenizer, context.data, known=known, say=say)
        )
        context.keep(self.languages.save)
        self.table: ShortlistTable | None = None
        if recipe.decode.shortlist and context.group.first:
            self.table = ShortlistTable.learn(corpus, self.languages)
            self.table.save(context.run)
        self.task: PairTraining = self._task(corpus, packed=_packed(recipe, context.device))
        self.model, self.spec = begin_model(
            recipe, options_for(recipe, self.languages, {} if start is None else start.options)
        )
        if start is not None:
            load_known(self.model, start.tensors, origin=start.origin)

    @property
    def title(self) -> str:
        """The model's name and size."""
        return " ".join(str(self.recipe.model[key]) for key in ("name", "size") if key in self.recipe.model)

    def about(self) -> str:
        """The pairs, the padding."""
        return f"{len(self.task.corpus):,} pairs, {self.task.plan.padding():.1%} padding"

    def remarks(self) -> Iterable[str | None]:
        """That nobody knows which languages these are."""
        if self.files.languages is None and self.recipe.data.synthetic is None:
            yield """which languages these are is not told; data.languages='["en", "de"]' keeps it with the run"""

    def facts(self) -> dict[str, Any]:
        """The languages too, where they are known."""
        known = self.files.languages
        return super().facts() | ({} if known is None else {"languages": list(known)})

    def counts(self) -> dict[str, Any]:
        """How many pairs, and how much of a batch is padding."""
        return {"pairs": len(self.task.corpus), "padding": round(self.task.plan.padding(), 4)}

    def measure(self, say: Say) -> dict[str, dict[str, Any]]:
        """Every test set, translated and scored; without one, the validation pairs."""
        model = as_seq2seq(self.model)
        translator, decode = Translator([model], self.languages), self.recipe.decode
        sources = self.files.tests or {"valid": self.files.valid}
        tests = {name: TestPairs.of(source.pairs(), self.languages) for name, source in sources.items()}
        figure = "bleu" if usual_cut(self.languages) == PLAIN else "usual bleu"
        beside = Beside(figure, self._baselines, [f"train.steps={4 * self.recipe.train.steps}", "more pairs"])

        def score(pairs: TestPairs) -> Scores:
            return score_pairs(pairs, translator, decode, model=model, table=self.table)

        return measure(tests, score, say=say, beside=beside)

    def _baselines(self, name: str, tests: TestPairs) -> list[Baseline]:
        from regard.tasks.translation.baselines import MOST_PAIRS, translation_baselines

        def judge(texts: Sequence[str]) -> dict[str, float]:
            usual = bleu(texts, tests.references, **tests.cut).value
            return {"bleu": usual, "usual bleu": usual}

        train = [(pair.source, pair.target) for pair in islice(self.files.train.pairs(), MOST_PAIRS)]
        return translation_baselines(tests.sources, judge, train=train)

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


def options_for(recipe: Recipe, languages: Languages, start: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a recipe's model, for these vocabularies; what it does not say is as at its start."""
    options = dict(start) | own_options(recipe)
    sizes = {"n_source": len(languages.source.tokenizer), "n_target": len(languages.target.tokenizer)}
    if not languages.joint:  # two vocabularies cannot share one matrix
        options = dict(entry(recipe.model["name"]).separate_vocabularies) | options
    return options | sizes


def _packed(recipe: Recipe, device: torch.device) -> bool:
    """Packed where it pays by itself: a model that can read such rows, on a GPU."""
    packs = entry(recipe.model["name"]).packs
    if recipe.train.layout != "auto":
        if recipe.train.layout == "packed" and not packs:
            raise ConfigError("train.layout=packed is for Transformers; recurrent models read padded rows")
        return recipe.train.layout == "packed"
    return device.type == "cuda" and packs
