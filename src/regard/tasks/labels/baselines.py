"""What a classifier of texts has to beat: the commonest class, and a linear model of which words a text has.

    classes    always saying the commonest · TF-IDF with logistic regression, one class against the rest
    numbers    always saying the mean      · TF-IDF with ridge regression

TF-IDF counts words and pairs of words, damped (1 + log n), in texts cut to their beginning; of two texts both, each
with its own words, and how much they share. What is too much for seconds is sampled, and the note says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.config.process import no_warnings
from regard.data.text.grams import Grams, gram_function, words
from regard.errors import UsageError
from regard.metrics.verdict import Baseline
from regard.tasks.labels.metrics import class_figures, number_figures

Text = str | tuple[str, str]
Labels = npt.NDArray[Any]
MOST_TEXTS = 50_000
_MOST_CHARACTERS = 12_000_000  # of all training texts together
_LONGEST = 4_000  # characters read of a text
_MOST_FEATURES = 200_000
_MOST_WORK = 12_000_000  # counted grams times classes: about a second a million on a slow core
_INVERSE_PENALTY = 10.0  # rows of TF-IDF have length 1, so little holds the weights back
_PENALTIES = (0.1, 0.3, 1.0, 3.0, 10.0)
_HELD_OUT = 5  # one text in so many chooses the penalty of ridge regression


def label_baselines(
    train: Sequence[Text],
    labels: npt.ArrayLike,
    tests: Mapping[str, tuple[Sequence[Text], npt.ArrayLike]],
    *,
    names: Sequence[str] = (),
    seed: int = 1,
    most_texts: int = MOST_TEXTS,
) -> dict[str, list[Baseline]]:
    """The baselines of every test set (texts and labels), by its name.

    Labels are numbers of the classes called `names`; without names they are numbers on a scale.
    """
    known = np.asarray(labels, np.int64 if names else np.float64)
    if len(known) != len(train) or not len(known):
        raise UsageError(f"{len(train)} training texts and {len(known)} labels do not pair up; at least one is needed")
    simple = constant_label(known, names=names)
    linear = LinearText.fit(train, known, names=names, seed=seed, most_texts=most_texts)
    found = {}
    for name, (texts, truth) in tests.items():
        said = np.full(len(texts), simple.label)
        found[name] = [Baseline(simple.name, _figures(truth, said, names))]
        if linear is not None:
            found[name].append(Baseline(linear.name, _figures(truth, linear.predict(texts), names), linear.note))
    return found


@dataclass(frozen=True)
class ConstantLabel:
    """Says the same of every text."""

    label: float
    name: str


def constant_label(labels: Labels, *, names: Sequence[str] = ()) -> ConstantLabel:
    """The commonest class, of equally common ones the first; or the mean."""
    if not names:
        return ConstantLabel(float(labels.mean()), "always saying the mean")
    commonest = int(np.bincount(labels, minlength=len(names)).argmax())
    return ConstantLabel(commonest, f"always saying {names[commonest]}")


@dataclass(frozen=True, eq=False)
class LinearText:
    """A linear model of TF-IDF features."""

    features: Features
    model: Any
    name: str
    note: str | None

    @classmethod
    def fit(
        cls, train: Sequence[Text], labels: Labels, *, names: Sequence[str], seed: int, most_texts: int = MOST_TEXTS
    ) -> LinearText | None:
        """Learn from (a sample of) the training texts; None where there is nothing to tell apart, or by."""
        chosen = _sample(train, seed=seed, most_texts=most_texts)
        texts, known = [train[i] for i in chosen], labels[chosen]
        learnt = None if len(np.unique(known)) < 2 else Features.fit(texts)
        if learnt is None:
            return None
        features, x = learnt
        n_models = 1 if len(names) <= 2 else len(np.unique(known))
        affordable = max(len(names), int(len(texts) * min(1.0, _MOST_WORK / (x.nnz * n_models))))
        if affordable < len(texts):  # the sample is in no order, so that its beginning is a sample too
            x, known = x[:affordable], known[:affordable]
        model = _logistic(x, known, seed=seed) if names else _ridge(x, known)
        note = _note(len(known), len(train), cut=any(len(part) > _LONGEST for text in texts for part in _parts(text)))
        return cls(features, model, f"TF-IDF with {'logistic' if names else 'ridge'} regression", note)

    def predict(self, texts: Sequence[Text]) -> Labels:
        """A class or a number a text, (n,)."""
        predicted: Labels = self.model.predict(self.features(texts))
        return predicted


@dataclass(frozen=True, eq=False)
class Features:
    """What a linear model sees of texts or pairs of texts."""

    vectorizer: Any
    grams: Grams

    @classmethod
    def fit(cls, texts: Sequence[Text]) -> tuple[Features, Any] | None:
        """The features of some training texts, and their matrix; None if they are all empty."""
        from sklearn.feature_extraction.text import TfidfVectorizer

        grams = gram_function([_parts(text)[0] for text in texts])
        counting = {"analyzer": lambda text: _marked_grams(text, grams), "sublinear_tf": True}
        vectorizer = TfidfVectorizer(max_features=_MOST_FEATURES, **counting)
        try:
            counted = vectorizer.fit_transform(texts)
        except ValueError:  # an empty vocabulary
            return None
        features = cls(vectorizer, grams)
        return features, features._with_overlap(counted, texts)

    def __call__(self, texts: Sequence[Text]) -> Any:
        """A sparse matrix (n, features); pairs have a few more columns, of what they share."""
        return self._with_overlap(self.vectorizer.transform(texts), texts)

    def _with_overlap(self, counted: Any, texts: Sequence[Text]) -> Any:
        pairs = [text for text in texts if not isinstance(text, str)]
        if not pairs:
            return counted
        from scipy import sparse  # type: ignore[import-untyped]

        shared = np.array([_overlap(*pair, grams=self.grams) for pair in pairs])
        return sparse.hstack([counted, sparse.csr_matrix(shared)], format="csr")


def _marked_grams(text: Text, grams: Grams) -> list[str]:
    """The grams of a text; of two, which of them each stands in."""
    if isinstance(text, str):
        return grams(text[:_LONGEST])
    one, other = (grams(part[:_LONGEST]) for part in text)
    return [f"1 {gram}" for gram in one] + [f"2 {gram}" for gram in other]


def _overlap(one: str, other: str, *, grams: Grams) -> list[float]:
    """What two texts share, in shares of 0 to 1: of words and of grams together and of either, and of their length."""
    found = []
    for cut in (words, grams):
        a, b = set(cut(one[:_LONGEST])), set(cut(other[:_LONGEST]))
        shared = len(a & b)
        found += [shared / max(1, len(a | b)), shared / max(1, len(a)), shared / max(1, len(b))]
    return [*found, min(len(one), len(other)) / max(1, len(one), len(other))]


def _logistic(x: Any, labels: Labels, *, seed: int) -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.multiclass import OneVsRestClassifier
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    # Of the solvers this one is quickest by far where features are many and rows nearly empty.
    one = LogisticRegression(C=_INVERSE_PENALTY, solver="liblinear", random_state=seed)
    # Products this small are slower on several threads, many times so where cores are busy.
    with no_warnings(), threadpool_limits(1):  # stopped a little early it is a baseline all the same
        return OneVsRestClassifier(one).fit(x, labels)


def _ridge(x: Any, labels: Labels) -> Any:
    """With the penalty that does best on held-out texts."""
    from sklearn.linear_model import Ridge

    def fit(penalty: float, rows: Any) -> Any:
        return Ridge(alpha=penalty, solver="sparse_cg", tol=1e-4).fit(x[rows], labels[rows])

    held = np.arange(len(labels)) % _HELD_OUT == 0
    if held.all():
        return fit(_PENALTIES[-1], slice(None))
    errors = [np.mean((fit(p, ~held).predict(x[held]) - labels[held]) ** 2) for p in _PENALTIES]
    return fit(_PENALTIES[int(np.argmin(errors))], slice(None))


def _sample(texts: Sequence[Text], *, seed: int, most_texts: int) -> npt.NDArray[np.int64]:
    """Which texts to learn from, in random order: as many as seconds allow."""
    order = np.random.default_rng(seed).permutation(len(texts))[:most_texts]
    lengths = [sum(min(len(part), _LONGEST) for part in _parts(texts[i])) for i in order]
    n = int(np.searchsorted(np.cumsum(lengths), _MOST_CHARACTERS, side="right"))
    return order[: max(1, n)]


def _parts(text: Text) -> tuple[str, ...]:
    return (text,) if isinstance(text, str) else text


def _note(n: int, n_all: int, *, cut: bool) -> str | None:
    sampled = f"learnt from {n:,} of {n_all:,} training texts, drawn at random" if n < n_all else ""
    begun = f"the first {_LONGEST:,} characters of each text" if cut else ""
    said = "; ".join(part for part in (sampled, begun) if part)
    return f"TF-IDF: {said}" if said else None


def _figures(truth: npt.ArrayLike, predicted: Labels, names: Sequence[str]) -> dict[str, float]:
    if names:
        return class_figures(truth, predicted, n_classes=len(names))
    return number_figures(truth, predicted)
