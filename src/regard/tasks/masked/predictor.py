"""A BERT: it fills masks, judges whether one text follows another, and turns texts into vectors.

model = regard.load("runs/bert")
model("The cat [MASK] on the mat.")             → Filled: text, and the likeliest pieces for each mask
model("It rained.\tWe got wet.")                → Judged: the probability that the second follows the first
model.embed(["A text.", "Another."])            → (2, D)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from regard.checkpoints.spec import Pretrained
from regard.config.recipe import Recipe
from regard.data.text.documents import Document
from regard.data.text.tokenizers import Tokenizer
from regard.errors import UsageError
from regard.inspection.forward_case import ForwardCase
from regard.inspection.invariants import Check, Given, Trial, measure_alone, measure_reading, outputs
from regard.inspection.look import text_case
from regard.metrics.bootstrap import Drawn
from regard.metrics.comparing import Compared, Figures, paired
from regard.metrics.scores import Metric
from regard.models.bert import Bert
from regard.tasks.base import (
    Evaluation,
    Predictor,
    ScoreData,
    check_texts,
    first_of,
    random_texts,
    refuse_options,
    refuse_target,
    test_sets,
    tokenizer_of,
    varied,
)
from regard.tasks.labels.labeller import padded
from regard.tasks.masked.batches import MaskedBatch
from regard.tasks.masked.data import corpus_of
from regard.tasks.masked.filler import Filler, Guess, encode_with_masks
from regard.tasks.masked.masking import UNUSED
from regard.tasks.masked.training import MaskedTraining
from regard.tasks.templates import TemplatedRows
from regard.tasks.texts import TextFiles

_LOOKED_AT = 100_000  # characters of a document, where a few sentences are enough


@dataclass(frozen=True)
class Filled:
    """A text with its masks filled by the best guess each, and the guesses for each mask, best first."""

    text: str
    masks: list[list[Guess]] = field(default_factory=list)

    def plain(self) -> str:
        """The filled text, then for each mask its guesses with their probabilities."""
        lines = ["  ".join(f"{guess.token} {guess.probability:.3f}" for guess in mask) for mask in self.masks]
        return "\t".join([self.text, *lines])

    def record(self) -> dict[str, Any]:
        """The text and the guesses."""
        masks = [[{"token": g.token, "probability": g.probability} for g in mask] for mask in self.masks]
        return {"text": self.text, "masks": masks}


@dataclass(frozen=True)
class Judged:
    """The probability that the second of two texts follows the first."""

    probability: float

    def plain(self) -> str:
        """In words and figures."""
        return f"{'follows' if self.probability >= 0.5 else 'does not follow'} {self.probability:.4f}"

    def record(self) -> dict[str, Any]:
        """The probability."""
        return {"follows": self.probability}


class MaskedPredictor(Predictor[Filled | Judged]):
    """A BERT with its tokenizer."""

    def __init__(self, module: nn.Module, tokenizer: Tokenizer, config: Recipe) -> None:
        super().__init__(module, config)
        assert isinstance(module, Bert)
        self.bert, self.tokenizer, self.filler = module, tokenizer, Filler(module, tokenizer)

    @classmethod
    def open(cls, found: Pretrained, recipe: Recipe, module: nn.Module, *, precision: str) -> Self:
        """The predictor of an opened model."""
        return cls(module, tokenizer_of(found), recipe)

    @classmethod
    def reading(cls, found: Pretrained) -> dict[str, Any]:
        """Whether it was taught which sentences follow one another."""
        return {"next_sentence": bool(found.options.get("nsp", True))}

    def predict(
        self, texts: Sequence[str], *, keys: Sequence[int] | None = None, **options: Any
    ) -> list[Filled | Judged]:
        """Fill the masks of each text with the `k` likeliest pieces; two texts parted by a tab are judged as a pair."""
        chosen = self.options(options)
        found: dict[int, Filled | Judged] = {}
        pairs = [i for i, text in enumerate(texts) if "\t" in text]
        others = [i for i, text in enumerate(texts) if "\t" not in text]
        self._check_heads(fills=bool(others), judges=bool(pairs))
        filled = self.filler.fill([texts[i] for i in others], k=chosen.k)
        found |= {i: Filled(one.text, one.masks) for i, one in zip(others, filled, strict=True)}
        parts = [texts[i].split("\t", 1) for i in pairs]
        judged = self.filler.judge([first for first, _ in parts], [second for _, second in parts])
        found |= {i: Judged(probability) for i, probability in zip(pairs, judged, strict=True)}
        return [found[i] for i in range(len(texts))]

    def embed(self, texts: Sequence[str], *, normalise: bool = False) -> Tensor:
        """A vector for each text: the mean of its contextual vectors."""
        check_texts(texts)
        return self.filler.embed(texts, normalise=normalise)

    def case(self, text: str, target: str | None = None, **options: Any) -> ForwardCase:
        """A text, or two parted by a tab, ready to be looked at."""
        check_texts([text])
        refuse_target(target)
        first, tab, second = text.partition("\t")
        framed = self.filler.template.frame(self._ids(first), self._ids(second) if tab else None)
        segments = framed.segments if self.bert.config.n_segments else None
        return text_case(self.module, self.tokenizer, framed.ids, segments=segments, says="here")

    def tests(self, data: ScoreData) -> Mapping[str, Callable[[], Iterable[Document]]]:
        """The texts to score on, by name: of the files given, else of the recipe's test sets, else held out."""
        files = TextFiles(self.config.data, data.root, data.made)
        if data.files:
            return {data.files[0]: files.source(tuple(data.files), what="data").documents}
        found = {name: source.documents for name, source in files.tests.items()}
        held_out = {"valid": files.valid_documents} if self.config.data.train else {}
        return test_sets(found or held_out)

    def evaluate(self, data: ScoreData, **options: Any) -> Iterator[Evaluation]:
        """Loss and accuracy of masked pieces and of next sentences on each test text."""
        refuse_options(options, "when pieces are masked: each is guessed once")
        for name, documents in self.tests(data).items():
            with TemporaryDirectory() as folder:
                task = self._task(documents, Path(folder))
                figures = task.evaluate(self.bert)
                n = task.valid_plan.corpus.header.documents
            how = f"{self.config.data.mask_share:.0%} masked, always the same"
            metrics = {key: Metric(key.replace("_", " "), value, how, digits=4) for key, value in figures.items()}
            yield Evaluation(name, n, "documents", metrics, [])

    def compare(
        self, other: Any, data: ScoreData, *, resamples: int = 1000, seed: int = 1, **options: Any
    ) -> Iterator[Compared]:
        """How well both guess the same masked pieces; for that they need the same pieces."""
        refuse_options(options, "when pieces are masked: each is guessed once")
        self._check_same_task(other)
        if self.tokenizer.fingerprint() != other.tokenizer.fingerprint():
            raise UsageError(
                "these models cut texts into different pieces, so they are not asked the same",
                hint="train both with the same tokenizer: tokenizer.file=RUN/tokenizer.json",
            )
        for name, documents in self.tests(data).items():
            with TemporaryDirectory() as folder:
                batches = list(self._task(documents, Path(folder)).valid_batches())
            systems = (_guesses(self.bert, batches), _guesses(other.bert, batches))
            n = sum(len(batch.lengths) for batch in batches)
            yield Compared(name, n, "examples", paired(systems, n, resamples=resamples, seed=seed))

    def verify(self, data: ScoreData, *, n: int = 24) -> Iterator[Check]:
        """What this model promises, measured on sentences of a test text, or on random pieces."""
        sets = lambda: {name: _sentences(documents()) for name, documents in self.tests(data).items()}  # noqa: E731
        name, texts = first_of(sets, n)
        if len(texts) < 2:
            name, texts = "random pieces", random_texts(self.tokenizer, n)
        self.say(f"on {len(texts)} sentences of {name}")
        rows = TemplatedRows.of(self.filler.template, varied(texts))
        device = self.bert.output_weight.device
        given, segments = padded(rows, range(len(rows)), self.tokenizer.pad_id, device=device)
        trial = Trial(
            self.module,
            Given((given,), segments if self.bert.config.n_segments else None),
            run=outputs if self.bert.config.mlm else _encoded,
            limit=self.bert.config.n_positions,
        )
        yield measure_alone(trial)
        yield from measure_reading(trial)

    def _task(self, documents: Callable[[], Iterable[Document]], folder: Path) -> MaskedTraining:
        """The validation of training, on these documents; of a model without a judge, pieces alone are guessed."""
        self._check_heads(fills=True, judges=False)
        settings = replace(self.config.data, next_sentence=self.config.data.next_sentence and self.bert.config.nsp)
        settings = replace(settings, length=min(settings.length, self.bert.config.n_positions))
        corpus = corpus_of(documents, settings, self.tokenizer, folder=folder, name="evaluate")
        budget = max(4096, settings.length)
        return MaskedTraining(self.tokenizer, corpus, corpus, data=settings, budget_tokens=budget, seed=0)

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


