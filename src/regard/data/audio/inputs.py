"""One recording as people have it → samples: a path, samples with their rate, or samples alone where a rate is given.

    audio_of("a.wav")    audio_of((samples, 16_000))    audio_of(samples, rate=16_000)      → Audio

Samples are arrays, tensors or lists of numbers: (n,), or with channels (n, C) or (C, n), which are averaged. Floats run
from −1 to 1; whole numbers are brought there from the range of their type.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from regard.data.audio.files import Audio, read_audio
from regard.errors import UsageError, kind_of

SampleInput: TypeAlias = NDArray[Any] | Tensor | Sequence[float]
AudioInput: TypeAlias = str | Path | tuple[SampleInput, int] | SampleInput
_EXPECTED = "a path, samples, or (samples, rate) was expected"


def is_recording(given: object) -> bool:
    """Whether this is one recording, not several."""
    if isinstance(given, list | tuple):
        return _with_rate(given) or (len(given) > 0 and all(isinstance(value, Real) for value in given))
    return True


def check_recordings(inputs: Sequence[object]) -> None:
    """Refuse what is no recording, by its number."""
    for number, given in enumerate(inputs):
        if not isinstance(given, str | Path | np.ndarray | Tensor | list | tuple):
            raise UsageError(f"input {number} is {kind_of(given)}; {_EXPECTED}")


def audio_of(recording: AudioInput, *, rate: int | None = None, where: str = "the recording") -> Audio:
    """The sound of a recording; `rate` is that of samples that come without one. Errors name it `where`."""
    if isinstance(recording, str | Path):
        return read_audio(recording)
    samples: Any = recording
    if isinstance(recording, list | tuple) and _with_rate(recording):
        samples, rate = recording[0], int(recording[1])
    if rate is None:
        raise UsageError(f"{where} is samples without a rate", hint="give both: model((samples, 16_000)), or rate=…")
    return Audio(_mono(samples, where), rate)


def _with_rate(given: Sequence[Any]) -> bool:
    return len(given) == 2 and isinstance(given[1], Integral) and not isinstance(given[0], Real | str | Path)


def _mono(samples: Any, where: str) -> NDArray[np.float32]:
    """Samples (n,) from −1 to 1."""
    values = samples.detach().cpu().float().numpy() if _is_float(samples) else np.asarray(samples)
    if values.dtype.kind not in "fiu" or values.ndim not in (1, 2) or not values.size:
        raise UsageError(f"{where} has samples of shape {values.shape}; allowed are finite numbers (n,), n from 1")
    if isinstance(samples, np.ndarray | Tensor) and values.dtype.kind in "iu":
        bits = 8 * values.dtype.itemsize
        values = (values.astype(np.float64) - (2 ** (bits - 1) if values.dtype.kind == "u" else 0)) / 2 ** (bits - 1)
    mono = values if values.ndim == 1 else values.mean(int(np.argmin(values.shape)), dtype=np.float64)
    if not np.isfinite(mono).all():
        raise UsageError(f"{where} has samples of shape {values.shape}; allowed are finite numbers (n,), n from 1")
    return np.ascontiguousarray(mono, np.float32)


def _is_float(samples: Any) -> bool:
    return isinstance(samples, Tensor) and samples.is_floating_point()
