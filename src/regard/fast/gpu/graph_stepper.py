"""A model in the middle of decoding, its steps captured as CUDA graphs: what `start` gives on a GPU.

    stepper = start_graphs(model, source, capacity=32)
    stepper.step(tokens)                               (N,) → logits (N, V), which hold until the next step
    stepper.select(rows, same_source=True)             beams change places: a table is reordered, no key is moved
    stepper.greedy_step(stepper.begin_greedy(…))       a greedy step, its choice included, which never leaves the device

What the rows hold is copied into the static caches of a capture at the first step. When rows leave or multiply, or the
room is outrun, it moves into those of another one. Shapes are rounded up, so that a few captures serve many batches;
rows that only fill up are computed and never looked at.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from regard.attention import Rows
from regard.decoding.plan import Marks
from regard.errors import ShapeError, UsageError
from regard.fast.gpu.capture import CapturedDecoding, CaptureShape, rounded
from regard.fast.gpu.graph_models import GraphModel, graph_model
from regard.fast.gpu.graph_pool import pool_of
from regard.fast.gpu.static_cache import CacheContents

if TYPE_CHECKING:
    from regard.fast.gpu.greedy import GreedyState

_SOURCE_STEP, _CAPACITY_STEP = 16, 32


class GraphStepper:
    """Rows in flight over a capture's static caches; unwatched, and without gradients."""

    def __init__(self, model: GraphModel[Any], contents: CacheContents, *, capacity: int) -> None:
        self.model, self.pool = model, pool_of(model.module)
        self.n_rows, self.length = contents.n_rows, len(contents.ancestors)
        self._capacity = max(1, self.length + capacity)
        self._contents: CacheContents | None = contents
        self._captured: CapturedDecoding | None = None
        self._leases: list[weakref.finalize[..., GraphStepper]] = []
        self._taps = [part.tap for kind in ("masked", "cross") for part in model.attentions(kind)]
        self._stream = self.pool.stream(self.device)

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        device: torch.device = self.model.module.output_weight.device
        return device

    @torch.inference_mode()
    def step(self, tokens: Tensor) -> Tensor:
        """The last token of each row (N,) → logits of the next (N, V); the next step writes over them."""
        self._check(tokens)
        if self._captured is None or self.length >= self._captured.shape.capacity:
            self._settle()
        assert self._captured is not None
        self.model.check_step(tokens, length=self.length, slots=self._captured.cache.slots)
        logits = self._captured.step(self.model, tokens, stream=self._stream)
        self.length += 1
        return logits

    @torch.inference_mode()
    def select(self, rows: Tensor, *, same_source: bool) -> None:
        """Go on with other rows."""
        if same_source and self._captured is not None:
            if self.length:
                self._captured.cache.slots.reorder(rows, length=self.length)
            return
        self._contents = self._leave().select(rows, same_source=same_source)
        self.n_rows = len(rows)

    @torch.inference_mode()
    def begin_greedy(self, tokens: Tensor, limits: Tensor, *, marks: Marks, step: int, min_length: int) -> GreedyState:
        """Stand ready for greedy steps: tokens (N,) are fed first, and rows write up to `limits` (N,) in all.

        step         how many tokens they have written before
        min_length   how many there have to be before an end
        """
        self._check(tokens)
        self._capacity = max(self._capacity, self.length + int(limits.max()) - step)
        if self._captured is None or self._capacity > self._captured.shape.capacity:
            self._settle()
        assert self._captured is not None
        self._captured.tokens[: self.n_rows] = tokens
        state = self._captured.greedy_state(marks, n_tokens=len(self.model.module.output_weight))
        state.begin(limits, step=step, min_length=min_length)
        return state

    @torch.inference_mode()
    def greedy_step(self, state: GreedyState) -> None:
        """One greedy step of what `begin_greedy` has begun."""
        captured = self._captured
        assert captured is not None
        self._check(captured.tokens[: self.n_rows])
        self.model.check_step(captured.tokens[: self.n_rows], length=self.length, slots=captured.cache.slots)
        captured.greedy_step(self.model, state, stream=self._stream)
        self.length += 1

    def attention(self) -> Tensor | None:
        """Nothing: captured steps are not watched."""
        return None

    def _check(self, tokens: Tensor) -> None:
        if len(tokens) != self.n_rows:
            raise ShapeError(f"{len(tokens)} tokens were given for {self.n_rows} rows; allowed is one a row")
        if any(tap.watchers for tap in self._taps):
            raise UsageError(
                "captured steps cannot be watched, and watching began after they did",
                hint="start the decoding inside the `watch` block, or with watched=True",
            )

    def _leave(self) -> CacheContents:
        """What the rows hold, taken out of the capture; its caches stay ours until that has moved."""
        if self._captured is not None:
            self._contents = self._captured.contents(self.n_rows, self.length)
            self._captured = None
        assert self._contents is not None
        return self._contents

    def _settle(self) -> None:
        """Move into a capture that has room."""
        if self.length >= self._capacity:  # more steps came than were announced
            self._capacity = 2 * self.length
        contents = self._leave()
        captured = self.pool.acquire(self.model, self._shape(contents))
        lease = weakref.finalize(self, self.pool.release, captured)
        lease.atexit = False
        contents.copy_into(captured.cache)
        for left in self._leases:
            left()
        self._leases, self._captured, self._contents = [lease], captured, None

    def _shape(self, contents: CacheContents) -> CaptureShape:
        device, per_source = self.device.type, contents.per_source
        autocast = torch.is_autocast_enabled(device)
        return CaptureShape(
            n_rows=rounded(contents.n_rows // per_source) * per_source,
            per_source=per_source,
            n_source=rounded(contents.source[0][0].shape[2], _SOURCE_STEP) if contents.source else 0,
            capacity=rounded(self._capacity, _CAPACITY_STEP),
            dtype=torch.get_autocast_dtype(device) if autocast else self.model.module.output_weight.dtype,
            autocast=autocast,
        )


def start_graphs(module: nn.Module, inputs: Tensor | Rows, *, capacity: int = 64) -> GraphStepper:
    """What `module.start` gives on a GPU; elsewhere the same steps run without graphs, over the same caches."""
    model = graph_model(module)
    if model is None:
        raise UsageError(f"the steps of a {type(module).__name__} cannot be captured", hint="use its own start")
    return GraphStepper(model, model.read(inputs), capacity=capacity)
