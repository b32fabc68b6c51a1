"""Plain text to train a language model on."""

from __future__ import annotations

from typing import Any

from regard.config.recipe import Recipe
from regard.metrics.verdict import Baseline
from regard.tasks.language.metrics import score_documents
from regard.tasks.language.training import LanguageTraining
from regard.tasks.language.writer import context_of
from regard.tasks.measuring import Beside, Scores, measure, one_line
from regard.tasks.texts import Documents, TextFiles, encode_texts
from regard.tasks.tokenizing import with_tokenizer
from regard.training.setup import RunContext, Say, TaskSetup
from regard.training.warm_start import begin_text_model, start_for


class LanguageSetup(TaskSetup):
    """Streams of ids, and a model that predicts the next one."""

    def __init__(self, recipe: Recipe, context: RunContext) -> None:
        super().__init__(recipe)
        self.files = TextFiles(recipe.data, context.data_root, context.data)
        start = start_for(recipe, context.data_root)
        pieces = with_tokenizer(recipe.tokenizer, start, context)
        self.texts = context.first(
            lambda say: encode_texts(self.files, pieces, context.data, separated=recipe.data.separated, say=say)
        )
        context.keep(self.texts.tokenizer.save)
        forced = {} if recipe.data.context is None else {"n_positions": recipe.data.context}
        self.model, self.spec = begin_text_model(recipe, self.texts.tokenizer, start, context, forced=forced)
        self.context = context_of(self.spec, recipe)
        self.task = LanguageTraining(
            *self.texts,
            context=self.context,
            budget_tokens=recipe.train.batch_tokens,
            seed=recipe.train.seed,
            order=recipe.data.order,
            separated=recipe.data.separated,
            label_smoothing=recipe.train.label_smoothing,
        )

    def about(self) -> str:
        """The text's size, and how much of it is read at once."""
        return f"{len(self.texts.train):,} tokens, rows of {self.context}"

    def counts(self) -> dict[str, Any]:
        """How much text."""
        return {"tokens": len(self.texts.train)}

    def measure(self, say: Say) -> dict[str, dict[str, Any]]:
        """Perplexity and bits per character of the validation text, and of every test set."""
        sets = {"valid": self.files.valid_documents}
        sets |= {name: source.documents for name, source in self.files.tests.items()}
        shown = ("loss", "perplexity", "bits_per_character")
        hints = ["train.steps=" + str(4 * self.recipe.train.steps), "more text"]
        beside: Beside[Documents] = Beside("bits_per_character", self._baselines, hints)
        return measure(sets, self._score, say=say, lines=lambda metrics: [one_line(metrics, shown)], beside=beside)

    def _baselines(self, name: str, documents: Documents) -> list[Baseline]:
        """Counts of n-grams, on the validation text alone: of others there are no ids."""
        from regard.tasks.language.baselines import language_baselines

        train, valid = self.texts.train, self.texts.valid
        if name != "valid":
            return []
        return language_baselines(train.ids, valid.ids, n_vocabulary=len(self.texts.tokenizer), extent=valid.extent)

    def _score(self, documents: Documents) -> Scores:
        return score_documents(
            documents,
            self.model,  # type: ignore[arg-type]  # the task's models are language models
            self.texts.tokenizer,
            context=self.context,
            separated=self.recipe.data.separated,
        )
