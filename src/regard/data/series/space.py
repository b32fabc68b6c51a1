"""What the numbers of a series mean to a model: its columns, their scale, its dates. Kept in a run as `series.json`.

space.scaled(values)        (n, C) in units of the training part: mean 0, deviation 1, column by column
space.unscaled(forecast)    (…, K[, Q]) of the targets, back in the data's own units
space.of("A")               that of one of several series that are learnt one below the other, each on its own scale
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from regard.data.io.atomic import read_facts, write_whole
from regard.data.series.calendar import DatePattern
from regard.data.series.covariates import Beside, Covariate
from regard.data.series.dates import DateFormat
from regard.data.series.series import Values
from regard.errors import DataError

FILE = "series.json"
_MOST_SECONDS = 10**10  # between two dates


@dataclass(frozen=True)
class SeriesSpace:
    """Columns read (`inputs`) and predicted (`targets`), the mean and deviation of each, and which dates come next.

    `names` are those of the files, where several are joined; `season` is the number of steps that repeat, or 0;
    `format` is how the dates were written; `naive` is how far a target is from itself a season before, on average over
    the training part: what MASE counts errors in. `covariates` are columns that are not forecast themselves.

    Series that stand one below the other, told apart by the column `told_by`, are named in `series`; their means,
    scales and naive errors go by `series.column`.
    """

    inputs: tuple[str, ...]
    targets: tuple[str, ...]
    mean: dict[str, float]
    scale: dict[str, float]
    pattern: DatePattern | None = None
    season: int = 0
    names: tuple[str, ...] = ()
    format: DateFormat | None = None
    naive: dict[str, float] = field(default_factory=dict)
    covariates: tuple[Covariate, ...] = ()
    series: tuple[str, ...] = ()
    told_by: str = ""

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns: the inputs, then the targets that are no inputs."""
        return (*self.inputs, *(name for name in self.targets if name not in self.inputs))

    @property
    def target_places(self) -> tuple[int, ...]:
        """Where each target stands among the inputs; −1 where it does not."""
        return tuple(self.inputs.index(name) if name in self.inputs else -1 for name in self.targets)

    @property
    def beside(self) -> Beside:
        """The columns that are read beside the others."""
        numbers, texts = ([each for each in self.covariates if bool(each.categories) is text] for text in (False, True))
        known = tuple(each.name for each in self.covariates if each.known)
        return Beside(tuple(each.name for each in numbers), tuple(each.name for each in texts), known)

    def of(self, series: str, values: Values | None = None) -> SeriesSpace:
        """What the numbers of one series mean; of one that was not trained on, by its own `values` (n, C)."""
        if values is not None:
            mean, scale = values.mean(0), np.where(values.std(0) > 0, values.std(0), 1.0)
            own = [dict(zip(self.columns, each.tolist(), strict=True)) for each in (mean, scale)]
            return replace(self, mean=own[0], scale=own[1], naive={}, series=())
        mine = [{name: facts[f"{series}.{name}"] for name in self.columns if f"{series}.{name}" in facts}
                for facts in (self.mean, self.scale, self.naive)]  # fmt: skip
        return replace(self, mean=mine[0], scale=mine[1], naive=mine[2], series=())

    @classmethod
    def scales(cls, values: Values, columns: tuple[str, ...]) -> tuple[dict[str, float], dict[str, float]]:
        """Mean and deviation of every column of the training part."""
        mean, scale = values.mean(0), values.std(0)
        flat = [name for name, deviation in zip(columns, scale, strict=True) if deviation == 0]
        if flat:
            raise DataError(
                f"{', '.join(flat)}: always the same number in the training part; there is nothing to learn"
            )
        return dict(zip(columns, mean.tolist(), strict=True)), dict(zip(columns, scale.tolist(), strict=True))

    @staticmethod
    def naive_errors(values: Values, columns: tuple[str, ...], season: int) -> dict[str, float]:
        """How far the columns of the training part are from themselves a season before, where they are at all."""
        lag = season if 0 < season < len(values) else 1
        errors = np.abs(values[lag:] - values[:-lag]).mean(0)
        return {name: error for name, error in zip(columns, errors.tolist(), strict=True) if error > 0}

    def scaled(self, values: Values) -> NDArray[np.float32]:
        """Values (n, C) of `columns`, in units of the training part."""
        mean, scale = self._of(self.columns)
        return ((values - mean) / scale).astype(np.float32)

    def unscaled(self, forecast: NDArray[Any]) -> Values:
        """Numbers (…, K, Q) of the targets in the data's own units."""
        mean, scale = self._of(self.targets)
        return np.asarray(forecast, np.float64) * scale[:, None] + mean[:, None]

    def _of(self, names: tuple[str, ...]) -> tuple[Values, Values]:
        return np.array([self.mean[name] for name in names]), np.array([self.scale[name] for name in names])

    def save(self, folder: Path) -> None:
        """Write `series.json`, whole or not at all."""
        write_whole(folder / FILE, asdict(self))

    @classmethod
    def load(cls, folder: Path) -> SeriesSpace:
        """Read what `save` wrote."""

        def parse(facts: dict[str, Any]) -> SeriesSpace:
            inputs, targets, names = (tuple(map(str, facts[name])) for name in ("inputs", "targets", "names"))
            pattern = _pattern(facts.get("pattern") or facts.get("step"))
            season = int(facts["season"])
            mean, scale, naive = (_numbers(facts.get(name, {})) for name in ("mean", "scale", "naive"))
            series = tuple(map(str, facts.get("series", ())))
            prefixes = [f"{one}." for one in series] or [""]
            columns = [f"{prefix}{name}" for prefix in prefixes for name in (*inputs, *targets)]
            lacking = [name for name in columns if name not in mean or not scale.get(name)]
            if lacking:
                raise ValueError(f"the mean and the scale of {lacking[0]!r} are missing")
            covariates = tuple(map(_covariate, facts.get("covariates", ())))
            format, told_by = _format(facts), str(facts.get("told_by", ""))
            return cls(inputs, targets, mean, scale, pattern, season, names, format, naive, covariates, series, told_by)

        hint = "a run that forecasts keeps its scale"
        return read_facts(folder / FILE, parse, what="not a description of a series", hint=hint)


def _pattern(facts: dict[str, Any] | None) -> DatePattern | None:
    """A pattern of dates; of runs that kept a step, what it meant."""
    if facts is None:
        return None
    if any(abs(int(facts.get(name, 0))) > _MOST_SECONDS for name in ("seconds", "months")):
        raise ValueError("its dates are further apart than dates are")
    if "weekdays" not in facts:
        return TypeAdapter(DatePattern).validate_python(facts)
    if facts["weekdays"]:
        return DatePattern(times=((0,),) * 5 + ((),) * 2)
    return DatePattern(months=facts["months"], day=0) if facts["months"] else DatePattern(seconds=facts["seconds"])


def _format(facts: dict[str, Any]) -> DateFormat | None:
    return TypeAdapter(DateFormat).validate_python(facts["format"]) if facts.get("format") else None


def _covariate(facts: dict[str, Any]) -> Covariate:
    categories, shares = (tuple(facts[name]) for name in ("categories", "shares"))
    return Covariate(**facts | {"categories": categories, "shares": shares})


def _numbers(facts: dict[str, Any]) -> dict[str, float]:
    """A number for each name."""
    numbers = {str(name): float(value) for name, value in facts.items()}
    if not all(map(math.isfinite, numbers.values())):
        raise ValueError("a mean or a scale is no number")
    return numbers
