"""Sound as models see it: log-mel spectrograms, a row of M energies every hundredth of a second.

    front = Front(rate=16_000, n_mels=80)
    values, lengths = front(samples, lengths)             samples (B, N), lengths (B,) → values (B, T, M), frames (B,)

    mel        25 ms windows, log10 of mel energies not more than 60 dB below the loudest, then normalised: each band of
               an utterance by its own mean and deviation, or by those of the training data, or not at all
    whisper    as Whisper has it (Radford et al., 2022): 30 s, padded with silence, log10, 80 dB, (x + 4) / 4

`mel_bank` has the triangles of Slaney's Auditory Toolbox, of equal area, as librosa and Whisper do. A `warp` moves
them along the frequencies, as a longer or shorter vocal tract moves formants. What stands behind the end of a row
never matters.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data.io.atomic import read_facts
from regard.errors import ConfigError, UsageError

FrontName = Literal["mel", "whisper"]
Normal = Literal["utterance", "global", "none"]
SCALE = "mel.json"
WHISPER_SECONDS = 30
_LINEAR, _EDGE, _STEP = 200 / 3, 1000.0, math.log(6.4) / 27  # Slaney: Hz a mel below 1 kHz, and the steps above it
_KNEE = 0.85  # share of the band below which a warp is a plain factor
_QUIET = 1e-10


def to_mel(hertz: Tensor) -> Tensor:
    """Frequencies on Slaney's mel scale: linear up to 1 kHz, logarithmic above."""
    above = _EDGE / _LINEAR + torch.log(hertz.clamp(min=_EDGE) / _EDGE) / _STEP
    return torch.where(hertz < _EDGE, hertz / _LINEAR, above)


def to_hertz(mel: Tensor) -> Tensor:
    """The way back."""
    above = _EDGE * torch.exp(_STEP * (mel - _EDGE / _LINEAR))
    return torch.where(mel < _EDGE / _LINEAR, mel * _LINEAR, above)


