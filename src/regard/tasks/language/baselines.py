"""What a language model has to beat: counts of runs of n tokens, interpolated after Kneser and Ney (1995).

    p(w | u v) = max(0, c(u v w) − d) / c(u v •)  +  γ(u v) · p(w | v)          down to 1 / V, the same for every token

At the highest order c counts how often a run stands in the text; below it, how many different tokens it follows. The
discounts d are those of Chen and Goodman (1999), one for runs counted once, twice and more often; γ makes the sum one.
All of it is sorting and looking up: a run of n tokens is the number of its first n − 1 and its last token.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.data.text.streams import Extent
from regard.errors import UsageError
from regard.metrics.verdict import Baseline
from regard.tasks.language.metrics import TextMeasure

Ids = npt.NDArray[Any]
Counts = npt.NDArray[np.int64]
Values = npt.NDArray[np.float64]
MOST_TRAIN = 3_000_000
MOST_VALID = 1_000_000
_FEW_TOKENS = 512  # a vocabulary of characters or bytes
_BLOCKS = 100  # of what is too long to be read whole, so many stretches are
_AT_ONCE = 2**18
_UNSEEN = -1


def order_for(n_vocabulary: int) -> int:
    """How long runs are: five characters, three words."""
    return 5 if n_vocabulary <= _FEW_TOKENS else 3


def language_baselines(
    train: Ids,
    valid: Ids,
    *,
    n_vocabulary: int,
    extent: Extent,
    before: Sequence[int] = (),
    order: int | None = None,
) -> list[Baseline]:
    """Every baseline on the validation ids (n,), with the figures of `TextMeasure` by name.

    `before` are the ids that stand before the first one, if some may; without them it is not predicted, as in
    `measure_ids`. `extent` is how much text is predicted.
    """
    model, n_read = _fitted(train, n_vocabulary=n_vocabulary, order=order or order_for(n_vocabulary))
    stream = np.concatenate([np.asarray(before, np.int64), np.asarray(valid, np.int64)])
    parts = list(stretches(stream, MOST_VALID))
    losses = [-model.log_probabilities(part) for part in parts]
    n = sum(map(len, losses))
    if not n:
        raise UsageError(f"{len(valid)} validation tokens leave nothing to predict; two are needed, or a mark before")
    mean = float(sum(loss.sum() for loss in losses)) / n
    measure = TextMeasure(mean * (len(stream) - 1), len(stream) - 1, extent, context=max(1, model.order - 1), stride=1)
    figures = {name: metric.value for name, metric in measure.metrics().items()}
    notes = [f"counted in {n_read:,} of {len(train):,} training tokens"] if n_read < len(train) else []
    notes += [f"measured on {n:,} of {len(stream) - 1:,} validation tokens"] if n < len(stream) - 1 else []
    name = f"counting {model.order}-grams (Kneser–Ney)"
    return [Baseline(name, figures, f"{model.order}-grams: {', '.join(notes)}" if notes else None)]


@dataclass(frozen=True, eq=False)
class Level:
    """Runs of one length. The context of a run is the number of the run before its last token.

    `keys` are context · V + token, in rising order; `share` is what a run has of its own, `rest` what a context
    leaves to shorter runs: 1 for one that nothing followed.
    """

    keys: Counts  # (runs,)
    share: Values  # (runs,)
    rest: Values  # (contexts,)


@dataclass(frozen=True, eq=False)
class NGram:
    """An interpolated Kneser–Ney model over token ids."""

    levels: tuple[Level, ...]
    n_vocabulary: int

    @property
    def order(self) -> int:
        """How many tokens the longest runs have."""
        return len(self.levels)

    @classmethod
    def fit(cls, ids: Ids, *, n_vocabulary: int, order: int) -> NGram:
        """Count the runs of a text, (n,)."""
        if order < 1 or not len(ids):
            raise UsageError(f"runs of {order} in {len(ids)} tokens cannot be counted; both are at least 1")
        tokens = _checked(ids, n_vocabulary)
        runs = list(_runs(tokens, n_vocabulary, order=min(order, len(tokens))))
        return cls(tuple(_levels(runs, n_vocabulary)), n_vocabulary)

    def log_probabilities(self, stream: Ids) -> Values:
        """The log-probability of every token but the first, given those before it: (n − 1,)."""
        tokens = _checked(stream, self.n_vocabulary)
        found = np.empty(max(0, len(tokens) - 1))
        for start in range(1, len(tokens), _AT_ONCE):
            first = max(0, start - self.order + 1)  # the tokens before a piece that its runs reach back to
            piece = tokens[first : start + _AT_ONCE]
            values = np.log(self._probabilities(piece))[start - first :]
            found[start - 1 : start - 1 + len(values)] = values
        return found

    def distribution(self, context: Sequence[int]) -> Values:
        """The probability of every token after these: (V,), which sums to one."""
        start = list(context)[-(self.order - 1) :] if self.order > 1 else []
        rows = [self._probabilities(np.array([*start, token], np.int64))[-1] for token in range(self.n_vocabulary)]
        return np.array(rows)

    def _probabilities(self, tokens: Counts) -> Values:
        """Of every token of a piece, given those before it in the piece: (n,)."""
        p = np.full(len(tokens), 1 / self.n_vocabulary)
        run = np.zeros(len(tokens), np.int64)  # the number of the run that ends here; of no tokens there is one
        for length, level in enumerate(self.levels):
            context = np.full(len(tokens), _UNSEEN) if length else run
            if length:
                context[1:] = run[:-1]
            run = _look_up(level.keys, np.where(context < 0, _UNSEEN, context * self.n_vocabulary + tokens))
            own = np.where(run < 0, 0.0, level.share[run])
            p = np.where(context < 0, p, own + level.rest[context] * p)
        return p


def stretches(ids: Ids, most: int) -> Iterator[Ids]:
    """All of the ids, or stretches of equal length at equal distances that hold at most so many together."""
    if len(ids) <= most:
        yield ids
        return
    n_blocks = min(_BLOCKS, most)
    for start in np.linspace(0, len(ids) - most // n_blocks, n_blocks, dtype=np.int64).tolist():
        yield ids[start : start + most // n_blocks]


def _fitted(train: Ids, *, n_vocabulary: int, order: int) -> tuple[NGram, int]:
    parts = list(stretches(train, MOST_TRAIN))
    ids = np.concatenate(parts)
    return NGram.fit(ids, n_vocabulary=n_vocabulary, order=order), len(ids)


@dataclass(frozen=True, eq=False)
class _Runs:
    """All runs of one length: their keys, how often each stands in the text, and the number of each without its first.

    `without_first` is None of single tokens.
    """

    keys: Counts
    counts: Counts
    without_first: Counts | None


def _runs(tokens: Counts, n_vocabulary: int, *, order: int) -> Iterator[_Runs]:
    """The runs of each length, one token longer each time."""
    run = np.zeros(len(tokens) + 1, np.int64)  # of those that end at each place; shorter by one each time
    shorter: Counts | None = None
    for length in range(order):
        keys, first_at, run, counts = np.unique(
            run[:-1] * n_vocabulary + tokens[length:], return_index=True, return_inverse=True, return_counts=True
        )
        yield _Runs(keys, counts.astype(np.int64), None if shorter is None else shorter[first_at + 1])
        shorter = run


def _levels(runs: Sequence[_Runs], n_vocabulary: int) -> Iterator[Level]:
    for length, some in enumerate(runs):
        longer = runs[length + 1].without_first if length + 1 < len(runs) else None
        # How many different tokens a run follows: as many as there are longer runs that end in it.
        counts = some.counts if longer is None else np.bincount(longer, minlength=len(some.keys))
        n_contexts = len(runs[length - 1].keys) if length else 1
        context = some.keys // n_vocabulary
        discount = _discounts(counts)[np.minimum(counts, 3)]
        total = np.bincount(context, counts, minlength=n_contexts)
        held = np.bincount(context, discount, minlength=n_contexts)
        rest = np.divide(held, total, out=np.ones(n_contexts), where=total > 0)
        share = (counts - discount) / np.maximum(total[context], 1)
        yield Level(some.keys, share, rest)


def _discounts(counts: Counts) -> Values:
    """What is taken off a run counted 0, 1, 2, 3 or more times (Chen and Goodman, 1999), between 0 and the count."""
    n = np.bincount(np.minimum(counts, 5), minlength=6).astype(np.float64)
    if min(n[1:5]) == 0:  # too little text to estimate them by
        return np.array([0.0, 0.5, 0.75, 0.75])
    y = n[1] / (n[1] + 2 * n[2])
    found = np.array([0.0] + [k - (k + 1) * y * n[k + 1] / n[k] for k in (1, 2, 3)])
    discounts: Values = np.clip(found, [0, 0.1, 0.1, 0.1], [0, 0.95, 1.9, 2.9])
    return discounts


def _look_up(keys: Counts, wanted: Counts) -> Counts:
    """Where in rising keys each wanted one stands, `_UNSEEN` where it does not."""
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[at] == wanted, at, _UNSEEN)


def _checked(ids: Ids, n_vocabulary: int) -> Counts:
    tokens = np.asarray(ids, np.int64)
    if len(tokens) and not 0 <= int(tokens.min()) <= int(tokens.max()) < n_vocabulary:
        raise UsageError(f"ids run from {tokens.min()} to {tokens.max()}; allowed is 0 to {n_vocabulary - 1}")
    return tokens
