"""What a translator has to beat: the source as it is, and the translation of the training sentence most like it.

Likeness is the cosine of TF-IDF rows: of words and pairs of words, or of runs of characters where words are few or
not spaced. Sentences are compared with the whole memory in blocks, so that it fits however many there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.data.text.grams import gram_function
from regard.errors import UsageError
from regard.metrics.verdict import Baseline, Judge

MOST_PAIRS = 50_000
_LONGEST = 2_000  # characters read of a sentence
_FEWEST_WORDS = 5  # in a sentence, on average: fewer are compared by their letters, as dates are
_MOST_FEATURES = 200_000
_MANY = 1_000  # sentences among which what every fifth one has tells nothing
_BLOCK = 2**24  # numbers of a block of similarities


def translation_baselines(
    sources: Sequence[str],
    judge: Judge,
    *,
    train: Sequence[tuple[str, str]],
    seed: int = 1,
    most_pairs: int = MOST_PAIRS,
) -> list[Baseline]:
    """Copying, and the nearest training example, judged as the task judges; `train` are pairs of source and target."""
    found = [Baseline("copying the source", judge(list(sources)))]
    if not train:
        return found
    chosen = _sample(len(train), seed=seed, most=most_pairs)
    nearest = nearest_texts([train[i][0] for i in chosen], sources)
    said = [train[chosen[i]][1] for i in nearest]
    cut = f"nearest of {len(chosen):,} out of {len(train):,} training pairs, drawn at random"
    return [*found, Baseline("the nearest training example", judge(said), cut if len(chosen) < len(train) else None)]


def nearest_texts(known: Sequence[str], texts: Sequence[str]) -> npt.NDArray[np.int64]:
    """For each text the number of the known one most like it, (n,); of equals, or where none is, the first."""
    if not known:
        raise UsageError("there is no text to be near to; at least one has to be known")
    from sklearn.feature_extraction.text import TfidfVectorizer

    grams = gram_function(known, fewest_words=_FEWEST_WORDS)
    common = 0.2 if len(known) > _MANY else 1.0
    vectorizer: Any = TfidfVectorizer(
        analyzer=lambda text: grams(text[:_LONGEST]),
        sublinear_tf=True,
        max_features=_MOST_FEATURES,
        max_df=common,
        dtype=np.float32,
    )
    try:
        memory = vectorizer.fit_transform(known).T.tocsr()  # (features, known)
    except ValueError:  # an empty vocabulary
        return np.zeros(len(texts), np.int64)
    rows, found = vectorizer.transform(texts), np.zeros(len(texts), np.int64)
    step = max(1, _BLOCK // len(known))
    for start in range(0, len(texts), step):
        alike = rows[start : start + step] @ memory
        found[start : start + step] = np.asarray(alike.argmax(axis=1)).ravel()
    return found


def _sample(n: int, *, seed: int, most: int) -> list[int]:
    """Which pairs to keep, in their order."""
    if n <= most:
        return list(range(n))
    return sorted(np.random.default_rng(seed).permutation(n)[:most].tolist())
