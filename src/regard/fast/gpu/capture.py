"""One decoding step captured as a CUDA graph, over static caches.

A step of a small model is some hundred small kernels, and launching them from Python takes longer than running them.
Captured once, they are launched as one. A graph reads and writes fixed places in memory: the tokens, the caches, and
the logits, which the next step overwrites. Where a row stands is read from the device, so one graph serves every
position.

    captured.step(model, tokens, stream=…)         (N,) → logits (N, V): run, then captured, then replayed
    captured.greedy_step(model, state, stream=…)   the same, and the choice of the next tokens with it

On a processor the same steps run, without graphs, over the same caches.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from regard.decoding.plan import Marks
from regard.fast.gpu.graph_models import GraphModel, Step
from regard.fast.gpu.static_cache import CacheContents, StaticCrossCache, StaticDecoderCache, StaticKVCache, StaticSlots
from regard.fast.gpu.workspaces import own_workspaces

if TYPE_CHECKING:
    from regard.fast.gpu.greedy import GreedyState


@dataclass(frozen=True)
class CaptureShape:
    """What has to be equal for captured steps to serve again."""

    n_rows: int
    per_source: int
    n_source: int
    capacity: int
    dtype: torch.dtype
    autocast: bool


class CapturedDecoding:
    """Static caches of one shape, and the step captured over them."""

    def __init__(
        self,
        model: GraphModel[Any],
        shape: CaptureShape,
        *,
        compiled: bool = False,
        gemv_rows: int = 0,
        first_of: CapturedDecoding | None = None,
    ) -> None:
        """`first_of` has caches already, and this is a step of its first rows alone."""
        self.shape, self.compiled, self.gemv_rows = shape, compiled, gemv_rows
        device = model.module.output_weight.device
        self.tokens: Tensor = (
            torch.zeros(shape.n_rows, dtype=torch.int64, device=device)
            if first_of is None
            else first_of.tokens[: shape.n_rows]
        )
        self.cache: StaticDecoderCache = (
            # The compiler wants tensors that share no memory.
            static_caches(model, shape, together=not compiled)
            if first_of is None
            else first_of.cache.first(shape.n_rows)
        )
        self.logits: Tensor | None = None
        # A graph knows addresses only: what lies there is held, and has to be what the model still uses.
        self._weights = [tensor.detach() for tensor in chain(model.module.parameters(), model.module.buffers())]
        self.addresses = addresses(model.module)
        self._function: Step | None = None
        self._graphs: dict[object, torch.cuda.CUDAGraph | None] = {}  # None: run once, and to be captured next time
        self._kept: dict[object, Tensor] = {}
        self._greedy_states: dict[Marks, GreedyState] = {}

    @property
    def n_bytes(self) -> int:
        """About how much memory it holds."""
        keys = [cache.keys.nbytes for cache in self.cache.past] + [cache.keys.nbytes for cache in self.cache.source]
        return 2 * sum(keys) + (0 if self.logits is None else 2 * self.logits.nbytes)

    @property
    def uses_gemv(self) -> bool:
        """Whether rows are so few, on a GPU and in one precision, that products with them are done by `gemv`."""
        return (
            self.tokens.is_cuda and not (self.compiled or self.shape.autocast) and self.shape.n_rows <= self.gemv_rows
        )

    def step(self, model: GraphModel[Any], tokens: Tensor, *, stream: torch.cuda.Stream | None) -> Tensor:
        """Tokens (N,), at most as many as there is room for → logits (N, V), there until the next step."""
        n_rows = len(tokens)
        full = n_rows == self.shape.n_rows
        (self.tokens if full else self.tokens[:n_rows]).copy_(tokens)

        def work() -> None:
            self._keep(self._compute(model), stream=stream)
            self.cache.slots.positions.add_(1)

        self._launch("step", work, stream=stream)
        assert self.logits is not None
        return self.logits if full else self.logits[:n_rows]

    def run(
        self,
        model: GraphModel[Any],
        name: object,
        choose: Callable[[Tensor], None],
        *,
        keeps: bool,
        times: int = 1,
        stream: torch.cuda.Stream | None,
    ) -> None:
        """Feed the tokens that lie ready, and do with the logits (N, V) what is called `name`; keep them if asked to.

        `choose` may be recorded: it works on fixed places in memory, and moves the rows' positions on. Several `times`
        are recorded as one.
        """
        key = (name, keeps, times)

        def work() -> None:
            for _ in range(times):
                logits = self._compute(model)
                if keeps:
                    self._kept[key] = logits if logits.dtype.itemsize >= 4 else logits.float()
                choose(logits)

        self._launch(key, work, stream=stream)
        if keeps:
            self.logits = self._kept[key]  # each graph leaves them in a place of its own

    def greedy_state(self, marks: Marks, *, n_tokens: int) -> GreedyState:
        """Where greedy search with these marks notes what it chose of so many tokens."""
        from regard.fast.gpu.greedy import GreedyState  # here, because Triton comes with GPU builds only

        if marks not in self._greedy_states:
            forbidden = marks.forbidden(n_tokens, self.tokens.device)
            self._greedy_states[marks] = GreedyState(
                self.tokens,
                capacity=self.shape.capacity,
                eos_id=marks.eos_id,
                pad_id=marks.pad_id,
                forbidden=forbidden,
            )
        return self._greedy_states[marks]

    def greedy_step(self, model: GraphModel[Any], state: GreedyState, *, stream: torch.cuda.Stream | None) -> None:
        """Feed the tokens that lie ready, and choose the next ones."""
        positions = self.cache.slots.positions
        self._launch(id(state), lambda: state.choose(self._compute(model), positions), stream=stream)

    def contents(self, n_rows: int, length: int) -> CacheContents:
        """What the first rows hold after `length` positions."""
        cache, per_source = self.cache, self.shape.per_source
        return CacheContents(
            cache.slots.ancestors[:length, :n_rows],
            cache.slots.positions[:n_rows],
            [(layer.keys, layer.values) for layer in cache.past] if length else [],
            [(layer.keys, layer.values) for layer in cache.source],
            torch.arange(n_rows // per_source, device=self.tokens.device),
            cache.source[0].lengths if cache.source else None,
            per_source,
        )

    def _compute(self, model: GraphModel[Any]) -> Tensor:
        if self._function is None:
            self._function = self._step_of(model)
        with self._around():
            return self._function(self.tokens, self.cache)

    def _step_of(self, model: GraphModel[Any]) -> Step:
        """The model's step: compiled, or the one it has for few rows, or as it is."""
        if self.compiled:
            return _compiled(model.step)
        return (model.gemv_step() if self.uses_gemv else None) or model.step

    def _around(self) -> AbstractContextManager[object]:
        """What the step is computed under: the caller's precision, or the products that suit its few rows."""
        if self.shape.autocast:
            # Weights are cast anew: casts that autocast keeps would be gone when the graph is replayed.
            return torch.autocast(self.tokens.device.type, dtype=self.shape.dtype, cache_enabled=False)
        if not self.uses_gemv:
            return nullcontext()
        from regard.fast.gpu.few_rows.gemv import GemvLinears  # here, because Triton comes with GPU builds only

        return GemvLinears(self.shape.n_rows)

    def _keep(self, logits: Tensor, *, stream: torch.cuda.Stream | None) -> None:
        """Where they stay: a replayed step leaves them where the captured one did."""
        if stream is None and self.logits is not None:
            self.logits.copy_(logits)
        else:
            self.logits = logits

    def _launch(self, name: object, work: Callable[[], None], *, stream: torch.cuda.Stream | None) -> None:
        """Do the work of this name: the first time as it is, the second time captured, then replayed.

        The first time, kernels are chosen and compiled, which must not happen while a graph is captured.
        """
        graph = self._graphs.get(name)
        if graph is not None:
            graph.replay()
        elif stream is None:
            work()
        elif has_worked(stream.device) and name in self._graphs:
            self._graphs[name] = graph = captured(work, stream)
            self._function = None
            graph.replay()
        else:
            here = torch.cuda.current_stream(stream.device)
            stream.wait_stream(here)
            with torch.cuda.stream(stream):
                work()
            here.wait_stream(stream)
            for logits in (self.logits, self._kept.get(name)):
                if logits is not None:
                    logits.record_stream(here)
            self._graphs[name] = None


