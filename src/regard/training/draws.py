"""The draws of a batch, each by the key of its example, where `train.same_draws` asks for that.

The key is made of the seed, the batch's position in the run and the example's place in the whole batch, so that any
number of processes draws what one does.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import nn

from regard.config.keyed_draws import keyed_draws
from regard.config.training import TrainConfig
from regard.errors import ConfigError


def draw_by_example(
    task: Any, model: nn.Module, config: TrainConfig, *, n_processes: int, say: Callable[[str], None]
) -> None:
    """Let a task draw by example; what is faster and cannot is left out, which is said where somebody asked for it."""
    if not hasattr(task, "draw_by_example"):
        raise ConfigError(
            "train.same_draws is on, and the batches of this task do not say which examples they hold",
            hint="set train.same_draws=false",
        )
    task.draw_by_example()
    faster = [name for name in ("compile", "cuda_graphs") if getattr(config, name) == "on"]
    if faster:
        said = " and ".join(f"train.{name}" for name in faster)
        say(f"train.same_draws draws by example, which is neither compiled nor captured: {said} left off")
    if n_processes > 1 and any(isinstance(part, nn.modules.batchnorm._BatchNorm) for part in model.modules()):
        say("batch norm goes by what each process sees: train.same_draws cannot make several processes equal to one")


def draws_of(batch: Any, config: TrainConfig, device: torch.device) -> AbstractContextManager[object]:
    """Where a batch is learnt from: the loss and the backward pass."""
    if not config.same_draws:
        return nullcontext()
    keys = torch.from_numpy(batch.examples.keys(config.seed, batch.n_rows))
    return keyed_draws(keys.to(device, non_blocking=True))
