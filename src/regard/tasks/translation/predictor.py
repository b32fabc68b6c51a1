"""A trained translator.

model = regard.load("runs/de")
model("A dog runs along the beach.")                      → Prediction: text, score, tokens, alternatives
model(["A dog.", "A cat."], beam=5, n_best=3)             → one Prediction a text
model.look("A dog runs along the beach.").plot("a.png")   what it looked at
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from torch import nn

from regard.checkpoints.spec import Pretrained
from regard.config.recipe import Recipe
from regard.data.text.pairs import Pair
from regard.errors import UsageError
from regard.inspection.alignments import Alignment
from regard.inspection.forward_case import ForwardCase
from regard.inspection.invariants import Check
from regard.inspection.look import look_at
from regard.metrics.comparing import Compared
from regard.metrics.scores import METRICS, Metric, bleu_by_length, paired_bootstrap
from regard.models.interfaces.text import as_seq2seq
from regard.models.precision import in_precision
from regard.tasks.base import (
    Evaluation,
    Predictor,
    ScoreData,
    check_texts,
    first_of,
    random_texts,
    test_sets,
    tokenizer_of,
)
from regard.tasks.translation.data import Languages, PairFiles
from regard.tasks.translation.invariants import measure_translation
from regard.tasks.translation.look import pair_case
from regard.tasks.translation.setup import scores
from regard.tasks.translation.translator import Translation, Translator, teacher_forced_log_probs, usual_cut


@dataclass(frozen=True)
class Prediction:
    """What a model says: the text, how sure it is, the pieces, and what else it might have said, best first.

    `score` is what hypotheses are ranked by, `log_prob` the model's own log-probability of the pieces.
    """

    text: str
    score: float = 0.0
    tokens: list[str] = field(default_factory=list)
    alternatives: list[Prediction] = field(default_factory=list)
    log_prob: float = 0.0
    ids: list[int] = field(default_factory=list)
    finished: bool = True

    @classmethod
    def of(cls, translations: Sequence[Translation]) -> Prediction:
        """The best of several, with the others as its alternatives."""
        made = [cls(t.text, t.score, t.tokens, [], t.log_prob, t.ids, t.finished) for t in translations]
        made[0].alternatives.extend(made[1:])
        return made[0]

    def plain(self) -> str:
        """The text in one line, whatever the model wrote."""
        return " ".join(self.text.splitlines())

    def record(self) -> dict[str, Any]:
        """Text, score and pieces, and those of the alternatives."""
        return self._facts() | {"alternatives": [other._facts() for other in self.alternatives]}

    def _facts(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("text", "score", "log_prob", "tokens")}


class TranslationPredictor(Predictor[Prediction]):
    """A model, or several that vote at every step, with their languages."""

    def __init__(
        self, modules: Sequence[nn.Module], languages: Languages, config: Recipe, *, precision: str = "auto"
    ) -> None:
        super().__init__(modules[0], config)
        self.modules, self.languages, self.precision = list(modules), languages, precision
        quick = [as_seq2seq(in_precision(module, precision)) for module in self.modules]
        self._translator = Translator(quick, languages)

    @classmethod
    def open(cls, found: Pretrained, recipe: Recipe, module: nn.Module, *, precision: str) -> Self:
        """The predictor of an opened model."""
        languages = Languages.of(tokenizer_of(found), found.target_tokenizer, moses=recipe.data.moses)
        return cls([module], languages, recipe, precision=precision)

    def predict(
        self,
        texts: Sequence[str],
        *,
        keys: Sequence[int] | None = None,
        prefix: str | None = None,
        **options: Any,
    ) -> list[Prediction]:
        """Translate each text.

        `prefix` is how every output has to begin, `options` are fields of `DecodeOptions` that win over the recipe's.
        """
        prefixes = None if prefix is None else [prefix] * len(texts)
        found = self._translator(texts, self.options(options), prefixes=prefixes, keys=keys)
        return [Prediction.of(several) for several in found]

    def case(self, text: str, target: str | None = None, **options: Any) -> ForwardCase:
        """A text and its translation, ready to be looked at."""
        check_texts([text] if target is None else [text, target])
        source = self.languages.source.encode([text])[0]
        written = self(text, **options).ids if target is None else self.languages.target.encode([target])[0]
        return pair_case(self.module, self.languages, source=source, target=written)

    def log_probs(self, texts: Sequence[str], targets: Sequence[str]) -> list[list[float]]:
        """What the model thinks of translations given: the log-probability of each piece and of the end after it."""
        sides = self.languages.source.encode(texts), self.languages.target.encode(targets)
        return teacher_forced_log_probs(as_seq2seq(self.module), self.languages, sources=sides[0], targets=sides[1])

    def align(self, text: str, prediction: Prediction) -> Alignment:
        """Which word of the prediction comes from which word of the text; a text without words aligns to nothing."""
        source = self.languages.source.encode([text])[0]
        if not source:
            return Alignment([], np.zeros((0, 0)), "argmax")
        case = pair_case(self.module, self.languages, source=source, target=prediction.ids)
        return look_at(case, kinds=["cross"], alternatives=0).align()

    def test_pairs(self, data: ScoreData) -> Mapping[str, list[Pair]]:
        """The pairs to score on, by name: those of the files given, else of every test set of the recipe."""
        described = self.config.data
        if len(data.files) != len(described.train):  # a table instead of parallel texts, or the other way round
            described = replace(described, columns=None, format=None)
        found = PairFiles(described, data.root, data.made)
        if data.files:
            return {data.files[0]: list(found.source(data.files, what="data").pairs())}
        return {name: list(source.pairs()) for name, source in test_sets(found.tests).items()}

    def evaluate(self, data: ScoreData, *, by_length: bool = False, **options: Any) -> Iterator[Evaluation]:
        """BLEU, chrF, TER, exact match, and the loss of the references, on each test set."""
        for name, pairs in self.test_pairs(data).items():
            yield self._evaluation(name, pairs, by_length=by_length, options=options)

    def compare(
        self, other: Any, data: ScoreData, *, resamples: int = 1000, seed: int = 1, **options: Any
    ) -> Iterator[Compared]:
        """BLEU, chrF and TER of both models' translations of the same pairs."""
        self._check_same_task(other)
        cut = usual_cut(self.languages)
        for name, pairs in self.test_pairs(data).items():
            sources, references = [pair.source for pair in pairs], [pair.target for pair in pairs]
            a, b = ([one.text for one in model(sources, **options)] for model in (self, other))
            found = [
                paired_bootstrap(references, a, b, metric=metric, n=resamples, seed=seed, **cut) for metric in METRICS
            ]
            yield Compared(name, len(pairs), "pairs", found, digits=2)

    def verify(self, data: ScoreData, *, n: int = 24) -> Iterator[Check]:
        """What this model promises, measured on pairs of a test set, or on sentences of random pieces."""
        name, pairs = first_of(lambda: self.test_pairs(data), 2 * n)
        usable = [pair for pair in pairs if pair.source.strip() and pair.target.strip()][:n]
        if len(usable) > 1:
            self.say(f"on {len(usable)} pairs of {name}")
            sources, targets = [pair.source for pair in usable], [pair.target for pair in usable]
        else:
            self.say(f"on {n} sentences of random pieces: the recipe's test set is not here")
            sides = (self.languages.source.tokenizer, self.languages.target.tokenizer)
            sources, targets = (random_texts(tokenizer, n, seed=seed) for seed, tokenizer in enumerate(sides))
        return measure_translation(self.module, self.languages, sources=sources, targets=targets)

    def ensemble(self, *others: TranslationPredictor) -> TranslationPredictor:
        """A predictor for which these models vote at every step; they have to share their vocabularies."""
        own = _fingerprints(self.languages)
        for number, other in enumerate(others, start=2):
            if _fingerprints(other.languages) != own:
                raise UsageError(
                    f"model {number} of the ensemble has other vocabularies than the first, so they cannot vote",
                    hint="train both with the same data and the same [tokenizer]",
                )
        modules = [module for predictor in (self, *others) for module in predictor.modules]
        return TranslationPredictor(modules, self.languages, self.config, precision=self.precision)

    def _evaluation(
        self, name: str, pairs: Sequence[Pair], *, by_length: bool, options: Mapping[str, Any]
    ) -> Evaluation:
        sources, references = [pair.source for pair in pairs], [pair.target for pair in pairs]
        hypotheses = [prediction.text for prediction in self.predict(sources, **options)]
        terms = [term for row in self.log_probs(sources, references) for term in row]
        loss = -math.fsum(terms) / len(terms)
        metrics = scores(self.languages, hypotheses, references)
        metrics["loss"] = Metric("loss", loss, f"nats a token, over {len(terms):,} tokens", digits=4)
        cut = usual_cut(self.languages)
        lengths = bleu_by_length(sources, hypotheses, references, **cut) if by_length else []
        return Evaluation(name, len(pairs), "pairs", metrics, hypotheses, lengths)


def _fingerprints(languages: Languages) -> tuple[str, str]:
    return languages.source.tokenizer.fingerprint(), languages.target.tokenizer.fingerprint()