def static_caches(model: GraphModel[Any], shape: CaptureShape, *, together: bool) -> StaticDecoderCache:
    """Caches of this shape for a model, with nothing in them; those of all layers `together` in one tensor."""
    device = model.module.output_weight.device
    slots = StaticSlots(shape.n_rows, capacity=shape.capacity, device=device)
    n_sources = shape.n_rows // shape.per_source
    lengths = torch.zeros(n_sources, dtype=torch.int64, device=device)
    past = [(shape.capacity, shape.n_rows, a.n_kv_heads, a.d_head) for a in model.attentions("masked")]
    source = [(n_sources, a.n_kv_heads, shape.n_source, a.d_head) for a in model.attentions("cross")]
    whole_past, whole_source = (_whole(layers, shape.dtype, device) if together else None for layers in (past, source))
    return StaticDecoderCache(
        slots,
        [
            StaticKVCache(slots, *one[2:], dtype=shape.dtype, memory=memory)
            for one, memory in zip(past, _pairs(whole_past, len(past)), strict=True)
        ],
        [
            StaticCrossCache(lengths, one, per_source=shape.per_source, dtype=shape.dtype, memory=memory)
            for one, memory in zip(source, _pairs(whole_source, len(source)), strict=True)
        ],
        whole_past,
        whole_source,
    )