def _sentences(documents: Iterable[Document]) -> Iterator[str]:
    for document in documents:
        yield from (line.strip() for line in document.text[:_LOOKED_AT].splitlines() if line.strip())


def _encoded(module: nn.Module, given: Given) -> Tensor:
    assert isinstance(module, Bert)
    return module.encode(given.rows[0], segments=given.segments)


@torch.inference_mode()
def _guesses(model: Bert, batches: Sequence[MaskedBatch]) -> Figures:
    """The figures of masked pieces, from the sums of each example: (n, 3) of loss, right guesses, and pieces."""
    parts = []
    for batch in batches:
        there = batch.to(model.output_weight.device)
        segments = there.segments if model.config.n_segments else None
        encoded = model.encode(there.rows(), segments=segments)  # (B, T, D)
        used = there.labels != UNUSED
        places, labels = there.places[used], there.labels[used]
        scores = model.unembed(model.mlm_hidden(encoded.flatten(0, 1)[places])).float()
        terms = -scores.log_softmax(-1).gather(-1, labels[:, None])[:, 0]
        each = torch.stack((terms, (scores.argmax(-1) == labels).float(), torch.ones_like(terms)), 1).double()
        sums = torch.zeros(len(encoded), 3, dtype=torch.float64, device=each.device)
        parts.append(sums.index_add_(0, places // encoded.shape[1], each).cpu().numpy())
    table = np.concatenate(parts)

    def figures(drawn: Drawn) -> dict[str, float]:
        loss, right, n = table[drawn].sum(0)
        return {"mlm loss": float(loss / n), "mlm accuracy": float(right / n)}

    return figures
