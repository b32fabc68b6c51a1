"""DLinear (Zeng et al., 2023): a moving average and what is left of it, each through one linear layer over time.

forecast = W_trend · average(past) + W_season · (past − average(past))       every column by itself, the same weights

No attention: this is what attention has to beat.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor, nn

from regard.errors import ConfigError
from regard.models.forecaster import ForecasterConfig, check, check_past, own_columns, restore, standardize


@dataclass(frozen=True, kw_only=True)
class DLinearConfig(ForecasterConfig):
    """`window` is how many steps the moving average goes over; an odd number."""

    window: int = 25
    normalize: bool = False


SIZES: dict[str, dict[str, int]] = {}


class DLinear(nn.Module):
    """Trend and season, a matrix each."""

    def __init__(self, config: DLinearConfig) -> None:
        super().__init__()
        check(config, own=True)
        if config.window < 1 or config.window % 2 == 0:
            raise ConfigError(f"window is {config.window}; an odd number of steps is needed")
        self.config = config
        self.trend = nn.Linear(config.context, config.horizon * config.n_outputs)
        self.season = nn.Linear(config.context, config.horizon * config.n_outputs)

    def forward(self, past: Tensor, past_marks: Tensor, future_marks: Tensor, *, only: int | None = None) -> Tensor:
        """(B, S, C) → (B, T, K, Q); dates are not looked at."""
        config = self.config
        check_past(past, config)
        level = None
        if config.normalize:
            past, level = standardize(past)
        rows = own_columns(past, config.targets, only)  # (B · K, S)
        trend = moving_average(rows, config.window)
        said = self.trend(trend) + self.season(rows - trend)
        forecast: Tensor = said.view(len(past), -1, config.horizon, config.n_outputs).transpose(1, 2)
        targets = config.targets if only is None else config.targets[only : only + 1]
        return forecast if level is None else restore(forecast, level, targets)


def moving_average(rows: Tensor, window: int) -> Tensor:
    """The mean of `window` steps around each step of (N, S), with the ends repeated outwards."""
    reach = (window - 1) // 2
    padded = F.pad(rows[:, None], (reach, reach), mode="replicate")
    return F.avg_pool1d(padded, window, stride=1)[:, 0]
