"""The merges of a BPE, made in many words at once, each passed over at random (Provilkov, Emelianenko and Voita 2020).

At every step each word draws for each merge that it could make, passes over those drawn with probability `rate`, and
makes the one that was learnt first, ties going to the left. A word is done when there is none left to make.

Words of like length stand in one table (words, places), an empty place before them and behind. A merge leaves the
joined piece at the left place and empties the right one; `before` and `after` lead from each place to the next.
"""

import json

import numpy as np
import numpy.typing as npt

from regard.data.batching.hashing import Hashes, happens, varied
from regard.data.batching.ragged import Ints, Ragged
from regard.data.text.tokenizers import Tokenizer

_NEVER = np.iinfo(np.int32).max  # the rank of what cannot be merged
_LAST = np.iinfo(np.int64).max  # behind all pairs, so that looking for one always finds a place
_FEW, _MANY = 1 << 14, 1 << 18  # cells: so few are one table, however unlike the words are; no table has more than many


class Merges:
    """The merges of a bpe tokenizer; `ids` are those of its pieces."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        model = json.loads(tokenizer.core.to_str())["model"]
        self.ids: dict[str, int] = model["vocab"]
        self._none = max(self.ids.values()) + 1  # stands in empty places: no merge has it
        ranks, merged = _read_merges(model["merges"], self.ids, size=self._none + 1)
        self._pairs = np.array([*sorted(ranks), _LAST], np.int64)
        self._ranks = np.array([ranks[pair] for pair in sorted(ranks)] + [_NEVER], np.int32)
        self._merged = np.array(merged, np.int64)  # by rank

    def made(self, words: Ragged, streams: Hashes, *, rate: float) -> Ragged:
        """The pieces of words spelt in single ones; the draws of each word follow from its stream (k,)."""
        order = np.argsort(words.lengths, kind="stable")
        parts, rest = [], order
        while len(rest):
            n = _like(words.lengths[rest])
            parts.append(self._made(words.take(rest[:n]), streams[rest[:n]], rate))
            rest = rest[n:]
        if not parts:
            return words
        ordered = Ragged(np.concatenate([p.ids for p in parts]), np.concatenate([p.lengths for p in parts]))
        return ordered.take(np.argsort(order, kind="stable"))

    def _made(self, words: Ragged, streams: Hashes, rate: float) -> Ragged:
        """`made` in one table, whose cells have numbers: those of a row lie `width` apart from those of the next."""
        width = int(words.lengths.max()) + 2
        columns = np.arange(width)
        inside = (columns > 0) & (columns <= words.lengths[:, None])
        pieces = np.full(inside.size, self._none)
        pieces[inside.ravel()] = words.ids
        after, before = np.arange(1, inside.size + 1), np.arange(-1, inside.size - 1)
        ranks = self._ranks_of(pieces, np.append(pieces[1:], self._none)).reshape(inside.shape)
        flat, rows, step = ranks.ravel(), np.arange(len(words)), 0
        while len(rows):
            places, going = _chosen(ranks[rows], streams[rows], step, rate)
            rows = rows[going]
            left = rows * width + places[going]
            right, previous = after[left], before[left]
            following = after[right]
            pieces[left], pieces[right] = self._merged[flat[left]], self._none
            after[left], before[following], flat[right] = following, left, _NEVER
            changed = np.concatenate([previous, left])
            flat[changed] = self._ranks_of(pieces[changed], pieces[np.concatenate([left, following])])
            step += 1
        standing = (pieces != self._none).reshape(inside.shape)
        return Ragged(pieces[standing.ravel()], standing.sum(1))

    def _ranks_of(self, left: Ints, right: Ints) -> npt.NDArray[np.int32]:
        """The ranks of the merges of pairs (n,)."""
        pairs = left * (self._none + 1) + right
        positions = self._pairs.searchsorted(pairs)
        ranks: npt.NDArray[np.int32] = self._ranks[positions]
        ranks[self._pairs[positions] != pairs] = _NEVER
        return ranks


def _like(lengths: Ints) -> int:
    """How many of the words of these lengths, the shortest first, go into one table."""
    cells = (lengths + 2) * np.arange(1, len(lengths) + 1)
    few, many = (int(np.searchsorted(cells, most, side="right")) for most in (_FEW, _MANY))
    return max(1, few, min(many, int(np.searchsorted(lengths, 2 * lengths[0] + 1))))


def _chosen(
    ranks: npt.NDArray[np.int32], streams: Hashes, step: int, rate: float
) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """The place of the merge that each word makes (k,), and whether it makes one at all; `ranks` (k, places)."""
    if rate:
        rows, places = np.nonzero(ranks != _NEVER)
        draws = varied(streams[rows], ((step << 32) + places).astype(np.uint64))
        dropped = happens(draws, rate)
        ranks[rows[dropped], places[dropped]] = _NEVER
    best = ranks.argmin(1)
    return best, ranks[np.arange(len(ranks)), best] != _NEVER


def _read_merges(merges: list[list[str] | str], ids: dict[str, int], *, size: int) -> tuple[dict[int, int], list[int]]:
    """Pair → rank, and the merged piece by rank; the library wrote "left right" before it wrote pairs."""
    ranks, merged = {}, []
    for rank, merge in enumerate(merges):
        left, right = merge.split(" ") if isinstance(merge, str) else merge
        ranks[ids[left] * size + ids[right]] = rank
        merged.append(ids[left + right])
    return ranks, merged
