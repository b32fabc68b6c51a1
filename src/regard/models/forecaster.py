"""What every model of series shares: what it is asked, and how a window is brought to a scale and back.

    forecast = model(past, past_marks, future_marks)     (B, S, C), (B, S, M), (B, T, M)  →  (B, T, K, Q)

S steps of C input columns are known, T steps of K target columns are asked for; M features of dates are known of both.
Q is 1, or the number of quantiles. `targets` says where each target stands among the inputs, −1 where it does not:
one series is predicted from others then.

Instance normalisation (Kim et al., 2022): each window is read in units of its own mean and deviation, column by column,
and the forecast is put back into them, so that a level that drifts away from the training data's does no harm.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from regard.errors import ConfigError, ShapeError

EPSILON = 1e-5


@dataclass(frozen=True, kw_only=True)
class ForecasterConfig:
    """The shape of the question, which follows from the data."""

    context: int = 336
    horizon: int = 96
    n_inputs: int = 1
    targets: tuple[int, ...] = (0,)
    n_marks: int = 0
    n_outputs: int = 1
    normalize: bool = True


class Level(NamedTuple):
    """Mean and deviation of each input column of each window, (B, 1, C)."""

    mean: Tensor
    deviation: Tensor


def standardize(past: Tensor) -> tuple[Tensor, Level]:
    """A window (B, S, C) in its own units, and what they are."""
    mean = past.mean(1, keepdim=True)
    deviation = (past.var(1, keepdim=True, unbiased=False) + EPSILON).sqrt()
    return (past - mean) / deviation, Level(mean, deviation)


def restore(forecast: Tensor, level: Level, targets: tuple[int, ...]) -> Tensor:
    """A forecast (B, T, K, Q) out of its window's units; targets that are no inputs have none and stay."""
    own = [i for i, place in enumerate(targets) if place >= 0]
    places = [targets[i] for i in own]
    scale, shift = forecast.new_ones(1, 1, len(targets), 1), forecast.new_zeros(1, 1, len(targets), 1)
    scale, shift = (x.expand(len(forecast), -1, -1, -1).clone() for x in (scale, shift))
    scale[:, :, own, 0] = level.deviation[:, :, places].to(scale)
    shift[:, :, own, 0] = level.mean[:, :, places].to(shift)
    return forecast * scale + shift


def with_marks(values: Tensor, marks: Tensor) -> Tensor:
    """Values (B, S, C) with the features of their dates beside them, (B, S, C + M)."""
    return torch.cat((values, marks.to(values)), -1) if marks.shape[-1] else values


def own_columns(past: Tensor, targets: tuple[int, ...], only: int | None) -> Tensor:
    """The targets' own pasts as rows of their own (B · K, S); `only` one of the targets, if one is asked for."""
    places = list(targets if only is None else targets[only : only + 1])
    rows: Tensor = past[:, :, places].transpose(1, 2).flatten(0, 1)
    return rows


def check(config: ForecasterConfig, *, own: bool = False) -> None:
    """Refuse shapes that no model can have; `own` where every target is predicted from its own past alone."""
    for name in ("context", "horizon", "n_inputs", "n_outputs"):
        if getattr(config, name) < 1:
            raise ConfigError(f"{name} is at least 1, not {getattr(config, name)}")
    if not config.targets or any(not -1 <= place < config.n_inputs for place in config.targets):
        raise ConfigError(f"targets are {config.targets}; allowed: places among {config.n_inputs} inputs, or −1")
    if own and -1 in config.targets:
        raise ConfigError(
            "this model predicts every column from its own past, and a target is not among the inputs",
            hint="add it to data.inputs, or take a model that reads all of them: model.name=series-transformer",
        )


def check_past(past: Tensor, config: ForecasterConfig) -> None:
    """Refuse a window of another shape than the model was made for."""
    if past.shape[1:] != (config.context, config.n_inputs):
        raise ShapeError(
            f"a window of shape {tuple(past.shape)} was given, "
            f"(B, S, C) = (B, {config.context}, {config.n_inputs}) is needed"
        )
