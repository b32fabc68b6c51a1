"""Dropout (Srivastava et al., 2014), quick on processors too.

PyTorch draws one number after another on a CPU, which takes longer than the layers around it. Here one 64-bit draw
serves four elements: each is dropped where its 16 bits are among the lowest `p` of 65,536, and what stays is scaled by
the exact share, so the mean is kept exactly. Draws come from PyTorch's own generator: `torch.manual_seed` decides them,
or within `keyed_draws` the key of each example does.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.config.keyed_draws import LEVELS, keyed
from regard.config.twins import twin
from regard.errors import UsageError


def drop(tensor: Tensor, p: float, *, training: bool, name: str = "elements") -> Tensor:
    """Set a share `p` of the elements to zero and scale the others up; nothing happens outside training.

    `name` is whom draws by key are counted for: what is called once a position draws under a name of its own.
    """
    if not training or p == 0.0:
        return tensor
    n_dropped = round(p * LEVELS)
    draws = keyed()
    if draws is not None:
        return tensor * draws.kept(tensor.shape, p, name=name).to(tensor.dtype).mul_(LEVELS / (LEVELS - n_dropped))
    if tensor.device.type != "cpu" or torch.compiler.is_compiling():
        return F.dropout(tensor, p)
    bits, least = draws_for(tensor), n_dropped - LEVELS // 2
    if (fast := twin("drop")) is not None:
        dropped: Tensor | None = fast(tensor, bits, least=least, scale=LEVELS / (LEVELS - n_dropped))
        if dropped is not None:
            return dropped
    kept = bits[: tensor.numel()].view(tensor.shape) >= least
    return tensor * kept.to(tensor.dtype).mul_(LEVELS / (LEVELS - n_dropped))


def draws_for(tensor: Tensor) -> Tensor:
    """16 bits for each element, and as many more as fill up the last word."""
    return torch.empty(-(-tensor.numel() // 4), dtype=torch.int64).random_(-(2**63), None).view(torch.int16)


class Dropout(nn.Module):
    """`drop` as a module, which knows itself whether it is training."""

    __call__: Callable[..., Tensor]  # PyTorch's is of any type

    def __init__(self, p: float) -> None:
        super().__init__()
        if not 0 <= p < 1:
            raise UsageError(f"dropout is from 0 up to, but not including, 1; not {p}")
        self.p = p

    def forward(self, tensor: Tensor) -> Tensor:
        """The tensor with some of its elements dropped."""
        return drop(tensor, self.p, training=self.training)
