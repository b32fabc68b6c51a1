"""BPE-dropout over a corpus: pairs cut anew each epoch, and how long they are to be expected.

New cuts are longer than the stored ones, and how long is known only once they are made. So a plan of batches is made
for the stored lengths times the usual growth; where a static shape is too small all the same, stored cuts go in.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.data import BpeDropout, Corpus
from regard.tasks.pairs import Languages

Ids = Sequence[int] | npt.NDArray[Any]
IdPair = tuple[Ids, Ids]
_SAMPLE = 256  # pairs whose growth is measured
_MARGIN = 1.03  # sums of a batch seldom exceed their mean by more


class Recuts:
    """The pairs of a corpus, cut as (seed, epoch, index) says."""

    def __init__(self, languages: Languages, corpus: Corpus, *, rate: float, seed: int) -> None:
        self.corpus = corpus
        self._source = BpeDropout(languages.source.tokenizer, rate, seed=seed)
        self._target = BpeDropout(languages.target.tokenizer, rate, seed=seed)

    def pair(self, index: int, *, epoch: int) -> IdPair:
        """One pair, cut for an epoch."""
        source = self._source.recut(self.corpus.source(index), epoch=epoch, index=index)
        return source, self._target.recut(self.corpus.target(index), epoch=epoch, index=index)

    def expected(
        self, source_lengths: npt.NDArray[Any], target_lengths: npt.NDArray[Any], *, most: int
    ) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Lengths to plan with: the stored ones (marks included) times the usual growth, never pushed over `most`."""
        some = np.linspace(0, len(self.corpus) - 1, min(_SAMPLE, len(self.corpus))).astype(int)
        cut = [self.pair(int(index), epoch=0) for index in some]
        grown = []
        for side, stored in enumerate((source_lengths, target_lengths)):
            growth = sum(len(pair[side]) + 1 for pair in cut) / int(stored[some].sum())
            longer = np.ceil(stored * max(1.0, growth * _MARGIN)).astype(stored.dtype)
            grown.append(np.maximum(stored, np.minimum(longer, most)))
        return grown[0], grown[1]


def fitting(new: Sequence[IdPair], stored: Sequence[IdPair], *, budget: int, longest: int) -> list[IdPair]:
    """The new cuts, and stored ones, the last first, while the new do not fit: a pair, or all of them together."""
    chosen = [
        cut if max(map(len, cut)) < longest else before  # a mark is still to come
        for cut, before in zip(new, stored, strict=True)
    ]
    totals = [sum(len(pair[side]) + 1 for pair in chosen) for side in (0, 1)]
    for place in reversed(range(len(chosen))):
        if max(totals) <= budget:
            break
        totals = [totals[side] + len(stored[place][side]) - len(chosen[place][side]) for side in (0, 1)]
        chosen[place] = stored[place]
    return chosen
