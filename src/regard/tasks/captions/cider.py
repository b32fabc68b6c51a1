"""CIDEr-D (Vedantam et al., 2015): does a caption say what people agree on?

    g(caption)ₙ = (how often each n-gram occurs) · log(N / in how many images' references it occurs)
    CIDEr-D = 10 · mean over n = 1 … 4 and references r of
              exp(−(words − words of r)² / 2σ²) · min(g(c), g(r)) · g(r) / (‖g(c)‖ ‖g(r)‖),       σ = 6

What all images share counts for nothing, rare words that people agree on count most. Words are compared as they stand,
without stemming, and the N images are those that are scored. One image alone has no rarities: its score is 0.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

N_GRAMS, SIGMA = 4, 6.0
SIGNATURE = "n:4|sigma:6|idf:references|stem:no|case:lc|punctuation:no|scale:100"
Words = Sequence[str]
Gram = tuple[str, ...]
Vector = dict[Gram, float]


class CiderD:
    """The references of N images, weighed once; `scores` then judges any captions of theirs."""

    def __init__(self, references: Sequence[Sequence[Words]]) -> None:
        self._n = len(references)
        counted = [[count_grams(words) for words in several] for several in references]
        self._images: Counter[Gram] = Counter()
        for several in counted:
            self._images.update({gram for counts in several for gram in counts})
        self._references = [[self._weighed(counts) for counts in several] for several in counted]

    def scores(self, captions: Sequence[Words]) -> NDArray[np.float64]:
        """A score for each caption, 0 to 10, (N,)."""
        scores = []
        for words, references in zip(captions, self._references, strict=True):
            caption = self._weighed(count_grams(words))
            scores.append(10 * sum(_likeness(caption, reference) for reference in references) / len(references))
        return np.array(scores, np.float64)

    def _weighed(self, counts: Counter[Gram]) -> _Weighed:
        vectors: list[Vector] = [{} for _ in range(N_GRAMS)]
        for gram, count in counts.items():
            rarity = math.log(self._n) - math.log(max(1, self._images[gram]))
            vectors[len(gram) - 1][gram] = count * rarity
        norms = [math.sqrt(sum(value * value for value in vector.values())) for vector in vectors]
        length = sum(count for gram, count in counts.items() if len(gram) == 1)
        return _Weighed(vectors, norms, length)


class _Weighed:
    """A caption as vectors, one for each n."""

    def __init__(self, vectors: list[Vector], norms: list[float], length: int) -> None:
        self.vectors, self.norms, self.length = vectors, norms, length


def count_grams(words: Words) -> Counter[Gram]:
    """How often each n-gram of 1 to 4 words occurs."""
    starts = ((begin, begin + n) for n in range(1, N_GRAMS + 1) for begin in range(len(words) - n + 1))
    return Counter(tuple(words[begin:end]) for begin, end in starts)


def _likeness(caption: _Weighed, reference: _Weighed) -> float:
    """The clipped cosine of two captions, the mean over n, less the more their lengths differ."""
    total = 0.0
    for own, other, a, b in zip(caption.vectors, reference.vectors, caption.norms, reference.norms, strict=True):
        if a and b:
            total += sum(min(own[gram], other[gram]) * other[gram] for gram in own.keys() & other.keys()) / (a * b)
    apart = caption.length - reference.length
    return total / N_GRAMS * math.exp(-(apart**2) / (2 * SIGMA**2))
