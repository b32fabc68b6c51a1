"""The output of a model over some tokens of its vocabulary: their weights are gathered once, and no others read.

    output = RestrictedOutput(layer, bias, columns, allowed)     columns (U,), allowed (B, U) of B sources
    output(hidden)                                               (N, D) → (N, V), −inf outside a row's tokens
    output.select(sources)                                       only these sources go on, in this order

N is a multiple of the sources, neighbours belonging together. Every score is a product of its own, added up in the
order of the inputs, so a token's is bit for bit what the whole layer gives; `ShortlistStepper` is the readable twin.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.fast.cpu.native import NativeLinear


class RestrictedOutput:
    """The output; `bias` (V,) is added to what the layer gives. Once half the sources left, it is gathered anew."""

    def __init__(self, layer: NativeLinear, bias: Tensor | None, columns: Tensor, allowed: Tensor) -> None:
        self.layer, self.bias = layer, bias
        self.columns, self.allowed = columns.contiguous(), allowed.contiguous()
        self._gather()

    def __call__(self, hidden: Tensor) -> Tensor:
        """Scores of the tokens that each row may write; −inf for all others."""
        scores = self._chosen(hidden)
        if self._bias is not None:
            scores += self._bias
        kernels, n_rows = self.layer.kernels, len(scores)
        output = torch.empty((n_rows, self.layer.n_out))
        kernels.spread(
            kernels.threads,
            scores.data_ptr(),
            self.columns.data_ptr(),
            self.allowed.data_ptr(),
            *scores.shape,
            n_rows // len(self.allowed),
            self.layer.n_out,
            output.data_ptr(),
        )
        return output

    def select(self, sources: Tensor) -> None:
        """Go on with these sources."""
        self.allowed = self.allowed.index_select(0, sources)
        if 2 * len(sources) <= self._n_gathered:
            some = self.allowed.any(0)
            self.columns, self.allowed = self.columns[some], self.allowed[:, some].contiguous()
            self._gather()

    def _gather(self) -> None:
        self._n_gathered = len(self.allowed)
        self._chosen = self.layer.rows(self.columns)
        self._bias = None if self.bias is None else self.bias.detach()[self.columns]
