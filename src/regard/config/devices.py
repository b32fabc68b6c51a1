"""Which device and which precision: what was asked for, checked against what is there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from regard.config.processor import check_bf16
from regard.config.training import Precision
from regard.errors import EnvironmentProblem, UsageError


def choose_device(name: str) -> torch.device:
    """The device of that name; "auto" takes a GPU where there is one."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise UsageError(f"no device is called {name!r}; there are auto, cpu, cuda and cuda:N") from None
    if device.type == "cuda":
        if not torch.cuda.is_available():
            raise EnvironmentProblem(
                f"{name} was asked for, and this machine shows no GPU to PyTorch", hint="use train.device=cpu, or auto"
            )
        index = int(os.environ.get("LOCAL_RANK", "0")) if device.index is None else device.index
        if index >= torch.cuda.device_count():
            raise EnvironmentProblem(f"{name}: there is no GPU {index}, there are {torch.cuda.device_count()}")
        device = torch.device("cuda", index)
        torch.cuda.set_device(device)
    return device


def uses_bf16(precision: Precision, device: torch.device) -> bool:
    """Whether to compute in bf16: where asked for, or by itself where the hardware has it."""
    if precision == "bf16":
        check_bf16(device)
    return precision == "bf16" or (precision == "auto" and device.type == "cuda" and torch.cuda.is_bf16_supported())


def computing(device: torch.device, *, bf16: bool) -> torch.autocast:
    """Matrix products in bf16 where asked for; weights and sums stay in single precision."""
    return torch.autocast(device.type, torch.bfloat16, enabled=bf16)


@contextmanager
def quick_products(device: torch.device) -> Iterator[None]:
    """Single-precision products by a GPU's TF32 units, in here alone: nobody else's results change."""
    if device.type != "cuda":
        yield
        return
    torchs: Any = torch.backends
    backends = (torchs.cuda.matmul, torchs.mkldnn.matmul)  # PyTorch's one setting is for both
    before, names = _products(), [backend.fp32_precision for backend in backends]
    if before is None:
        backends[0].fp32_precision = "tf32"
    else:
        torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        if before is not None:
            torch.set_float32_matmul_precision(before)
        for backend, name in zip(backends, names, strict=True):
            backend.fp32_precision = name


def _products() -> str | None:
    """The precision of products by PyTorch's one setting; None where those of its backends say otherwise."""
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:
        return None
