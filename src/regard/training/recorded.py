"""A whole step as one piece of recorded GPU work: loss, gradients, optimizer, average.

A step of a small model is some hundreds of pieces of work, each shorter on the GPU than the order for it takes the
processor to give. Recorded, they are one order. The first steps are done as they come, so that kernels are compiled and
chosen; the next is recorded, and from then on replayed: with the batch copied to where the recorded one lay, and random
numbers from PyTorch's generator as it is seeded then.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from regard.errors import EnvironmentProblem
from regard.tasks.protocol import Batch, Losses

Work = Callable[[Batch, Tensor], Losses]
_UNRECORDED = 3  # steps before the recorded one: the compiler may need a second look


class RecordedStep:
    """Does `work` on batches of one shape: by itself at first, then as a recording of it.

    `work` takes a batch and the number of its tokens, on the device, and may leave nothing behind but what it changes
    in place. What it returns is overwritten by the next step. A batch of another shape is not recorded.
    """

    def __init__(self, work: Work, device: torch.device) -> None:
        self._work = work
        self._n_tokens = torch.ones((), device=device)
        self._held: Batch | None = None
        self._player = _Player(device)

    def __call__(self, batch: Batch, n_tokens: float) -> Losses:
        """The losses of a step on this batch, which is on the processor still."""
        device = self._n_tokens.device
        self._n_tokens.fill_(n_tokens)
        if self._held is None:
            self._held = batch.to(device)
        elif not self._held.fill(batch):
            return self._work(batch.to(device), self._n_tokens)
        held = self._held
        return self._player.play(lambda: self._work(held, self._n_tokens))


class _Player:
    """Work done as it is, then recorded, then replayed."""

    def __init__(self, device: torch.device) -> None:
        # Recorded where it was first done: gradients add up on the stream where their parameters were first used.
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        self._graph: torch.cuda.CUDAGraph | None = None
        self._done = 0
        self._result: Losses | None = None

    def play(self, work: Callable[[], Losses]) -> Losses:
        self._done += 1
        if self._stream is None:
            return work()
        if self._graph is not None:
            self._graph.replay()
        elif self._done <= _UNRECORDED:
            here = torch.cuda.current_stream(self._stream.device)
            self._stream.wait_stream(here)
            with torch.cuda.stream(self._stream):
                self._result = work()
            here.wait_stream(self._stream)
        else:
            self._graph = self._recorded(work)
            self._graph.replay()
        assert self._result is not None
        return self._result

    def _recorded(self, work: Callable[[], Losses]) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        try:
            # Other threads go on meanwhile, and may ask for memory.
            with torch.cuda.graph(graph, stream=self._stream, capture_error_mode="thread_local"):
                self._result = work()
        except RuntimeError as problem:
            first = str(problem).partition("\n")[0]
            raise EnvironmentProblem(
                f"a step of this model cannot be recorded: {first}", hint="set train.graphs=off"
            ) from problem
        return graph