@lru_cache(maxsize=64)
def mel_bank(n_mels: int, n_fft: int, rate: int, warp: float = 1.0) -> Tensor:
    """Triangular filters (M, n_fft/2 + 1), equally spaced in mel from 0 to half the rate, each of area 1 in hertz."""
    high = rate / 2
    edges = to_hertz(torch.linspace(0, float(to_mel(torch.tensor(high, dtype=torch.float64))), n_mels + 2).double())
    edges = _warped(edges, warp, high)
    bins = torch.linspace(0, high, n_fft // 2 + 1, dtype=torch.float64)
    rising = (bins - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    falling = (edges[2:, None] - bins) / (edges[2:] - edges[1:-1])[:, None]
    area = 2 / (edges[2:] - edges[:-2])[:, None]
    return (torch.minimum(rising, falling).clamp(min=0) * area).float()


def _warped(hertz: Tensor, warp: float, high: float) -> Tensor:
    """Frequencies times `warp`, bent back above the knee so that the highest stays where it is."""
    if warp == 1.0:
        return hertz
    knee = _KNEE * high * min(1.0, 1 / warp)
    slope = (high - warp * knee) / (high - knee)
    return torch.where(hertz <= knee, warp * hertz, warp * knee + slope * (hertz - knee))


@dataclass(frozen=True)
class Scale:
    """Mean and deviation of every band over the training data."""

    mean: tuple[float, ...]
    deviation: tuple[float, ...]

    @classmethod
    def of(cls, values: Tensor) -> Scale:
        """Of frames (n, M)."""
        values = values.double()
        return cls(tuple(values.mean(0).tolist()), tuple(values.std(0, correction=0).clamp(min=1e-3).tolist()))

    def save(self, folder: Path) -> None:
        """Write mel.json."""
        (folder / SCALE).write_text(json.dumps({"mean": self.mean, "deviation": self.deviation}) + "\n")

    @classmethod
    def load(cls, folder: Path) -> Scale:
        """Read what `save` wrote."""
        return read_facts(
            folder / SCALE,
            lambda facts: cls(_bands(facts["mean"]), _bands(facts["deviation"], least=1e-6)),
            what="not the scale of mel bands",
            hint="a run with data.normal=global keeps its scale",
        )


def _bands(given: Sequence[float], *, least: float = -math.inf) -> tuple[float, ...]:
    """A number a band."""
    bands = tuple(float(one) for one in given)
    if not all(math.isfinite(one) and one >= least for one in bands):
        raise ValueError("a band is no number")
    return bands


@dataclass(frozen=True, kw_only=True)
class Front:
    """From samples at `rate` to frames of `n_mels` bands; `window` and `hop` are in seconds."""

    kind: FrontName = "mel"
    rate: int = 16_000
    n_mels: int = 80
    window: float = 0.025
    hop: float = 0.01
    normal: Normal = "utterance"
    scale: Scale | None = None

    def __post_init__(self) -> None:
        if self.rate < 1000 or self.n_mels < 1 or not 0 < self.hop <= self.window <= 1:
            raise ConfigError(
                f"rate {self.rate}, n_mels {self.n_mels}, window {self.window}, hop {self.hop}: allowed are 1000 "
                "samples a second or more, one band or more, and 0 < hop <= window <= 1 seconds"
            )
        if self.normal == "global" and self.scale is None:
            raise UsageError("global normalisation needs the scale of the training data")

    @property
    def n_hop(self) -> int:
        """Samples from one frame to the next."""
        return round(self.hop * self.rate)

    @cached_property
    def n_fft(self) -> int:
        """Samples that a spectrum is computed of: the window's, or the next power of two."""
        n = round(self.window * self.rate)
        return n if self.kind == "whisper" else 2 ** math.ceil(math.log2(n))

    @property
    def longest(self) -> int | None:
        """The most samples that can be read at once, where that is limited."""
        return WHISPER_SECONDS * self.rate if self.kind == "whisper" else None

    def n_frames(self, n_samples: int) -> int:
        """How many frames so many samples give, those of padding not counted."""
        return max(1, -(-n_samples // self.n_hop)) if self.kind == "whisper" else 1 + n_samples // self.n_hop

    @torch.no_grad()
    def __call__(
        self, samples: Tensor, lengths: Tensor, *, warps: Sequence[float] | None = None
    ) -> tuple[Tensor, Tensor]:
        """Samples (B, N) and their numbers (B,) → values (B, T, M) and the frames to read of each row (B,).

        `warps` is a factor a row. Computed in the samples' own precision, at least single, whatever is usual
        around it.
        """
        with torch.autocast(samples.device.type, enabled=False):
            samples = samples.to(torch.promote_types(samples.dtype, torch.float32))
            if self.kind == "whisper":
                return self._whisper(samples, lengths)
            return self._normalised(*self._mel(samples, lengths, warps))

    def _spectrum(self, padded: Tensor) -> Tensor:
        """Power (B, F, T) of samples that are padded already."""
        window = torch.hann_window(round(self.window * self.rate), dtype=padded.dtype, device=padded.device)
        spectrum = torch.stft(
            padded, self.n_fft, self.n_hop, len(window), window=window, center=False, return_complex=True
        )
        return spectrum.abs().square()

    def _bank(self, warps: Sequence[float] | None, like: Tensor) -> Tensor:
        """(M, F), or (B, M, F) where rows are warped."""
        if warps is None or set(warps) == {1.0}:
            return mel_bank(self.n_mels, self.n_fft, self.rate).to(like)
        kinds = sorted(set(warps))
        banks = torch.stack([mel_bank(self.n_mels, self.n_fft, self.rate, warp) for warp in kinds]).to(like)
        return banks[torch.tensor([kinds.index(warp) for warp in warps], device=like.device)]

    def _mel(self, samples: Tensor, lengths: Tensor, warps: Sequence[float] | None) -> tuple[Tensor, Tensor]:
        inside = torch.arange(samples.shape[1], device=samples.device) < lengths[:, None]
        half = self.n_fft // 2
        power = self._spectrum(F.pad(torch.where(inside, samples, 0.0), (half, half)))
        frames = 1 + lengths // self.n_hop
        logs = (self._bank(warps, power) @ power).clamp(min=_QUIET).log10().transpose(1, 2)  # (B, T, M)
        real = torch.arange(logs.shape[1], device=logs.device) < frames[:, None]
        loudest = logs.masked_fill(~real[..., None], -math.inf).amax((1, 2), keepdim=True)
        return torch.maximum(logs, loudest - 6.0), frames

    def _normalised(self, logs: Tensor, frames: Tensor) -> tuple[Tensor, Tensor]:
        """Bands brought to mean 0 and deviation 1; zeros behind the end."""
        real = (torch.arange(logs.shape[1], device=logs.device) < frames[:, None])[..., None]
        if self.normal == "utterance":
            n = frames[:, None, None]
            mean = logs.masked_fill(~real, 0).sum(1, keepdim=True) / n
            variance = (logs - mean).masked_fill(~real, 0).square().sum(1, keepdim=True) / n
            logs = (logs - mean) / (variance.sqrt() + 1e-2)
        elif self.scale is not None and self.normal == "global":
            logs = (logs - logs.new_tensor(self.scale.mean)) / logs.new_tensor(self.scale.deviation)
        return logs.masked_fill(~real, 0), frames

    def _whisper(self, samples: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        assert self.longest is not None
        if int(lengths.max()) > self.longest:
            raise UsageError(f"a Whisper model reads {WHISPER_SECONDS} seconds at once", hint="cut it into pieces")
        inside = torch.arange(samples.shape[1], device=samples.device) < lengths[:, None]
        whole = F.pad(torch.where(inside, samples, 0.0), (0, self.longest - samples.shape[1]))
        padded = F.pad(whole[:, None], (self.n_fft // 2, self.n_fft // 2), mode="reflect")[:, 0]
        power = self._spectrum(padded)[..., :-1]
        logs = (self._bank(None, power) @ power).clamp(min=_QUIET).log10()  # (B, M, T)
        logs = (torch.maximum(logs, logs.amax((1, 2), keepdim=True) - 8.0) + 4.0) / 4.0
        return logs.transpose(1, 2), torch.full_like(lengths, logs.shape[2])
