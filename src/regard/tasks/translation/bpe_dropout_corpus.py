"""BPE-dropout over a corpus: pairs cut anew each epoch, and how long they are to be expected.

New cuts are longer than the stored ones, and how long is known only once they are made. So a plan of batches is made
for the stored lengths times the usual growth; where a static shape is too small all the same, stored cuts go in.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from regard.data.batching.plan import Indices
from regard.data.batching.ragged import Ragged
from regard.data.text.bpe_dropout import BpeDropout
from regard.data.text.corpus import Corpus
from regard.tasks.translation.data import Languages

Both = tuple[Ragged, Ragged]
_SAMPLE = 256  # pairs whose growth is measured
_MARGIN = 1.03  # sums of a batch seldom exceed their mean by more


class BpeDropoutCorpus:
    """The pairs of a corpus, cut as (seed, epoch, index) says."""

    def __init__(self, languages: Languages, corpus: Corpus, *, rate: float, seed: int) -> None:
        self.corpus = corpus
        self._source = BpeDropout(languages.source.tokenizer, rate, seed=seed)
        self._target = BpeDropout(languages.target.tokenizer, rate, seed=seed)

    def pairs(self, indices: Indices, *, epoch: int) -> Both:
        """Pairs cut for an epoch, as sources and targets."""
        source = self._source.recut_rows(self.corpus.sources(indices), indices, epoch=epoch)
        return source, self._target.recut_rows(self.corpus.targets(indices), indices, epoch=epoch)

    def expected(
        self, source_lengths: npt.NDArray[Any], target_lengths: npt.NDArray[Any], *, most: int
    ) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Lengths to plan with: the stored ones (marks included) times the usual growth, never pushed over `most`."""
        sample = np.linspace(0, len(self.corpus) - 1, min(_SAMPLE, len(self.corpus))).astype(np.int64)
        grown = []
        for cut, stored in zip(self.pairs(sample, epoch=0), (source_lengths, target_lengths), strict=True):
            growth = int(cut.lengths.sum() + len(cut)) / int(stored[sample].sum())
            longer = np.ceil(stored * max(1.0, growth * _MARGIN)).astype(stored.dtype)
            grown.append(np.maximum(stored, np.minimum(longer, most)))
        return grown[0], grown[1]


def fitting(new: Both, stored: Both, *, budget: int, longest: int) -> Both:
    """The new cuts, and stored ones, the last first, while the new do not fit: a pair, or all of them together."""
    cut, before = (np.stack([side.lengths + 1 for side in both]) for both in (new, stored))  # (2, k), marks included
    taken = cut.max(0) <= longest
    chosen = np.where(taken, cut, before)
    # How long both sides are when 0, 1, ..., k of the last pairs have gone back to their stored cuts, (2, k + 1).
    totals = np.cumsum(np.hstack([chosen.sum(1, keepdims=True), (before - chosen)[:, ::-1]]), axis=1)
    fits = (totals <= budget).all(0)
    gone = int(fits.argmax()) if fits.any() else len(taken)
    taken[len(taken) - gone :] = False
    return new[0].where(taken, stored[0]), new[1].where(taken, stored[1])
