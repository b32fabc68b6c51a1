"""Documents to train a masked language model on, with next-sentence prediction."""

from __future__ import annotations

from typing import Any

from regard.config.recipe import Recipe
from regard.data.text.tokenizers import Tokenizer
from regard.metrics.verdict import Baseline
from regard.tasks.masked.data import corpus_of, encode_documents
from regard.tasks.masked.metrics import HiddenPieces, score_documents
from regard.tasks.masked.sentences import SentenceCorpus
from regard.tasks.masked.training import MaskedTraining
from regard.tasks.measuring import Beside, measure
from regard.tasks.texts import TextFiles
from regard.tasks.tokenizing import with_tokenizer
from regard.training.setup import RunContext, Say, TaskSetup
from regard.training.warm_start import begin_text_model, start_for


class MaskedSetup(TaskSetup):
    """Sentences of documents, and a BERT."""

    def __init__(self, recipe: Recipe, context: RunContext) -> None:
        super().__init__(recipe)
        self.folder = context.data
        self.files = TextFiles(recipe.data, context.data_root, self.folder)
        start = start_for(recipe, context.data_root)
        pieces = with_tokenizer(recipe.tokenizer, start, context)
        documents = context.first(
            lambda say: encode_documents(self.files, recipe.data, pieces, folder=self.folder, say=say)
        )
        self.tokenizer: Tokenizer = documents.tokenizer
        context.keep(self.tokenizer.save)
        forced = {"n_positions": recipe.data.length, "nsp": recipe.data.next_sentence}
        self.model, self.spec = begin_text_model(recipe, self.tokenizer, start, context, forced=forced)
        self.train_corpus, self.valid_corpus = documents.train, documents.valid
        train = recipe.train
        self.task = MaskedTraining(
            self.tokenizer,
            documents.train,
            documents.valid,
            data=recipe.data,
            budget_tokens=train.batch_tokens,
            seed=train.seed,
            packed=train.layout == "packed" or (train.layout == "auto" and context.device.type == "cuda"),
        )

    def about(self) -> str:
        """The documents."""
        header = self.train_corpus.header
        return f"{header.documents:,} documents, {header.tokens:,} tokens"

    def counts(self) -> dict[str, Any]:
        """How much text."""
        return {"tokens": self.train_corpus.header.tokens}

    def measure(self, say: Say) -> dict[str, dict[str, Any]]:
        """Loss and accuracy of both tasks on the validation documents, and on every test set."""
        sets = {"valid": self.valid_corpus}
        for name, source in self.files.tests.items():
            folder = self.folder / source.fingerprint()[:24]  # its own: the file may have changed since
            sets[name] = corpus_of(source.documents, self.recipe.data, self.tokenizer, folder=folder, name=name)
        model: Any = self.model  # the task's models are BERTs
        hints = [f"train.steps={4 * self.recipe.train.steps}", "more text"]
        beside: Beside[SentenceCorpus] = Beside("mlm_accuracy", self._baselines, hints)
        data = self.recipe.data
        return measure(
            sets, lambda corpus: score_documents(model, corpus, self.tokenizer, data), say=say, beside=beside
        )

    def _baselines(self, name: str, corpus: SentenceCorpus) -> list[Baseline]:
        from regard.tasks.masked.baselines import masked_baselines

        hidden = HiddenPieces(corpus, self.tokenizer, self.recipe.data)
        return masked_baselines(self.train_corpus.ids, hidden.batches(), n_vocabulary=len(self.tokenizer))
