"""One decoding step recorded as a CUDA graph, over buffers that stay where they are.

A step of a small model is some hundred small kernels, and launching them from Python takes longer than running them.
Recorded once, they are launched as one. A recording reads and writes fixed places in memory: the tokens, the caches,
and the logits, which the next step overwrites. Where a row stands is read from the device, so one recording serves
every position.

    recording.step(model, tokens, stream=…)        (N,) → logits (N, V): run, then recorded, then replayed
    recording.follow(model, books, stream=…)       the same, and the choice of the next tokens with it

On a processor the same steps run, unrecorded, over the same buffers.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from regard.attention import Learned, MultiHeadAttention, Sinusoidal
from regard.fast.gpu.static_cache import LaneCache, LaneMemory, Lanes, SourceCache

if TYPE_CHECKING:
    from regard.fast.gpu.graph_pool import Recordings
    from regard.fast.gpu.greedy import GreedyBooks

Step = Callable[[Tensor, LaneMemory], Tensor]


class Recordable(Protocol):
    """What a model has to offer, so that its steps can be recorded."""

    recordings: Recordings
    positions: Sinusoidal | Learned | None
    training: bool

    def step_once(self, tokens: Tensor, memory: LaneMemory) -> Tensor:
        """One step over fixed buffers: tokens (N,) → logits (N, V). It asks the device nothing."""
        ...

    def check_step(self, tokens: Tensor, *, length: int, lanes: Lanes) -> None:
        """Refuse the step after `length` positions if there is no position for it."""
        ...

    @property
    def output_weight(self) -> Tensor:
        """The output's matrix, which is where the model is and of its precision."""
        ...

    def modules(self) -> Iterator[nn.Module]:
        """All parts."""
        ...

    def parameters(self) -> Iterator[nn.Parameter]:
        """What is learnt."""
        ...

    def buffers(self) -> Iterator[Tensor]:
        """What is not."""
        ...


@runtime_checkable
class ThinlyRecordable(Protocol):
    """What a model may offer besides."""

    def thin_step(self) -> Step | None:
        """The same as `step_once`, made for few rows on a GPU; None where the model's parts do not allow it."""
        ...


@dataclass(frozen=True)
class Shape:
    """What has to be equal for a recording to serve again."""

    n_rows: int
    per_source: int
    n_source: int
    capacity: int
    dtype: torch.dtype
    autocast: bool


