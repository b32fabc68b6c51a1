"""Where a recording is cut: at its quietest places, so that no piece is too long, and around what nobody says.

pieces(samples, most, rate)                 [(begin, end), …] in samples, end to end
spoken_pieces(samples, most, rate=…, …)     the same of the stretches in which somebody may be speaking
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from regard.data.audio.activity import FAINT, Stretch, activity
from regard.data.audio.files import Samples

PAUSE = 2.0  # seconds: a longer pause parts two pieces, unless the model is used to pauses
_AROUND = 0.04  # seconds that are kept before and after what is said, where it is cut out
_SEARCHED = 1 / 6  # share of a piece, at its end, in which its quietest place is looked for
_QUIET = 0.5  # seconds over which loudness is measured there: within words it is quiet for less
_PLACES = 10  # of that length there are as many at least, however short a piece


@dataclass(frozen=True)
class Piece:
    """A stretch of a recording, in samples, and how far its loudest part stands out of the noise, in decibels."""

    begin: int
    end: int
    level: float


def spoken_pieces(samples: Samples, most: int, *, rate: int, pause: float) -> list[Piece]:
    """The pieces in which somebody may be speaking; pauses of more than `pause` seconds part them."""
    found = activity(samples, rate)
    cut = [
        Piece(first + begin, first + end, found.loudest(first + begin, first + end))
        for first, last in _regions(found.stretches(), len(samples), pause=pause * rate, rate=rate)
        for begin, end in pieces(samples[first:last], most, rate)
    ]
    return [piece for piece in cut if piece.level >= FAINT]


def _regions(stretches: list[Stretch], n: int, *, pause: float, rate: int) -> list[Stretch]:
    """Stretches with what is around them, joined where the pause between them is short."""
    around, usual = round(_AROUND * rate), PAUSE * rate
    joined: list[Stretch] = []
    for begin, end in stretches:
        if joined and begin - joined[-1][1] <= pause:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((begin, end))
    if len(joined) == 1 and joined[0][0] <= usual and n - joined[0][1] <= usual:
        return [(0, n)]  # as recordings usually are
    return [(max(0, begin - around), min(n, end + around)) for begin, end in joined]


def pieces(samples: Samples, most: int, rate: int) -> list[tuple[int, int]]:
    """Where to cut samples so that no piece has more than `most`: in the middle of the quietest places near their ends.

    A word that a piece ends with wants some silence behind it, or it is not written.
    """
    cuts, begin = [], 0
    while len(samples) - begin > most:
        searched = max(1, round(most * _SEARCHED))
        first, width = begin + most - searched, max(1, min(round(_QUIET * rate), searched // _PLACES))
        end = first + _middle_of_quiet(samples[first : begin + most], width)
        end = end if end > begin else begin + most
        cuts.append((begin, end))
        begin = end
    return [*cuts, (begin, len(samples))]


def _middle_of_quiet(samples: Samples, width: int) -> int:
    """The middle of the samples of this width that are quietest; where many are as quiet, of the longest stretch."""
    total = np.concatenate(([0.0], np.cumsum(np.square(samples, dtype=np.float64))))
    loudness = total[width:] - total[:-width]
    quietest = np.flatnonzero(loudness == loudness.min())
    stretch = max(np.split(quietest, np.flatnonzero(np.diff(quietest) > 1) + 1), key=len)
    return int(stretch[len(stretch) // 2]) + width // 2
