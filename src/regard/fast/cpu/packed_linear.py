"""Linear layers as a processor likes them, for inference: weights packed once, in single, bf16 or int8 precision.

    packed = pack_linears(model, "int8")        a copy of the model; the original stays as it was

A decoding step multiplies a few rows by every weight of the model, so it takes as long as reading the weights. Packed
weights are read in one sweep, bf16 halves and int8 quarters what there is to read.

    int8    y = s · max|x| · (W / s)₈ (x / max|x|)₈ + b

Weights are rounded with a scale s for each output, and inputs row by row with the scale of their largest number, so
that no row feels its neighbours.

Where there are kernels of our own (`native`) they do the work; otherwise PyTorch's do, a little less quickly.

Layers whose weights are in blocks keep them, whatever the precision, and round their inputs block by block.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from functools import partial
from typing import Any, Literal, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.config.processor import check_bf16
from regard.errors import UsageError
from regard.fast.cpu.large_pages import move_together
from regard.fast.cpu.native import Kernels, Native, NativeBlocks, NativeLinear, loaded
from regard.layers.block_weights import BlockEmbedding, BlockLinear, BlockMatrix
from regard.layers.embeddings import Embedding
from regard.layers.feedforward import FeedForward, activation_of

Precision = Literal["fp32", "bf16", "int8"]
Activation = Literal["none", "relu", "gelu", "gelu_tanh"]
Model = TypeVar("Model", bound=nn.Module)

# What a packed layer does by itself to what it makes: as PyTorch's product is told, and as a function.
_FUSED: tuple[Literal["relu", "gelu", "gelu_tanh"], ...] = ("relu", "gelu", "gelu_tanh")
_POINTWISE: dict[Activation, tuple[str, list[float], str]] = {
    "none": ("none", [], ""),
    "relu": ("relu", [], ""),
    "gelu": ("gelu", [], "none"),
    "gelu_tanh": ("gelu", [], "tanh"),
}

_ROWS = 16  # for how many rows the packing is made; others work as well
_TINY = torch.finfo(torch.float32).tiny


def _as_it_is(hidden: Tensor) -> Tensor:
    return hidden


_APPLIED: dict[Activation, Callable[[Tensor], Tensor]] = {
    "none": _as_it_is,
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
}


class PackedLinear(nn.Module):
    """A linear layer with its weight packed, and an activation where asked for; it holds the plain weight too.

    `positive` promises inputs of 0 or more, which int8 can then round twice as finely. Without `native` kernels, or
    where there are none, PyTorch's multiply. It learns nothing.
    """

    native: Native | None
    precision: str

    def __init__(
        self,
        weight: Tensor,
        bias: Tensor | None,
        *,
        precision: Precision,
        activation: Activation = "none",
        positive: bool = False,
        native: bool = True,
    ) -> None:
        super().__init__()
        self.weight, self.bias = weight, bias
        self.precision: str = precision
        self.activation: Activation = activation
        self.positive = positive
        self.native = None
        if native:
            self.native = _native(weight, bias, precision=precision, activation=activation, positive=positive)
        if self.native is None and precision == "bf16":
            check_bf16(weight.device)
        if self.native is None:
            self._pack(weight, bias)

    def _pack(self, weight: Tensor, bias: Tensor | None) -> None:
        precision = self.precision
        self._dtype = torch.bfloat16 if precision == "bf16" else torch.float32
        self._bias = None if bias is None else bias.detach().to(self._dtype)
        self._packed: Any = _int8(weight) if precision == "int8" else _packed(weight, self._dtype)
        self._multiply = _product_of(self.positive)
        # What is activated goes straight to the next packed layer, in the precision of both.
        self._output = weight.dtype if self.activation == "none" else self._dtype

    def forward(self, hidden: Tensor) -> Tensor:
        """(..., Din) → (..., Dout)."""
        if self.native is not None:
            return self.native(hidden).to(self.weight.dtype)
        if self.precision == "int8":
            return self._in_int8(hidden)
        output: Tensor = torch.ops.mkldnn._linear_pointwise(
            hidden.to(self._dtype).contiguous(), self._packed, self._bias, *_POINTWISE[self.activation]
        )
        return output.to(self._output)

    def _in_int8(self, hidden: Tensor) -> Tensor:
        largest = (hidden if self.positive else hidden.abs()).amax(-1, True).clamp_(_TINY)
        output = self._multiply(hidden / largest, self._packed)
        if self._bias is None:
            output.mul_(largest)
        else:
            torch.addcmul(self._bias, output, largest, out=output)
        return _APPLIED[self.activation](output)


class PackedBlocks(PackedLinear):
    """A linear layer with its weight in blocks, for our native kernels. It learns nothing."""

    def __init__(self, layer: BlockLinear | BlockEmbedding, kernels: Kernels) -> None:
        nn.Module.__init__(self)
        self.blocks, self.bias = layer.weight, getattr(layer, "bias", None)
        self.precision, self.positive = layer.weight.form.name, False
        self.activation = "none"
        self.native = NativeBlocks(kernels, layer.weight, bias=self.bias)

    def forward(self, hidden: Tensor) -> Tensor:
        """(..., Din) → (..., Dout)."""
        assert self.native is not None
        return self.native(hidden)


class PackedBlockEmbedding(BlockEmbedding):
    """An embedding in blocks, for our native kernels."""

    def __init__(self, embedding: BlockEmbedding, kernels: Kernels) -> None:
        super().__init__(embedding.weight, scale=embedding.scale, pad_id=embedding.pad_id)
        self.output = PackedBlocks(embedding, kernels)
        self.native = NativeBlocks(kernels, embedding.weight)

    def forward(self, ids: Tensor) -> Tensor:
        """Ids (..., T) → vectors (..., T, D)."""
        vectors = self.native.rows(ids)
        return vectors if self.scale == 1.0 else vectors * self.scale

    def unembed(self, hidden: Tensor) -> Tensor:
        """Hidden states (..., D) → scores over ids (..., V), by the same matrix."""
        scores: Tensor = self.output(hidden)
        return scores


class PackedEmbedding(Embedding):
    """An embedding whose product with hidden states is a packed one; it looks ids up as before."""

    def __init__(self, embedding: Embedding, output: PackedLinear) -> None:
        nn.Module.__init__(self)
        self.weight, self.scale, self.pad_id = embedding.weight, embedding.scale, embedding.pad_id
        self.output = output

    def unembed(self, hidden: Tensor) -> Tensor:
        """Hidden states (..., D) → scores over ids (..., V), by the same matrix."""
        scores: Tensor = self.output(hidden)
        return scores


def pack_linears(model: Model, precision: Precision = "fp32", *, native: bool = True) -> Model:
    """A copy of a model on the CPU whose linear layers and tied outputs are packed, for our `native` kernels if it can.

    The kernels are compiled when first asked for, which takes some seconds once on a machine.
    """
    if precision not in ("fp32", "bf16", "int8"):
        raise UsageError(f"precision is {precision!r}; allowed are 'fp32', 'bf16' and 'int8'")
    copy = deepcopy(model).eval()
    if not (torch.backends.mkldnn.is_available() or (native and _kernels_for(precision))):
        return copy
    pack = partial(PackedLinear, precision=precision, native=native)
    kernels = loaded() if native else None
    if kernels is not None:  # before layers note where they are
        move_together([part for part in copy.modules() if isinstance(part, BlockMatrix)])
    embeddings: dict[Embedding, Embedding] = {}  # one may have several names
    for parent in list(copy.modules()):
        if isinstance(parent, FeedForward) and isinstance(parent.inner, nn.Linear):
            _pack_activated(parent, pack)
        for name, child in list(parent._modules.items()):
            if isinstance(child, nn.Linear):
                setattr(parent, name, pack(child.weight, child.bias))
            elif isinstance(child, BlockLinear) and kernels is not None:
                setattr(parent, name, PackedBlocks(child, kernels))
            elif type(child) is BlockEmbedding and kernels is not None:
                setattr(parent, name, PackedBlockEmbedding(child, kernels))
            elif type(child) is Embedding:
                if child not in embeddings:
                    embeddings[child] = PackedEmbedding(child, pack(child.weight, None))
                setattr(parent, name, embeddings[child])
    if kernels is not None:
        layers = [part.native for part in copy.modules() if isinstance(part, PackedLinear)]
        move_together([layer for layer in layers if isinstance(layer, NativeLinear)])
    return copy


def _pack_activated(part: FeedForward, pack: Callable[..., PackedLinear]) -> None:
    """The first layer activates what it makes itself, and the second knows whether all it gets is 0 or more."""
    known = next((name for name in _FUSED if part.activation is activation_of(name)), None)
    if known is None:
        return
    part.inner = pack(part.inner.weight, part.inner.bias, activation=known)  # type: ignore[assignment]
    part.outer = pack(part.outer.weight, part.outer.bias, positive=known == "relu")  # type: ignore[assignment]
    part.activation = _as_it_is


def _kernels_for(precision: Precision) -> Kernels | None:
    kernels = loaded()
    return None if kernels is None or (precision == "bf16" and not kernels.has_bfloat) else kernels


def _native(
    weight: Tensor, bias: Tensor | None, *, precision: Precision, activation: Activation, positive: bool
) -> NativeLinear | None:
    """The layer for kernels of our own, where there are some for this precision."""
    kernels = _kernels_for(precision)
    if kernels is None or weight.device.type != "cpu":
        return None
    if precision == "int8":
        rounded, scales = _rounded(weight)
        return NativeLinear(
            kernels, rounded.int_repr(), bias=bias, scales=scales, activation=activation, positive=positive
        )
    cast = weight.detach().to(torch.bfloat16 if precision == "bf16" else torch.float32)
    return NativeLinear(kernels, cast, bias=bias, activation=activation)


def _packed(weight: Tensor, dtype: torch.dtype) -> Tensor:
    packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight.detach().to(dtype).contiguous(), _ROWS)
    return packed


def _product_of(positive: bool) -> Callable[[Tensor, Any], Tensor]:
    """How rows of numbers from −1 to 1, or from 0 to 1, are rounded to 8 bits and multiplied by packed weights.

    Processors without 8-bit dot products add pairs of products in 16 bits, which only 7-bit inputs cannot overflow.
    """
    ops = torch.ops.quantized
    if torch.backends.quantized.engine not in ("x86", "fbgemm"):  # others have one scale for all rows, found anew
        return lambda rows, packed: ops.linear_dynamic(rows, packed, True)
    bits = 8 if torch.cpu._is_vnni_supported() else 7
    step, zero = (1 / (2**bits - 1), 0) if positive else (1 / (2 ** (bits - 1) - 1), 2 ** (bits - 1))
    multiply = ops.linear_with_input_q_dq_qweight_dq_output_fp32
    return lambda rows, packed: multiply(rows, step, zero, packed)


def _int8(weight: Tensor) -> Any:
    return torch.ops.quantized.linear_prepack(_rounded(weight)[0], None)


def _rounded(weight: Tensor) -> tuple[Tensor, Tensor]:
    """The weight in 8 bits, with the scale of each output."""
    from regard.config.process import no_warnings

    weight = weight.detach().float()
    scales = weight.abs().amax(1).clamp(min=_TINY) / 127
    zeros = torch.zeros(len(weight), dtype=torch.int64)
    with no_warnings():  # PyTorch wants this done in another package; its kernels are these
        return torch.quantize_per_channel(weight, scales, zeros, 0, torch.qint8), scales
