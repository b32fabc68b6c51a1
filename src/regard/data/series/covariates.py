"""Columns beside those that are forecast: numbers and categories, of the past alone or known in advance.

    promo      0, 1, …           a number: one feature, in units of the training part
    weather    rain, sun, …      a category: a feature for each of its texts, less its share of the training part

What is not known (an empty cell among categories apart, which is none of them) is 0, the mean. A column that is known
in advance has values for the steps that are asked for as well; of others these are 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Cells = NDArray[Any]  # (n,) numbers, or texts
Features = NDArray[np.float32]
MOST = 20  # categories of a column


class Beside(NamedTuple):
    """Columns that are read beside those of a series, by what they hold, and those of them known in advance."""

    numbers: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    known: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """All of them."""
        return (*self.numbers, *self.texts)

    def of(self, prefix: str) -> Beside:
        """Those whose names begin so, without it."""
        numbers, texts, known = (tuple(n.removeprefix(prefix) for n in each if n.startswith(prefix)) for each in self)
        return Beside(numbers, texts, known)


NOTHING = Beside()


@dataclass(frozen=True)
class Covariate:
    """One column: its mean and deviation in the training part, or its categories and the share of each."""

    name: str
    known: bool = False
    mean: float = 0.0
    scale: float = 1.0
    categories: tuple[str, ...] = ()
    shares: tuple[float, ...] = ()

    @property
    def width(self) -> int:
        """How many features it makes."""
        return len(self.categories) or 1

    def features(self, cells: Cells) -> Features:
        """(n,) → (n, width); what is unknown is 0."""
        if not self.categories:
            scaled = (np.asarray(cells, np.float64) - self.mean) / self.scale
            return np.nan_to_num(scaled)[:, None].astype(np.float32)
        chosen = (cells[:, None] == np.array(self.categories)[None]).astype(np.float32)
        found: Features = (chosen - np.array(self.shares, np.float32)) * np.isin(cells, ("", *self.categories))[:, None]
        return found

    def strangers(self, cells: Cells) -> list[str]:
        """The texts that are none of its categories."""
        return sorted(set(cells.tolist()) - {"", *self.categories}) if self.categories else []


def fit_covariates(beside: Beside, cells: Mapping[str, Cells]) -> tuple[list[Covariate], list[str]]:
    """What the training part says of each column; and the names of those that are always the same in it."""
    fitted, flat = [], []
    for name in beside.names:
        own, known = cells[name], name in beside.known
        if name in beside.numbers:
            mean, scale = float(own.mean()), float(own.std())
            if scale > 0:
                fitted.append(Covariate(name, known, mean, scale))
                continue
        else:
            texts = sorted(set(own.tolist()) - {""})
            shares = tuple(float((own == text).mean()) for text in texts)
            if texts and max(shares) < 1:
                fitted.append(Covariate(name, known, categories=tuple(texts), shares=shares))
                continue
        flat.append(name)
    return fitted, flat


def features_of(covariates: Sequence[Covariate], cells: Mapping[str, Cells], n: int) -> Features:
    """All features of `n` rows, (n, F); a column that is not there is unknown."""
    parts = [each.features(cells[each.name]) if each.name in cells else np.zeros((n, each.width), np.float32)
             for each in covariates]  # fmt: skip
    return np.concatenate([np.zeros((n, 0), np.float32), *parts], 1)


def unknown_ahead(covariates: Sequence[Covariate]) -> tuple[int, ...]:
    """The places of the features that are not known in advance."""
    known = [each.known for each in covariates for _ in range(each.width)]
    return tuple(i for i, ahead in enumerate(known) if not ahead)


def is_category(cells: Sequence[str]) -> bool:
    """Whether texts are few and different, each of them often enough to tell something."""
    texts = set(cells)
    return len(texts) >= 2 and len(texts - {""}) <= min(MOST, len(cells) // 4)
