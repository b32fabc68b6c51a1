"""Random numbers that follow from what they are for: splitmix64 (Steele, Lea and Flood 2014) over whole arrays.

Nothing is drawn in an order, so nothing depends on what was drawn before.
"""

from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt

Hashes = npt.NDArray[np.uint64]
_WEYL = np.uint64(0x9E3779B97F4A7C15)
_MIX = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def hashed(*parts: int | npt.NDArray[Any]) -> Hashes:
    """A hash of integers in this order; arrays are matched as numpy broadcasts them."""
    state: Hashes = np.zeros(1, np.uint64)  # never a scalar: those warn when they wrap around
    for part in parts:
        state = varied(state, np.uint64(part % 2**64) if isinstance(part, int) else part.astype(np.uint64))
    return state


def varied(hashes: Hashes, by: Hashes | np.uint64) -> Hashes:
    """Other hashes, one of these and each number: what `hashed` does with a further part."""
    x = (hashes ^ by) + _WEYL
    x ^= x >> np.uint64(30)
    x *= _MIX[0]
    x ^= x >> np.uint64(27)
    x *= _MIX[1]
    x ^= x >> np.uint64(31)
    return x


def below(hashes: Hashes, n: int) -> npt.NDArray[np.int64]:
    """Hashes as whole numbers from 0 to n - 1; n is less than 2³²."""
    return ((hashes >> np.uint64(32)) * np.uint64(n) >> np.uint64(32)).astype(np.int64)


def happens(hashes: Hashes, rate: float) -> npt.NDArray[np.bool_]:
    """Hashes as events of a probability: 0 is never, 1 is always."""
    return hashes >> np.uint64(11) < np.uint64(rate * 2.0**53)


def text_hash(text: str) -> int:
    """A 64-bit number of a text, the same in every process."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")
