"""The compiled kernels, loaded: plain functions over addresses.

The threads are PyTorch's own: the functions of its OpenMP runtime are looked up among what the process has loaded
and handed to the kernels. A second runtime would bring a second pool, and the two would wait for the same processors.
"""

from __future__ import annotations

import ctypes
import os
import platform
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, NamedTuple

import torch

from regard.fast.cpu.native.build import NATIVE, built, forget
from regard.fast.cpu.native.structures import REAL, Runtime

SWITCH = "REGARD_NATIVE"


class Kernels:
    """The functions of one compiled library. `bits` is what inputs are rounded to where weights have 8."""

    def __init__(self, path: Path) -> None:
        library = ctypes.CDLL(str(path))
        address, count = ctypes.c_void_p, ctypes.c_int64
        self.linear = _function(library.regard_linear, address, address, address, count, address)
        self.block_rows = _function(library.regard_block_rows, address, address, count, address)
        self.decoder_step = _function(library.regard_decoder_step, address, address)
        self.walk_step = _function(library.regard_walk_step, address, address)
        self.causal_step = _function(library.regard_causal_step, address, address)
        self.look_back = _function(library.regard_look_back, address, address)
        self.prefill = _function(library.regard_prefill, address, address)
        self.encoder_run = _function(library.regard_encoder_run, address, address)
        self.largest = _function(library.regard_largest, address, address, count, count, count, address, address)
        self.log_sums = _function(library.regard_log_sums, address, address, count, count, address)
        self.spread = _function(library.regard_spread, *[address] * 4, *[count] * 4, address)
        self.product = _function(library.regard_product, address, address)
        self.attend = _function(library.regard_attend, address, address, count)
        self.drop = _function(library.regard_drop, address, address, address, count, count, address)
        self.residual = _function(library.regard_residual, address, address, count)
        self.score_gradients = _function(
            library.regard_score_gradients, address, address, count, count, count, address, REAL, address, address
        )
        brief = ctypes.PyDLL(str(path))  # over in a moment: Python's lock is kept
        self.walkers = _function(brief.regard_walkers, address, address, count, count, gives=address)
        self.walkers_join = _function(brief.regard_walkers_join, address, address, address)
        self.walkers_share = _function(brief.regard_walkers_share, address, count, count)
        self.walkers_call_back = _function(brief.regard_walkers_call_back, address, count)
        self.walkers_collect = _function(brief.regard_walkers_collect, *[address] * 2, count, address, gives=count)
        self.walkers_forget = _function(brief.regard_walkers_forget, address)
        self.walkers_run = _function(library.regard_walkers_run, address)
        self.walkers_wait = _function(library.regard_walkers_wait, address, gives=count)
        self.walkers_free = _function(library.regard_walkers_free, address)
        self.bits = int(library.regard_bits())
        self.has_bfloat = bool(library.regard_has_bfloat())

    @property
    def threads(self) -> int:
        """The address of a `Runtime` with as many threads as PyTorch would take now, or as `for_kernels` says."""
        return self.of_threads(getattr(_own, "threads", None) or torch.get_num_threads())

    def of_threads(self, n: int) -> int:
        """The address of a `Runtime` with so many threads."""
        return ctypes.addressof(_runtime(n))


_own = threading.local()


@contextmanager
def for_kernels() -> Iterator[None]:
    """Keep this thread's processors for the kernels, whose teams wait for nobody; PyTorch's own work takes one.

    Its many small computations would be shared, each, by threads that wait for one another: on processors that are
    busy otherwise, hundreds of times as long as they take.
    """
    n_threads = torch.get_num_threads()
    if n_threads == 1 or getattr(_own, "threads", None):
        yield
        return
    _own.threads = n_threads
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(n_threads)
        _own.threads = None


_training: ContextVar[bool] = ContextVar("training_kernels", default=False)


@contextmanager
def training_kernels(device: torch.device) -> Iterator[None]:
    """In here, what is trained on a processor is computed by the kernels, where there are any (`fast.cpu.training`).

    Who computes gradients elsewhere gets PyTorch's own. They are compiled before the first step, if still to do.
    """
    token = _training.set(device.type == "cpu" and loaded() is not None)
    try:
        yield
    finally:
        _training.reset(token)


def for_training() -> Kernels | None:
    """The kernels, where somebody trains by them."""
    return None if torch.compiler.is_compiling() or not _training.get() else loaded()


class _Outcome(NamedTuple):
    kernels: Kernels | None
    reason: str


_outcomes: dict[str, _Outcome] = {}  # a process loads them once


def loaded(*, machine: str | None = None) -> Kernels | None:
    """The kernels for this processor (or one that can do less), compiled at the first call; None where there are none.

    `REGARD_NATIVE=0` in the environment switches them off; a name of a processor there, as compilers know them
    (`haswell`: AVX2 only), makes them for that one.
    """
    return None if _is_off() else _outcome(machine or _wanted()).kernels


def at_hand() -> Kernels | None:
    """The kernels if they have been loaded before, for those who would not have them compiled."""
    return None if _is_off() or _wanted() not in _outcomes else _outcomes[_wanted()].kernels


def why(*, machine: str | None = None) -> str:
    """Why there are no kernels; nothing where there are."""
    return f"{SWITCH}={os.environ[SWITCH]} switches them off" if _is_off() else _outcome(machine or _wanted()).reason


def _is_off() -> bool:
    return os.environ.get(SWITCH, "1").lower() in ("0", "off", "no", "false")


def _wanted() -> str:
    """The processor that the kernels are for, where nobody says: this one, or what the environment names."""
    named = os.environ.get(SWITCH, "1")
    return NATIVE if named.lower() in ("", "1", "on", "yes", "true") else named


def _outcome(machine: str) -> _Outcome:
    if machine not in _outcomes:
        _outcomes[machine] = _load(machine)
    return _outcomes[machine]


def _load(machine: str) -> _Outcome:
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return _Outcome(None, f"the kernels are for x86-64, and this is {platform.machine()}")
    problem = ""
    for _ in range(2):
        path, reason = built(machine=machine)
        if path is None:
            return _Outcome(None, reason)
        try:
            return _Outcome(Kernels(path), "")
        except (OSError, AttributeError) as broken:
            problem = str(broken)
            forget(path)
    return _Outcome(None, f"what the compiler made does not load: {problem}")


def _function(function: Any, *arguments: type, gives: type | None = None) -> Any:
    function.argtypes, function.restype = arguments, gives
    return function


_runtimes: dict[int, Runtime] = {}  # whose addresses are handed out, so there is one of each, and it stays


def _runtime(n_threads: int) -> Runtime:
    known = _runtimes.get(n_threads)
    return _runtimes.setdefault(n_threads, _new_runtime(n_threads)) if known is None else known


def _new_runtime(n_threads: int) -> Runtime:
    runtime = ctypes.CDLL(None)
    try:
        parallel, size = runtime.GOMP_parallel, runtime.omp_get_num_threads
    except AttributeError:  # another way of making threads: the caller works alone
        return Runtime(None, None, 1)
    return Runtime(*(ctypes.cast(one, ctypes.c_void_p).value for one in (parallel, size)), n_threads)
