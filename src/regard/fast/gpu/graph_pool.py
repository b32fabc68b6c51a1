"""The decoding steps that a model has recorded, kept for the next batch of the same shape.

model.recordings                           a model's own; on=False switches them off, compiled=True fuses kernels
recording = recordings.take(model, shape)  one that is idle, or a new one; nobody else has it until `give_back`
"""

from __future__ import annotations

import threading
from importlib.util import find_spec
from typing import Any

import torch

from regard.attention import Dot, ScaledDot, Sinusoidal
from regard.fast.gpu.capture import Recordable, Recording, Shape, addresses, attentions

WIDEST = 128  # features a head that the kernels take
_PRECISIONS = (torch.float32, torch.bfloat16, torch.float16)


class Recordings:
    """What one model has recorded and nobody uses right now, the latest last; a copy of a model starts with none.

    `on=False` switches recording off. `compiled` steps go through `torch.compile` first: fewer kernels, after half a
    minute. Up to `thin` rows, uncompiled products are those of `layers.thin`. At most `most` recordings are kept, and
    only the latest if they hold more than `most_bytes`: an eighth of the device's memory, unless given.
    """

    def __init__(
        self,
        *,
        on: bool = True,
        compiled: bool = False,
        thin: int = 1,
        most: int = 32,
        most_bytes: int | None = None,
    ) -> None:
        self.on, self.compiled, self.thin, self.most, self.most_bytes = on, compiled, thin, most, most_bytes
        self._idle: list[Recording] = []
        self._lock = threading.RLock()  # a stepper may die, and give back, while its own thread is in here
        self._stream: torch.cuda.Stream | None = None

    def suit(self, model: Recordable) -> bool:
        """Whether the model's steps are recorded by themselves: on a GPU, unwatched, with plain dot products."""
        weight = model.output_weight
        if not self.on or not weight.is_cuda or model.training or weight.dtype not in _PRECISIONS:
            return False
        return find_spec("triton") is not None and all(
            type(part.score) in (Dot, ScaledDot) and part.d_head <= WIDEST and not part.tap.watchers
            for kind in ("masked", "cross")
            for part in attentions(model, kind)
        )

    def take(self, model: Recordable, shape: Shape) -> Recording:
        """An idle recording of this shape, or a new one."""
        if isinstance(model.positions, Sinusoidal):
            model.positions.reserve(shape.capacity)
        with self._lock:
            now = addresses(model)
            self._idle = [one for one in self._idle if one.addresses == now]
            kind = (shape, self.compiled, self.thin)
            found = [one for one in self._idle if (one.shape, one.compiled, one.thin) == kind]
            if found:
                self._idle.remove(found[-1])
                return found[-1]
        try:
            return Recording(model, shape, compiled=self.compiled, thin=self.thin)
        except torch.OutOfMemoryError:
            self.clear()
            return Recording(model, shape, compiled=self.compiled, thin=self.thin)

    def give_back(self, recording: Recording) -> None:
        """Keep a recording for others; the oldest go when there are too many, or they hold too much memory."""
        with self._lock:
            self._idle.append(recording)
            most = self.most_bytes if self.most_bytes is not None else _share_of_memory(recording.tokens.device)
            while len(self._idle) > self.most or (len(self._idle) > 1 and sum(o.n_bytes for o in self._idle) > most):
                del self._idle[0]

    def clear(self) -> None:
        """Forget what is idle."""
        with self._lock:
            self._idle = []

    def stream(self, device: torch.device) -> torch.cuda.Stream | None:
        """The stream to record on; None where nothing is recorded."""
        if device.type == "cuda" and self._stream is None:
            self._stream = torch.cuda.Stream(device)
        return self._stream if device.type == "cuda" else None

    def __len__(self) -> int:
        return len(self._idle)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_idle": [], "_lock": None, "_stream": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ = {**state, "_lock": threading.RLock()}


def _share_of_memory(device: torch.device) -> int:
    """An eighth of the device's memory may lie idle."""
    return torch.cuda.get_device_properties(device).total_memory // 8 if device.type == "cuda" else 2**28
