"""A pyramid of recurrent layers: each reads two steps of the one below at once, so time halves (Chan et al., 2016).

    outputs (B, ⌈T / 2ⁿ⌉, 2D), lengths (B,)  =  pyramid(inputs (B, T, Din), lengths)        n halvings

The lowest layer reads every step. A row with an odd number of steps is filled up with one zero step of its own, so
what comes out of it does not depend on the rows beside it. Backwards each row is read from its own end: it is turned
around, which is quicker than packing rows is where their lengths are alike, by far so on a processor.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.errors import UsageError
from regard.layers.dropout import drop
from regard.layers.recurrent import Recurrent, RecurrentName


class BothWays(nn.Module):
    """A recurrent layer in each direction, side by side: (B, T, Din) → (B, T, 2D), zeros behind the end of a row."""

    def __init__(self, d_input: int, d_hidden: int, *, cell: RecurrentName) -> None:
        super().__init__()
        self.forth = Recurrent(cell, d_input, d_hidden=d_hidden)
        self.back = Recurrent(cell, d_input, d_hidden=d_hidden)

    def forward(self, inputs: Tensor, lengths: Tensor) -> Tensor:
        """Inputs (B, T, Din) that end at their lengths (B,); what stands behind the end is never read."""
        forth = self.forth(inputs).outputs
        back = turned(self.back(turned(inputs, lengths)).outputs, lengths)
        real = torch.arange(inputs.shape[1], device=inputs.device) < lengths[:, None]
        return torch.cat((forth, back), -1) * real[..., None].to(forth.dtype)


class Pyramid(nn.Module):
    """Recurrent layers in both directions, each `d_hidden` wide a direction; all but the first halve time."""

    def __init__(
        self, d_input: int, d_hidden: int, *, n_halvings: int, cell: RecurrentName = "lstm", dropout: float = 0.0
    ) -> None:
        super().__init__()
        if n_halvings < 0:
            raise UsageError(f"a pyramid halves time 0 times or more, not {n_halvings}")
        self.d_output = 2 * d_hidden
        widths = [d_input] + [2 * self.d_output] * n_halvings
        self.layers = nn.ModuleList(BothWays(width, d_hidden, cell=cell) for width in widths)
        self.dropout = dropout

    def forward(self, inputs: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Inputs (B, T, Din) that end at their lengths (B,) → outputs and their lengths."""
        hidden = inputs
        for i, layer in enumerate(self.layers):
            if i:
                hidden, lengths = halve(hidden), (lengths + 1) // 2
            hidden = drop(layer(hidden, lengths), self.dropout, training=self.training)
        return hidden, lengths


def halve(hidden: Tensor) -> Tensor:
    """Steps in pairs: (B, T, D) → (B, ⌈T/2⌉, 2D); where the last has no partner, zeros."""
    padded = F.pad(hidden, (0, 0, 0, hidden.shape[1] % 2))
    return torch.cat((padded[:, ::2], padded[:, 1::2]), -1)


def turned(hidden: Tensor, lengths: Tensor) -> Tensor:
    """Each row (B, T, D) from its own last step to its first; what stands behind the end stays there."""
    places = torch.arange(hidden.shape[1], device=hidden.device)
    source = torch.where(places < lengths[:, None], lengths[:, None] - 1 - places, places)
    return hidden.gather(1, source[..., None].expand_as(hidden))
