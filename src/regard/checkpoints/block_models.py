"""Models whose matrices stay in blocks: an outline, without memory, whose parts are replaced one by one."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from regard.attention import Rotary
from regard.checkpoints.weights import misfits, weights_of
from regard.errors import CheckpointError
from regard.layers.block_weights import BlockEmbedding, BlockLinear, BlockMatrix
from regard.layers.embeddings import Embedding


def block_model(
    outline: nn.Module, tensors: Mapping[str, Tensor], blocks: Mapping[str, BlockMatrix], *, origin: str
) -> nn.Module:
    """The outline of a model, filled: with matrices in blocks, and with plain tensors for all the rest."""
    given = {**tensors, **{name: torch.empty(matrix.shape, device="meta") for name, matrix in blocks.items()}}
    problems = misfits(given, {name: tensor.shape for name, tensor in weights_of(outline).items()})
    if problems:
        raise CheckpointError(f"{origin}: {len(problems)} weights do not fit the model:\n  " + "\n  ".join(problems))
    for name, matrix in blocks.items():
        _put_blocks(outline, name.removesuffix(".weight"), matrix, tensors)
    for name, tensor in tensors.items():
        parent, _, last = name.rpartition(".")
        setattr(outline.get_submodule(parent), last, nn.Parameter(tensor, requires_grad=False))
    for part in outline.modules():
        if isinstance(part, Rotary):
            part.reset()
    return outline


def _put_blocks(model: nn.Module, name: str, matrix: BlockMatrix, tensors: Mapping[str, Tensor]) -> None:
    parent, _, last = name.rpartition(".")
    layer = model.get_submodule(name)
    if isinstance(layer, Embedding):
        new: nn.Module = BlockEmbedding(matrix, scale=layer.scale, pad_id=layer.pad_id)
    else:
        new = BlockLinear(matrix, tensors.get(f"{name}.bias"))
    setattr(model.get_submodule(parent), last, new)