def _whole(shapes: Sequence[tuple[int, ...]], dtype: torch.dtype, device: torch.device) -> Tensor | None:
    """Memory for the keys and values of all layers; None where their shapes differ, or there are none."""
    if len(set(shapes)) != 1:
        return None
    return torch.zeros((2 * len(shapes), *shapes[0]), dtype=dtype, device=device)


def _pairs(whole: Tensor | None, n_layers: int) -> Sequence[Tensor | None]:
    """What each layer has of it."""
    return [None if whole is None else whole[2 * i : 2 * i + 2] for i in range(n_layers)]


def captured(work: Callable[[], None], stream: torch.cuda.Stream, *, pool: Any = None) -> torch.cuda.CUDAGraph:
    """Work captured and not yet done; graphs of one pool share the memory of what they only need on the way.

    Not by `torch.cuda.graph`, which gives all of PyTorch's unused memory back first: other shapes come soon.
    """
    graph = torch.cuda.CUDAGraph()
    stream.wait_stream(torch.cuda.current_stream(stream.device))
    with torch.cuda.stream(stream), _uncollected(), own_workspaces():
        graph.capture_begin(pool=pool, capture_error_mode="thread_local")
        try:
            work()
        finally:
            graph.capture_end()
    return graph


def addresses(module: nn.Module) -> tuple[int, ...]:
    """Where the model's weights lie: elsewhere, a graph would read what is there no more."""
    own = (held for part in module.modules() for held in (part._parameters, part._buffers))  # asked for at every start
    return tuple(tensor.data_ptr() for held in own for tensor in held.values() if tensor is not None)


class _Worked(threading.local):
    """Where this thread has worked."""

    def __init__(self) -> None:
        self.devices: set[torch.device] = set()


_WORKED = _Worked()


def has_worked(device: torch.device) -> bool:
    """Whether this thread has worked on the device before, as it does now.

    The first product of a thread makes the library's handle, which must not happen while a graph is captured either.
    """
    known = device in _WORKED.devices
    _WORKED.devices.add(device)
    return known


@contextmanager
def _uncollected() -> Iterator[None]:
    """Without garbage collection: another graph let go of now would spoil the one that is being captured."""
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

    def call(tokens: Tensor, cache: StaticDecoderCache) -> Tensor:
        # Each shape is compiled by itself, and PyTorch would stop at the eighth.
        with torch._dynamo.config.patch(recompile_limit=256):
            logits: Tensor = compiled(tokens, cache)
            return logits

    return call


def rounded(number: int, step: int = 1) -> int:
    """Up to a multiple of `step`, or of an eighth or so of the number: few different ones, and little in vain."""
    step = max(step, 1 << max(0, number.bit_length() - 4))
    return -(-number // step) * step
