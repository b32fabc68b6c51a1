"""When each word was said, read off where the model looked while it wrote it.

    path = warp(costs)                           dynamic time warping: the cheapest monotone way through (U, S)
    words = word_times(weights, ...)             weights (H, U, S) of heads that follow the sound

As in Whisper: each place of time is standardised over the tokens, smoothed by a median over neighbouring places, the
heads are averaged, and a path that never goes back is laid through. A word lasts from its first token's first place to
the first place of the token after its last. Other than in Whisper, the path leads through places where there is sound
(`sounding`), and a word with a pause in it is its longer side: no word stretches over a pause.

Which tokens of a text make up which word, for any tokenizer: read off the text as it grows token by token.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.data.text.tokenizers import Tokenizer
from regard.errors import ShapeError

_SMOOTHED = 0.0601  # seconds on each side that the median is taken over: Whisper's three places of 20 ms

Matrix = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]
Spans = Sequence[tuple[float, float]]
_PAUSE = 0.3  # seconds of quiet that a word does not stretch over
_MARGIN = 0.1  # seconds around sound in which attention may still look for it
_BROKEN = "\N{REPLACEMENT CHARACTER}"


@dataclass(frozen=True)
class TimedWord:
    """A word, when it begins and ends in seconds, and how sure the model was of its pieces on average."""

    word: str
    start: float
    end: float
    probability: float

    def record(self) -> dict[str, Any]:
        """As a JSON object."""
        facts = asdict(self)
        return facts | {name: round(value, 3) for name, value in facts.items() if isinstance(value, float)}


def warp(costs: Matrix) -> tuple[Places, Places]:
    """The rows and columns of the cheapest path from (0, 0) to the last corner, by steps right, down or both."""
    if costs.ndim != 2 or not costs.size:
        raise ShapeError(f"a path leads through a table of costs, not one of shape {costs.shape}")
    n, m = costs.shape
    came = np.zeros((n, m), np.int8)  # 0: from both before, 1: from the row before, 2: from the column before
    left, corner = np.full(n, np.inf), np.full(n, np.inf)
    corner[0] = 0.0
    for j in range(m):
        # total[i] = costs[i] + min(corner[i], left[i], total[i − 1]): a running minimum, sums of costs taken off
        sums = np.cumsum(costs[:, j])
        entered = np.minimum(corner, left) - np.append(0.0, sums[:-1])
        total = sums + np.minimum.accumulate(entered)
        above = np.append(np.inf, total[:-1])
        came[:, j] = np.stack((corner, above, left)).argmin(0)
        left, corner = total, above
    return _walked(came)


def _walked(came: npt.NDArray[np.int8]) -> tuple[Places, Places]:
    i, j = came.shape[0] - 1, came.shape[1] - 1
    path = [(i, j)]
    while i or j:
        step = 2 if i == 0 else 1 if j == 0 else came[i, j]
        i, j = i - (step != 2), j - (step != 1)
        path.append((i, j))
    rows, columns = zip(*reversed(path), strict=True)
    return np.array(rows), np.array(columns)


def median_filter(weights: Matrix, width: int = 7) -> Matrix:
    """The median of each place's neighbourhood along the last axis, which is mirrored at its ends."""
    half = width // 2
    if weights.shape[-1] <= half:
        return weights
    padded = np.pad(weights, [(0, 0)] * (weights.ndim - 1) + [(half, half)], mode="reflect")
    medians: Matrix = np.median(np.lib.stride_tricks.sliding_window_view(padded, width, axis=-1), -1)
    return medians


def followed(weights: Matrix, width: int = 7) -> Matrix:
    """Weights (H, U, S) as one table (U, S) in which the path is laid: standardised, smoothed, averaged."""
    spread = weights.std(-2, keepdims=True)
    standard = (weights - weights.mean(-2, keepdims=True)) / np.where(spread > 0, spread, 1.0)
    table: Matrix = median_filter(standard, width).mean(0)
    return table


def token_places(weights: Matrix, width: int = 7) -> Places:
    """The place of time at which each of U tokens begins, and the end: (U + 1,). Weights are (H, U, S)."""
    rows, columns = warp(-followed(weights, width))
    begins = columns[np.searchsorted(rows, np.arange(weights.shape[1]))]
    return np.append(begins, weights.shape[2])


