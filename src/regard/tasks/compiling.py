"""Compile a loss whole: tensors in, tensors out, one static shape.

With `graphs` a GPU gets the whole pass as one recorded piece of work, forward and backward, instead of hundreds of
launches: small models are otherwise held up by the processor. What comes out is then overwritten by the next pass.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Loss = Callable[..., Any]


def compiled(loss: Loss, *, graphs: bool) -> Loss:
    """The loss, compiled for the shapes it is called with."""
    return torch.compile(loss, dynamic=False, options={"triton.cudagraphs": graphs})
