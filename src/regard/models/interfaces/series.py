"""What every model of series shares: what it is asked, and how a window is brought to a scale and back.

    forecast = model(past, past_marks, future_marks)     (B, S, C), (B, S, M), (B, T, M)  →  (B, T, K, Q)

S steps of C input columns are known, T steps of K target columns are asked for; M features of dates are known of both.
Q is 1, or the number of quantiles. `targets` says where each target stands among the inputs, −1 where it does not:
one series is predicted from others then.

Instance normalisation (Kim et al., 2022): each window is read in units of its own mean and deviation, column by column,
and the forecast is put back into them, so that a level that drifts away from the training data's does no harm.

With `linear` a forecast begins as that of a linear model in closed form, which is given to `start` and stays as it is;
the model, whose last layer begins at nothing, learns what that leaves:

    forecast = W x + b   +   deviation of the window · what the model says       x: differences from the last value, to
                                                                                 which all is added; or all inputs

The last F of the marks may be columns beside the others (a price, a promotion, a category), known of both or 0 where
they are not. What they add to a target, F numbers, is taken from its past and added to its forecast; `start` gives that
too, else it is learnt.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.config.settings import Settings, setting
from regard.errors import ConfigError, ShapeError

EPSILON = 1e-5
_MOST = 1024  # features of a linear model


@dataclass(frozen=True, kw_only=True)
class ForecasterConfig(Settings):
    """The shape of the question, which follows from the data, and what every forecaster can begin with."""

    context: int = setting(336, "steps that are read", ge=1, derived=True)
    horizon: int = setting(96, "steps that are asked for", ge=1, derived=True)
    n_inputs: int = setting(1, "columns that are read", ge=1, derived=True)
    targets: tuple[int, ...] = setting(
        (0,), "places of the targets among the inputs; -1: not among them", ge=-1, derived=True
    )
    n_marks: int = setting(0, "features of a date", ge=0, derived=True)
    n_outputs: int = setting(1, "quantiles, or 1", ge=1, derived=True)
    normalize: bool = setting(True, "each window is read in units of its own mean and deviation (Kim et al., 2022)")
    linear: bool = setting(True, "begin with a linear model in closed form, and learn what it leaves")
    lead: int = setting(0, "steps asked for at which the inputs are known", ge=0, derived=True)
    n_covariates: int = setting(0, "how many of the marks are columns beside the others", ge=0, derived=True)

    @property
    def reads_itself(self) -> bool:
        """Whether every target is among the inputs."""
        return -1 not in self.targets


class Level(NamedTuple):
    """Mean and deviation of each input column of each window, (B, 1, C)."""

    mean: Tensor
    deviation: Tensor


class Forecaster(nn.Module, ABC):
    """What all models of series do around what each of them says: scales, and the linear model it may begin with."""

    config: ForecasterConfig
    head: nn.Linear

    def __init__(self, config: ForecasterConfig, *, own: bool = False) -> None:
        super().__init__()
        check(config, own=own)
        self.config = config
        features, answers = config.context, config.horizon
        if not config.reads_itself:
            features = steps_read(config.context, config.n_inputs) * config.n_inputs
            answers = config.horizon * len(config.targets)
        shape = (answers, features) if config.linear else (0, 0)
        self.linear_weight: Tensor
        self.linear_bias: Tensor
        self.register_buffer("linear_weight", torch.zeros(shape), persistent=config.linear)
        self.register_buffer("linear_bias", torch.zeros(shape[0]), persistent=config.linear)
        self.effects: Tensor
        effects = torch.zeros(config.n_covariates, len(config.targets))
        if config.linear or not config.n_covariates:
            self.register_buffer("effects", effects, persistent=config.n_covariates > 0)
        else:
            self.effects = nn.Parameter(effects)

    @abstractmethod
    def scaled_forecast(self, past: Tensor, past_marks: Tensor, future_marks: Tensor, only: int | None) -> Tensor:
        """What the model says of a window in its own units; `only` counts where columns are read one by one."""

    def last_layers(self) -> list[nn.Linear]:
        """What it says goes through these last."""
        return [self.head]

    def start(self, weights: Tensor, effects: Tensor | None = None) -> None:
        """Begin with a linear forecast, (features + 1, answers), whose last row is added to all, and effects (F, K)."""
        if effects is not None:
            self.effects.copy_(effects)
        self.linear_weight.copy_(weights[:-1].T)
        self.linear_bias.copy_(weights[-1])
        for tensor in (tensor for layer in self.last_layers() for tensor in layer.parameters()):
            nn.init.zeros_(tensor)

    def forward(self, past: Tensor, past_marks: Tensor, future_marks: Tensor, *, only: int | None = None) -> Tensor:
        """(B, S, C), (B, S, M), (B, T, M) → (B, T, K, Q); `only` one of the targets, if one is asked for."""
        config = self.config
        if past.shape[1:] != (config.context, config.n_inputs):
            raise ShapeError(
                f"a window of shape {tuple(past.shape)} was given, "
                f"(B, S, C) = (B, {config.context}, {config.n_inputs}) is needed"
            )
        targets = config.targets if only is None else config.targets[only : only + 1]
        if config.n_covariates:
            past = past - self._effects_on_inputs(past_marks)
        read, level = standardize(past) if config.normalize else (past, None)
        forecast = self.scaled_forecast(read, past_marks, future_marks, only)
        if forecast.shape[2] > len(targets):
            forecast = forecast[:, :, [only]]
        if not config.linear:
            forecast = forecast if level is None else restore(forecast, level, targets)
        else:
            if level is not None:
                forecast = restore(forecast, level._replace(mean=torch.zeros_like(level.mean)), targets)
            forecast = self._linear(past, only) + forecast
        return forecast if not config.n_covariates else forecast + self._effects_ahead(future_marks, only)

    def linear_shares(self, target: int) -> Tensor:
        """How much of the linear model of a target each known step makes up, (S,): its weights' sizes; sums to 1."""
        config, weight = self.config, self.linear_weight  # (T, S), or (T · K, steps · C)
        if config.reads_itself:  # from the last value on, which is taken away and added
            weight = torch.cat((weight[:, :-1], 1 - weight[:, :-1].sum(1, keepdim=True)), 1).abs()
        else:
            asked = weight.abs().view(config.horizon, len(config.targets), -1, config.n_inputs)
            weight = F.pad(asked[:, target].sum(-1), (config.context - asked.shape[2], 0))
        sizes = weight.sum(0)
        return sizes / sizes.sum().clamp(min=torch.finfo(sizes.dtype).tiny)

    def _effects_on_inputs(self, past_marks: Tensor) -> Tensor:
        """What the columns beside the others add to each input, (B, S, C): to the targets among them."""
        config = self.config
        own = [k for k, place in enumerate(config.targets) if place >= 0]
        places = [config.targets[k] for k in own]
        added = past_marks[..., -config.n_covariates :] @ self.effects[:, own]
        zeros = added.new_zeros(*added.shape[:2], config.n_inputs)
        return zeros.index_add(2, torch.tensor(places, device=added.device), added)

    def _effects_ahead(self, future_marks: Tensor, only: int | None) -> Tensor:
        """What they add to each target at the steps asked for, (B, T, K, 1)."""
        effects = self.effects if only is None else self.effects[:, [only]]
        return (future_marks[..., -self.config.n_covariates :] @ effects)[..., None]

    def _linear(self, past: Tensor, only: int | None) -> Tensor:
        """What the linear model says, (B, T, K, 1)."""
        config, B = self.config, len(past)
        with torch.autocast(past.device.type, enabled=False):
            if config.reads_itself:
                rows = own_columns(past, config.targets, only)
                last = rows[:, -1:]
                forecast = last + F.linear(rows - last, self.linear_weight, self.linear_bias)
                return forecast.view(B, -1, config.horizon, 1).transpose(1, 2)
            steps = steps_read(config.context, config.n_inputs)
            forecast = F.linear(past[:, -steps:].flatten(1), self.linear_weight, self.linear_bias)
        forecast = forecast.view(B, config.horizon, -1, 1)
        return forecast if only is None else forecast[:, :, [only]]


