"""Whether somebody trains on this processor by the native kernels.

    with training_kernels(device): ...        the trainer's loop, around which `select` prepares the model
    kernels = active()                        what twins ask: the kernels, or None

Only what is trained in here uses them, so that whoever computes gradients by himself gets PyTorch's own. They are
compiled before the first step, if that is still to do.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch

from regard.fast.cpu.native import Kernels, loaded

_active: ContextVar[Kernels | None] = ContextVar("training_kernels", default=None)


@contextmanager
def training_kernels(device: torch.device) -> Iterator[None]:
    """In here, what is trained on a processor is computed by the kernels, where there are any."""
    token = _active.set(loaded() if device.type == "cpu" else None)
    try:
        yield
    finally:
        _active.reset(token)


def active() -> Kernels | None:
    """The kernels, where somebody trains by them."""
    return None if torch.compiler.is_compiling() else _active.get()
