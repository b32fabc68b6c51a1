"""Plain text to train a language model on."""

from __future__ import annotations

from typing import Any

from regard.checkpoints.spec import ModelSpec
from regard.config.recipe import Recipe
from regard.models.flops import count_parameters
from regard.tasks.language.metrics import TextMeasure, measure_text
from regard.tasks.language.training import LanguageTraining
from regard.tasks.texts import EncodedTexts, TextFiles, encode_texts
from regard.tasks.tokenizing import with_tokenizer
from regard.training.setup import RunContext, Say
from regard.training.warm_start import begin_text_model, open_start


class LanguageSetup:
    """Streams of ids, and a model that predicts the next one."""

    def __init__(self, recipe: Recipe, context: RunContext) -> None:
        self.recipe = recipe
        self.files = TextFiles(recipe.data, context.data_root, context.run.path / "data")
        start = open_start(recipe, context.data_root)
        pieces = with_tokenizer(recipe.tokenizer, start, context)

        def prepare(say: Say) -> EncodedTexts:
            return encode_texts(self.files, pieces, context.run.path / "data", separated=recipe.data.separated, say=say)

        self.texts = context.first(prepare)
        if context.group.first:
            self.texts.tokenizer.save(context.run.path / "tokenizer.json")
        forced = {} if recipe.data.context is None else {"n_positions": recipe.data.context}
        self.model, self.described = begin_text_model(recipe, self.texts.tokenizer, start, context, forced=forced)
        self.context = context_of(self.described, recipe)
        self.task = LanguageTraining(
            *self.texts,
            context=self.context,
            budget_tokens=recipe.train.batch_tokens,
            seed=recipe.train.seed,
            order=recipe.data.order,
            separated=recipe.data.separated,
            label_smoothing=recipe.train.label_smoothing,
        )

    def introduction(self) -> str:
        """The model's size and the text's."""
        name, size = self.recipe.model["name"], count_parameters(self.model)
        return f"{name}: {size:,} parameters; {len(self.texts.train):,} tokens, rows of {self.context}"

    def facts(self) -> dict[str, Any]:
        """How much text, and the fingerprints of the files."""
        sources = {"train": self.files.train, "valid": self.files.valid} | self.files.tests
        return {
            "tokens": len(self.texts.train),
            "fingerprints": {name: source.fingerprint() for name, source in sources.items() if source is not None},
        }

    def measure(self, say: Say) -> dict[str, dict[str, Any]]:
        """Perplexity and bits per character of the validation text, and of every test set."""
        found = {"valid": self._measured(self.files.valid_documents())}
        found |= {name: self._measured(source.documents()) for name, source in self.files.tests.items()}
        for name, measure in found.items():
            say(f"{name}: loss {measure.loss:.4f}  perplexity {measure.perplexity:.2f}  "
                f"bits per character {measure.bits_per_character:.4f}")  # fmt: skip
        return {
            name: {key: metric.record() for key, metric in measure.metrics().items()} for name, measure in found.items()
        }

    def _measured(self, documents: Any) -> TextMeasure:
        return measure_text(
            self.model,  # type: ignore[arg-type]  # the task's models are language models
            self.texts.tokenizer,
            documents,
            context=self.context,
            separated=self.recipe.data.separated,
        )


def context_of(described: ModelSpec, recipe: Recipe) -> int:
    """How many tokens the model reads at once: as many as the recipe says, else as it can."""
    limit = int(described.options["n_positions"])
    return limit if recipe.data.context is None else min(limit, recipe.data.context)
