"""A trained translator.

model = regard.load("runs/de")
model("A dog runs along the beach.")                      → Prediction: text, score, tokens, alternatives
model(["A dog.", "A cat."], beam=5, n_best=3)             → one Prediction a text
model.look("A dog runs along the beach.").plot("a.png")   what it looked at
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Unpack

import numpy as np
from torch import nn

from regard.checkpoints.lock import locked
from regard.checkpoints.run import RunFolder
from regard.checkpoints.spec import Pretrained
from regard.config.recipe import Recipe
from regard.data.batching.ragged import Ragged
from regard.errors import UsageError
from regard.metrics.scores import bleu_by_length
from regard.models.interfaces.text import as_seq2seq
from regard.models.precision import in_precision
from regard.tasks.base import (
    Evaluation,
    Predictor,
    ScoreData,
    TestData,
    check_texts,
    one_or_many,
    random_texts,
    tokenizer_of,
)
from regard.tasks.decode_settings import DecodeSettings
from regard.tasks.measuring import Scores
from regard.tasks.predictions import Prediction
from regard.tasks.translation.config import TranslationDecode
from regard.tasks.translation.data import Languages, PairFiles
from regard.tasks.translation.metrics import TestPairs, score_pairs
from regard.tasks.translation.shortlist import ShortlistTable, read_shortlist
from regard.tasks.translation.translator import Translator, teacher_forced_log_probs

if TYPE_CHECKING:
    from regard.inspection.alignments import Alignment
    from regard.inspection.forward_case import ForwardCase
    from regard.inspection.invariants import Check


class TranslationSettings(DecodeSettings, total=False):
    """The fields of `TranslationDecode`, as a call takes them."""

    shortlist: bool


class TranslationPredictor(Predictor[str, Prediction]):
    """A model, or several that vote at every step, with their languages."""

    verified_on = ("pairs", "sentences of random pieces")

    def __init__(
        self, modules: Sequence[nn.Module], languages: Languages, config: Recipe, *, precision: str = "auto"
    ) -> None:
        super().__init__(modules[0], config)
        self.modules, self.languages, self.precision = list(modules), languages, precision
        quick = [as_seq2seq(in_precision(module, precision)) for module in self.modules]
        self.translator = Translator(quick, languages)
        self._table: ShortlistTable | None = None
        self._keeper = self  # whose run keeps the shortlist

    @classmethod
    def open(cls, pretrained: Pretrained, recipe: Recipe, module: nn.Module, *, precision: str) -> Self:
        """The predictor of an opened model."""
        tokenizers = tokenizer_of(pretrained), pretrained.target_tokenizer
        return cls([module], Languages.of(*tokenizers, moses=recipe.data.moses), recipe, precision=precision)

    def with_models(self, wrap: Callable[[Any], Any]) -> Self:
        """The same, translating with what `wrap` makes of its models."""
        other = copy(self)
        other.translator = copy(self.translator)
        other.translator.models = [wrap(model) for model in self.translator.models]
        return other

    def predict(
        self,
        inputs: Sequence[str],
        *,
        prefix: str | None = None,
        **options: Unpack[TranslationSettings],
    ) -> list[Prediction]:
        """Translate each text.

        `prefix` is how every output has to begin, `options` are fields of `DecodeOptions` that win over the recipe's.
        """
        prefixes = None if prefix is None else [prefix] * len(inputs)
        chosen = self.options(options)
        translations = self.translator(inputs, chosen, prefixes=prefixes, table=self._shortlist(chosen))
        return [Prediction.of(best_first) for best_first in translations]

    __call__ = one_or_many(predict)

    def case(self, input: str, target: str | None = None, **options: Any) -> ForwardCase:
        """A text and its translation, ready to be looked at."""
        from regard.tasks.translation.look import pair_case

        if target is not None:
            check_texts([target])
        source = self.languages.source.encode([input])[0]
        written = self(input, **options).ids if target is None else self.languages.target.encode([target])[0]
        return pair_case(self.module, self.languages, source=source, target=written)

    def log_probs(self, texts: Sequence[str], targets: Sequence[str]) -> list[list[float]]:
        """What the model thinks of translations given: the log-probability of each piece and of the end after it."""
        sides = self.languages.source.encode(texts), self.languages.target.encode(targets)
        return teacher_forced_log_probs(as_seq2seq(self.module), self.languages, sources=sides[0], targets=sides[1])

    def align(self, text: str, prediction: Prediction) -> Alignment:
        """Which word of the prediction comes from which word of the text; a text without words aligns to nothing."""
        from regard.inspection.alignments import Alignment
        from regard.inspection.look import look_at
        from regard.tasks.translation.look import pair_case

        source = self.languages.source.encode([text])[0]
        if not source:
            return Alignment([], np.zeros((0, 0)), "argmax")
        case = pair_case(self.module, self.languages, source=source, target=prediction.ids)
        return look_at(case, kinds=["cross"], alternatives=0).align()

    def evaluate(
        self, data: TestData = None, *, data_root: Path | str | None = None, by_length: bool = False, **options: Any
    ) -> list[Evaluation]:
        """BLEU, chrF, TER, exact match, and the loss of the references; `by_length` adds BLEU by source length."""
        where = self.score_data(data, data_root)
        evaluations = super().evaluate(where, **options)
        if not by_length:
            return evaluations
        sets = zip(evaluations, self.test_sets(where).values(), strict=True)
        return [
            replace(each, by_length=bleu_by_length(pairs.sources, each.outputs, pairs.references, **pairs.cut))
            for each, pairs in sets
        ]

    def given_examples(self, data: ScoreData) -> TestPairs:
        """The pairs of the files given: of a table, or of two parallel texts."""
        described = self.config.data
        if len(data.files) != len(described.train):  # a table instead of parallel texts, or the other way round
            described = replace(described, columns=None, format=None)
        source = PairFiles(described, data.root, data.made).source(data.files, what="data")
        return TestPairs.of(source.pairs(), self.languages)

    def recipe_tests(self, data: ScoreData) -> Mapping[str, TestPairs]:
        """The pairs of every test set of the recipe."""
        tests = PairFiles(self.config.data, data.root, data.made).tests
        return {name: TestPairs.of(source.pairs(), self.languages) for name, source in tests.items()}

    def score(self, examples: TestPairs, options: TranslationDecode) -> Scores:
        """All figures of the translations of a test set."""
        table = self._shortlist(options)
        return score_pairs(examples, self.translator, options, model=as_seq2seq(self.module), table=table)

    def sample(self, examples: TestPairs, n: int) -> list[tuple[str, str]]:
        """The first pairs that say something on both sides."""
        pairs = zip(examples.sources[: 2 * n], examples.references, strict=False)
        return [(source, target) for source, target in pairs if source.strip() and target.strip()][:n]

    def random_sample(self, n: int) -> list[tuple[str, str]]:
        """Sentences of random pieces on both sides."""
        sides = (self.languages.source.tokenizer, self.languages.target.tokenizer)
        texts = [random_texts(tokenizer, n, seed=seed) for seed, tokenizer in enumerate(sides)]
        return list(zip(*texts, strict=True))

    def promises(self, sample: list[tuple[str, str]]) -> Iterator[Check]:
        """Batching, caching, fused kernels, saving and padding."""
        from regard.tasks.translation.invariants import measure_translation

        sources, targets = map(list, zip(*sample, strict=True))
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
        together = TranslationPredictor(modules, self.languages, self.config, precision=self.precision)
        together._keeper = self._keeper
        return together

    def learn_shortlist(self, data: TestData, *, data_root: Path | str | None = None) -> None:
        """Learn the shortlist of a run from pairs of one's own, and keep it there: for models that others trained."""
        if self.folder is None:
            raise UsageError("only a run keeps a shortlist", hint="make it one: regard import FOLDER --out runs/NAME")
        pairs = self.given_examples(self.score_data(data, data_root))
        sides = self.languages.source.encode(pairs.sources), self.languages.target.encode(pairs.references)
        table = ShortlistTable.learn_from(Ragged.of(sides[0]), Ragged.of(sides[1]), self.languages)
        with locked(self.folder, what="learning"):
            table.save(RunFolder(self.folder))
        self._keeper._table = table

    def _shortlist(self, options: TranslationDecode) -> ShortlistTable | None:
        """The shortlist of the run, read when it is first asked for."""
        if not options.shortlist:
            return None
        keeper = self._keeper
        if keeper._table is None:
            trained = bool(self.config.data.train) or self.config.data.synthetic is not None
            keeper._table = read_shortlist(keeper.folder, self.languages, trained=trained)
        return keeper._table


def _fingerprints(languages: Languages) -> tuple[str, str]:
    return languages.source.tokenizer.fingerprint(), languages.target.tokenizer.fingerprint()
