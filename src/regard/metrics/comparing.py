"""Is one model better than another on the same examples, or is it chance? Paired bootstrap over examples.

paired((figures_of_a, figures_of_b), n, resamples=1000, seed=1)     one Comparison a figure
paired(…, block=96)                                                 of examples that depend on so many neighbours
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from regard.metrics.bootstrap import Drawn, draws, signature

LESS_IS_BETTER = frozenset(
    {"TER", "WER", "CER", "loss", "bits per character", "rmse", "mlm loss", "mse", "mae", "pinball"}
)
LEVEL = 0.05  # below it, a difference is taken not to be chance
Figures = Callable[[Drawn], Mapping[str, float]]


@dataclass(frozen=True)
class Comparison:
    """System b against system a: `difference` is b − a, `low` to `high` its 95 % bootstrap interval."""

    name: str
    score_a: float
    score_b: float
    difference: float
    low: float
    high: float
    p_value: float
    n: int
    signature: str


@dataclass(frozen=True)
class Compared:
    """Two models on one test set: `n` of what `unit` names, and a comparison for each figure."""

    data: str
    n: int
    unit: str
    comparisons: list[Comparison]
    digits: int = 4

    def record(self) -> dict[str, Any]:
        """As a JSON object."""
        comparisons = [asdict(each) | {"verdict": verdict(each)} for each in self.comparisons]
        return {"data": self.data, "n": self.n, "unit": self.unit, "comparisons": comparisons}

    def lines(self) -> list[str]:
        """A line for each figure: both models, their difference with its interval, and which is better."""
        width, wide, short = max(len(each.name) for each in self.comparisons), self.digits + 4, f".{self.digits}f"
        return [
            f"  {each.name:<{width}} a {each.score_a:{wide}{short}}   b {each.score_b:{wide}{short}}   "
            f"b − a {each.difference:+{wide}{short}}   95 % [{each.low:+{short}}, {each.high:+{short}}]   "
            f"p = {each.p_value:.3f}   {verdict(each)}"
            for each in self.comparisons
        ]

    def __str__(self) -> str:
        return "\n".join([f"{self.data}: {self.n:,} {self.unit}", *self.lines()])


def verdict(comparison: Comparison) -> str:
    """Which of a and b is better, in words."""
    if comparison.p_value >= LEVEL or comparison.difference == 0:
        return "no significant difference"
    better = "b" if (comparison.difference < 0) == (comparison.name in LESS_IS_BETTER) else "a"
    return f"{better} is significantly better"


def paired(
    systems: tuple[Figures, Figures],
    n: int,
    *,
    resamples: int,
    seed: int,
    block: int = 1,
    signatures: Mapping[str, str] | None = None,
) -> list[Comparison]:
    """Compare figures of the same `n` examples, and of `resamples` sets drawn from them, the same for both.

    `signatures` are those of figures that have one; what is needed to draw again is the signature of the others. The
    p-value is two-sided: how often the difference, centred on zero, is at least as large as the one observed.
    """
    first, second = (dict(system(np.arange(n))) for system in systems)
    resampled = draws(n, seed=seed, resamples=resamples, block=block)
    table = np.array([[list(system(drawn).values()) for system in systems] for drawn in resampled], np.float64)
    usual, known = f"n:{n}|{signature(seed=seed, resamples=resamples, block=block)}", signatures or {}
    comparisons = []
    for i, name in enumerate(first):
        observed, differences = second[name] - first[name], table[:, 1, i] - table[:, 0, i]  # (resamples,)
        as_large = int((np.abs(differences - differences.mean()) >= abs(observed)).sum())
        low, high = np.percentile(differences, (2.5, 97.5)).tolist()
        p_value, how = (as_large + 1) / (resamples + 1), known.get(name, usual)
        comparisons.append(Comparison(name, first[name], second[name], observed, low, high, p_value, resamples, how))
    return comparisons
