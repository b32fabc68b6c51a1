"""Another rate for the same sound: band-limited interpolation by a windowed sinc (Smith and Gossett, 1984).

    y[m] = Σₖ x[k] · h(m · down/up − k),   h(τ) = c · sinc(cτ) · hann(cτ / zeros)        up/down = new rate / old rate

c is the new bandwidth as a share of the old, so that nothing folds back. The output's places against the input repeat
after `up` samples, so there are `up` filters in all: one strided convolution computes them side by side. Where the
rates have so little in common that the filters would fill memory, each sample is weighed by itself instead.
"""

from __future__ import annotations

import math
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.errors import UsageError

_ZEROS = 24  # zero crossings of the sinc on each side
_ROLLOFF = 0.97  # share of the bandwidth that is kept; the rest is the filter's slope
_LARGEST = 2**20  # numbers that the filters of one convolution may take
_AT_ONCE = 2**15


def resample(samples: Tensor, rate: int, new_rate: int) -> Tensor:
    """Samples (..., n) at `rate` → (..., ⌈n · new_rate / rate⌉) at `new_rate`."""
    if rate < 1 or new_rate < 1:
        raise UsageError(f"rates are whole numbers of samples a second from 1, not {rate} and {new_rate}")
    common = math.gcd(rate, new_rate)
    up, down = new_rate // common, rate // common
    if up == down or not samples.shape[-1]:
        return samples
    flat = samples.reshape(-1, samples.shape[-1])
    n_out = -(-flat.shape[-1] * up // down)
    half = math.ceil(_ZEROS / _bandwidth(up, down))
    together = up * (2 * half + down + 1) <= _LARGEST
    resampled = _by_phases(flat, up, down, half=half) if together else _by_samples(flat, up, down, half=half)
    return resampled[:, :n_out].reshape(*samples.shape[:-1], n_out)


def _bandwidth(up: int, down: int) -> float:
    return _ROLLOFF * min(1.0, up / down)


def _filter(gaps: Tensor, up: int, down: int) -> Tensor:
    """h at these distances, in double precision."""
    scaled = gaps * _bandwidth(up, down)
    window = torch.cos(math.pi / 2 * (scaled / _ZEROS).clamp(-1, 1)).square()
    return _bandwidth(up, down) * torch.sinc(scaled) * window


@lru_cache(maxsize=32)
def _phases(up: int, down: int, half: int) -> Tensor:
    """The filters (up, 1, L) of outputs 0 … up − 1 over inputs −half … half + down."""
    places = torch.arange(up, dtype=torch.float64)[:, None] * down / up
    inputs = torch.arange(-half, half + down + 1, dtype=torch.float64)
    return _filter(places - inputs, up, down)[:, None]


def _by_phases(flat: Tensor, up: int, down: int, *, half: int) -> Tensor:
    kernel = _phases(up, down, half).to(flat)
    padded = F.pad(flat, (half, half + down))[:, None]  # (B, 1, n + …)
    return F.conv1d(padded, kernel, stride=down).transpose(1, 2).flatten(1)


def _by_samples(flat: Tensor, up: int, down: int, *, half: int) -> Tensor:
    n_out = -(-flat.shape[-1] * up // down)
    padded = F.pad(flat, (half, half + 2))
    taps = torch.arange(-half, half + 2)
    parts = []
    for begin in range(0, n_out, _AT_ONCE):
        outputs = torch.arange(begin, min(begin + _AT_ONCE, n_out))
        first = outputs * down // up
        gaps = (outputs * down % up).double()[:, None] / up - taps  # (m, taps)
        inputs = padded[:, (first[:, None] + taps + half).to(flat.device)]
        parts.append((inputs * _filter(gaps, up, down).to(flat)).sum(-1))
    return torch.cat(parts, -1)
