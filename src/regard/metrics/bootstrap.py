"""How far a figure would move if other examples had been drawn: percentile bootstrap (Efron, 1979).

    low, high = bootstrap(lambda drawn: f1(truth[drawn], predicted[drawn]), n=len(truth), seed=1)

The statistic gets the numbers of `n` examples drawn with replacement, and may give several figures at once, which then
all come from the same draws. Examples that depend on their neighbours, as windows of a series do, are drawn in blocks
of neighbours, the last followed by the first (Politis and Romano, 1992).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np
import numpy.typing as npt

from regard.errors import UsageError
from regard.metrics.scores import Metric

Drawn = npt.NDArray[np.int64]
Figures = npt.NDArray[np.float64]


def draws(n: int, *, seed: int, resamples: int, block: int = 1) -> Iterator[Drawn]:
    """So many sets of `n` examples, drawn with replacement one by one, or `block` neighbours at a time."""
    random = np.random.default_rng(seed)
    for _ in range(resamples):
        begins = random.integers(n, size=-(-n // block))
        yield (begins[:, None] + np.arange(block)).reshape(-1)[:n] % n


def bootstrap(
    statistic: Callable[[Drawn], npt.ArrayLike],
    n: int,
    *,
    seed: int = 1,
    resamples: int = 1000,
    level: float = 0.95,
    block: int = 1,
) -> tuple[Figures, Figures]:
    """The lower and the upper end of the interval that holds a share `level` of the resampled figures."""
    if n < 1 or resamples < 1:
        raise UsageError(f"{resamples} resamples of {n} examples cannot be drawn; both are 1 or more")
    if not 0 < level < 1:
        raise UsageError(f"an interval's level is between 0 and 1, not {level}")
    resampled = draws(n, seed=seed, resamples=resamples, block=block)
    figures = np.array([statistic(drawn) for drawn in resampled], np.float64)
    tail = 100 * (1 - level) / 2
    low, high = np.percentile(figures, (tail, 100 - tail), axis=0)
    return low, high


def with_intervals(
    figures: Callable[[Drawn], Mapping[str, float]],
    n: int,
    about: str,
    *,
    own: Mapping[str, str] | None = None,
    digits: int = 2,
    seed: int = 1,
    resamples: int = 1000,
) -> dict[str, Metric]:
    """All figures of `n` examples with their 95 % intervals; their signatures begin with `about`, or their `own`."""
    low, high = bootstrap(lambda drawn: list(figures(drawn).values()), n, seed=seed, resamples=resamples)
    how = signature(seed=seed, resamples=resamples)
    return {
        name: Metric(name, value, f"{(own or {}).get(name, about)}|{how}", float(low[i]), float(high[i]), digits)
        for i, (name, value) in enumerate(figures(np.arange(n)).items())
    }


def signature(*, seed: int, resamples: int, block: int = 1) -> str:
    """What is needed to draw the same resamples again."""
    return f"ci:95%|bootstrap:{resamples}{f'|block:{block}' if block > 1 else ''}|seed:{seed}"
