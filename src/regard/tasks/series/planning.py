"""What suits some series: how far ahead and how far back their rows reach, and a small model on top of a linear one."""

from __future__ import annotations

from typing import Any

from regard.config.recipe import Recipe
from regard.data.series.calendar import DAY, HOUR, WEEK, DatePattern
from regard.tasks.series.config import TASK, SeriesData
from regard.tasks.series.data import SeriesFiles, SeriesTable
from regard.training.plan import Plan, within
from regard.training.setup import RunContext

_LONGEST = 336  # steps that are read
_ENOUGH = 2000  # rows from which on a tenth of them is enough to choose by
_LARGE = 500_000  # numbers that a wide model is worth


def plan_series(recipe: Recipe, context: RunContext) -> Plan:
    """The plan for a recipe's series."""
    table = SeriesFiles(recipe.data, context.data_root).table()
    given, columns = recipe.given.get("data", {}), len(table.columns.targets)
    data = _data(table, recipe.data, given)
    asked = data | dict(given)
    reach = int(asked["context"]) + int(asked["horizon"]) - 1
    own = (_learnt_from(len(part), recipe.data, asked) - reach for part in table.parts.values())
    windows = max(1, sum(max(0, each) for each in own))
    batch = int(within(8, 1024 // max(1, columns), 128))
    batch = max(1, min(batch, windows // 4))
    steps = int(within(150, 5 * windows / batch, 20_000))
    other = recipe.model["name"] != TASK.models[0]
    rows = sum(map(len, table.parts.values()))
    wide = rows * columns >= _LARGE and context.device.type == "cuda"
    return Plan(
        data=f"{rows:,} {_rows_named(table.pattern)}{_series_named(columns * len(table.parts))}",
        steps=steps,
        evaluations=6,  # the linear model that it begins with is often best: not many more than it waits for
        patience=4,
        warmup=50,
        cost=0.1 * rows / batch / 3,
        settings={
            "data": data,
            "model": _model(table, int(asked["context"]), wide=wide),
            "train": {"batch_examples": batch} | ({} if other else {"lr": 3e-5 if windows >= 1000 else 1e-4}),
        },
    )


def _data(table: SeriesTable, data: SeriesData, given: Any) -> dict[str, Any]:
    """How time is divided, how far ahead is asked, and how far back is read: as the rows allow."""
    n, pattern = table.n_rows, table.pattern
    divided = "split" in given or data.valid_from is not None
    planned: dict[str, Any] = {} if divided or n >= _ENOUGH else {"split": [0.6, 0.2, 0.2]}
    learnt_from = _learnt_from(n, data, planned | dict(given))
    if data.together:
        return planned | {"context": max(1, min(5, learnt_from // 3)), "horizon": 1}
    horizon = int(given.get("horizon") or min(_usual_horizon(pattern, n), max(1, n // 10)))
    season = max(1, pattern.season if pattern is not None else 1)
    reach = min(_LONGEST, max(7 * season, 4 * horizon), max(1, learnt_from // 2), max(1, learnt_from - horizon))
    return planned | {"context": reach - reach % season if reach >= season else reach, "horizon": horizon}


def _learnt_from(n: int, data: SeriesData, asked: Any) -> int:
    """About how many rows there are to learn from."""
    first = float(asked.get("split", data.split)[0])
    return int(first if first >= 1 else round(first * n))


def _usual_horizon(pattern: DatePattern | None, n: int) -> int:
    """How far ahead people ask of rows like these: a year of months, weeks of days, days of hours."""
    if pattern is None:
        return 24 if n < 5000 else 96
    if pattern.months:
        return 12 if pattern.months == 1 else 4 if pattern.months == 3 else 3
    if pattern.seconds >= WEEK:
        return 13
    seasonal = pattern.season
    if pattern.seconds == DAY or (pattern.times and seasonal <= 7):
        return 14 if n < 1000 else 4 * seasonal
    if pattern.seconds == HOUR:
        return 24 if n < 5000 else 48 if n < 10_000 else 96
    return min(96, seasonal or 24)


def _model(table: SeriesTable, context: int, *, wide: bool) -> dict[str, Any]:
    """Patches of what is read; a series told from others needs a model that reads all of them."""
    if set(table.columns.targets) - set(table.columns.inputs):
        return {"name": "series-transformer", "size": "tiny", "linear": True, "normalize": False, "dropout": 0.3}
    patch = max(1, min(16, context // 4))
    sized = {"name": "patch-forecaster", "size": "base" if wide else "tiny", "linear": True}
    return sized | {"patch": patch, "stride": max(1, patch // 2)}


def _rows_named(pattern: DatePattern | None) -> str:
    """What rows are called: "hourly rows"."""
    if pattern is None:
        return "rows"
    if pattern.months:
        return f"{ {1: 'monthly', 3: 'quarterly', 12: 'yearly'}.get(pattern.months, 'dated') } rows"
    if pattern.times and pattern.season <= 7:
        return "daily rows"
    return f"{ {HOUR: 'hourly', DAY: 'daily', WEEK: 'weekly'}.get(pattern.seconds, 'dated') } rows"


def _series_named(n: int) -> str:
    return " of one series" if n == 1 else f" of {n:,} series"
