"""Which target tokens stand for which source tokens, learnt from pairs of ids: IBM model 1 (Brown et al., 1993).

    table = learn_lexical_table(sources, targets)        t(target token | source token), by expectation–maximisation
    table.best(3, n_source=…)                            (n_source, 3), likeliest first, −1 where there are no more

    E    a target token of a pair is shared among the pair's source tokens e, in proportion to t(f | e)
    M    t(f | e) is f's part of all that e got

Every target token with every source token of its pair is a link. A corpus with more links than `MOST_LINKS` is learnt
from at equal steps: what comes up in none of millions of links is no likely translation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.data.batching.ragged import Ragged

Ints = npt.NDArray[np.int64]
MOST_LINKS = 1 << 24  # 40 bytes each while they are counted


@dataclass(frozen=True, eq=False)
class LexicalTable:
    """What was linked at all, in the order of source and target: three of (m,)."""

    sources: Ints
    targets: Ints
    probabilities: npt.NDArray[np.float64]

    def best(self, k: int, *, n_source: int) -> npt.NDArray[np.int32]:
        """The k likeliest targets of every source token, the smaller id first among equals; −1 fills up."""
        order = np.lexsort((self.targets, -self.probabilities, self.sources))
        sources = self.sources[order]
        ranks = np.arange(len(sources)) - np.searchsorted(sources, sources)
        first = ranks < k
        best = np.full((n_source, k), -1, np.int32)
        best[sources[first], ranks[first]] = self.targets[order][first]
        return best


def learn_lexical_table(sources: Ragged, targets: Ragged, *, n_iterations: int = 5) -> LexicalTable:
    """Learn from pairs, sentence by sentence side by side; all links are equally likely at first."""
    links = _Links.of(sources, targets)
    t: npt.NDArray[Any] = np.ones(len(links.sources))
    for _ in range(n_iterations):
        shares = t[links.kinds]
        shares /= np.repeat(np.add.reduceat(shares, links.starts), links.counts)
        got: npt.NDArray[Any] = np.bincount(links.kinds, weights=shares, minlength=len(t))
        t = got / np.bincount(links.sources, weights=got)[links.sources]
    return LexicalTable(links.sources, links.targets, t)


@dataclass(frozen=True, eq=False)
class _Links:
    """All links, those of one target token side by side: from `starts` on, `counts` of them.

    `kinds` (l,) says which of the m pairs of `sources` and `targets` each link is.
    """

    kinds: Ints
    starts: Ints
    counts: Ints
    sources: Ints
    targets: Ints

    @classmethod
    def of(cls, sources: Ragged, targets: Ragged) -> _Links:
        linked = (sources.lengths > 0) & (targets.lengths > 0)  # a side without tokens links nothing
        sources, targets = sources.take(linked), targets.take(linked)
        counts = np.repeat(sources.lengths, targets.lengths)
        each = Ragged.gathered(sources.ids, np.repeat(sources.starts, targets.lengths), counts)
        size = int(targets.ids.max(initial=0)) + 1
        keys = each.ids.astype(np.int64) * size + np.repeat(targets.ids.astype(np.int64), counts)
        kinds, known = _numbered(keys)
        return cls(kinds, each.starts, counts, known // size, known % size)


def _numbered(keys: Ints) -> tuple[Ints, Ints]:
    """Which of the distinct keys, in ascending order, each is: what `np.unique` gives, a few times as fast."""
    order = np.argsort(keys)
    ordered: npt.NDArray[Any] = keys[order]
    first = np.ones(len(keys), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    kinds = np.empty(len(keys), np.int64)
    kinds[order] = np.cumsum(first) - 1
    return kinds, ordered[first]
