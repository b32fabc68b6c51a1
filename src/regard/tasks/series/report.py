"""What is said about forecasts of a test set: the model's figures, and those of simple forecasts beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from regard.data.series.space import SeriesSpace
from regard.data.series.windows import Windows
from regard.metrics.scores import Metric
from regard.tasks.series.baselines import Ridge, baselines
from regard.tasks.series.metrics import Forecasts, errors_of, metrics


def compared(
    said: Forecasts, windows: Windows, space: SeriesSpace, *, quantiles: Sequence[float], ridge: Ridge | None
) -> dict[str, Metric]:
    """The figures of forecasts (n, T, K, Q), then "naive mse", "ridge mae", … of the same windows."""
    signature = f"windows:{len(windows)}|context:{windows.context}|horizon:{windows.horizon}|all"
    found = metrics(errors_of(said, windows, quantiles=quantiles), space, signature=signature, horizon=windows.horizon)
    for name, errors in baselines(windows, season=space.season, ridge=ridge).items():
        found |= metrics(errors, space, signature=signature, horizon=windows.horizon, prefix=f"{name} ")
    return found


def lines_of(name: str, figures: Mapping[str, Metric]) -> list[str]:
    """The scaled errors as lines for people, the model's first."""
    whose = [""] + [key.removesuffix("mse") for key in figures if key.endswith(" mse")]
    lines = []
    for prefix in whose:
        shown = f"mse {figures[prefix + 'mse'].value:.4f}  mae {figures[prefix + 'mae'].value:.4f}"
        lines.append(f"{name}: {prefix.strip() or 'model':<15} {shown}")
    return lines
