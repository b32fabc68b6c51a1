"""Documents to train a masked language model on, with next-sentence prediction."""

from __future__ import annotations

from typing import Any

from regard.config.recipe import Recipe
from regard.data.text.tokenizers import Tokenizer
from regard.models.flops import count_parameters
from regard.tasks.masked.data import EncodedDocuments, corpus_of, encode_documents
from regard.tasks.masked.metrics import score_documents
from regard.tasks.masked.training import MaskedTraining
from regard.tasks.measuring import measure
from regard.tasks.tokenizing import with_tokenizer
from regard.training.setup import RunContext, Say
from regard.training.warm_start import begin_text_model, open_start


class MaskedSetup:
    """Sentences of documents, and a BERT."""

    def __init__(self, recipe: Recipe, context: RunContext) -> None:
        self.recipe = recipe
        self.folder = context.run.path / "data"
        self.files = recipe.data.files(context.data_root, self.folder)
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
        sets = {"valid": self.valid_corpus}
        for name, source in self.files.tests.items():
            folder = self.folder / source.fingerprint()[:24]  # its own: the file may have changed since
            sets[name] = corpus_of(source.documents, self.recipe.data, self.tokenizer, folder=folder, name=name)
        model: Any = self.model  # the task's models are BERTs
        return measure(sets, lambda corpus: score_documents(model, corpus, self.tokenizer, self.recipe.data), say=say)
