"""Recurrent layers: simple, gated (Cho et al., 2014) and long short-term memory (Hochreiter & Schmidhuber, 1997).

    outputs (B, T, D · directions), state (P, layers · directions, B, D)       P = 2 for LSTM (hidden, cell), else 1

One state tensor for all kinds, so that a decoder can carry, reorder and store it without knowing which it has.
PyTorch's own modules do the work; rows end at their own length, so what stands in the padding never matters.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from regard.attention import Rows
from regard.errors import ShapeError, UsageError

RecurrentName = Literal["rnn", "gru", "lstm"]

_KINDS: dict[str, type[nn.RNN | nn.GRU | nn.LSTM]] = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}


class Recurred(NamedTuple):
    """Every step's output (B, T, D · directions), and the state after the last (P, layers · directions, B, D)."""

    outputs: Tensor
    state: Tensor


class Recurrent(nn.Module):
    """A stack of recurrent layers of one kind, read in one direction or two."""

    def __init__(
        self,
        kind: RecurrentName,
        d_input: int,
        *,
        d_hidden: int,
        n_layers: int = 1,
        bidirectional: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if kind not in _KINDS:
            raise UsageError(f"no recurrent layer is called {kind!r}; there are {sorted(_KINDS)}")
        self.layers = _KINDS[kind](
            d_input,
            d_hidden,
            n_layers,
            batch_first=True,
            bidirectional=bidirectional,
            dropout=dropout if n_layers > 1 else 0.0,
        )
        self.n_parts = 2 if kind == "lstm" else 1
        self.n_directions = 2 if bidirectional else 1
        self.d_output = d_hidden * self.n_directions

    def forward(self, inputs: Tensor, *, lengths: Tensor | None = None, state: Tensor | None = None) -> Recurred:
        """Inputs (B, T, Din) from a given state or from zeros; rows end at their `lengths` (B,), each at least 1."""
        if state is not None and state.shape[2] != inputs.shape[0]:
            raise ShapeError(f"a state of {state.shape[2]} rows does not fit inputs of {inputs.shape[0]} rows")
        if lengths is None:
            outputs, last = self.layers(inputs, self._split(state))
            return Recurred(outputs, self._join(last))
        packed = pack_padded_sequence(inputs, lengths.cpu(), batch_first=True, enforce_sorted=False)
        packed_outputs, last = self.layers(packed, self._split(state))
        outputs, _ = pad_packed_sequence(packed_outputs, batch_first=True, total_length=inputs.shape[1])
        return Recurred(outputs, self._join(last))

    def _split(self, state: Tensor | None) -> Tensor | tuple[Tensor, Tensor] | None:
        if state is None:
            return None
        return (state[0].contiguous(), state[1].contiguous()) if self.n_parts == 2 else state[0].contiguous()

    def _join(self, last: Tensor | tuple[Tensor, Tensor]) -> Tensor:
        return torch.stack(last) if isinstance(last, tuple) else last.unsqueeze(0)


def merge_directions(state: Tensor) -> Tensor:
    """A two-directional state (P, 2 · layers, B, D) as a one-directional one of double width (P, layers, B, 2 · D)."""
    parts, rows, batch, width = state.shape
    return state.view(parts, rows // 2, 2, batch, width).transpose(2, 3).reshape(parts, rows // 2, batch, 2 * width)


def recurrent_rows(ids: Tensor | Rows, *, unit: str = "text", what: str = "this") -> Rows:
    """Rows that a recurrent network can read, one `unit` each: in a packed row a state would run on into the next."""
    rows = Rows.of(ids)
    if rows.documents is not None:
        raise ShapeError(
            f"a recurrent model reads padded rows, one {unit} each; {what} is a packed row",
            hint="pass Rows(ids, lengths)",
        )
    return rows
