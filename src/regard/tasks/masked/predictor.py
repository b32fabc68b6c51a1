"""A BERT: it fills masks, judges whether one text follows another, and turns texts into vectors.

model = regard.load("runs/bert")
model("The cat [MASK] on the mat.")             → Filling: text, and the likeliest pieces for each mask
model("It rained.\tWe got wet.")                → NextSentence: the probability that the second follows the first
model.embed(["A text.", "Another."])            → (2, D)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Self, Unpack

from torch import Tensor, nn

from regard.checkpoints.spec import Pretrained
from regard.config.recipe import Recipe
from regard.data.text.tokenizers import Tokenizer
from regard.errors import UsageError
from regard.models.bert import Bert
from regard.models.precision import in_precision
from regard.tasks.base import (
    Predictor,
    ScoreData,
    check_texts,
    one_or_many,
    random_texts,
    refuse_target,
    tokenizer_of,
    varied,
)
from regard.tasks.decode_settings import GuessSettings
from regard.tasks.masked.batches import MaskedBatch
from regard.tasks.masked.config import MaskedData
from regard.tasks.masked.data import corpus_of
from regard.tasks.masked.filler import Filler, Filling, NextSentence, encode_with_masks
from regard.tasks.masked.metrics import HiddenPieces, score_batches, score_documents
from regard.tasks.masked.sentences import SentenceCorpus
from regard.tasks.measuring import Scores
from regard.tasks.registry import GuessOptions
from regard.tasks.templates import measure_texts
from regard.tasks.texts import Documents, TextFiles

if TYPE_CHECKING:
    from regard.checkpoints.usage import Usage
    from regard.inspection.forward_case import ForwardCase
    from regard.inspection.invariants import Check, Given

_LOOKED_AT = 100_000  # characters of a document, where a few sentences are enough


class MaskedPredictor(Predictor[str, Filling | NextSentence]):
    """A BERT with its tokenizer."""

    undecoded = "when pieces are masked: each is guessed once"
    verified_on = ("sentences", "sentences of random pieces")

    def __init__(self, module: nn.Module, tokenizer: Tokenizer, config: Recipe, *, precision: str = "auto") -> None:
        super().__init__(module, config)
        quick = in_precision(module, precision)
        assert isinstance(quick, Bert)
        self.bert, self.tokenizer, self.filler = quick, tokenizer, Filler(quick, tokenizer)
        if not quick.config.mlm:
            self.parts = ("first text", "second text") if quick.config.nsp else ()

    @classmethod
    def open(cls, pretrained: Pretrained, recipe: Recipe, module: nn.Module, *, precision: str) -> Self:
        """The predictor of an opened model."""
        return cls(module, tokenizer_of(pretrained), recipe, precision=precision)

    @classmethod
    def reading(cls, pretrained: Pretrained) -> dict[str, Any]:
        """Whether it was taught which sentences follow one another."""
        return {"next_sentence": bool(pretrained.options.get("nsp", True))}

    @classmethod
    def usage(cls, pretrained: Pretrained, recipe: Recipe) -> Usage:
        """With what stands around a text."""
        from regard.checkpoints.usage import Usage

        tokenizer = tokenizer_of(pretrained)
        framed = tuple(tokenizer.frame([tokenizer.pad_id]).ids)
        at = framed.index(tokenizer.pad_id)
        return Usage(opening=framed[:at], closing=framed[at + 1 :])

    def predict(self, inputs: Sequence[str], **options: Unpack[GuessSettings]) -> list[Filling | NextSentence]:
        """Fill the masks of each text with the `k` likeliest pieces; two texts parted by a tab are judged as a pair."""
        chosen = self.options(options)
        pairs = [text.split("\t", 1) for text in inputs if "\t" in text]
        others = [text for text in inputs if "\t" not in text]
        self._check_heads(fills=bool(others), judges=bool(pairs))
        filled = iter(self.filler.fill(others, k=chosen.k))
        judged = iter(self.filler.judge([first for first, _ in pairs], [second for _, second in pairs]))
        return [NextSentence(next(judged)) if "\t" in text else next(filled) for text in inputs]

    __call__ = one_or_many(predict)

    def embed(self, texts: Sequence[str], *, normalise: bool = False) -> Tensor:
        """A vector for each text: the mean of its contextual vectors."""
        check_texts(texts)
        return self.filler.embed(texts, normalise=normalise)

    def case(self, input: str, target: str | None = None, **options: Any) -> ForwardCase:
        """A text, or two parted by a tab, ready to be looked at."""
        from regard.inspection.forward_case import text_case

        refuse_target(target)
        first, tab, second = input.partition("\t")
        framed = self.filler.template.frame(self._ids(first), self._ids(second) if tab else None)
        segments = framed.segments if self.bert.config.n_segments else None
        return text_case(self.module, self.tokenizer, framed.ids, segments=segments, says="here")

    def given_examples(self, data: ScoreData) -> Documents:
        """The documents of the files given."""
        return TextFiles(self.config.data, data.root, data.made).source(tuple(data.files), what="data").documents

    def recipe_tests(self, data: ScoreData) -> Mapping[str, Documents]:
        """The documents of the recipe's test sets, else those held out."""
        return TextFiles(self.config.data, data.root, data.made).test_documents()

    def score(self, examples: Documents, options: GuessOptions) -> Scores:
        """Loss and accuracy of masked pieces and of next sentences."""
        with self._corpus(examples) as (corpus, settings):
            return score_documents(self.bert, corpus, self.tokenizer, settings)

    def check_comparable(self, other: Self) -> None:
        """Both cut texts into the same pieces."""
        if self.tokenizer.fingerprint() != other.tokenizer.fingerprint():
            raise UsageError(
                "these models cut texts into different pieces, so they are not asked the same",
                hint="train both with the same tokenizer: tokenizer.file=RUN/tokenizer.json",
            )

    def shared(self, other: Self, name: str, examples: Documents, data: ScoreData) -> tuple[Any, Any]:
        """Examples with the same pieces hidden."""
        with self._corpus(examples) as (corpus, settings):
            batches = list(HiddenPieces(corpus, self.tokenizer, settings).batches())
        return batches, batches

    def score_compared(self, examples: Sequence[MaskedBatch], options: GuessOptions) -> Scores:
        """Loss and accuracy of masked pieces, example by example."""
        return score_batches(self.bert, examples)

    def sample(self, examples: Documents, n: int) -> list[str]:
        """The first sentences."""
        lines = (line.strip() for document in examples() for line in document.text[:_LOOKED_AT].splitlines())
        return varied(list(islice(filter(None, lines), n)))

    def random_sample(self, n: int) -> list[str]:
        """Random pieces."""
        return varied(random_texts(self.tokenizer, n))

    def promises(self, sample: list[str]) -> Iterator[Check]:
        """Batching, fused kernels, saving and padding."""
        bert, template = self.bert.config, self.filler.template
        run = {} if bert.mlm else {"run": _encoded}
        segmented = bool(bert.n_segments)
        return measure_texts(self.module, template, sample, segmented=segmented, limit=bert.n_positions, **run)

    @contextmanager
    def _corpus(self, documents: Documents) -> Iterator[tuple[SentenceCorpus, MaskedData]]:
        """The documents as sentences, and how they are read; of a model without a judge, pieces alone are guessed."""
        self._check_heads(fills=True, judges=False)
        data, bert = self.config.data, self.bert.config
        settings = replace(
            data, next_sentence=data.next_sentence and bert.nsp, length=min(data.length, bert.n_positions)
        )
        with TemporaryDirectory() as folder:
            yield corpus_of(documents, settings, self.tokenizer, folder=Path(folder), name="evaluate"), settings

    def _check_heads(self, *, fills: bool, judges: bool) -> None:
        lacks = "fills masks" if fills and not self.bert.config.mlm else ""
        lacks = lacks or ("judges pairs of texts" if judges and not self.bert.config.nsp else "")
        if lacks:
            raise UsageError(
                f"this model has no head that {lacks}", hint="it turns texts into vectors: regard predict --embed"
            )

    def _ids(self, text: str) -> list[int]:
        return (
            self.tokenizer.encode(text) if self.tokenizer.mask_id is None else encode_with_masks(self.tokenizer, text)
        )


def _encoded(module: nn.Module, given: Given) -> Tensor:
    assert isinstance(module, Bert)
    return module.encode(given.rows[0], segments=given.segments)
