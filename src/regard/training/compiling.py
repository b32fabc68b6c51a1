"""Compile a loss whole: tensors in, tensors out, one static shape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from regard.config.twins import resolve

Loss = Callable[..., Any]


def compiled(loss: Loss) -> Loss:
    """The loss, compiled for the shapes it is called with."""
    resolve()  # twins are looked up here, where no compiler traces it
    return torch.compile(loss, dynamic=False)