def word_times(
    weights: Matrix,
    groups: Sequence[tuple[str, Sequence[int]]],
    *,
    probabilities: Sequence[float],
    place_seconds: float,
    seconds: float,
    offset: float = 0.0,
    sounding: Spans = (),
) -> list[TimedWord]:
    """The words of a text: `groups` are their texts and which of U tokens they consist of.

    Weights are (H, U + 1, S), the last row being that of the end mark; `probabilities` are those of the tokens.
    `sounding` are the seconds, counted as the words' are, where there is sound; without any, that is everywhere.
    """
    if not groups:
        return []
    heard = _with_pauses([(begin - offset, end - offset) for begin, end in sounding], seconds)
    kept = _sounding_places(weights.shape[2], heard, place_seconds)
    places = token_places(weights[:, :, kept], 2 * int(_SMOOTHED / place_seconds) + 1)
    timed = []
    for text, tokens in groups:
        first, last = int(places[tokens[0]]), int(places[tokens[-1] + 1])
        plain = (first * place_seconds, last * place_seconds)
        own = kept[first : max(last, first + 1)]
        lasts = _lasting(own, heard, place_seconds) if heard else plain
        start, end = (min(at, seconds) + offset for at in lasts)
        sure = float(np.mean([probabilities[token] for token in tokens]))
        timed.append(TimedWord(text, start, max(start, end), sure))
    return timed


def _with_pauses(heard: Spans, seconds: float) -> Spans:
    """The stretches of sound, where there is a pause before, between or after them; else nothing."""
    joined: list[tuple[float, float]] = []
    for begin, end in heard:
        before = joined.pop() if joined and begin - joined[-1][1] < _PAUSE else None
        first = 0.0 if begin < _PAUSE else begin
        joined.append((first if before is None else before[0], seconds if seconds - end < _PAUSE else end))
    return [] if joined == [(0.0, seconds)] else heard


def _sounding_places(n: int, heard: Spans, each: float) -> Places:
    """The places of time in or near sound; all of them where there is none."""
    middle = (np.arange(n) + 0.5) * each
    near = np.zeros(n, bool)
    for begin, end in heard:
        near |= (middle >= begin - _MARGIN) & (middle <= end + _MARGIN)
    return np.flatnonzero(near) if near.any() else np.arange(n)


def _lasting(own: Places, heard: Spans, each: float) -> tuple[float, float]:
    """When a word that was looked for at these places begins and ends: its longest run, without the quiet around it."""
    runs = np.split(own, np.flatnonzero(np.diff(own) * each > _PAUSE) + 1)
    longest = max(runs, key=len)
    start, end = float(longest[0]) * each, float(longest[-1] + 1) * each
    inside = [(begin, over) for begin, over in heard if begin < end and over > start]
    if not inside:
        return start, end
    # A sound that lies mostly outside is a neighbour's, unless there is no other.
    shares = [(min(over, end) - max(begin, start)) / (over - begin) for begin, over in inside]
    mine = [span for span, share in zip(inside, shares, strict=True) if share >= 0.5 or share == max(shares)]
    return max(start, mine[0][0]), min(end, mine[-1][1])


def _is_alone(char: str) -> bool:
    """Whether a character belongs to a script that has no spaces between words."""
    name = unicodedata.name(char, "") if char else ""
    return name.startswith(("CJK UNIFIED", "HIRAGANA", "KATAKANA LETTER", "THAI CHAR", "LAO LETTER", "KHMER LETTER"))


def word_groups(tokenizer: Tokenizer, ids: Sequence[int]) -> list[tuple[str, list[int]]]:
    """The words of a text with the places of their tokens.

    A token belongs to the word that it ends in, and a space to the word after it. In scripts without spaces each
    character is a word. Tokens that spell nothing, as the first half of a character does, go with those that follow.
    """
    groups: list[tuple[str, list[int]]] = []
    waiting: list[int] = []
    before = ""
    for index in range(len(ids)):
        text = tokenizer.decode(ids[: index + 1])
        waiting.append(index)
        if text.endswith(_BROKEN) and index + 1 < len(ids):
            continue
        new = text[len(before) :] if text.startswith(before) else text
        begins = not groups or new[:1].isspace() or before[-1:].isspace() or _is_alone(new[:1])
        if new.strip() and begins:
            groups.append((new.strip(), waiting))
            waiting = []
        elif new.strip():
            word, places = groups[-1]
            groups[-1] = (word + new.strip(), places + waiting)
            waiting = []
        elif not new and groups:
            groups[-1][1].extend(waiting)
            waiting = []
        before = text
    return groups
