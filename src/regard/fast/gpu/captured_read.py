"""Reading inputs, captured as CUDA graphs for shapes that come again.

    reads = CapturedReads()
    reads.read(model, rows, stream=…)        what `model.read(rows)` gives

A device reads a short prompt faster than its kernels are launched one by one. Rows and positions are rounded up, so
that shapes come again: the first time they are simply read, the next time captured, by the same kernels. What a graph
has read lies where it writes the next time, so it is copied at once. Of very many tokens a device has enough to do:
they are read as they are.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from regard.attention import Rows
from regard.fast.gpu.capture import addresses, captured, has_worked, rounded
from regard.fast.gpu.static_cache import CacheContents, Layers, stacked

if TYPE_CHECKING:
    from regard.fast.gpu.graph_models import GraphModel

MOST_TOKENS = 8192  # of a shape
_MOST_HELD = 32  # keys and values of all shapes may take this part of a device's memory, those of one a quarter of it
_LENGTH_STEP = 16
_LOGGER = logging.getLogger(__name__)


class _Shape(NamedTuple):
    n_rows: int
    length: int
    has_lengths: bool

    @property
    def n_tokens(self) -> int:
        return self.n_rows * self.length


class CapturedReads:
    """What was captured of one model's reading, the shape that came last at the end."""

    def __init__(self) -> None:
        self._reads: dict[_Shape, _Read] = {}
        self._addresses: tuple[int, ...] = ()
        self._pool: Any = None
        self._over: torch.cuda.Event | None = None  # the last reading: graphs share memory, whatever their shapes
        self._lock = threading.Lock()

    def read(self, model: GraphModel[Any], inputs: Tensor | Rows, *, stream: torch.cuda.Stream | None) -> CacheContents:
        """What the rows of a source, or of prompts, hold before their first step."""
        rows = model.unread(inputs)
        shape = self._shape(model, rows)
        if shape is not None:
            with self._lock:
                if self._over is not None:  # whoever comes next may come on another stream
                    torch.cuda.current_stream(rows.ids.device).wait_event(self._over)
                one = self._of_shape(model, shape)
                try:
                    layers, whole = one.read(model, rows, stream, self._pool)
                except RuntimeError as problem:  # memory is short, or another thread was in the way of the capture
                    layers, whole = self._given_up(shape, problem).read(model, rows, stream, None)
                if stream is not None:
                    self._over = self._over or torch.cuda.Event()
                    self._over.record(torch.cuda.current_stream(rows.ids.device))
            return model.contents(layers, rows, whole=whole)
        return model.contents(model.read_layers(rows), rows)

    def _of_shape(self, model: GraphModel[Any], shape: _Shape) -> _Read:
        now = addresses(model.module)
        if now != self._addresses:
            self._reads, self._addresses = {}, now
            self._pool = torch.cuda.graph_pool_handle() if model.module.output_weight.is_cuda else None
        one = self._reads.pop(shape) if shape in self._reads else _Read(shape)
        self._reads[shape] = one
        most = _most_tokens(model)
        while len(self._reads) > 1 and sum(other.n_tokens for other in self._reads) > most:
            del self._reads[next(iter(self._reads))]
        return one

    def _given_up(self, shape: _Shape, problem: RuntimeError) -> _Read:
        """This shape is read without a graph from now on, and what was spoilt spoils no other."""
        first = str(problem).partition("\n")[0]
        _LOGGER.warning("inputs of %d × %d are read without a CUDA graph: %s", *shape[:2], first)
        one = self._reads[shape] = _Read(shape, captures=False)
        if self._pool is not None:
            self._pool = torch.cuda.graph_pool_handle()
        return one

    def _shape(self, model: GraphModel[Any], rows: Rows) -> _Shape | None:
        """Rows and positions, rounded up, and whether they have lengths; None where nothing is to be captured."""
        (n_rows, length), device = rows.ids.shape, rows.ids.device
        if length == 0 or rows.documents is not None or torch.is_autocast_enabled(device.type):
            return None
        n_rows = rounded(n_rows)
        if rows.lengths is not None or model.reads_past_ends:
            wanted, limit = rounded(length, _LENGTH_STEP), model.position_limit
            length = wanted if limit is None else max(length, min(wanted, limit))
        if n_rows * length > min(MOST_TOKENS, _most_tokens(model) // 4):
            return None
        model.reserve(length)
        return _Shape(n_rows, length, rows.lengths is not None and not model.reads_past_ends)


class _Read:
    """Inputs of one shape, and the graph that reads them."""

    def __init__(self, shape: _Shape, *, captures: bool = True) -> None:
        self.shape, self._captures, self._is_first = shape, captures, True
        self._graph: torch.cuda.CUDAGraph | None = None
        self._rows: Rows | None = None
        self._found: Layers = []

    def read(
        self, model: GraphModel[Any], rows: Rows, stream: torch.cuda.Stream | None, pool: Any
    ) -> tuple[Layers, Tensor | None]:
        """The keys and values of these rows in memory of their own, and as one tensor if they are of one shape."""
        static = self._filled(rows)
        is_first, self._is_first = self._is_first, False
        if self._graph is None and stream is not None and has_worked(stream.device) and self._captures and not is_first:
            self._graph = captured(lambda: self._keep(model.read_layers(static)), stream, pool=pool)
        if self._graph is None:
            self._keep(model.read_layers(static))
        else:
            self._graph.replay()
        return _owned(model.first_of(self._found, *rows.ids.shape))

    def _filled(self, rows: Rows) -> Rows:
        n_real, n_ids = rows.ids.shape
        device = rows.ids.device
        if self._rows is None:
            with torch.inference_mode(False):
                lengths = (
                    torch.ones(self.shape.n_rows, dtype=torch.int64, device=device) if self.shape.has_lengths else None
                )
                self._rows = Rows(torch.zeros(self.shape[:2], dtype=rows.ids.dtype, device=device), lengths)
        self._rows.ids[:n_real, :n_ids] = rows.ids
        if self._rows.lengths is not None and rows.lengths is not None:
            self._rows.lengths[:n_real] = rows.lengths
        return self._rows

    def _keep(self, found: Layers) -> None:
        self._found = found


def _owned(layers: Layers) -> tuple[Layers, Tensor | None]:
    if len({part.shape for layer in layers for part in layer}) > 1:
        return [(keys.clone(), values.clone()) for keys, values in layers], None
    whole = stacked(layers)
    parts = whole.unbind()
    return list(zip(parts[::2], parts[1::2], strict=True)), whole


def _most_tokens(model: GraphModel[Any]) -> int:
    """How many tokens may have keys and values in all graphs together."""
    weight = model.module.output_weight
    widths = [part.n_kv_heads * part.d_head for kind in ("masked", "cross") for part in model.attentions(kind)]
    memory = int(torch.cuda.get_device_properties(weight.device).total_memory) if weight.is_cuda else 2**33
    return memory // _MOST_HELD // max(1, 2 * sum(widths) * int(weight.dtype.itemsize))
