"""The decoding steps that were captured of a model, kept for the next batch of the same shape.

pool = pool_of(model)                     a model's own; enabled=False switches graphs off, compiled=True fuses kernels
captured = pool.acquire(adapter, shape)   one that is idle, or a new one; nobody else has it until `release`
"""

from __future__ import annotations

import threading
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention import Dot, Rows, ScaledDot, Sinusoidal
from regard.fast.gpu.capture import CapturedDecoding, CaptureShape, addresses
from regard.fast.gpu.captured_read import CapturedReads
from regard.fast.gpu.graph_models import GraphModel
from regard.fast.gpu.static_cache import CacheContents

WIDEST = 128  # features a head that the kernels take
_PRECISIONS = (torch.float32, torch.bfloat16, torch.float16)
_ATTRIBUTE = "_graph_pool"  # plain, of no module: it is in no state dict


class GraphPool:
    """What was captured of one model and nobody uses right now, the latest last; a copy of a model starts with none.

    `enabled=False` switches graphs off. `compiled` steps go through `torch.compile` first: fewer kernels, after half a
    minute. Up to `gemv_rows` rows, uncompiled products are those of `gemv`. At most `max_captures` are kept, and only
    the latest if they hold more than `max_bytes`: an eighth of the device's memory, unless given.
    """

    def __init__(
        self,
        *,
        enabled: bool = True,
        compiled: bool = False,
        gemv_rows: int = 1,
        max_captures: int = 32,
        max_bytes: int | None = None,
    ) -> None:
        self.enabled, self.compiled, self.gemv_rows = enabled, compiled, gemv_rows
        self.max_captures, self.max_bytes = max_captures, max_bytes
        self._idle: list[CapturedDecoding] = []
        self._reads = CapturedReads()
        self._lock = threading.RLock()  # a stepper may die, and release, while its own thread is in here
        self._stream: torch.cuda.Stream | None = None

    def why_not(self, model: GraphModel[Any]) -> str:
        """Why the model's steps are not captured by themselves; nothing where they are."""
        weight = model.module.output_weight
        if not self.enabled:
            return "switched off"
        if not getattr(weight, "is_cuda", False):  # weights in blocks are no tensor, and on no GPU
            return "no GPU"
        if model.module.training:
            return "in training"
        if weight.dtype not in _PRECISIONS:
            return f"in {str(weight.dtype).removeprefix('torch.')}"
        if find_spec("triton") is None:
            return "Triton is not installed"
        for part in (part for kind in ("masked", "cross") for part in model.attentions(kind)):
            if type(part.score) not in (Dot, ScaledDot):
                return f"compares by {type(part.score).__name__}"
            if part.d_head > WIDEST:
                return f"head width {part.d_head} > {WIDEST}"
            if part.tap.watchers:
                return "watched"
        return ""

    def read(self, model: GraphModel[Any], inputs: Tensor | Rows) -> CacheContents:
        """What rows of inputs hold before their first step."""
        return self._reads.read(model, inputs, stream=self.stream(model.module.output_weight.device))

    def acquire(self, model: GraphModel[Any], shape: CaptureShape) -> CapturedDecoding:
        """An idle capture of this shape, or a new one."""
        if isinstance(model.module.positions, Sinusoidal):
            model.module.positions.reserve(shape.capacity)
        with self._lock:
            now = addresses(model.module)
            self._idle = [one for one in self._idle if one.addresses == now]
            wanted = (shape, self.compiled, self.gemv_rows)
            fitting = [one for one in self._idle if (one.shape, one.compiled, one.gemv_rows) == wanted]
            if fitting:
                self._idle.remove(fitting[-1])
                return fitting[-1]
        try:
            return CapturedDecoding(model, shape, compiled=self.compiled, gemv_rows=self.gemv_rows)
        except torch.OutOfMemoryError:
            self.clear()
            return CapturedDecoding(model, shape, compiled=self.compiled, gemv_rows=self.gemv_rows)

    def release(self, captured: CapturedDecoding) -> None:
        """Keep a capture for others; the oldest go when there are too many, or they hold too much memory."""
        with self._lock:
            self._idle.append(captured)
            most = self.max_bytes if self.max_bytes is not None else _share_of_memory(captured.tokens.device)
            while len(self._idle) > self.max_captures or (
                len(self._idle) > 1 and sum(one.n_bytes for one in self._idle) > most
            ):
                del self._idle[0]

    def clear(self) -> None:
        """Forget what is idle."""
        with self._lock:
            self._idle, self._reads = [], CapturedReads()

    def stream(self, device: torch.device) -> torch.cuda.Stream | None:
        """The stream to capture on; None where nothing is captured."""
        if device.type == "cuda" and self._stream is None:
            self._stream = torch.cuda.Stream(device)
        return self._stream if device.type == "cuda" else None

    def __len__(self) -> int:
        return len(self._idle)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_idle": [], "_reads": None, "_lock": None, "_stream": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ = {**state, "_reads": CapturedReads(), "_lock": threading.RLock()}


def pool_of(module: nn.Module) -> GraphPool:
    """The model's own pool, made at the first call; a copy of the model has one with the same switches."""
    pool: GraphPool | None = module.__dict__.get(_ATTRIBUTE)
    return module.__dict__.setdefault(_ATTRIBUTE, GraphPool()) if pool is None else pool


def _share_of_memory(device: torch.device) -> int:
    """An eighth of the device's memory may lie idle."""
    return torch.cuda.get_device_properties(device).total_memory // 8 if device.type == "cuda" else 2**28
