"""What training does to recordings, so that a model learns words and not speakers, rooms or microphones.

    speed        played faster or slower by resampling: pitch and formants move along        Ko et al. (2015)
    gain, noise  louder or quieter, with white or pink noise
    warp         mel bands moved along the frequencies, as by another vocal tract             Jaitly and Hinton (2013)
    masks        bands and stretches of time left out: SpecAugment                            Park et al. (2019)

Everything is drawn from (seed, epoch, example), and noise from the stream of the training step or by the example's
key, so a run that was stopped and resumed sees what it would have seen. The work is done where the samples are, a batch
at a time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from regard.config.keyed_draws import keyed
from regard.config.random_numbers import normal
from regard.data.audio.resampling import resample

_SPEEDS, _WARPS = 20, 50  # steps that speeds and warps come in: few filters then serve all rows
_STRETCH = 2**15  # samples of noise that are coloured together
_STEPS = 100  # a speed as a ratio of whole numbers


@dataclass(frozen=True, kw_only=True)
class Changes:
    """How much may change: shares for speed and warp, decibels for gain, chances and numbers for the rest.

    speed       played at 1 − speed to 1 + speed times the rate, in steps of a twentieth
    gain        ± so many decibels
    noise       chance that noise is added, 5 to 35 dB below the speech
    warp        bands moved by up to this share
    band_masks, band_width     so many masks of up to so many bands
    time_masks, time_width     so many masks of up to this share of the frames
    """

    speed: float = 0.0
    gain: float = 0.0
    noise: float = 0.0
    warp: float = 0.0
    band_masks: int = 0
    band_width: int = 8
    time_masks: int = 0
    time_width: float = 0.05

    def draw(self, seed: int, epoch: int, example: int) -> Drawn:
        """What happens to one example in one epoch."""
        chance = np.random.default_rng([seed, epoch, example])
        speed = 1 + round(chance.uniform(-self.speed, self.speed) * _SPEEDS) / _SPEEDS
        warp = 1 + round(chance.uniform(-self.warp, self.warp) * _WARPS) / _WARPS
        gain = 10 ** (chance.uniform(-self.gain, self.gain) / 20)
        loud = 10 ** (-chance.uniform(5, 35) / 20) if chance.random() < self.noise else 0.0
        bands, times = (chance.random((n, 2), dtype=np.float32) for n in (self.band_masks, self.time_masks))
        return Drawn(float(speed), float(gain), float(loud), bool(chance.random() < 0.5), float(warp), bands, times)


class Drawn(NamedTuple):
    """One example's changes.

    `noise` is its loudness against the speech, 0 for none; spans (n, 2) are where a mask lies and how wide it is, as
    shares of what is free and of what is allowed.
    """

    speed: float
    gain: float
    noise: float
    pink: bool
    warp: float
    bands: npt.NDArray[np.float32]
    times: npt.NDArray[np.float32]


def alter(samples: Tensor, lengths: Tensor, drawn: Sequence[Drawn]) -> tuple[Tensor, Tensor]:
    """Samples (B, N) of these lengths (B,), played, hissed and amplified as drawn; noise comes from torch's stream.

    What lies behind the end of a row has to be zero.
    """
    speeds = [one.speed for one in drawn]
    if set(speeds) != {1.0}:
        samples, lengths = _played(samples, lengths, speeds)
    loud = samples.new_tensor([one.noise for one in drawn])[:, None]
    if any(one.noise for one in drawn):
        loudness = (samples.square().sum(1, keepdim=True) / lengths[:, None]).sqrt()
        pink = torch.tensor([one.pink for one in drawn], device=samples.device)
        samples = samples + _hiss(samples, pink) * loudness * loud
    return samples * samples.new_tensor([one.gain for one in drawn])[:, None], lengths


def _played(samples: Tensor, lengths: Tensor, speeds: Sequence[float]) -> tuple[Tensor, Tensor]:
    """Rows at their own speeds; those of one speed together."""
    longest = max(-(-samples.shape[1] * _STEPS // round(_STEPS * speed)) for speed in set(speeds))
    played, now = samples.new_zeros(len(samples), longest), lengths.clone()
    for speed in set(speeds):
        rate = round(_STEPS * speed)
        rows = torch.tensor([i for i, own in enumerate(speeds) if own == speed], device=samples.device)
        resampled = resample(samples[rows], rate, _STEPS)
        now[rows] = -(-lengths[rows] * _STEPS // rate)
        inside = torch.arange(resampled.shape[1], device=samples.device) < now[rows][:, None]
        played[rows, : resampled.shape[1]] = torch.where(inside, resampled, 0.0)
    return played, now


def _hiss(like: Tensor, pink: Tensor) -> Tensor:
    """Noise (B, N) of loudness 1, white, or where `pink` with a power that falls as 1/f."""
    if keyed() is not None:
        return _hiss_by_key(like, pink)
    white = torch.randn_like(like)
    size = 2 ** math.ceil(math.log2(max(like.shape[1], 2)))  # quick to transform
    spectrum = torch.fft.rfft(white, size)
    spectrum = spectrum / torch.arange(spectrum.shape[1], device=like.device).clamp(min=1).sqrt()
    coloured = torch.fft.irfft(spectrum, size)[:, : like.shape[1]]
    return torch.where(pink[:, None], coloured / coloured.square().mean(1, keepdim=True).sqrt(), white)


def _hiss_by_key(like: Tensor, pink: Tensor) -> Tensor:
    """The same by the key of each row, in stretches of one size, so that longer rows beside it change nothing."""
    n, stretches = len(like), -(-like.shape[1] // _STRETCH)
    white = normal((n, stretches, _STRETCH), like.device, name="noise")
    spectrum = torch.fft.rfft(white.double())
    fall = torch.arange(spectrum.shape[-1], device=like.device).clamp(min=1).double().rsqrt()
    power = (2 * fall.square().sum() - fall[0] ** 2 - fall[-1] ** 2) / _STRETCH  # of all frequencies, twice but two
    coloured = torch.fft.irfft(spectrum * fall / power.sqrt(), _STRETCH)
    noise = torch.where(pink[:, None, None], coloured.to(white.dtype), white)
    return noise.flatten(1)[:, : like.shape[1]].to(like.dtype)


def hide(
    values: Tensor, lengths: Tensor, *, bands: Tensor, times: Tensor, band_width: int, time_width: float
) -> Tensor:
    """Frames (B, T, M) with zeros under the masks: `bands` (B, n, 2) and `times` (B, m, 2) are shares, see `Drawn`."""
    n_mels = torch.full_like(lengths, values.shape[2])
    most_bands = torch.full_like(lengths, min(band_width, values.shape[2]))
    hidden = _covered(bands, n_mels, most_bands, values.shape[2])[:, None, :]  # (B, 1, M)
    most_times = (lengths * time_width).long()
    hidden = hidden | _covered(times, lengths, most_times, values.shape[1])[..., None]
    return values.masked_fill(hidden, 0)


def _covered(spans: Tensor, sizes: Tensor, most: Tensor, width: int) -> Tensor:
    """Which of `width` places some span of each row covers: (B, width). Spans are up to `most` (B,) wide."""
    widths = (spans[..., 1] * (most + 1)[:, None]).long()  # (B, n), 0 … most
    begins = (spans[..., 0] * (sizes[:, None] - widths + 1)).long()
    places = torch.arange(width, device=spans.device)
    inside = (places >= begins[..., None]) & (places < (begins + widths)[..., None])
    return inside.any(1)


def stacked(drawn: Sequence[Drawn]) -> tuple[Tensor, Tensor]:
    """The spans of several examples: (B, n, 2) and (B, m, 2)."""
    return tuple(torch.from_numpy(np.stack([getattr(one, name) for one in drawn])) for name in ("bands", "times"))  # type: ignore[return-value]
