"""Forecasting as something to train: batches of windows, their loss, and how far forecasts are off so far.

A loss is the mean over the steps and targets of a window, summed over windows; `n_tokens` counts windows.

    mse        (y − ŷ)²            mae        |y − ŷ|
    pinball    max(q·e, (q−1)·e), e = y − ŷ_q, the mean of all quantiles: where quantiles are asked for
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn

from regard.data.batching.plan import Indices, example_plan
from regard.data.batching.tensors import TensorBatch
from regard.data.series.space import SeriesSpace
from regard.data.series.windows import Windows
from regard.metrics.cross_entropy import Losses
from regard.models.precision import in_double
from regard.tasks.series.config import LossName
from regard.tasks.series.forecasting import forecasts
from regard.tasks.series.metrics import errors_of
from regard.training.batching import BatchPlanMixin


@dataclass(frozen=True)
class SeriesBatch(TensorBatch):
    """Windows as tensors: past (B, S, C), future (B, T, K), and the features of their dates."""

    past: Tensor
    past_marks: Tensor
    future: Tensor
    future_marks: Tensor
    n_tokens: int


def series_loss(forecast: Tensor, future: Tensor, kind: str, quantiles: Sequence[float]) -> Tensor:
    """Forecasts (B, T, K, Q) against what came (B, T, K): the mean of each window, summed, in single precision."""
    apart = future[..., None] - forecast.to(torch.promote_types(forecast.dtype, torch.float32))
    if kind == "pinball":
        share = apart.new_tensor(list(quantiles))
        loss = torch.maximum(share * apart, (share - 1) * apart)
    else:
        loss = apart.square() if kind == "mse" else apart.abs()
    return loss.flatten(1).mean(1).sum()


class SeriesTraining(BatchPlanMixin):
    """What the trainer asks of the task: batches in a fixed order, their loss, and an evaluation."""

    objective = "minus_loss"
    unit = "windows"
    _loss = staticmethod(series_loss)

    def __init__(
        self,
        space: SeriesSpace,
        train: Windows,
        valid: Windows,
        *,
        batch_examples: int,
        seed: int,
        loss: LossName = "mse",
        quantiles: Sequence[float] = (),
    ) -> None:
        self.space, self.train, self.valid = space, train, valid
        self.quantiles = tuple(quantiles)
        self.kind = "pinball" if quantiles else loss
        self.plan = example_plan(
            np.ones(len(train), np.int64), budget_tokens=0, batch_examples=batch_examples, seed=seed
        )

    def batch(self, indices: Indices) -> SeriesBatch:
        """The windows of these numbers as one batch."""
        past, past_marks, future, future_marks = (torch.from_numpy(part) for part in self.train.cut(indices))
        return SeriesBatch(past, past_marks, future, future_marks, len(indices))

    def record(self) -> bool:
        """The device's work can be recorded: batches are full, or the last one."""
        return True

    def loss(self, model: nn.Module, batch: SeriesBatch) -> Losses:
        """The summed loss of a batch's windows, with gradients."""
        read = (batch.past, batch.past_marks, batch.future_marks)
        forecast = model(*(in_double(model, part) for part in read))
        total = self._loss(forecast, batch.future, self.kind, self.quantiles)
        return Losses(total, total.detach(), torch.full((), batch.n_tokens, device=total.device))

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        """The loss of a window and all figures on the validation part."""
        figures = errors_of(forecasts(model, self.valid), self.valid, quantiles=self.quantiles).figures()
        loss = figures[self.kind]
        return {"valid_loss": loss, "minus_loss": -loss} | {f"valid_{name}": value for name, value in figures.items()}

    def samples(self, model: nn.Module, n: int) -> list[tuple[str, str, str]]:
        """A few validation windows: the last values, what came at the end of the horizon, and what was forecast."""
        if not n:
            return []
        windows = replace(self.valid, places=self.valid.places[:: max(1, len(self.valid) // n)][:n])
        middle = self.quantiles.index(0.5) if self.quantiles else 0
        forecast = forecasts(model, windows)[:, -1, :, middle]  # (n, K)
        rows = np.arange(len(windows))
        last, came = windows.known(rows, 1)[:, -1], windows.cut(rows).future[:, -1]
        shown = []
        for i in rows.tolist():
            space = self._space_of(windows, i)
            shown.append((_shown(space, last[i]), _shown(space, came[i]), _shown(space, forecast[i])))
        return shown

    def _space_of(self, windows: Windows, index: int) -> SeriesSpace:
        """What the numbers of a window mean."""
        if windows.owners is None:
            return self.space
        return self.space.of(windows.series[windows.owners[windows.places[index]]])


def _shown(space: SeriesSpace, values: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> str:
    own = space.unscaled(values[:, None])[:, 0]
    return "  ".join(f"{name} {value:.4g}" for name, value in list(zip(space.targets, own, strict=True))[:4])
