"""What a forecast has to beat: the mean, the last value, the last season, and a linear model in closed form.

    mean              every step to come is the mean of the training part: of returns, that prices stay
    naive             every step to come is as the last one known
    seasonal naive    every step to come is as the one a season before
    ridge             least squares with a penalty, chosen on the validation part

The linear model of targets that are read themselves is shared by all of them, (S) → (T), on differences from the last
value. Targets that are not are predicted from the last steps of all inputs together. What columns beside them add is
taken away before and added again; it is estimated from differences over a season, which take trend and season out, and
kept where the validation part is the better for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from regard.checkpoints.weights import read_tensors, write_tensors
from regard.data.series.space import SeriesSpace
from regard.data.series.windows import Rows, Windows
from regard.errors import CheckpointError
from regard.metrics.bootstrap import Drawn
from regard.metrics.scores import Metric
from regard.metrics.verdict import verdict
from regard.models.interfaces.series import steps_read
from regard.tasks.measuring import Scores
from regard.tasks.series.forecasting import forecasts
from regard.tasks.series.intervals import Intervals, rolling_offsets, scores_of, windows_over
from regard.tasks.series.metrics import Errors, Forecasts, Offsets, blocks_of, chunks, errors_of, metrics

PENALTIES = (1e-6, 1e-4, 1e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0, 3.0, 10.0, 100.0)  # times the mean square of a feature
_HELD_BACK = (1e-3, 0.3)  # effects of columns beside the others: penalties that are tried
_FILE = "baseline.safetensors"

Matrix = NDArray[np.floating[Any]]


def naive(windows: Windows) -> Forecasts:
    """The last value, repeated: (n, T, K, 1)."""
    last = windows.known(np.arange(len(windows)), 1)
    return np.repeat(last, windows.horizon, 1)[..., None]


def seasonal(windows: Windows, season: int) -> Forecasts:
    """The last season, repeated: (n, T, K, 1)."""
    known = windows.known(np.arange(len(windows)), season)
    return known[:, np.arange(windows.horizon) % season][..., None]


@dataclass(frozen=True, eq=False)
class Ridge:
    """A linear forecast: `weights` (features + 1, outputs), whose last row is added to all, and `effects` (F, K)."""

    weights: Matrix
    effects: Matrix | None = None

    def save(self, folder: Path) -> None:
        """Write it beside the weights of a run."""
        effects = {} if self.effects is None else {"effects": torch.from_numpy(self.effects)}
        write_tensors(folder / _FILE, {"ridge": torch.from_numpy(self.weights)} | effects)

    @classmethod
    def load(cls, folder: Path) -> Ridge | None:
        """Read what `save` wrote, if it did."""
        path = folder / _FILE
        if not path.exists():
            return None
        kept = read_tensors(path)
        if "ridge" not in kept or kept["ridge"].ndim != 2 or not kept["ridge"].is_floating_point():
            raise CheckpointError(f"{path}: not the linear forecast of a run", hint="remove it: the model needs none")
        return cls(kept["ridge"].numpy(), kept["effects"].numpy() if "effects" in kept else None)

    @classmethod
    def fit(cls, train: Windows, valid: Windows, *, season: int = 0) -> Ridge:
        """The weights whose penalty does best on the validation part, with effects where these do."""
        if not train.n_covariates:
            return cls._best(train, valid, None)
        estimated = [effects_in(train, season=season, penalty=penalty) for penalty in _HELD_BACK]
        tried = [cls._best(train, valid, effects) for effects in (*estimated, np.zeros_like(estimated[0]))]
        return min(tried, key=lambda ridge: _error(ridge, valid))

    @classmethod
    def _best(cls, train: Windows, valid: Windows, effects: Matrix | None) -> Ridge:
        """The weights whose penalty does best, given the effects."""
        if effects is not None:
            train = train.without(effects)
        products = None
        for rows in chunks(len(train), 1024):
            x, y = _features(train, rows), _answers(train, rows)
            part = (x.T @ x, x.T @ y)
            products = part if products is None else (products[0] + part[0], products[1] + part[1])
        assert products is not None
        square, cross = products
        unit = float(np.mean(np.diag(square)[:-1])) or 1.0
        free = np.ones(len(square))
        free[-1] = 0  # what is added to all is not held back
        tried = [cls(np.linalg.solve(square + np.diag(penalty * unit * free + 1e-9 * unit), cross), effects)
                 for penalty in PENALTIES]  # fmt: skip
        return min(tried, key=lambda ridge: _error(ridge, valid))

    def __call__(self, windows: Windows) -> Forecasts:
        """Forecasts (n, T, K, 1)."""
        n, T, K = len(windows), windows.horizon, len(windows.targets)
        forecasts = np.empty((n, T, K, 1), np.float32)
        read = windows if self.effects is None else windows.without(self.effects)
        for rows in chunks(n, 1024):
            outputs = _features(read, rows) @ self.weights
            if reads_itself(windows):
                last = read.known(rows, 1).transpose(0, 2, 1)  # (B, K, 1)
                forecasts[rows] = (outputs.reshape(len(rows), K, T) + last).transpose(0, 2, 1)[..., None]
            else:
                forecasts[rows] = outputs.reshape(len(rows), T, K, 1)
            if self.effects is not None:
                forecasts[rows] += windows.added(rows, self.effects)[..., None]
        return forecasts


def effects_in(windows: Windows, *, season: int, penalty: float) -> Matrix:
    """What a unit of each feature beside the others adds to each target, (F, K), by differences over a season."""
    lag = season if 0 < season <= windows.context - windows.lead else 1
    rows, targets = windows.places, list(windows.targets)
    x = (windows.covariates[rows] - windows.covariates[rows - lag]).astype(np.float64)
    y = (windows.values[rows][:, targets] - windows.values[rows - lag][:, targets]).astype(np.float64)
    square = x.T @ x
    unit = float(np.mean(np.diag(square))) or 1.0
    return np.linalg.solve(square + penalty * unit * np.eye(len(square)), x.T @ y)


def _error(ridge: Ridge, windows: Windows) -> float:
    return float(errors_of(ridge(windows), windows).squared.mean())


def reads_itself(windows: Windows) -> bool:
    """Whether every target is among the inputs."""
    return max(windows.targets) < windows.n_inputs


def baselines(windows: Windows, *, season: int, ridge: Ridge | None) -> Mapping[str, Errors]:
    """The errors of every baseline that there is, by name."""
    forecasts = {
        "mean": np.zeros((len(windows), windows.horizon, len(windows.targets), 1), np.float32)
    }  # scaled, it is 0
    forecasts["naive"] = naive(windows)
    if 1 < season <= windows.context - windows.lead:
        forecasts["seasonal naive"] = seasonal(windows, season)
    if ridge is not None:
        forecasts["ridge"] = ridge(windows)
    return {name: errors_of(forecast, windows) for name, forecast in forecasts.items()}


def _features(windows: Windows, rows: Rows) -> Matrix:
    """What is known, as rows of features with a one at the end: (B · K, S + 1), or (B, features + 1)."""
    if reads_itself(windows):
        past = windows.known(rows, windows.context).astype(np.float64)
        known = (past - past[:, -1:]).transpose(0, 2, 1).reshape(-1, windows.context)
    else:
        steps = steps_read(windows.context, windows.n_inputs)
        known = windows.cut(rows).past[:, -steps:].astype(np.float64).reshape(len(rows), -1)
    return np.concatenate([known, np.ones((len(known), 1))], 1)


def _answers(windows: Windows, rows: Rows) -> Matrix:
    """What came: (B · K, T) as differences from the last value, or (B, T · K)."""
    future = windows.cut(rows).future.astype(np.float64)
    if not reads_itself(windows):
        return future.reshape(len(rows), -1)
    return (future - windows.known(rows, 1)).transpose(0, 2, 1).reshape(-1, windows.horizon)


def score_windows(
    model: nn.Module,
    windows: Windows,
    space: SeriesSpace,
    *,
    quantiles: Sequence[float],
    ridge: Ridge | None,
    intervals: Intervals | None = None,
) -> Scores:
    """The model's forecasts of all windows; beside its figures "naive mse", "ridge mae", … of the same windows.

    With `intervals`, bounds are as they would have been at the time: by the windows that were over then.
    """
    said, offsets = forecasts(model, windows), None
    if intervals is not None and windows.held != 0:
        offsets = bounds_along(model, windows, said, intervals.share, known=intervals)[0]
    errors = errors_of(said, windows, quantiles=quantiles, offsets=offsets)
    n_series = len(windows.series) or 1

    def with_baselines() -> dict[str, Metric]:
        about = f"windows:{len(windows)}|context:{windows.context}|horizon:{windows.horizon}|all"
        block = windows.horizon * n_series
        named = metrics(errors, space, signature=about, horizon=block)
        for name, others in baselines(windows, season=space.season, ridge=ridge).items():
            named |= metrics(others, space, signature=about, horizon=block, prefix=f"{name} ")
        return named

    def figures(drawn: Drawn) -> dict[str, float]:
        of_all = errors.figures(drawn)
        return {name: of_all[name] for name in ("mse", "mae")}

    block = blocks_of(len(windows), windows.horizon * n_series)
    return Scores(len(windows), "windows", with_baselines, figures, block=block)


def bounds_along(
    model: nn.Module, windows: Windows, said: Forecasts, share: float, *, known: Intervals | None = None
) -> tuple[Offsets, Intervals | None]:
    """The offsets of bounds for each window, by those before it that were not trained on, and those that come next."""
    held = windows.preceding()
    before = _scores(forecasts(model, held), held) if len(held) else None
    first = known if windows.held is None else None
    own, earlier = windows.span, held.span
    return rolling_offsets(
        _scores(said, windows),
        horizon=windows.horizon,
        share=share,
        before=before,
        first=first,
        over=None if own is None or earlier is None else windows_over(earlier, own),
        n_series=len(windows.series) or 1,
    )


def _scores(said: Forecasts, windows: Windows) -> Offsets:
    return np.concatenate([scores_of(said[rows], windows.cut(rows).future) for rows in chunks(len(windows))])


def lines_of(metrics: Mapping[str, Metric]) -> list[str]:
    """The scaled errors as lines for people, the model's first; and that it is no better, where it is not."""
    whose = [""] + [key.removesuffix("mse") for key in metrics if key.endswith(" mse")]
    lines = []
    for prefix in whose:
        shown = [name for name in ("mse", "mae", "mase", "coverage") if prefix + name in metrics]
        figures = "  ".join(f"{name} {metrics[prefix + name].value:.4f}" for name in shown)
        lines.append(f"{prefix.strip() or 'model':<15} {figures}")
    told = verdict(metrics["mse"], {prefix.strip(): metrics[f"{prefix}mse"].value for prefix in whose if prefix})
    return lines if told.advice is None else [*lines, told.advice]
