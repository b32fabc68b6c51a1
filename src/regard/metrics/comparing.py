"""Is one model better than another on the same examples, or is it chance? Paired bootstrap over examples.

paired((figures_of_a, figures_of_b), n, resamples=1000, seed=1)     one Comparison a figure
paired(…, block=96)                                                 of examples that depend on so many neighbours
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from regard.metrics.bootstrap import Drawn, draws, signature
from regard.metrics.scores import Comparison

LESS_IS_BETTER = frozenset({"TER", "loss", "bits per character", "rmse", "mlm loss", "mse", "mae", "pinball"})
Figures = Callable[[Drawn], Mapping[str, float]]


@dataclass(frozen=True)
class Compared:
    """Two models on one test set: `n` of what `unit` names, and a comparison for each figure."""

    data: str
    n: int
    unit: str
    comparisons: list[Comparison]
    digits: int = 4


def paired(systems: tuple[Figures, Figures], n: int, *, resamples: int, seed: int, block: int = 1) -> list[Comparison]:
    """Compare figures of the same `n` examples, and of `resamples` sets drawn from them, the same for both.

    The p-value is two-sided: how often the difference, centred on zero, is at least as large as the one observed.
    """
    first, second = (dict(system(np.arange(n))) for system in systems)
    drawn = draws(n, seed=seed, resamples=resamples, block=block)
    found = [[list(system(some).values()) for system in systems] for some in drawn]
    table = np.array(found, np.float64)  # (resamples, 2, figures)
    how = f"n:{n}|{signature(seed=seed, resamples=resamples, block=block)}"
    comparisons = []
    for i, name in enumerate(first):
        observed, differences = second[name] - first[name], table[:, 1, i] - table[:, 0, i]
        as_large = int((np.abs(differences - differences.mean()) >= abs(observed)).sum())
        low, high = np.percentile(differences, (2.5, 97.5)).tolist()
        p_value = (as_large + 1) / (resamples + 1)
        comparisons.append(Comparison(name, first[name], second[name], observed, low, high, p_value, resamples, how))
    return comparisons
