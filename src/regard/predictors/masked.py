"""A BERT: it fills masks, judges whether one text follows another, and turns texts into vectors.

model = regard.load("runs/bert")
model("The cat [MASK] on the mat.")             → Filled: text, and the likeliest pieces for each mask
model("It rained.\tWe got wet.")                → Judged: the probability that the second follows the first
model.embed(["A text.", "Another."])            → (2, D)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from regard.data import Tokenizer
from regard.errors import UsageError
from regard.inspection.look import Look, look_at_text
from regard.models.bert import Bert
from regard.predictors.base import Evaluation, Predictor, TestData, check_texts, test_sets
from regard.tasks.filler import Filler, Guess, encode_with_masks
from regard.tasks.masked import corpus_of
from regard.tasks.masked_training import MaskedTraining
from regard.tasks.metrics import Metric
from regard.training.recipe import Recipe


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
        self.tokenizer, self.filler = tokenizer, Filler(module, tokenizer)

    def predict(
        self, texts: Sequence[str], *, keys: Sequence[int] | None = None, k: int | None = None, **options: Any
    ) -> list[Filled | Judged]:
        """Fill the masks of each text with the `k` likeliest pieces; two texts parted by a tab are judged as a pair."""
        if options:
            raise UsageError(f"decode.{next(iter(options))} means nothing to a BERT; what can be set is decode.k")
        found: dict[int, Filled | Judged] = {}
        pairs = [i for i, text in enumerate(texts) if "\t" in text]
        others = [i for i, text in enumerate(texts) if "\t" not in text]
        filled = self.filler.fill([texts[i] for i in others], k=int(k or self.config.decode.k))
        found |= {i: Filled(one.text, one.masks) for i, one in zip(others, filled, strict=True)}
        parts = [texts[i].split("\t", 1) for i in pairs]
        judged = self.filler.judge([first for first, _ in parts], [second for _, second in parts])
        found |= {i: Judged(probability) for i, probability in zip(pairs, judged, strict=True)}
        return [found[i] for i in range(len(texts))]

    def embed(self, texts: Sequence[str], *, normalise: bool = False) -> Tensor:
        """A vector for each text: the mean of its contextual vectors."""
        check_texts(texts)
        return self.filler.embed(texts, normalise=normalise)

    def look(self, text: str, **options: Any) -> Look:
        """Where each piece of a text looked."""
        check_texts([text])
        first, tab, second = text.partition("\t")
        framed = self.filler.framer.frame(self._ids(first), self._ids(second) if tab else None)
        return look_at_text(
            self.module, self.tokenizer, framed.ids, segments=framed.segments if self._segments else None
        )

    def evaluate(self, data: TestData, **options: Any) -> Iterator[Evaluation]:
        """Loss and accuracy of masked pieces and of next sentences on each test text."""
        settings = self.config.data
        files = settings.files(data.root, data.made)
        given = {"data": files.source(tuple(data.files), what="data")} if data.files else None
        found = given or files.tests or ({"valid": files.valid} if files.valid is not None else {})
        for name, source in test_sets(found).items():
            corpus = corpus_of(source.documents, settings, self.tokenizer, folder=data.made, name=f"evaluate-{name}")
            task = MaskedTraining(
                self.tokenizer, corpus, corpus, data=settings, budget_tokens=max(4096, settings.length), seed=0
            )
            figures = task.evaluate(self.module)  # type: ignore[arg-type]
            how = f"{settings.mask_share:.0%} masked, always the same"
            metrics = {key: Metric(key.replace("_", " "), value, how, digits=4) for key, value in figures.items()}
            label = data.files[0] if data.files else name
            yield Evaluation(label, corpus.header.documents, "documents", metrics, [])

    @property
    def _segments(self) -> bool:
        return bool(self.filler.model.config.n_segments)

    def _ids(self, text: str) -> list[int]:
        return (
            self.tokenizer.encode(text) if self.tokenizer.mask_id is None else encode_with_masks(self.tokenizer, text)
        )
