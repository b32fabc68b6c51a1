"""Run a model over windows, and say what it forecasts as people and programs read it.

forecasts(model, windows)      (n, T, K, Q), scaled; every window once, the last batch as well
forecasts_of(model, cut, n)    the same of windows that are cut when they are needed
Forecast                       one forecast in the data's own units: as CSV, or as a JSON object
StackedForecast                forecasts of series that stand one below the other, each from its own last date
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.data.io.dialect import CSV, Dialect
from regard.data.series.series import Values
from regard.data.series.table import Stacked
from regard.data.series.windows import Cut, Rows, Windows
from regard.tasks.series.metrics import Forecasts, chunks

_AT_ONCE = 256  # windows


def forecasts(model: nn.Module, windows: Windows) -> Forecasts:
    """Forecasts of all windows, (n, T, K, Q), in scaled units."""
    return forecasts_of(model, windows.cut, len(windows))


@torch.inference_mode()
def forecasts_of(model: nn.Module, cut: Callable[[Rows], Cut], n: int) -> Forecasts:
    """Forecasts of `n` windows, cut some at a time."""
    device = next(model.parameters()).device
    training = model.training
    model.eval()
    try:
        parts = [say(model, cut(rows), device).float().cpu().numpy() for rows in chunks(n, _AT_ONCE)]
    finally:
        model.train(training)
    return np.concatenate(parts)


def say(model: nn.Module, cut: Cut, device: torch.device, **options: Any) -> Tensor:
    """What a model says about windows, (B, T, K, Q); quantiles that cross change places."""
    forecast: Tensor = model(*inputs_of(cut, device), **options)
    return forecast.sort(-1).values if forecast.shape[-1] > 1 else forecast


def inputs_of(cut: Cut, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """What a model is called with."""
    past, past_marks, future_marks = (
        torch.from_numpy(part).to(device) for part in (cut.past, cut.past_marks, cut.future_marks)
    )
    return past, past_marks, future_marks


@dataclass(frozen=True, eq=False)
class Forecast:
    """What is to come: `values` (T, K, Q) of `targets` at `times`, in the data's own units.

    Times are dates of the column `date`, or numbers of steps where that is None; `quantiles` are empty for a plain
    forecast, and those of its bounds where it is `bounded`. `dialect` is how the file writes its cells, and so is the
    table; with `stacked`, one series below the other, as they came.
    """

    times: Sequence[str]
    targets: Sequence[str]
    values: Values
    quantiles: Sequence[float] = ()
    date: str | None = "date"
    dialect: Dialect = CSV
    bounded: bool = False
    stacked: Stacked | None = None

    @property
    def point(self) -> Values:
        """One number a step and target, (T, K): of quantiles, the middle one."""
        middle = list(self.quantiles).index(0.5) if self.quantiles else 0
        point: Values = self.values[..., middle]
        return point

    @property
    def columns(self) -> list[str]:
        """The names of the columns of the table, without the first."""
        return [name for name, _ in self._columns()]

    @property
    def date_name(self) -> str:
        """The name of the first column."""
        return "step" if self.date is None else self.date

    def rows(self) -> list[list[str]]:
        """The cells of the table, a row a step."""
        return [[time, *row] for time, row in self._lines(self._columns())]

    def _columns(self) -> list[tuple[str, Values]]:
        """The columns of the table: quantiles in their order, or a forecast under the target's own name, and bounds."""
        if not self.quantiles:
            return [(target, self.values[:, k, 0]) for k, target in enumerate(self.targets)]
        columns = []
        for k, target in enumerate(self.targets):
            own = [(f"{target} {share:g}", self.values[:, k, q]) for q, share in enumerate(self.quantiles)]
            columns += [(target, self.point[:, k]), own[0], own[-1]] if self.bounded else own
        return columns

    def plain(self, name: str | None = None) -> str:
        """As a table like the one that was read: its delimiter, decimal mark, and names; `name` is a first column."""
        date, columns = self.date_name, self._columns()
        if self.stacked is None:
            table = [[date, *self.columns], *self.rows()]
        else:
            each = len(columns) // len(self.targets)
            extra = [name.removeprefix(self.targets[0]) for name, _ in columns[:each]]
            table = [[self.stacked.names, date, *(f"{self.stacked.values}{more}" for more in extra)]]
            for k, target in enumerate(self.targets):
                table += [[target, time, *row] for time, row in self._lines(columns[k * each : (k + 1) * each])]
        return _written(table, self.dialect, name)

    def _lines(self, columns: Sequence[tuple[str, Values]]) -> Iterator[tuple[str, list[str]]]:
        """Each time with the numbers of these columns, as they are written."""
        for time, row in zip(self.times, zip(*(column for _, column in columns), strict=True), strict=True):
            yield time, [f"{value:.6g}".replace(".", self.dialect.decimal) for value in row]

    def record(self) -> dict[str, Any]:
        """As a JSON object."""
        table = {name: column.tolist() for name, column in self._columns()}
        return {"times": list(self.times), "forecast": table, "quantiles": list(self.quantiles)}


@dataclass(frozen=True, eq=False)
class StackedForecast:
    """Forecasts by the name of their series; `told_by` is the column of the names. `said["A"]` is one of them."""

    told_by: str
    series: Mapping[str, Forecast]

    def __getitem__(self, name: str) -> Forecast:
        return self.series[name]

    def plain(self, name: str | None = None) -> str:
        """As a table like the one that was read, one series below the other; `name` is a first column."""
        first = next(iter(self.series.values()))
        table = [[self.told_by, first.date_name, *first.columns]]
        for series, forecast in self.series.items():
            table += [[series, *row] for row in forecast.rows()]
        return _written(table, first.dialect, name)

    def record(self) -> dict[str, Any]:
        """As a JSON object."""
        return {"series": {name: forecast.record() for name, forecast in self.series.items()}}


def _written(table: Sequence[Sequence[str]], dialect: Dialect, name: str | None) -> str:
    """A table as lines of text; with a name, its first column is that of the input."""
    if name is not None:
        table = [[first, *row] for first, row in zip(["input", *[name] * len(table)], table, strict=False)]
    return "\n".join(dialect.delimiter.join(_cell(cell, dialect) for cell in row) for row in table)


def _cell(text: str, dialect: Dialect) -> str:
    """A cell, in quotes where it needs them."""
    if not any(sign in text for sign in (dialect.delimiter, '"', "\n")):
        return text
    return '"' + text.replace('"', '""') + '"'
