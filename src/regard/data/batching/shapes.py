"""Few padded shapes: which lengths to round up to, so that a compiled model meets a handful of sizes and no more.

Shapes form a chain, each at least as long as the one before on both sides. The chain of `n` shapes with the least
padding is found exactly, by dynamic programming over the lengths that occur.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Lengths = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Shapes:
    """A chain of padded lengths: `source` and `target` (k,), both rising; `sentences` (k,) fill a batch of each."""

    source: Lengths
    target: Lengths
    sentences: Lengths

    def assign(self, source: Lengths, target: Lengths) -> Lengths:
        """For each example, the first shape that holds it."""
        return np.maximum(np.searchsorted(self.source, source), np.searchsorted(self.target, target))

    def fit(self, n: int, *, source: int, target: int) -> tuple[int, int]:
        """The lengths to pad a batch to: of the first shape that holds it and, if there is one, that `n` fill."""
        first = int(self.assign(np.array([source]), np.array([target]))[0])
        filled = np.flatnonzero(self.sentences[first:] == n)
        chosen = first + (int(filled[0]) if len(filled) else 0)
        return int(self.source[chosen]), int(self.target[chosen])


def choose_shapes(
    source: Lengths, target: Lengths, *, n: int, budget: int, multiple_of: int, max_sentences: int
) -> Shapes:
    """The chain of at most `n` shapes that pads these examples least."""
    ratio = target.sum() / max(1, source.sum())
    reach = np.maximum(np.rint(source * ratio).astype(np.int64), target)  # how far along the chain an example lies
    values, group = np.unique(reach, return_inverse=True)
    counts = np.bincount(group)
    longest = [_longest_so_far(side, group, n=len(values), multiple_of=multiple_of) for side in (source, target)]
    ends = _cheapest_ends(counts, longest[0] + longest[1], n=min(n, len(values)))
    chosen_source, chosen_target = longest[0][ends], longest[1][ends]
    sentences = np.minimum(max_sentences, budget // np.maximum(1, np.maximum(chosen_source, chosen_target)))
    return Shapes(chosen_source, chosen_target, sentences)


def _longest_so_far(lengths: Lengths, group: Lengths, *, n: int, multiple_of: int) -> Lengths:
    longest = np.zeros(n, np.int64)
    np.maximum.at(longest, group, lengths)
    return -(-np.maximum.accumulate(longest) // multiple_of) * multiple_of


def _cheapest_ends(counts: Lengths, cost: Lengths, *, n: int) -> Lengths:
    """Split 0..len into `n` runs, each paying count × the cost of its last entry; the last entry of each run."""
    size = len(counts)
    before = np.concatenate([[0], np.cumsum(counts)])  # (size + 1,) examples before each entry
    best = np.full(size + 1, np.inf)  # cheapest way to cover the first j entries
    best[0] = 0
    came_from = np.zeros((n, size + 1), np.int64)
    for step in range(n):
        following = np.full(size + 1, np.inf)
        for end in range(step + 1, size + 1):
            paid = best[:end] + (before[end] - before[:end]) * cost[end - 1]
            came_from[step, end] = start = int(np.argmin(paid))
            following[end] = paid[start]
        best = following
    ends, end = [], size
    for step in reversed(range(n)):
        ends.append(end - 1)
        end = int(came_from[step, end])
    return np.array(ends[::-1])
