"""Averages of the weights on their way, which predict better than where the way happens to end.

    Ema      moving mean over steps        w̄ ← d w̄ + (1 − d) w,   d = min(decay, (1 + n) / (10 + n)) at update n
    LastN    plain mean of the last n snapshots                               Vaswani et al. (2017), section 6.1

Where weights are held in parts, so are their averages: each process has those of its own part.

The trainer calls `update` after every step and `snapshot` before every evaluation; each averager uses one of them.
Averages hold parameters only, shared ones once, under the names of `model.named_parameters()`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from regard.checkpoints.sharded import Piece, StoredTensor
from regard.checkpoints.shards import local_part, part_like, piece_like, whole
from regard.checkpoints.weights import misfits
from regard.errors import CheckpointError, UsageError

Weights = dict[str, Tensor]
State = dict[str, Tensor | Piece]
Stored = Mapping[str, Tensor | StoredTensor]


class Averager(ABC):
    """Follows a model and knows a mean of where it has been."""

    def update(self, model: nn.Module) -> None:  # noqa: B027 - most count one of the two only
        """A step was made: nothing, unless steps are what counts."""

    def snapshot(self, model: nn.Module) -> None:  # noqa: B027
        """An evaluation is about to be made: nothing, unless snapshots are what counts."""

    @abstractmethod
    def average(self) -> Weights:
        """The mean, by parameter name."""

    @abstractmethod
    def state_tensors(self) -> State:
        """All that the next average depends on."""

    @abstractmethod
    def load_state_tensors(self, tensors: Stored) -> None:
        """Go on from there."""


class Ema(Averager):
    """An exponential moving average, kept in float32 at least. The first updates move it faster: it starts at noise."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self._like = dict(model.named_parameters())
        self._average = {name: _wide(p).clone() for name, p in _weights(model).items()}
        first = next(iter(self._average.values()), torch.empty(()))
        self._n_updates = torch.zeros((), dtype=torch.float64, device=first.device)  # there, so as to be recordable

    def update(self, model: nn.Module) -> None:
        """Move towards the weights of the model."""
        self._n_updates += 1
        decay = ((1 + self._n_updates) / (10 + self._n_updates)).clamp(max=self.decay)
        current = _weights(model)
        means = list(self._average.values())
        steps = torch._foreach_sub([_wide(current[name]) for name in self._average], means)
        torch._foreach_mul_(steps, (1 - decay).float())
        torch._foreach_add_(means, steps)

    def average(self) -> Weights:
        """The mean, by parameter name; the tensors themselves, which the next update changes."""
        return dict(self._average)

    def state_tensors(self) -> State:
        """The mean, and how many updates it has seen."""
        means: State = {f"average.{name}": piece_like(mean, self._like[name]) for name, mean in self._average.items()}
        return means | {"n_updates": self._n_updates.long()}

    def load_state_tensors(self, tensors: Stored) -> None:
        """Go on from there."""
        expected = {f"average.{name}": parameter.shape for name, parameter in self._like.items()}
        check_tensors(tensors, expected | {"n_updates": torch.Size()}, what="average")
        self._n_updates.copy_(whole(tensors["n_updates"]))
        for name, mean in self._average.items():
            mean.copy_(part_like(tensors[f"average.{name}"], self._like[name]))


class LastN(Averager):
    """The last n snapshots, in main memory: they are taken rarely, and the device needs its own for other things."""

    def __init__(self, model: nn.Module, n: int) -> None:
        self.n = n
        self._like = dict(model.named_parameters())
        self._snapshots: list[Weights] = []

    def snapshot(self, model: nn.Module) -> None:
        """Remember the weights of the model, and forget the oldest beyond n."""
        taken = {name: p.to("cpu", copy=True) for name, p in _weights(model).items()}
        self._snapshots = [*self._snapshots, taken][-self.n :]

    def average(self) -> Weights:
        """The mean, by parameter name, summed in float64."""
        if not self._snapshots:
            raise UsageError("there is no snapshot to average yet", hint="call snapshot(model) first")
        return {name: self._mean([taken[name] for taken in self._snapshots]) for name in self._like}

    def state_tensors(self) -> State:
        """The snapshots, oldest first."""
        flat: State = {
            f"{i}.{name}": piece_like(t, self._like[name])
            for i, taken in enumerate(self._snapshots)
            for name, t in taken.items()
        }
        return flat | {"n_snapshots": torch.tensor(len(self._snapshots))}

    def load_state_tensors(self, tensors: Stored) -> None:
        """Go on from there; of more snapshots than n, the last are kept."""
        n = int(whole(tensors.get("n_snapshots", torch.tensor(0))))
        expected = {f"{i}.{name}": parameter.shape for i in range(n) for name, parameter in self._like.items()}
        check_tensors(tensors, expected | {"n_snapshots": torch.Size()}, what="average")
        kept = range(max(0, n - self.n), n)
        self._snapshots = [
            {name: part_like(tensors[f"{i}.{name}"], p).to("cpu", copy=True) for name, p in self._like.items()}
            for i in kept
        ]

    def _mean(self, tensors: list[Tensor]) -> Tensor:
        total = sum(tensors[1:], start=tensors[0].double())
        return (total / len(tensors)).to(_wide(tensors[0]).dtype)


def make_averager(model: nn.Module, *, ema: float = 0.0, last: int = 0) -> Averager | None:
    """The averager a config asks for: a moving one, one of the last few snapshots, or none."""
    return Ema(model, ema) if ema else LastN(model, last) if last else None


@contextmanager
def averaged(model: nn.Module, averager: Averager | None) -> Iterator[None]:
    """The model with averaged weights inside the `with`, and with its own again after it, to the bit."""
    if averager is None:
        yield
        return
    mean, own = averager.average(), _weights(model)
    before = {name: p.clone() for name, p in own.items()}
    try:
        _fill(own, mean)
        yield
    finally:
        _fill(own, before)


def _wide(tensor: Tensor) -> Tensor:
    """The tensor in a type that can hold a mean: float32, or float64 if it is that already."""
    return tensor if tensor.dtype == torch.float64 else tensor.float()


def _weights(model: nn.Module) -> Weights:
    """Views of the parameters, or of the parts of them that are here, each once, in place even after they change."""
    return {name: local_part(p.detach()) for name, p in model.named_parameters()}


def _fill(own: Weights, values: Weights) -> None:
    for name, tensor in own.items():
        tensor.copy_(values[name])


def check_tensors(tensors: Stored, expected: Mapping[str, torch.Size], *, what: str) -> None:
    """Refuse stored tensors that are missing, unknown or misshapen, all in one message."""
    problems = misfits(tensors, expected)
    if problems:
        raise CheckpointError(
            f"{len(problems)} tensors do not fit the {what}:\n  " + "\n  ".join(problems),
            hint=f"they were stored by another {what} or for another model",
        )
