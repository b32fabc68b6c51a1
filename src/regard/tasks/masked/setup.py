"""Documents to train a masked language model on, with next-sentence prediction."""

from __future__ import annotations

from typing import Any

import torch

from regard.config.recipe import Recipe
from regard.data.text.tokenizers import Tokenizer
from regard.tasks.masked.data import corpus_of, encode_documents
from regard.tasks.masked.sentences import SentenceCorpus
from regard.tasks.masked.training import MaskedTraining
from regard.tasks.tokenizing import with_tokenizer
from regard.training.setup import RunContext, Say, TaskSetup
from regard.training.warm_start import begin_text_model, start_for


class MaskedSetup(TaskSetup):
    """Sentences of documents, and a BERT."""

    def __init__(self, recipe: Recipe, context: RunContext) -> None:
        super().__init__(recipe)
        self.folder = context.data
        self.files = recipe.data.files(context.data_root, self.folder)
        start = start_for(recipe, context.data_root)
        pieces = with_tokenizer(recipe.tokenizer, start, context)
        documents = context.first(
            lambda say: encode_documents(self.files, recipe.data, pieces, folder=self.folder, say=say)
        )
        self.tokenizer: Tokenizer = documents.tokenizer
        context.keep(self.tokenizer.save)
        forced = {"n_positions": recipe.data.length, "nsp": recipe.data.next_sentence}
        self.model, self.spec = begin_text_model(recipe, self.tokenizer, start, context, forced=forced)
        self.train_corpus = documents.train
        self.task: MaskedTraining = self._task(documents.train, documents.valid, device=context.device)

    def about(self) -> str:
        """The documents."""
        header = self.train_corpus.header
        return f"{header.documents:,} documents, {header.tokens:,} tokens"

    def counts(self) -> dict[str, Any]:
        """How much text."""
        return {"tokens": self.train_corpus.header.tokens}

    def measure(self, say: Say) -> dict[str, dict[str, Any]]:
        """Loss and accuracy of both tasks on the validation documents, and on every test set."""
        found = {"valid": self.task.evaluate(self.model)}  # type: ignore[arg-type]  # the task's models are BERTs
        for name, source in self.files.tests.items():
            made = self.folder / source.fingerprint()[:24]  # its own: the file may have changed since
            corpus = corpus_of(source.documents, self.recipe.data, self.tokenizer, folder=made, name=name)
            task = self._task(self.train_corpus, corpus, device=torch.device("cpu"))
            found[name] = task.evaluate(self.model)  # type: ignore[arg-type]
        for name, figures in found.items():
            say(f"{name}: " + "  ".join(f"{key.replace('_', ' ')} {value:.4f}" for key, value in figures.items()))
        how = f"{self.recipe.data.mask_share:.0%} masked, examples of up to {self.recipe.data.length} tokens"
        return {
            name: {key: {"value": value, "signature": how} for key, value in figures.items()}
            for name, figures in found.items()
        }

    def _task(self, train: SentenceCorpus, valid: SentenceCorpus, *, device: torch.device) -> MaskedTraining:
        settings = self.recipe.train
        return MaskedTraining(
            self.tokenizer,
            train,
            valid,
            data=self.recipe.data,
            budget_tokens=settings.batch_tokens,
            seed=settings.seed,
            packed=settings.layout == "packed" or (settings.layout == "auto" and device.type == "cuda"),
        )
