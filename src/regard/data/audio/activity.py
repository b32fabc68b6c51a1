"""Where somebody may be speaking: stretches of a recording that stand out of what is always there.

    found = activity(samples, rate)            Activity: how far each frame stands out, in decibels
    found.stretches(FAINT)                     [(begin, end), …] in samples; none for silence and for steady noise

As in long-term spectral divergence (Ramírez et al., 2004): the power of each band against the floor of that band, the
root of the mean square over bands of what is above it. The floor is what the band falls to in the quietest tenth of the
seconds around, and never below what a microphone's own hiss would be, so that digital silence stays silent. Loudness by
itself says nothing: speech may be faint, and noise loud.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from regard.data.audio.files import Samples

FAINT = 5.5  # decibels above which something may be speech; steady noise stays below
CLEAR = 7.0  # decibels above which it is not by chance
_FRAME, _HOP = 0.032, 0.016  # seconds
_BANDS, _LOWEST, _HIGHEST = 16, 120.0, 7_000.0  # bands, and the frequencies in hertz that they lie between
_SMOOTHED = 5  # frames that power is averaged over
_AROUND = 20.0  # seconds in which the floor is looked for
_QUIETEST = 0.1  # share of them that is floor
_HISS = 1e-9  # power, of which the loudest possible is 1, below which everything is silence

Levels = npt.NDArray[np.float64]
Stretch = tuple[int, int]


@dataclass(frozen=True, eq=False)
class Activity:
    """How far each frame stands out of the floor, in decibels; `hop` are the samples from one to the next."""

    levels: Levels
    hop: int
    n_samples: int

    def stretches(self, threshold: float = FAINT) -> list[Stretch]:
        """Runs of frames above a threshold, in samples."""
        above = np.concatenate(([False], self.levels >= threshold, [False]))
        edges = np.flatnonzero(np.diff(above.astype(np.int8)))
        pairs = zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)
        return [(b * self.hop, min(e * self.hop, self.n_samples)) for b, e in pairs]

    def loudest(self, begin: int, end: int) -> float:
        """How far the loudest frame between two samples stands out."""
        frames = self.levels[begin // self.hop : max(begin // self.hop + 1, -(-end // self.hop))]
        return float(frames.max()) if len(frames) else 0.0


def activity(samples: Samples, rate: int) -> Activity:
    """How far each frame of samples (n,) stands out."""
    hop = max(1, round(_HOP * rate))
    power = _smoothed(band_powers(samples, rate, hop=hop))
    decibels = 10 * np.log10(power + _HISS / _BANDS)
    floor = _floor(decibels, max(1, round(_AROUND / _HOP)))
    above = np.maximum(decibels - floor, 0)
    return Activity(np.sqrt(np.square(above).mean(1)), hop, len(samples))


def band_powers(samples: Samples, rate: int, *, hop: int) -> Levels:
    """The power of each band in each frame (T, B), one frame at least."""
    width = max(2, 2 ** round(math.log2(_FRAME * rate)))
    changes = np.diff(samples.astype(np.float32), prepend=samples[:1])  # what drifts below speech would leak into it
    if len(changes) < width:
        changes = np.pad(changes, (0, width - len(changes)))
    window, bank = np.hanning(width).astype(np.float32), _bank(width, rate)
    # Only frames that lie inside: where a sound is cut off it would seem to change.
    frames = np.lib.stride_tricks.sliding_window_view(changes, width)[::hop]
    parts = []
    for begin in range(0, len(frames), 4096):  # a long recording's spectra would fill memory
        spectrum = np.fft.rfft(frames[begin : begin + 4096] * window)
        parts.append((np.abs(spectrum) ** 2) @ bank)
    inside: Levels = np.concatenate(parts).astype(np.float64) * 2 / float((window**2).sum()) / width
    centres = np.arange(max(1, -(-len(samples) // hop))) - width // 2 // hop
    powers: Levels = inside[centres.clip(0, len(inside) - 1)]
    return powers


def _bank(width: int, rate: int) -> Levels:
    """Which frequencies (F,) belong to which band (B,), the bands being equally wide in logarithms."""
    hertz = np.fft.rfftfreq(width, 1 / rate)
    edges = np.geomspace(min(_LOWEST, rate / 8), min(_HIGHEST, rate / 2), _BANDS + 1)
    belongs: Levels = ((hertz[:, None] >= edges[:-1]) & (hertz[:, None] < edges[1:])).astype(np.float32)
    return belongs[:, belongs.any(0)]


def _smoothed(power: Levels) -> Levels:
    """The mean over neighbouring frames."""
    sums = np.cumsum(np.pad(power, ((1, 0), (0, 0))), 0)
    n, half = len(power), _SMOOTHED // 2
    begin, end = np.maximum(np.arange(n) - half, 0), np.minimum(np.arange(n) + half + 1, n)
    means: Levels = (sums[end] - sums[begin]) / (end - begin)[:, None]
    return means


def _floor(decibels: Levels, around: int) -> Levels:
    """What each band falls to in the quietest tenth of the frames around each frame, (T, B)."""
    n = len(decibels)
    steps = max(1, math.ceil(n / max(1, around // 4)))
    centres = np.linspace(0, n, 2 * steps + 1)[1::2]
    floors = [
        np.quantile(decibels[max(0, int(at) - around // 2) : int(at) + around // 2 + 1], _QUIETEST, axis=0)
        for at in centres
    ]
    nearest = np.abs(np.arange(n)[:, None] - centres).argmin(1)
    around_each: Levels = np.stack(floors)[nearest]
    return around_each
