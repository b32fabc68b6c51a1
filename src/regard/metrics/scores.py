"""How good translations are: BLEU, chrF, TER through sacreBLEU, by source length, and whether a difference is chance.

    score_translations(hypotheses, references)      BLEU, chrF, TER, each with its sacreBLEU signature
    bleu(hypotheses, references)                    BLEU alone, quick enough for use during training
    exact_match(hypotheses, references)             the share of lines that equal their reference
    bleu_by_length(sources, hypotheses, references) BLEU for short, longer, long sources
    TextFigures(hypotheses, references)(drawn)      the same of lines drawn, for `comparing.paired`

Texts are plain (detokenised) lines, one reference each. `tokenize` is one of sacreBLEU's ways to cut, or "moses-lower":
lower-cased Moses tokens scored without smoothing, which is what multi-bleu.perl gives on lower-cased, tokenised text.
BLEU, chrF and TER run from 0 to 100, shares from 0 to 1. sacreBLEU is imported when something is scored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from regard.errors import UsageError

TOKENIZERS = ("13a", "intl", "char", "zh", "none", "moses-lower")
METRICS = ("bleu", "chrf", "ter")
EDGES = (10, 15, 20, 25, 30, 40)


@dataclass(frozen=True)
class Metric:
    """A figure with what is needed to compute it again, such as sacreBLEU's signature.

    `low` to `high` is its 95 % interval, where one was computed; `digits` is how many to show after the point.
    """

    name: str
    value: float
    signature: str
    low: float | None = None
    high: float | None = None
    digits: int = 2

    def record(self) -> dict[str, Any]:
        """As a JSON object, under its name."""
        interval = {} if self.low is None or self.high is None else {"low": self.low, "high": self.high}
        return {"value": self.value, "signature": self.signature} | interval

    def __str__(self) -> str:
        interval = "" if self.low is None else f"95 % [{self.low:.{self.digits}f}, {self.high:.{self.digits}f}]  "
        return f"{self.name:<20}{self.value:>9.{self.digits}f}   {interval}{self.signature}"


@dataclass(frozen=True)
class LengthBucket:
    """BLEU of the lines whose source has `low` to `high` words, both included; no `high` is no limit."""

    low: int
    high: int | None
    n: int
    metric: Metric | None  # nothing to score where no line is that long

    @property
    def label(self) -> str:
        """The range as people write it: 10–14, 40+."""
        return f"{self.low}+" if self.high is None else f"{self.low}–{self.high}"


class Cut(TypedDict, total=False):
    """How texts are cut and compared when they are scored; by default as "13a", with upper and lower case."""

    tokenize: str
    lowercase: bool
    language: str | None


def score_translations(hypotheses: Sequence[str], references: Sequence[str], **cut: Unpack[Cut]) -> list[Metric]:
    """BLEU, chrF and TER; "moses-lower" needs the target `language`, such as "de".

    `tokenize` is BLEU's alone, `lowercase` BLEU's and chrF's: TER always compares lower case, as sacreBLEU prints it.
    """
    check_lines(hypotheses=hypotheses, references=references)
    return [_Scorer(name, **cut).score(hypotheses, references) for name in METRICS]


def bleu(hypotheses: Sequence[str], references: Sequence[str], **cut: Unpack[Cut]) -> Metric:
    """BLEU over all lines together; "moses-lower" needs the target `language`, such as "de"."""
    check_lines(hypotheses=hypotheses, references=references)
    return _Scorer("bleu", **cut).score(hypotheses, references)


def exact_match(hypotheses: Sequence[str], references: Sequence[str]) -> Metric:
    """The share of lines, 0 to 1, that equal their reference to the last character."""
    check_lines(hypotheses=hypotheses, references=references)
    n_equal = sum(one == other for one, other in zip(hypotheses, references, strict=True))
    return Metric("exact match", n_equal / len(references), "nrefs:1|case:mixed|tok:none", digits=4)


def bleu_by_length(
    sources: Sequence[str],
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    edges: Sequence[int] = EDGES,
    **cut: Unpack[Cut],
) -> list[LengthBucket]:
    """BLEU in buckets of source length in words; each edge begins a bucket, so (10, 20) gives 0–9, 10–19, 20+."""
    check_lines(sources=sources, hypotheses=hypotheses, references=references)
    if not edges or any(low >= high for low, high in pairwise((0, *edges))):
        raise UsageError(f"edges {list(edges)} do not bound buckets", hint="give rising lengths above 0: (10, 20, 30)")
    scorer = _Scorer("bleu", **cut)
    bucket_of_line = np.digitize([len(source.split()) for source in sources], list(edges))
    buckets = []
    for i, low in enumerate((0, *edges)):
        lines = np.flatnonzero(bucket_of_line == i).tolist()
        metric = scorer.score([hypotheses[k] for k in lines], [references[k] for k in lines]) if lines else None
        buckets.append(LengthBucket(low, edges[i] - 1 if i < len(edges) else None, len(lines), metric))
    return buckets


class TextFigures:
    """Metrics of lines drawn from a set: what each metric counts in every line is kept, and summed over those drawn."""

    def __init__(
        self,
        hypotheses: Sequence[str],
        references: Sequence[str],
        *,
        metrics: Sequence[str] = METRICS,
        **cut: Unpack[Cut],
    ) -> None:
        check_lines(hypotheses=hypotheses, references=references)
        self._texts = hypotheses, references
        self._scorers = [_Scorer(name, **cut) for name in metrics]

    def __call__(self, drawn: NDArray[np.int64]) -> dict[str, float]:
        """The metrics of these lines, by name."""
        return {scorer.name: scorer.value(counts[drawn].sum(0)) for scorer, counts in self._counts}

    def signatures(self) -> dict[str, str]:
        """Each metric's signature, by name."""
        return {scorer.name: scorer.signature() for scorer, _ in self._counts}

    @cached_property
    def _counts(self) -> list[tuple[_Scorer, NDArray[np.float64]]]:
        return [(scorer, scorer.statistics(*self._texts)) for scorer in self._scorers]


