"""Which pieces of a row a masked language model has to guess, and what stands in their place (Devlin et al., 2018).

    of the ordinary pieces of a row   15 % are to be guessed: rounded, at least one, chosen evenly
    of those, each by its own draw    80 % read <mask>, 10 % a random ordinary piece, 10 % stay as they are

Special tokens are never chosen and never drawn; a random piece may by chance be the right one. With whole words, words
are taken in random order as long as they fit into the 15 %; where not one does, a part of the first is taken.

Every draw is a hash of (seed, epoch, example, position). So an epoch masks anew, a run that goes on masks what it would
have masked, and the other rows of a batch, or of another process, change nothing.

    ids (B, T), lengths (B,), examples (B,)   →   ids (B, T), places (B, K), labels (B, K)

K is fixed by T: the number of pieces to guess in a row of that length. Unused slots have place 0 and label -1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from regard.data.batching.hashing import Hashes, hashed, text_hash, varied
from regard.errors import ShapeError, UsageError

if TYPE_CHECKING:
    from regard.data.text.tokenizers import Tokenizer

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[Any]

UNUSED = -1  # the label of a slot without a piece to guess
_CHOICE_BITS = 24  # of a hash, for mask, random or kept


class MaskedRows(NamedTuple):
    """Rows to read, and what is to be guessed of them."""

    ids: npt.NDArray[np.int64]  # (B, T)
    places: npt.NDArray[np.int64]  # (B, K) rising, 0 in unused slots
    labels: npt.NDArray[np.int64]  # (B, K) the pieces that stood there, UNUSED in unused slots

    @property
    def n_masked(self) -> int:
        """How many pieces are to be guessed."""
        return int(np.count_nonzero(self.labels != UNUSED))


@dataclass(frozen=True, kw_only=True, eq=False)
class Masking:
    """How to mask: a share of the pieces, and what each of them becomes.

    `begins_word` (V,) says of every id whether it begins a word, and asks for whole words; `word_beginnings` makes it.
    """

    n_ids: int
    mask_id: int
    special_ids: Sequence[int]
    seed: int = 0
    share: float = 0.15
    masked: float = 0.8
    random: float = 0.1
    begins_word: Bools | None = None

    def __post_init__(self) -> None:

        if min(self.masked, self.random) < 0 or self.masked + self.random > 1:
            raise UsageError(
                f"of the chosen pieces {self.masked} read a mask and {self.random} a random piece; "
                "both are at least 0, together at most 1"
            )
        outside = [index for index in (self.mask_id, *self.special_ids) if not 0 <= index < self.n_ids]
        if outside:
            raise UsageError(f"special ids {outside} are not among the {self.n_ids} ids there are")
        if not len(self.ordinary):
            raise UsageError(f"all {self.n_ids} ids are special: nothing could be masked")
        if self.begins_word is not None and self.begins_word.shape != (self.n_ids,):
            raise ShapeError(f"begins_word has shape {self.begins_word.shape}, one entry for each of {self.n_ids} ids")

    @cached_property
    def is_ordinary(self) -> Bools:
        """Of every id (V,): whether it may be masked, and drawn."""
        table = np.ones(self.n_ids, np.bool_)
        table[[self.mask_id, *self.special_ids]] = False
        return table

    @cached_property
    def ordinary(self) -> npt.NDArray[np.int64]:
        """The ids that may be masked, and drawn."""
        return np.flatnonzero(self.is_ordinary)

    def counts(self, n_pieces: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """How many of so many ordinary pieces are to be guessed."""
        n = np.asarray(n_pieces, np.int64)
        rounded = np.floor(n * self.share + 0.5).astype(np.int64)
        return np.asarray(np.minimum(n, np.maximum(1, rounded)))

    def apply(self, ids: Ints, lengths: Ints, *, examples: Ints, epoch: int) -> MaskedRows:
        """Mask rows (B, T) of the given lengths; `examples` (B,) are their numbers in the epoch."""
        _check(ids, lengths, examples, n_ids=self.n_ids)
        ids = ids.astype(np.int64)  # a copy: the given rows stay as they are
        positions = np.arange(ids.shape[1])
        # A random number for every position (B, T).
        draws = hashed(text_hash(repr((self.seed, epoch))), np.asarray(examples)[:, None], positions)
        maskable = self.is_ordinary[ids] & (positions < np.asarray(lengths)[:, None])
        counts = self.counts(maskable.sum(1))
        if self.begins_word is None:
            chosen = _smallest(draws, maskable, counts)
        else:
            chosen = _whole_words(draws, maskable, counts, begins=self.begins_word[ids])
        rows, columns = np.nonzero(chosen)
        slots = np.arange(len(rows)) - np.searchsorted(rows, np.arange(len(ids)))[rows]
        places = np.zeros((len(ids), int(self.counts(ids.shape[1]))), np.int64)
        labels = np.full_like(places, UNUSED)
        places[rows, slots], labels[rows, slots] = columns, ids[rows, columns]
        ids[rows, columns] = self._replaced(ids[rows, columns], varied(draws[rows, columns], np.uint64(1)))
        return MaskedRows(ids, places, labels)

    def _replaced(self, ids: npt.NDArray[np.int64], draws: Hashes) -> npt.NDArray[np.int64]:
        """What stands where pieces (n,) are to be guessed; the upper bits of a draw choose how, the lower ones what."""
        choice = (draws >> np.uint64(64 - _CHOICE_BITS)) / 2.0**_CHOICE_BITS
        low = draws & np.uint64(2 ** (64 - _CHOICE_BITS) - 1)
        drawn = self.ordinary[(low % np.uint64(len(self.ordinary))).astype(np.int64)]
        return np.where(choice < self.masked, self.mask_id, np.where(choice < self.masked + self.random, drawn, ids))


def word_beginnings(tokenizer: Tokenizer) -> Bools:
    """Of every id (V,): whether it begins a word.

    Where pieces are marked as going on (##), all others begin one; else those with a space before them do, so that
    what is written onto a word, such as a comma, belongs to it. A piece after a special token begins one in any case.
    """
    pieces = tokenizer.tokens(range(len(tokenizer)))
    going_on = np.array([piece.startswith("##") and len(piece) > 2 for piece in pieces])
    return ~going_on if going_on.sum() > 1 else np.array([piece.startswith("▁") for piece in pieces])


def _ranked(draws: Hashes, wanted: Bools) -> Hashes:
    """Draws that are all different in a row, the unwanted ones above all others."""
    low = np.uint64((1 << int(draws.shape[1]).bit_length()) - 1)
    different = (draws >> np.uint64(1) & ~low) | np.arange(draws.shape[1], dtype=np.uint64)
    different[~wanted] |= np.uint64(1 << 63)
    return different


def _smallest(draws: Hashes, wanted: Bools, counts: npt.NDArray[np.int64]) -> Bools:
    """So many of the wanted in each row (B, T): those with the smallest draws."""
    ranked = _ranked(draws, wanted)
    # Sorting values is several times faster than sorting places; the last one taken is all that has to be known.
    ordered = np.sort(ranked, axis=1)
    last = np.take_along_axis(ordered, np.maximum(counts - 1, 0)[:, None], 1)
    return (ranked <= last) & wanted & (counts > 0)[:, None]


def _whole_words(draws: Hashes, wanted: Bools, counts: npt.NDArray[np.int64], *, begins: Bools) -> Bools:
    """Whole words in each row (B, T), in the order of their draws, as long as they fit into the counts."""
    before = np.zeros_like(wanted)
    before[:, 1:] = wanted[:, :-1]
    begins = wanted & (begins | ~before)
    words = np.cumsum(begins, 1) - 1  # (B, T) of every wanted piece, the number of its word
    width = int(begins.sum(1).max(initial=0))
    sizes = np.zeros((len(draws), width), np.int64)  # (B, W)
    np.add.at(sizes, (np.nonzero(wanted)[0], words[wanted]), 1)
    order = np.argsort(_ranked(draws[:, :width], sizes > 0), axis=1)
    in_order = np.take_along_axis(sizes, order, 1)
    taken, room = np.zeros_like(in_order, np.bool_), counts.copy()
    for word in range(width):
        if not room.any():
            break
        taken[:, word] = (in_order[:, word] <= room) & (in_order[:, word] > 0)
        room -= in_order[:, word] * taken[:, word]
    chosen_words = np.zeros_like(taken)
    np.put_along_axis(chosen_words, order, taken, 1)
    chosen = np.zeros_like(wanted)
    chosen[wanted] = chosen_words[np.nonzero(wanted)[0], words[wanted]]
    return _or_part(chosen, wanted, counts, words=words, first=order[:, 0] if width else counts)


def _or_part(chosen: Bools, wanted: Bools, counts: npt.NDArray[np.int64], *, words: Ints, first: Ints) -> Bools:
    """The chosen, and in rows where no word was short enough, as much of the first as is to be guessed."""
    without = (counts > 0) & ~chosen.any(1)
    of_first = wanted & (words == first[:, None]) & without[:, None]
    part: Bools = of_first & (np.cumsum(of_first, 1) <= counts[:, None])
    return chosen | part


def _check(ids: Ints, lengths: Ints, examples: Ints, *, n_ids: int) -> None:
    if ids.ndim != 2 or np.shape(lengths) != ids.shape[:1] or np.shape(examples) != ids.shape[:1]:
        raise ShapeError(
            f"rows {ids.shape}, lengths {np.shape(lengths)} and example numbers {np.shape(examples)} do not fit; "
            "they are (B, T), (B,) and (B,)"
        )
    if ids.size and not 0 <= int(ids.min()) <= int(ids.max()) < n_ids:
        raise UsageError(f"rows hold ids from {int(ids.min())} to {int(ids.max())}, there are {n_ids}")
