"""Documents to train a masked language model on, with next-sentence prediction."""

from __future__ import annotations

from typing import Any

import torch

from regard.config.recipe import Recipe
from regard.data.text.tokenizers import Tokenizer
from regard.models.flops import count_parameters
from regard.tasks.masked.data import EncodedDocuments, corpus_of, encode_documents
from regard.tasks.masked.sentences import SentenceCorpus
from regard.tasks.masked.training import MaskedTraining
from regard.tasks.texts import TextFiles
from regard.tasks.tokenizing import with_tokenizer
from regard.training.setup import RunContext, Say
from regard.training.warm_start import begin_text_model, open_start


class MaskedSetup:
    """Sentences of documents, and a BERT."""

    def __init__(self, recipe: Recipe, context: RunContext) -> None:
        self.recipe = recipe
        self.folder = context.run.path / "data"
        self.files = TextFiles(recipe.data, context.data_root, self.folder)
        start = open_start(recipe, context.data_root)
        pieces = with_tokenizer(recipe.tokenizer, start, context)

        def prepare(say: Say) -> EncodedDocuments:
            return encode_documents(self.files, recipe.data, pieces, folder=self.folder, say=say)

        documents = context.first(prepare)
        self.tokenizer: Tokenizer = documents.tokenizer
        if context.group.first:
            self.tokenizer.save(context.run.path / "tokenizer.json")
        forced = {"n_positions": recipe.data.length, "nsp": recipe.data.next_sentence}
        self.model, self.described = begin_text_model(recipe, self.tokenizer, start, context, forced=forced)
        self.train_corpus = documents.train
        self.task = self._task(documents.train, documents.valid, device=context.device)

    def introduction(self) -> str:
        """The model's size and the documents."""
        name, size, header = self.recipe.model["name"], count_parameters(self.model), self.train_corpus.header
        return f"{name}: {size:,} parameters; {header.documents:,} documents, {header.tokens:,} tokens"

    def facts(self) -> dict[str, Any]:
        """How much text, and the fingerprints of the files."""
        sources = {"train": self.files.train, "valid": self.files.valid} | self.files.tests
        return {
            "tokens": self.train_corpus.header.tokens,
            "fingerprints": {name: source.fingerprint() for name, source in sources.items() if source is not None},
        }

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