def steps_read(context: int, n_inputs: int) -> int:
    """How many of the last steps a linear model reads of all inputs together."""
    return max(1, min(context, _MOST // n_inputs))


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


def at_steps_asked(values: Tensor, lead: int, horizon: int) -> Tensor:
    """What is known (B, S, D) at the steps that are asked for, (B, T, D): nothing after the first `lead`."""
    return F.pad(values[:, values.shape[1] - lead :], (0, 0, 0, horizon - lead))


def own_columns(past: Tensor, targets: tuple[int, ...], only: int | None) -> Tensor:
    """The targets' own pasts as rows of their own (B · K, S); `only` one of the targets, if one is asked for."""
    places = list(targets if only is None else targets[only : only + 1])
    rows: Tensor = past[:, :, places].transpose(1, 2).flatten(0, 1)
    return rows


def check(config: ForecasterConfig, *, own: bool = False) -> None:
    """Refuse shapes that no model can have; `own` where every target is predicted from its own past alone."""
    config.check()
    if not 0 <= config.lead <= min(config.context, config.horizon):
        raise ConfigError(f"lead is {config.lead}; it lies within a context of {config.context} and a horizon")
    if config.n_covariates > config.n_marks:
        raise ConfigError(f"n_covariates is {config.n_covariates}, more than the {config.n_marks} marks they are among")
    if not config.targets or any(not -1 <= place < config.n_inputs for place in config.targets):
        raise ConfigError(f"targets are {config.targets}; allowed: places among {config.n_inputs} inputs, or −1")
    if own and -1 in config.targets:
        raise ConfigError(
            "this model predicts every column from its own past, and a target is not among the inputs",
            hint="add it to data.inputs, or take a model that reads all of them: model.name=series-transformer",
        )
