"""Which target word comes from which source word, read off cross-attention.

    weights over pieces (T, S), (H, T, S), (L, H, T, S)  →  `Alignment`: matrix (target words × source words), pairs

Row t of the weights is where the decoder looked when it predicted target piece t. The end-of-sentence symbol, on which
heads rest when they have nothing to look for, is left out on both sides. A word of the source gets the sum of its
pieces' weights, a word of the target the mean of its pieces' rows; then each row is scaled to sum to one. Scaling comes
last so that a piece which looked at the end of the sentence only has no say in where its word looked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard.errors import ShapeError, UsageError

Method = Literal["argmax", "mutual", "threshold"]
Heads = Literal["mean", "sharpest"]
Matrix = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Alignment:
    """Pairs (source word, target word), and the matrix (target words × source words) that they were read off."""

    pairs: list[tuple[int, int]]
    matrix: Matrix
    method: Method
    head: tuple[int, ...] | None = None  # (layer, head) or (head,), where one was chosen

    def pharaoh(self) -> str:
        """The pairs as word aligners write them: `0-0 1-2`, source first."""
        return " ".join(f"{source}-{target}" for source, target in self.pairs)


def align(
    weights: ArrayLike,
    *,
    source_words: Sequence[int],
    target_words: Sequence[int],
    method: Method = "argmax",
    heads: Heads = "mean",
    threshold: float = 0.3,
) -> Alignment:
    """Align words, given each piece's word as `Tokenizer.word_ids` counts them (without the end of the sentence).

    A last row or column beyond the pieces is the end of the sentence's, and dropped. Methods:
    `argmax` each target word to the source word it looked at most; `mutual` only where that source word was looked at
    most by that target word; `threshold` every pair of at least that weight. A target word that looked at nothing
    aligns to nothing. Of several heads and layers, take the mean, or the `sharpest` one.
    """
    check_choice("method", method, get_args(Method))
    check_choice("heads", heads, get_args(Heads))
    if not 0 < threshold <= 1:
        raise UsageError(f"a threshold of {threshold} is not a weight; it is above 0 and at most 1")
    maps = _without_ends(weights, n_source=len(source_words), n_target=len(target_words))
    to_source, to_target = _memberships("source_words", source_words), _memberships("target_words", target_words)
    n_pieces = np.maximum(to_target.sum(0), 1)  # a number that no piece has is an empty row, not a division by zero
    words = (to_target.T / n_pieces[:, None]) @ maps @ to_source
    head = sharpest(words) if heads == "sharpest" and words.ndim > 2 else None
    chosen = words[head] if head else words.mean(axis=tuple(range(words.ndim - 2)))
    matrix = _scaled(chosen)
    return Alignment(_extract(matrix, method, threshold), matrix, method, head)


def _without_ends(weights: ArrayLike, *, n_source: int, n_target: int) -> Matrix:
    """The weights over pieces only: (..., n_target, n_source)."""
    maps = np.asarray(weights, dtype=np.float64)
    if maps.ndim not in (2, 3, 4) or 0 in maps.shape[:-2]:
        raise ShapeError(f"weights of shape {maps.shape} are no attention; they are (T, S), (H, T, S) or (L, H, T, S)")
    fits = maps.shape[-2] - n_target in (0, 1) and maps.shape[-1] - n_source in (0, 1)
    if not fits:
        raise ShapeError(
            f"weights over {maps.shape[-2]} target and {maps.shape[-1]} source positions do not fit "
            f"{n_target} target and {n_source} source pieces",
            hint="there is one position a piece, and at most one more, for the end of the sentence: cut padding off",
        )
    if not np.isfinite(maps).all() or (maps < 0).any():
        raise UsageError("weights hold negative or undefined numbers", hint="give weights, after softmax, not scores")
    return maps[..., :n_target, :n_source]


def _memberships(name: str, words: Sequence[int]) -> Matrix:
    """Which piece belongs to which word: (pieces, words), 0 or 1."""
    numbers = np.asarray(words, dtype=np.int64)
    if (np.diff(numbers, prepend=0) < 0).any():
        raise UsageError(f"{name} {list(words)} do not count up from 0", hint="Tokenizer.word_ids gives such numbers")
    return np.equal.outer(numbers, np.arange(numbers.max(initial=-1) + 1)).astype(np.float64)


def _scaled(matrix: Matrix) -> Matrix:
    """Rows that sum to one; a row of nothing stays nothing."""
    sums = matrix.sum(-1, keepdims=True)
    scaled: Matrix = np.divide(matrix, sums, out=np.zeros_like(matrix), where=sums > 0)
    return scaled


def sharpest(words: Matrix) -> tuple[int, ...]:
    """The head with the most weight on pairs that choose each other.

    Pairs, not rows: a head that always looks at the full stop has sharp rows as well. And before rows are scaled, so
    that a head which rests on the end of the sentence is not taken for a sharp one.
    """

    def mutual_weight(head: tuple[int, ...]) -> float:
        return float(sum(words[head][target, source] for source, target in _extract(words[head], "mutual", 1.0)))

    return max(np.ndindex(*words.shape[:-2]), key=mutual_weight)


def _extract(matrix: Matrix, method: Method, threshold: float) -> list[tuple[int, int]]:
    """Pairs (source, target), in the order of the source."""
    if not matrix.size:
        return []
    if method == "threshold":
        chosen = matrix >= threshold
    else:
        chosen = _marks_of_largest(matrix, axis=1)
        if method == "mutual":
            chosen &= _marks_of_largest(matrix, axis=0)
    return [(int(source), int(target)) for source, target in np.argwhere(chosen.T)]


def _marks_of_largest(matrix: Matrix, *, axis: int) -> NDArray[np.bool_]:
    """True at the largest entry along the axis, the first one of equals, and nowhere where all are zero."""
    mask = np.zeros(matrix.shape, dtype=bool)
    np.put_along_axis(mask, matrix.argmax(axis, keepdims=True), True, axis)
    largest: NDArray[np.bool_] = mask & (matrix > 0)
    return largest


def check_choice(name: str, given: str, allowed: tuple[str, ...]) -> None:
    """Refuse what is none of the words allowed."""
    if given not in allowed:
        raise UsageError(f"{name} is {given!r}; it may be {', '.join(allowed)}")
