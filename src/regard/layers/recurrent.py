"""Recurrent layers: simple, gated (Cho et al., 2014) and long short-term memory (Hochreiter & Schmidhuber, 1997).

    outputs (B, T, D · directions), state (P, layers · directions, B, D)       P = 2 for LSTM (hidden, cell), else 1

One state tensor for all kinds, so that a decoder can carry, reorder and store it without knowing which it has.
PyTorch's own modules do the work; rows end at their own length, so what stands in the padding never matters.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from regard.attention import Rows
from regard.config.keyed_draws import keyed
from regard.errors import ShapeError, UsageError
from regard.layers.dropout import drop

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
        if keyed() is not None and self.training and self.layers.dropout:
            return self._by_layers(inputs, lengths, state)
        if lengths is None:
            outputs, last = self.layers(inputs, self._split(state))
            return Recurred(outputs, self._join(last))
        packed = pack_padded_sequence(inputs, lengths.cpu(), batch_first=True, enforce_sorted=False)
        packed_outputs, last = self.layers(packed, self._split(state))
        outputs, _ = pad_packed_sequence(packed_outputs, batch_first=True, total_length=inputs.shape[1])
        return Recurred(outputs, self._join(last))

    def _by_layers(self, inputs: Tensor, lengths: Tensor | None, state: Tensor | None) -> Recurred:
        """The same, one layer after another, with dropout of our own between them: PyTorch's draws inside."""
        n, outputs, states = self.n_directions, inputs, []
        for layer in range(self.layers.num_layers):
            if layer:
                outputs = drop(outputs, self.layers.dropout, training=True, name="recurrent")
            own = None if state is None else state[:, layer * n : (layer + 1) * n]
            outputs, last = self._layer(layer, outputs, lengths, own)
            states.append(last)
        return Recurred(outputs, torch.cat(states, 1))

    def _layer(
        self, number: int, inputs: Tensor, lengths: Tensor | None, state: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """One layer in all its directions: outputs (B, T, D · directions) and its state (P, directions, B, D)."""
        layers = self.layers
        each = len(layers._flat_weights) // layers.num_layers
        weights = layers._flat_weights[number * each : (number + 1) * each]
        if state is None:
            state = inputs.new_zeros(self.n_parts, self.n_directions, len(inputs), layers.hidden_size)
        run: Any = getattr(torch, "rnn_tanh" if layers.mode == "RNN_TANH" else layers.mode.lower())
        first = self._split(state)
        how = (layers.bias, 1, 0.0, True, layers.bidirectional)
        if lengths is None:
            outputs, *last = run(inputs, first, weights, *how, True)
            return outputs, torch.stack(last)
        packed = pack_padded_sequence(inputs, lengths.cpu(), batch_first=True, enforce_sorted=False)
        order, back = packed.sorted_indices, packed.unsorted_indices
        assert order is not None
        assert back is not None
        begun = tuple(part.index_select(1, order) for part in state.unbind())
        data, *last = run(packed.data, packed.batch_sizes, begun if self.n_parts == 2 else begun[0], weights, *how)
        made = PackedSequence(data, packed.batch_sizes, order, back)
        outputs, _ = pad_packed_sequence(made, batch_first=True, total_length=inputs.shape[1])
        return outputs, torch.stack([part.index_select(1, back) for part in last])

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
