"""How far a figure would move if other examples had been drawn: percentile bootstrap (Efron, 1979).

    low, high = bootstrap(lambda drawn: f1(truth[drawn], predicted[drawn]), n=len(truth), seed=1)

The statistic gets the numbers of `n` examples drawn with replacement, and may give several figures at once, which then
all come from the same draws.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from regard.errors import UsageError

Drawn = npt.NDArray[np.int64]
Figures = npt.NDArray[np.float64]


def bootstrap(
    statistic: Callable[[Drawn], npt.ArrayLike], n: int, *, seed: int = 1, resamples: int = 1000, level: float = 0.95
) -> tuple[Figures, Figures]:
    """The lower and the upper end of the interval that holds a share `level` of the resampled figures."""
    if n < 1 or resamples < 1:
        raise UsageError(f"{resamples} resamples of {n} examples cannot be drawn; both are 1 or more")
    if not 0 < level < 1:
        raise UsageError(f"an interval's level is between 0 and 1, not {level}")
    random = np.random.default_rng(seed)
    found = np.array([statistic(random.integers(n, size=n)) for _ in range(resamples)], np.float64)
    tail = 100 * (1 - level) / 2
    low, high = np.percentile(found, (tail, 100 - tail), axis=0)
    return low, high


def signature(*, seed: int, resamples: int) -> str:
    """What is needed to draw the same resamples again."""
    return f"ci:95%|bootstrap:{resamples}|seed:{seed}"
