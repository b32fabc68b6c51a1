"""Compile a loss whole: tensors in, tensors out, one static shape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Loss = Callable[..., Any]


def compiled(loss: Loss) -> Loss:
    """The loss, compiled for the shapes it is called with."""
    return torch.compile(loss, dynamic=False)
