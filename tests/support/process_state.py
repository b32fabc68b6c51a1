"""What a process has in common: flags, threads, random numbers, warnings, signals. Ask twice, and compare."""

from __future__ import annotations

import os
import random
import signal
import sys
import warnings
from typing import Any

import numpy as np
import torch

STATE = {
    "float32 matmul precision": torch.get_float32_matmul_precision,
    "tf32": lambda: (torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32),
    "precision a backend": lambda: precisions(),
    "cudnn": lambda: (torch.backends.cudnn.enabled, torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic),
    "deterministic algorithms": torch.are_deterministic_algorithms_enabled,
    "default type": torch.get_default_dtype,
    "gradients": lambda: (torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cpu")),
    "threads": lambda: (torch.get_num_threads(), torch.get_num_interop_threads()),
    "switch interval": sys.getswitchinterval,
    "random numbers of torch": lambda: torch.get_rng_state().tolist(),
    "random numbers of numpy": lambda: tuple(map(str, np.random.get_state())),
    "random numbers of Python": random.getstate,
    "floating-point errors": np.geterr,
    "warnings": lambda: list(warnings.filters),
    "who shows warnings": lambda: warnings.showwarning,
    "signals": lambda: {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)},
    "hooks": lambda: (sys.excepthook, sys.getrecursionlimit()),
    "environment": lambda: {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"},
    "folder": os.getcwd,
    "umask": lambda: _umask(),
}


def precisions() -> tuple[str, ...]:
    """What each backend of torch says about products and convolutions in single precision."""
    cuda, cudnn, mkldnn = torch.backends.cuda, torch.backends.cudnn, torch.backends.mkldnn
    parts: list[Any] = [torch.backends, cuda.matmul, cudnn, cudnn.conv, cudnn.rnn, mkldnn, mkldnn.matmul, mkldnn.conv]
    return tuple(part.fp32_precision for part in parts)


def process_state() -> dict[str, Any]:
    """All of it, by name."""
    return {name: read() for name, read in STATE.items()}


def changed(before: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """What is not as it was: before, and now."""
    now = process_state()
    return {name: (before[name], now[name]) for name in before if before[name] != now[name]}


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