class _Scorer:
    """One of sacreBLEU's metrics, and how its texts are prepared.

    A metric is a sum of statistics over lines, and a function of that sum. sacreBLEU keeps the two apart for its own
    significance tests, but that module takes its seed from the environment and gives no interval for the difference.
    """

    def __init__(
        self, metric: str, *, tokenize: str = "13a", lowercase: bool = False, language: str | None = None
    ) -> None:
        if metric not in METRICS:
            raise UsageError(f"there is no metric {metric!r}; there are {', '.join(METRICS)}")
        if tokenize not in TOKENIZERS:
            raise UsageError(f"there is no tokenisation {tokenize!r}; there are {', '.join(TOKENIZERS)}")
        if tokenize == "moses-lower" and language is None:
            raise UsageError("moses-lower needs the language of the references", hint='give language="de", for example')
        # The Moses tokens are BLEU's only: chrF ignores spaces, TER has its own tokens.
        self.moses = language if metric == "bleu" and tokenize == "moses-lower" else None
        self.core = _core(metric, tokenize=tokenize, lowercase=lowercase)
        self.name = {"bleu": "BLEU", "chrf": "chrF", "ter": "TER"}[metric]

    def score(self, hypotheses: Sequence[str], references: Sequence[str]) -> Metric:
        """The metric over all lines together."""
        result = self.core.corpus_score(self._prepare(hypotheses), [self._prepare(references)])
        return Metric(self.name, float(result.score), self.signature())

    def signature(self) -> str:
        """As sacreBLEU prints it, once something was scored; "tok:none" would hide who cut the words."""
        signature = str(self.core.get_signature())
        return signature.replace("tok:none", f"tok:moses-{self.moses}") if self.moses else signature

    def statistics(self, hypotheses: Sequence[str], references: Sequence[str]) -> NDArray[np.float64]:
        """What the metric counts in each line: (lines, counts)."""
        counts = self.core._extract_corpus_statistics(self._prepare(hypotheses), [self._prepare(references)])
        return np.array(counts, dtype=np.float64)

    def value(self, counts: NDArray[np.float64]) -> float:
        """The metric, given its counts summed over lines."""
        return float(self.core._compute_score_from_stats(counts.tolist()).score)

    def _prepare(self, texts: Sequence[str]) -> list[str]:
        if self.moses is None:
            return list(texts)
        from regard.data.text.moses import moses_tokenize

        return [moses_tokenize(text.lower(), self.moses) for text in texts]  # in the order of published test sets


def _core(metric: str, *, tokenize: str, lowercase: bool) -> Any:
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.metrics.ter import TER

    if metric == "chrf":
        return CHRF(lowercase=lowercase)
    if metric == "ter":
        return TER()  # sacreBLEU's default compares lower case, as tercom did: published figures do
    if tokenize == "moses-lower":
        return BLEU(tokenize="none", lowercase=True, smooth_method="none", force=True)
    return BLEU(tokenize=tokenize, lowercase=lowercase, force=tokenize == "none")


def check_lines(**texts: Sequence[str]) -> None:
    """As many lines of each, at least one, and lists of lines rather than one text."""
    for name, lines in texts.items():
        if isinstance(lines, str):
            raise UsageError(f"{name} is one text, not a list of lines", hint=f"give {name} as a list of strings")
    counts = {name: len(lines) for name, lines in texts.items()}
    shown = " and ".join(f"{count} {name}" for name, count in counts.items())
    if len(set(counts.values())) > 1:
        raise UsageError(f"{shown} do not pair up line by line", hint="is a line missing? an empty line counts as one")
    if not all(counts.values()):
        raise UsageError(f"there is nothing to score: {shown}")


Outputs = NDArray[np.float64]


def probabilities(scores: Outputs) -> Outputs:
    """Softmax over the last dimension."""
    shifted = np.exp(scores - scores.max(-1, keepdims=True))
    shares: Outputs = shifted / shifted.sum(-1, keepdims=True)
    return shares


def ranks(values: Outputs) -> Outputs:
    """Places from 1 in rising order; equal values share the mean of theirs."""
    _, which, counts = np.unique(values, return_inverse=True, return_counts=True)
    shared: Outputs = (np.cumsum(counts) - (counts - 1) / 2)[which]
    return shared
