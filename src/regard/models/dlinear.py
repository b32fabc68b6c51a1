"""DLinear (Zeng et al., 2023): a moving average and what is left of it, each through one linear layer over time.

forecast = W_trend · average(past) + W_season · (past − average(past))       every column by itself, the same weights

No attention: this is what attention has to beat.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor, nn

from regard.config.settings import setting
from regard.errors import ConfigError
from regard.models.entry import Entry
from regard.models.interfaces.series import Forecaster, ForecasterConfig, own_columns


@dataclass(frozen=True, kw_only=True)
class DLinearConfig(ForecasterConfig):
    """What makes one DLinear differ from another."""

    window: int = setting(25, "steps that the moving average goes over; an odd number", ge=1)
    normalize: bool = False
    linear: bool = False


class DLinear(Forecaster):
    """Trend and season, a matrix each."""

    config: DLinearConfig

    def __init__(self, config: DLinearConfig) -> None:
        super().__init__(config, own=True)
        if config.window % 2 == 0:
            raise ConfigError(f"window is {config.window}; an odd number of steps is needed")
        self.trend = nn.Linear(config.context, config.horizon * config.n_outputs)
        self.season = nn.Linear(config.context, config.horizon * config.n_outputs)

    def scaled_forecast(self, past: Tensor, past_marks: Tensor, future_marks: Tensor, only: int | None) -> Tensor:
        """(B, S, C) → (B, T, K, Q); dates are not looked at."""
        config = self.config
        rows = own_columns(past, config.targets, only)  # (B · K, S)
        trend = moving_average(rows, config.window)
        forecast: Tensor = self.trend(trend) + self.season(rows - trend)
        return forecast.view(len(past), -1, config.horizon, config.n_outputs).transpose(1, 2)

    def last_layers(self) -> list[nn.Linear]:
        """Both."""
        return [self.trend, self.season]


def moving_average(rows: Tensor, window: int) -> Tensor:
    """The mean of `window` steps around each step of (N, S), with the ends repeated outwards."""
    reach = (window - 1) // 2
    padded = F.pad(rows[:, None], (reach, reach), mode="replicate")
    return F.avg_pool1d(padded, window, stride=1)[:, 0]


ENTRY = Entry(DLinearConfig, DLinear)
