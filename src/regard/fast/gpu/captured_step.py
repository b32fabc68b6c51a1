"""A whole training step as one CUDA graph: loss, gradients, optimizer, average.

A step of a small model is some hundreds of kernels, each shorter on the GPU than its launch takes the processor.
Captured, they are one launch. The first steps on batches of a shape are done as they come, so that kernels are compiled
and chosen; the next is captured, and from then on replayed: with the batch copied to where the captured one lay, and
random numbers from PyTorch's generator as it is seeded then. Work in which the processor waits for an answer of the
device, as for the lengths of a recurrent encoder's rows, is noticed and never captured. Graphs share their memory:
nothing but the losses outlives a step, so those of ten shapes need no more than the largest.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor

from regard.errors import EnvironmentProblem
from regard.fast.gpu.workspaces import own_workspaces

Work = Callable[[Any, Tensor], Any]  # a batch and the number of its tokens → its losses
_WARMUP = 3  # steps before the captured one: the compiler may need a second look
_MAX_GRAPHS = 16  # shapes; a graph holds on to its batch


class CapturedStep:
    """Does `work` on batches: by itself at first, then as a CUDA graph of it, one for each of few shapes.

    `work` takes a batch and the number of its tokens, on the device, and may leave nothing behind but what it changes
    in place. What it returns is overwritten by the next step.
    """

    def __init__(self, work: Work, device: torch.device) -> None:
        self._work = work
        self._n_tokens = torch.ones((), device=device)
        # Captured where it was first done: gradients add up on the stream where their parameters were first used.
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        self._pool = torch.cuda.graph_pool_handle() if self._stream is not None else None
        self._graphs: dict[Hashable, _Graph] = {}
        self._waits = False

    def __call__(self, batch: Any, n_tokens: float) -> Any:
        """The losses of a step on this batch, which is on the processor still."""
        self._n_tokens.fill_(n_tokens)
        shape = None if self._waits else batch.shape()
        graph = self._graphs.get(shape)
        if graph is not None:
            graph.batch.fill(batch)
        else:
            graph = _Graph(batch.to(self._n_tokens.device), self._work, self._n_tokens, self._stream, self._pool)
            if shape is not None and len(self._graphs) < _MAX_GRAPHS:
                self._graphs[shape] = graph
        losses = graph.step()
        if graph.waits:
            self._waits = True
            self._graphs.clear()
        return losses


class _Graph:
    """Work on one batch: done as it is, then captured, then replayed."""

    def __init__(self, batch: Any, work: Work, n_tokens: Tensor, stream: torch.cuda.Stream | None, pool: Any) -> None:
        self.batch, self.waits = batch, False
        self._work, self._n_tokens, self._stream, self._pool = work, n_tokens, stream, pool
        self._graph: torch.cuda.CUDAGraph | None = None
        self._done = 0
        self._result: Any = None

    def step(self) -> Any:
        """What the batch lost; the next step writes its own losses to the same place."""
        self._done += 1
        if self._stream is None:
            self._result = self._work(self.batch, self._n_tokens)
        elif self._done <= _WARMUP:
            here = torch.cuda.current_stream(self._stream.device)
            self._stream.wait_stream(here)
            last = self._done == _WARMUP  # what is waited for at first, and never again, is no matter
            noticing: AbstractContextManager[list[str]] = _noticing() if last else nullcontext([])
            with torch.cuda.stream(self._stream), noticing as waits:
                self._result = self._work(self.batch, self._n_tokens)
            here.wait_stream(self._stream)
            self.waits = bool(waits)
        else:
            self._graph = self._graph or self._captured()
            self._graph.replay()
        assert self._result is not None
        return self._result

    def _captured(self) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        try:
            # Other threads go on meanwhile, and may ask for memory.
            on_stream = torch.cuda.graph(graph, pool=self._pool, stream=self._stream, capture_error_mode="thread_local")
            with own_workspaces(), on_stream:
                self._result = self._work(self.batch, self._n_tokens)
        except RuntimeError as problem:
            first = str(problem).partition("\n")[0]
            raise EnvironmentProblem(
                f"a step of this model cannot be captured as a CUDA graph: {first}", hint="set train.cuda_graphs=off"
            ) from problem
        return graph


@contextmanager
def _noticing() -> Iterator[list[str]]:
    """Where the processor waits for the device inside the `with`: PyTorch's own messages, complete after it."""
    before, waits = torch.cuda.get_sync_debug_mode(), list[str]()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            yield waits
        finally:
            torch.cuda.set_sync_debug_mode(before)
    for one in told:
        message = str(one.message)
        if "synchronizing CUDA operation" in message:
            waits.append(message)
        elif "Synchronization debug mode" not in message:  # PyTorch says that the mode is new
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
