"""How good translations are: BLEU, chrF, TER, exact matches, and the loss of the references."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from regard.data.text.pairs import Pair
from regard.decoding import DecodeOptions
from regard.metrics.scores import Cut, Metric, TextFigures, bleu, exact_match, score_translations
from regard.models.interfaces.text import Seq2SeqModel
from regard.tasks.measuring import Scores
from regard.tasks.translation.data import Languages
from regard.tasks.translation.shortlist import ShortlistTable
from regard.tasks.translation.translator import Translator, teacher_forced_log_probs

PLAIN = Cut(tokenize="13a", lowercase=False, language=None)


def usual_cut(languages: Languages) -> Cut:
    """What is usual for these languages: lower-cased Moses tokens where the task works on them, else 13a."""
    target = languages.target
    if target.language and target.tokenizer.lowercase:
        return Cut(tokenize="moses-lower", lowercase=False, language=target.language)
    return Cut(tokenize="13a", lowercase=target.tokenizer.lowercase, language=None)


class TestPairs(NamedTuple):
    """Pairs to score on, and how their texts are cut."""

    sources: list[str]
    references: list[str]
    cut: Cut

    @classmethod
    def of(cls, pairs: Iterable[Pair], languages: Languages) -> TestPairs:
        """As is usual for these languages."""
        read = list(pairs)
        return cls([pair.source for pair in read], [pair.target for pair in read], usual_cut(languages))


def score_pairs(
    pairs: TestPairs,
    translator: Translator,
    options: DecodeOptions,
    *,
    model: Seq2SeqModel,
    table: ShortlistTable | None = None,
) -> Scores:
    """Translate the sources and compare; `model` is the one whose loss on the references counts."""
    hypotheses = [best_first[0].text for best_first in translator(pairs.sources, options, table=table)]
    references = pairs.references

    def metrics() -> dict[str, Metric]:
        several = {metric.name.lower(): metric for metric in score_translations(hypotheses, references)}
        usual = bleu(hypotheses, references, **pairs.cut)
        extra = {} if usual.signature == several["bleu"].signature else {"usual bleu": usual}
        exact = {"exact match": exact_match(hypotheses, references)}
        return extra | several | exact | {"loss": reference_loss(model, translator.languages, pairs)}

    figures = TextFigures(hypotheses, references, **pairs.cut)
    return Scores(len(references), "pairs", metrics, figures, hypotheses, figures.signatures, digits=2)


def reference_loss(model: Seq2SeqModel, languages: Languages, pairs: TestPairs) -> Metric:
    """What a token of the references costs, in nats."""
    sources, targets = languages.source.encode(pairs.sources), languages.target.encode(pairs.references)
    rows = teacher_forced_log_probs(model, languages, sources=sources, targets=targets)
    terms = [term for row in rows for term in row]
    return Metric("loss", -math.fsum(terms) / len(terms), f"nats a token, over {len(terms):,} tokens", digits=4)
