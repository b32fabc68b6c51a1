"""The parts that every model has, filled into CTranslate2's specifications of them.

Queries, keys and values are one matrix there as here, a gate's two halves are two. Where keys and values have fewer
heads and the specification has no place for that, each head is written as often as it is used: the outputs are equal.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.attention import Learned, MultiHeadAttention, Sinusoidal
from regard.layers.blocks import DecoderBlock, DecoderStack, EncoderBlock, EncoderStack
from regard.layers.feedforward import GatedFeedForward

Numbers = np.ndarray[Any, np.dtype[np.float32]]

# What CTranslate2 calls the activations that we have.
ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "gelu_tanh": "GELUTanh", "silu": "SWISH"}
N_PLACES = 1024  # places of a table that ours would make longer when it is needed, and theirs cannot


def activation(name: str) -> Any:
    """CTranslate2's value for one of our activations."""
    from ctranslate2.specs import common_spec

    return common_spec.Activation[ACTIVATIONS[name]]


def numbers(tensor: Tensor) -> Numbers:
    """A tensor in single precision, in memory of its own."""
    return tensor.detach().float().cpu().contiguous().numpy()


def fill_linear(spec: Any, layer: nn.Linear) -> None:
    """A linear layer, with its bias if it has one."""
    _fill(spec, layer.weight, layer.bias)


def fill_norm(spec: Any, norm: nn.Module) -> None:
    """A norm; one that adds nothing adds zeros there."""
    weight, bias = norm.weight, getattr(norm, "bias", None)
    assert isinstance(weight, Tensor)
    spec.gamma = numbers(weight)
    if hasattr(spec, "beta"):
        spec.beta = numbers(torch.zeros_like(weight) if bias is None else bias)


def fill_positions(spec: Any, positions: Sinusoidal | Learned) -> None:
    """The table of what is added to each place."""
    if isinstance(positions, Sinusoidal):
        positions.reserve(N_PLACES)
    table = positions.table
    spec.encodings = numbers(table if isinstance(table, Tensor) else table.weight)


def fill_encoder(specs: Any, stack: EncoderStack, *, grouped: bool = False) -> None:
    """The blocks of a stack that looks at itself; `grouped` if the specification knows of fewer key/value heads."""
    for spec, block in zip(specs, stack.blocks, strict=True):
        assert isinstance(block, EncoderBlock)
        _fill_attention(spec.self_attention, block.attention, grouped=grouped)
        fill_norm(spec.self_attention.layer_norm, block.around_attention.norm)
        _fill_feedforward(spec.ffn, block)


def fill_decoder(specs: Any, stack: DecoderStack) -> None:
    """The blocks of a stack that looks at itself and at a source."""
    for spec, block in zip(specs, stack.blocks, strict=True):
        assert isinstance(block, DecoderBlock)
        _fill_attention(spec.self_attention, block.attention)
        fill_norm(spec.self_attention.layer_norm, block.around_attention.norm)
        _fill_attention(spec.attention, block.cross)
        fill_norm(spec.attention.layer_norm, block.around_cross.norm)
        _fill_feedforward(spec.ffn, block)


def _fill_attention(spec: Any, heads: MultiHeadAttention, *, grouped: bool = False) -> None:
    d_keys = heads.n_kv_heads * heads.d_head

    def spread(rows: Tensor | None) -> Tensor | None:
        """Keys and values, the last rows, once for each head that asks them."""
        if rows is None or grouped:
            return rows
        queries, *others = rows.split((len(rows) - 2 * d_keys, d_keys, d_keys))
        each = [part.unflatten(0, (heads.n_kv_heads, heads.d_head)) for part in others]
        wide = [part.repeat_interleave(heads.n_heads // heads.n_kv_heads, 0).flatten(0, 1) for part in each]
        return torch.cat((queries, *wide))

    if heads.tap.kind == "cross":
        fill_linear(spec.linear[0], heads.query)
        projection, place = heads.key_value, spec.linear[1]
    else:
        projection, place = heads.query_key_value, spec.linear[0]
    weight = spread(projection.weight)
    assert weight is not None
    _fill(place, weight, spread(projection.bias))
    fill_linear(spec.linear[-1], heads.out)


def _fill_feedforward(spec: Any, block: EncoderBlock | DecoderBlock) -> None:
    part: Any = block.feedforward
    fill_norm(spec.layer_norm, block.around_feedforward.norm)
    if isinstance(part, GatedFeedForward):
        biases = (None, None) if part.gate_inner.bias is None else part.gate_inner.bias.chunk(2)
        gates = zip((spec.linear_0, spec.linear_0_noact), part.gate_inner.weight.chunk(2), biases, strict=True)
        for place, weight, bias in gates:
            _fill(place, weight, bias)
    else:
        fill_linear(spec.linear_0, part.inner)
    fill_linear(spec.linear_1, part.outer)


def _fill(spec: Any, weight: Tensor, bias: Tensor | None) -> None:
    spec.weight = numbers(weight)
    if bias is not None:
        spec.bias = numbers(bias)
