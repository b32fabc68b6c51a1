"""What is said about forecasts of a test set: the model's figures, and those of simple forecasts beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import nn

from regard.data.series.space import SeriesSpace
from regard.data.series.windows import Windows
from regard.metrics.bootstrap import Drawn
from regard.metrics.scores import Metric
from regard.tasks.measuring import Scores
from regard.tasks.series.baselines import Ridge, baselines
from regard.tasks.series.forecasting import forecasts
from regard.tasks.series.metrics import blocks_of, errors_of, metrics


def score_windows(
    model: nn.Module, windows: Windows, space: SeriesSpace, *, quantiles: Sequence[float], ridge: Ridge | None
) -> Scores:
    """The model's forecasts of all windows; beside its figures "naive mse", "ridge mae", … of the same windows."""
    errors = errors_of(forecasts(model, windows), windows, quantiles=quantiles)

    def with_baselines() -> dict[str, Metric]:
        about = f"windows:{len(windows)}|context:{windows.context}|horizon:{windows.horizon}|all"
        named = metrics(errors, space, signature=about, horizon=windows.horizon)
        for name, others in baselines(windows, season=space.season, ridge=ridge).items():
            named |= metrics(others, space, signature=about, horizon=windows.horizon, prefix=f"{name} ")
        return named

    def figures(drawn: Drawn) -> dict[str, float]:
        of_all = errors.figures(drawn)
        return {name: of_all[name] for name in ("mse", "mae")}

    block = blocks_of(len(windows), windows.horizon)
    return Scores(len(windows), "windows", with_baselines, figures, block=block)


def lines_of(metrics: Mapping[str, Metric]) -> list[str]:
    """The scaled errors as lines for people, the model's first."""
    whose = [""] + [key.removesuffix("mse") for key in metrics if key.endswith(" mse")]
    lines = []
    for prefix in whose:
        mse, mae = (metrics[prefix + name].value for name in ("mse", "mae"))
        lines.append(f"{prefix.strip() or 'model':<15} mse {mse:.4f}  mae {mae:.4f}")
    return lines
