"""Who is done on a device, seen a few steps later, so that it need not wait for whoever looks.

    lookback = Lookback(plan.sync)
    lookback.is_to_look(done, step=7)     whether the flags (N,) that were sent before say that it is time to

Whoever asks a device for a number waits until it is there; then the device waits for new work. Here flags are sent on
their way, and those that were sent before are looked at: the device has had steps to do since. They are sent twice as
often as they would be asked for, and so an end is noticed no later.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from regard.decoding.plan import Plan, SyncPolicy


def always_looking(plan: Plan) -> Plan:
    """The same plan for a search that is asked only when it is time to look."""
    return replace(plan, sync=replace(plan.sync, check_every=1))


class Lookback:
    """The flags of a batch, on their way to the host."""

    def __init__(self, sync: SyncPolicy) -> None:
        self._sync, self._every = sync, max(1, sync.check_every // 2)
        self._flags: Tensor | None = None
        self._there: torch.cuda.Event | None = None

    def is_to_look(self, done: Tensor, *, step: int) -> bool:
        """Whether all rows were done, or so many that they leave, when flags were sent last; these are sent now."""
        if step % self._every:
            return False
        is_time = self._is_time()
        if self._flags is None:
            self._flags = torch.empty(done.shape, dtype=torch.bool, pin_memory=done.is_cuda)
        self._flags.copy_(done, non_blocking=True)
        if done.is_cuda:
            self._there = self._there or torch.cuda.Event()
            self._there.record()
        return is_time

    def _is_time(self) -> bool:
        if self._flags is None:
            return False
        if self._there is not None:
            self._there.synchronize()
        n_going = len(self._flags) - int(self._flags.sum())
        return n_going == 0 or self._sync.drops_finished(n_going, len(self._flags))
