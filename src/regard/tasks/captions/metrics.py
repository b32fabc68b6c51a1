"""How good captions are: BLEU-1 to BLEU-4 and CIDEr-D against all references of an image, and how many are among them.

    judge = CaptionJudge(references)             references: several texts an image
    judge.score(captions).figures()              by name; `.figures(drawn)` of images drawn with replacement

Captions are compared as the literature does: lower case, words alone. BLEU's counts are sacreBLEU's (the length that
brevity is judged by is the closest reference's); BLEU-n is the geometric mean of the first n precisions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data.images.captions import without_punctuation
from regard.decoding import DecodeOptions
from regard.errors import UsageError
from regard.metrics.bootstrap import Drawn
from regard.metrics.scores import Metric
from regard.tasks.captions.cider import SIGNATURE, CiderD
from regard.tasks.captions.data import Pictures
from regard.tasks.captions.writer import CaptionWriter
from regard.tasks.measuring import Scores

ORDER = 4


@dataclass(frozen=True, eq=False)
class CaptionScores:
    """What was counted of each caption: `counts` (n, 10) of sacreBLEU, CIDEr-D (n,), and whether it is a reference."""

    counts: NDArray[np.float64]
    cider: NDArray[np.float64]
    exact: NDArray[np.float64]
    bleu_signature: str

    def figures(self, drawn: Drawn | None = None) -> dict[str, float]:
        """All figures, of all captions or of those drawn: BLEU and CIDEr-D from 0 to 100 and beyond, shares to 1."""
        places = np.arange(len(self.exact)) if drawn is None else drawn
        sums = self.counts[places].sum(0)
        scores = {f"BLEU-{n}": bleu_of(sums, n) for n in range(1, ORDER + 1)}
        return scores | {
            "CIDEr-D": 100 * float(self.cider[places].mean()),
            "exact match": float(self.exact[places].mean()),
        }

    def metrics(self) -> dict[str, Metric]:
        """The same with what is needed to compute them again, by lower-case name."""
        how = {"CIDEr-D": SIGNATURE, "exact match": "any reference|case:lc|punctuation:no"}
        return {
            name.lower(): Metric(
                name, value, how.get(name, self.bleu_signature), digits=4 if name == "exact match" else 2
            )
            for name, value in self.figures().items()
        }


class CaptionJudge:
    """The references of some images, prepared once."""

    def __init__(self, references: Sequence[Sequence[str]]) -> None:
        from sacrebleu.metrics.bleu import BLEU

        if not references or not all(references):
            raise UsageError("there is nothing to score: every image needs a reference")
        self._plain = [[plain(text) for text in several] for several in references]
        self._cider = CiderD([[text.split() for text in several] for several in self._plain])
        most = max(map(len, self._plain))
        # sacreBLEU takes streams of references, with nothing where an image has fewer.
        self._streams: Any = [
            [several[i] if i < len(several) else None for several in self._plain] for i in range(most)
        ]
        self._bleu = BLEU(max_ngram_order=ORDER, tokenize="none", smooth_method="none", force=True)

    def score(self, captions: Sequence[str]) -> CaptionScores:
        """Count everything about these captions, one an image."""
        if len(captions) != len(self._plain):
            raise UsageError(f"{len(captions)} captions do not pair up with {len(self._plain)} images")
        said = [plain(text) for text in captions]
        counts = np.array(self._bleu._extract_corpus_statistics(said, self._streams), np.float64)
        exact = np.array([text in several for text, several in zip(said, self._plain, strict=True)], np.float64)
        signature = str(self._bleu.get_signature()).replace("case:mixed", "case:lc") + "|punctuation:no"
        return CaptionScores(counts, self._cider.scores([text.split() for text in said]), exact, signature)


def score_captions(writer: CaptionWriter, pictures: Pictures, options: DecodeOptions) -> Scores:
    """What a captioner says about images, against all that people said."""
    captions = [best_first[0].text for best_first in writer(pictures.pixels, options)]
    scores = CaptionJudge(pictures.captions).score(captions)
    return Scores(len(pictures), "images", scores.metrics, scores.figures, captions, digits=2)


def plain(text: str) -> str:
    """A caption as it is compared: lower case, words alone."""
    return without_punctuation(text.lower())


def bleu_of(sums: NDArray[np.float64], n: int) -> float:
    """BLEU-n, 0 to 100, of summed counts: lengths of captions and references, matches and n-grams of 1 to 4 words."""
    length, closest = sums[0], sums[1]
    matches, grams = sums[2 : 2 + n], sums[2 + ORDER : 2 + ORDER + n]
    if not length or not matches.all():
        return 0.0
    brevity = min(0.0, 1 - closest / length)
    return 100 * math.exp(brevity + float(np.log(matches / grams).mean()))
