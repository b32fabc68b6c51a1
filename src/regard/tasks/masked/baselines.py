"""What a masked language model has to beat: the commonest piece, and the one seen most often between two neighbours.

Neighbours are taken as the model sees them, hidden ones too. Where the two were never seen around a piece, the one
before decides, then the one after, then what is commonest.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.metrics.verdict import Baseline
from regard.tasks.masked.batches import MaskedBatch
from regard.tasks.masked.masking import UNUSED

Ints = npt.NDArray[np.int64]
MOST_TRAIN = 3_000_000  # pieces that are counted
_UNSEEN = -1


def masked_baselines(train: npt.NDArray[Any], batches: Iterable[MaskedBatch], *, n_vocabulary: int) -> list[Baseline]:
    """The share of hidden pieces that each guesses right, by the ids of the training text (n,)."""
    ids = np.asarray(train[:MOST_TRAIN], np.int64)
    common = int(np.bincount(ids, minlength=n_vocabulary).argmax())
    before, after, hidden = _hidden(batches)
    guessed = np.full(len(hidden), common)
    for keys, asked in (  # the later ones are surer
        (ids[2:], after),
        (ids[:-2], before),
        (ids[:-2] * n_vocabulary + ids[2:], before * n_vocabulary + after),
    ):
        found = _commonest(keys, ids[1:-1], asked, n_vocabulary)
        guessed = np.where(found == _UNSEEN, guessed, found)
    right = {"the commonest piece": hidden == common, "the commonest piece between its neighbours": hidden == guessed}
    note = None if len(train) <= MOST_TRAIN else f"neighbours are counted in the first {MOST_TRAIN:,} pieces"
    return [Baseline(name, {"mlm_accuracy": float(share.mean())}, note) for name, share in right.items() if len(hidden)]


def _hidden(batches: Iterable[MaskedBatch]) -> tuple[Ints, Ints, Ints]:
    """What stands before and after each hidden piece, and the piece; a row begins and ends with a mark."""
    parts = []
    for batch in batches:
        used = batch.labels != UNUSED
        places, ids = batch.places[used].numpy(), batch.ids.flatten().numpy()
        parts.append((ids[places - 1], ids[np.minimum(places + 1, len(ids) - 1)], batch.labels[used].numpy()))
    before, after, hidden = (np.concatenate(part).astype(np.int64) for part in zip(*parts, strict=True))
    return before, after, hidden


def _commonest(keys: Ints, pieces: Ints, asked: Ints, n_vocabulary: int) -> Ints:
    """For each key that is asked for, the piece that was most often seen with it, or `_UNSEEN`."""
    runs, counts = np.unique(keys * n_vocabulary + pieces, return_counts=True)
    if not len(runs):
        return np.full(len(asked), _UNSEEN)
    owners, ours = np.divmod(runs, n_vocabulary)
    order = np.lexsort((counts, owners))
    last = np.append(np.flatnonzero(np.diff(owners[order])), len(order) - 1)
    known, best = owners[order][last], ours[order][last]
    place = np.minimum(np.searchsorted(known, asked), len(known) - 1)
    return np.where(known[place] == asked, best[place], _UNSEEN)
