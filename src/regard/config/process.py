"""What a process has in common, and how to leave it as it was.

    with unchanged(device): …        random numbers and filters of warnings are afterwards what they were
    seed_torch(7, device)            torch's random numbers begin there, on this device and no other
    with short_turns(): …            threads wait less for one another
    with no_warnings(): …            nobody is warned, in however many threads at a time

PyTorch's layers draw from generators that the whole process shares, so training has to seed them: for as long as it
lasts. Packages that are first imported meanwhile add filters for their own warnings; those go with it. Warnings are
left alone where the work is done in a thread of its own: their filters are the whole process's, too, and by the end
somebody else may have changed them.
"""

from __future__ import annotations

import gc
import random
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from threading import Lock, current_thread, main_thread

import numpy as np
import torch

_TURN = 0.0002  # seconds that a thread has before another one gets its turn


def seed_torch(seed: int, device: torch.device) -> None:
    """Let torch's random numbers begin at a seed: those drawn on the processor, and on the device."""
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.manual_seed(seed)


@contextmanager
def unchanged(device: torch.device) -> Iterator[None]:
    """Put back what random numbers of torch, numpy and Python come next, and which warnings are shown."""
    devices = [device] if device.type == "cuda" else []
    filters = warnings.catch_warnings() if current_thread() is main_thread() else nullcontext()
    of_python, of_numpy = random.getstate(), np.random.get_state()
    with filters, torch.random.fork_rng(devices):
        try:
            yield
        finally:
            random.setstate(of_python)
            np.random.set_state(of_numpy)


class _Silence:
    """Filters of warnings are the whole process's: who comes first sets them aside, who leaves last puts them back.

    With `warnings.catch_warnings` in several threads, the one that leaves last would put back what another had set.
    """

    def __init__(self) -> None:
        self._lock, self._n_inside = Lock(), 0
        self._filters = warnings.catch_warnings()

    def enter(self) -> None:
        with self._lock:
            self._n_inside += 1
            if self._n_inside == 1:
                self._filters = warnings.catch_warnings()
                self._filters.__enter__()
                warnings.simplefilter("ignore")

    def leave(self) -> None:
        with self._lock:
            self._n_inside -= 1
            if not self._n_inside:
                self._filters.__exit__(None, None, None)


_silence = _Silence()


@contextmanager
def no_warnings() -> Iterator[None]:
    """Nobody is warned meanwhile."""
    _silence.enter()
    try:
        yield
    finally:
        _silence.leave()


@contextmanager
def short_turns() -> Iterator[None]:
    """Threads of Python take short turns: those of a server have little to do at a time, and soon.

    What was made so far stays: the garbage collector need not look at it again and again.
    """
    usual = sys.getswitchinterval()
    sys.setswitchinterval(_TURN)
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        sys.setswitchinterval(usual)