class Recording:
    """Fixed buffers of one shape, and the step recorded over them."""

    def __init__(self, model: Recordable, shape: Shape, *, compiled: bool = False, thin: int = 0) -> None:
        device = model.output_weight.device
        masked, cross = attentions(model, "masked"), attentions(model, "cross")
        lanes = Lanes(shape.n_rows, capacity=shape.capacity, device=device)
        n_sources = shape.n_rows // shape.per_source
        lengths = torch.zeros(n_sources, dtype=torch.int64, device=device)
        self.shape, self.compiled, self.thin = shape, compiled, thin
        self.tokens = torch.zeros(shape.n_rows, dtype=torch.int64, device=device)
        self.memory = LaneMemory(
            lanes,
            [LaneCache(lanes, a.n_kv_heads, a.d_head, dtype=shape.dtype) for a in masked],
            [
                SourceCache(
                    lengths,
                    (n_sources, a.n_kv_heads, shape.n_source, a.d_head),
                    per_source=shape.per_source,
                    dtype=shape.dtype,
                )
                for a in cross
            ],
        )
        self.logits: Tensor | None = None
        # A graph knows addresses only: what lies there is held, and has to be what the model still uses.
        self._weights = [tensor.detach() for tensor in chain(model.parameters(), model.buffers())]
        self.addresses = addresses(model)
        self._function: Step | None = None
        self._graphs: dict[object, torch.cuda.CUDAGraph | None] = {}  # None: run once, and to be recorded next time
        self._books: dict[tuple[int, int], GreedyBooks] = {}

    @property
    def n_bytes(self) -> int:
        """About how much memory it holds."""
        keys = [cache.keys.nbytes for cache in self.memory.past] + [cache.keys.nbytes for cache in self.memory.source]
        return 2 * sum(keys) + (0 if self.logits is None else 2 * self.logits.nbytes)

    def step(self, model: Recordable, tokens: Tensor, *, stream: torch.cuda.Stream | None) -> Tensor:
        """Tokens (N,), at most as many as there is room for → logits (N, V), there until the next step."""
        n_rows = len(tokens)
        full = n_rows == self.shape.n_rows
        (self.tokens if full else self.tokens[:n_rows]).copy_(tokens)

        def work() -> None:
            self._keep(self._compute(model), stream=stream)
            self.memory.lanes.position.add_(1)

        self._launch("step", work, stream=stream)
        assert self.logits is not None
        return self.logits if full else self.logits[:n_rows]

    def books(self, *, eos_id: int, pad_id: int) -> GreedyBooks:
        """Where greedy writing with these marks is noted."""
        from regard.fast.gpu.greedy import GreedyBooks  # here, because Triton comes with GPU builds only

        marks = (eos_id, pad_id)
        if marks not in self._books:
            self._books[marks] = GreedyBooks(self.tokens, capacity=self.shape.capacity, eos_id=eos_id, pad_id=pad_id)
        return self._books[marks]

    def follow(self, model: Recordable, books: GreedyBooks, *, stream: torch.cuda.Stream | None) -> None:
        """Feed the tokens that lie ready, and choose the next ones."""
        marks, position = (books.eos_id, books.pad_id), self.memory.lanes.position
        self._launch(marks, lambda: books.choose(self._compute(model), position), stream=stream)

    @property
    def is_thin(self) -> bool:
        """Whether rows are so few, on a GPU and in one precision, that products with them are done by `layers.thin`."""
        return self.tokens.is_cuda and not (self.compiled or self.shape.autocast) and self.shape.n_rows <= self.thin

    def _compute(self, model: Recordable) -> Tensor:
        if self._function is None:
            self._function = self._step_of(model)
        with self._around():
            return self._function(self.tokens, self.memory)

    def _step_of(self, model: Recordable) -> Step:
        """The model's step: compiled, or the one it has for few rows, or as it is."""
        if self.compiled:
            return _compiled(model.step_once)
        thin = model.thin_step() if self.is_thin and isinstance(model, ThinlyRecordable) else None
        return thin or model.step_once

    def _around(self) -> AbstractContextManager[object]:
        """What the step is computed under: the caller's precision, or the products that suit its few rows."""
        if self.shape.autocast:
            # Weights are cast anew: casts that autocast keeps would be gone when the graph is replayed.
            return torch.autocast(self.tokens.device.type, dtype=self.shape.dtype, cache_enabled=False)
        if not self.is_thin:
            return nullcontext()
        from regard.fast.gpu.gemv import ThinProducts  # here, because Triton comes with GPU builds only

        return ThinProducts(self.shape.n_rows)

    def _keep(self, logits: Tensor, *, stream: torch.cuda.Stream | None) -> None:
        """As decoding wants them, and where they stay: a replayed step leaves them where the recorded one did."""
        logits = logits if logits.dtype.itemsize >= 4 else logits.float()
        if stream is None and self.logits is not None:
            self.logits.copy_(logits)
        else:
            self.logits = logits

    def _launch(self, name: object, work: Callable[[], None], *, stream: torch.cuda.Stream | None) -> None:
        """Do the work of this name: the first time as it is, the second time recorded, then replayed.

        The first time, kernels are chosen and compiled, which must not happen while a graph is recorded.
        """
        graph = self._graphs.get(name)
        if graph is not None:
            graph.replay()
        elif stream is None:
            work()
        elif name in self._graphs:
            self._graphs[name] = graph = _recorded(work, stream)
            self._function = None
            graph.replay()
        else:
            here = torch.cuda.current_stream(stream.device)
            stream.wait_stream(here)
            with torch.cuda.stream(stream):
                work()
            here.wait_stream(stream)
            if self.logits is not None:
                self.logits.record_stream(here)
            self._graphs[name] = None


def _recorded(work: Callable[[], None], stream: torch.cuda.Stream) -> torch.cuda.CUDAGraph:
    """Work recorded and not yet done.

    Not by `torch.cuda.graph`, which gives all of PyTorch's unused memory back first: other shapes come soon.
    """
    graph = torch.cuda.CUDAGraph()
    stream.wait_stream(torch.cuda.current_stream(stream.device))
    with torch.cuda.stream(stream), _uncollected():
        graph.capture_begin(capture_error_mode="thread_local")
        try:
            work()
        finally:
            graph.capture_end()
    return graph


def attentions(model: Recordable, kind: str) -> list[MultiHeadAttention]:
    """The model's attentions of one kind, layer by layer."""
    return [part for part in model.modules() if isinstance(part, MultiHeadAttention) and part.tap.kind == kind]


def addresses(model: Recordable) -> tuple[int, ...]:
    """Where the model's weights lie: elsewhere, a recording would read what is there no more."""
    return tuple(tensor.data_ptr() for tensor in chain(model.parameters(), model.buffers()))


@contextmanager
def _uncollected() -> Iterator[None]:
    """Without garbage collection: another graph let go of now would spoil the one that is being recorded."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _compiled(function: Step) -> Step:
    import torch._dynamo  # here, because it loads the whole compiler

    compiled = torch.compile(function, fullgraph=True, dynamic=False)

    def call(tokens: Tensor, memory: LaneMemory) -> Tensor:
        # Each shape is compiled by itself, and PyTorch would stop at the eighth.
        with torch._dynamo.config.patch(recompile_limit=256):
            logits: Tensor = compiled(tokens, memory)
            return logits

    return call
