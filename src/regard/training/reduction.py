"""Gradients of processes that each have a whole model, summed while they are still being computed.

The backward pass ends with the first layers, so the gradients of the last are ready first. They are put into buckets in
that order; as soon as all gradients of a bucket are there, its sum over the processes is begun, and the backward pass
goes on meanwhile. Buckets are sent in the same order everywhere. What has no gradient counts as zeros.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from regard.training.distributed import ProcessGroup, together
from regard.training.parallel import Parallel, Pass
from regard.training.protocol import Batch, Trainable

_BUCKET = 25 * 2**20  # bytes: large enough for a link's full speed, small enough to begin early


class _Bucket:
    """Parameters whose gradients travel together."""

    def __init__(self, parameters: Sequence[nn.Parameter], group: ProcessGroup) -> None:
        self.parameters, self.group = parameters, group
        self.ready = 0
        self.flat: Tensor | None = None
        self.work: Any = None

    def send(self) -> None:
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in self.parameters]
        self.flat = torch.cat([gradient.flatten() for gradient in gradients])
        self.work = dist.all_reduce(self.flat, group=self.group.handle, async_op=True)

    def receive(self) -> None:
        assert self.flat is not None
        self.work.wait()
        for parameter, part in zip(self.parameters, self.flat.split([p.numel() for p in self.parameters]), strict=True):
            if parameter.grad is None:
                parameter.grad = torch.empty_like(parameter)
            parameter.grad.copy_(part.view_as(parameter))
        self.ready, self.flat, self.work = 0, None, None


class GradientReducer:
    """Sums the gradients of parameters over all processes, bucket by bucket, once it is `armed`."""

    def __init__(self, parameters: Iterable[nn.Parameter], group: ProcessGroup, *, bucket_bytes: int = _BUCKET) -> None:
        trained = [parameter for parameter in parameters if parameter.requires_grad]
        self._buckets = [_Bucket(part, group) for part in _bucketed(reversed(trained), bucket_bytes)]
        self._sent, self._armed = 0, False
        for bucket in self._buckets:
            for parameter in bucket.parameters:
                parameter.register_post_accumulate_grad_hook(self._hook(bucket))

    def arm(self) -> None:
        """The next backward pass is the step's last: what it computes can be sent."""
        self._armed = True

    def finish(self) -> None:
        """Send what is not sent yet, and wait until all gradients are sums."""
        self._armed = False
        with together():
            while self._sent < len(self._buckets):
                self._send_next()
            for bucket in self._buckets:
                bucket.receive()
        self._sent = 0

    def _hook(self, bucket: _Bucket) -> Any:
        def ready(_: Tensor) -> None:
            if not self._armed:
                return
            bucket.ready += 1
            with together():
                while self._sent < len(self._buckets) and self._is_complete(self._buckets[self._sent]):
                    self._send_next()

        return ready

    def _is_complete(self, bucket: _Bucket) -> bool:
        return bucket.ready == len(bucket.parameters)

    def _send_next(self) -> None:
        self._buckets[self._sent].send()
        self._sent += 1


class Replicated(Parallel):
    """Each process has the whole model and its share of every batch."""

    def __init__(self, task: Trainable, model: nn.Module, group: ProcessGroup) -> None:
        super().__init__(task, model)
        self._reducer = GradientReducer(model.parameters(), group)

    def passes(self, batches: Sequence[Batch]) -> Iterator[Pass]:
        """The batches; gradients are sent on the way through the last of them."""
        real = [batch for batch in batches if batch.n_tokens]
        for batch in real:
            if batch is real[-1]:
                self._reducer.arm()
            yield Pass(batch)

    def finish_gradients(self) -> None:
        """Wait until the gradients are those of all processes."""
        self._reducer.finish()


def _bucketed(parameters: Iterable[nn.Parameter], most: int) -> Iterator[list[nn.Parameter]]:
    """Neighbours of one data type, up to so many bytes; a larger one is alone."""
    bucket: list[nn.Parameter] = []
    size = 0
    for parameter in parameters:
        if bucket and (parameter.dtype != bucket[0].dtype or size + parameter.nbytes > most):
            yield bucket
            bucket, size = [], 0
        bucket.append(parameter)
        size += parameter.nbytes
    if bucket:
        yield bucket
