"""Noise of any colour, and where spoken digits lie."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

DIGITS = Path(os.environ.get("REGARD_DATA", "data")) / "fsdd" / "fsdd.tar.gz"


def noise(n: int, power: float = 0.0, seed: int = 0) -> np.ndarray:
    """Noise whose amplitude falls with frequency to a power: 0 is white, 0.5 pink, 1 brown; deviation 1."""
    spectrum = np.fft.rfft(np.random.default_rng(seed).standard_normal(n))
    spectrum /= np.maximum(np.arange(len(spectrum)), 1.0) ** power
    sound = np.fft.irfft(spectrum, n)
    return sound / sound.std()
