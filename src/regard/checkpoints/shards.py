"""What a process holds of a tensor that is shared out over several: a block of its rows.

    local_part(parameter)                the numbers that are here, to be read or changed in place
    piece_like(mean, parameter)          numbers that belong to them, as a piece that a checkpoint can keep
    part_like(stored, parameter)         of a stored tensor, what belongs to them
    placed_like(part, parameter)         those again as a tensor that is shared out

A parameter that is not shared out is whole everywhere, and all of this leaves it as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeGuard

import torch
from torch import Tensor, nn

from regard.checkpoints.sharded import Piece, StoredTensor
from regard.checkpoints.weights import check_fit, weights_of

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor


def is_shared_out(tensor: Tensor) -> TypeGuard[DTensor]:
    """Whether processes hold parts of this tensor; asked without importing what makes such tensors."""
    return hasattr(tensor, "to_local")


def local_part(tensor: Tensor) -> Tensor:
    """What this process holds of it, in place."""
    return tensor.to_local() if is_shared_out(tensor) else tensor


def first_row(tensor: Tensor) -> int:
    """Which of its rows is the first that this process holds."""
    return _block(tensor)[0][0] if is_shared_out(tensor) else 0


def gather(tensor: Tensor) -> Tensor:
    """The whole of it, in every process; all have to ask."""
    return tensor.full_tensor() if is_shared_out(tensor) else tensor


def piece_like(part: Tensor, parameter: Tensor) -> Tensor | Piece:
    """Numbers that belong to what this process holds of a parameter."""
    return Piece(part, parameter.shape, _block(parameter)[0]) if is_shared_out(parameter) else part


def as_stored(tensor: Tensor) -> Tensor | Piece:
    """A tensor as this process can write it."""
    return piece_like(local_part(tensor), tensor)


def part_like(stored: Tensor | StoredTensor, parameter: Tensor) -> Tensor:
    """Of a stored tensor, what belongs to what this process holds of a parameter."""
    if not is_shared_out(parameter):
        return whole(stored)
    offsets, sizes = _block(parameter)
    if isinstance(stored, StoredTensor):
        return stored.read(offsets, sizes)
    return stored[tuple(slice(a, a + n) for a, n in zip(offsets, sizes, strict=True))]


def whole(stored: Tensor | StoredTensor) -> Tensor:
    """All of a stored tensor."""
    return stored.read() if isinstance(stored, StoredTensor) else stored


def placed_like(part: Tensor, parameter: Tensor) -> Tensor:
    """What this process holds as a tensor that is shared out as the parameter is."""
    if not is_shared_out(parameter):
        return part
    from torch.distributed.tensor import DTensor

    mesh, placements, shape = parameter.device_mesh, parameter.placements, parameter.shape
    return DTensor.from_local(part, mesh, placements, run_check=False, shape=shape, stride=parameter.stride())


def load_parts(model: nn.Module, stored: Mapping[str, Tensor | StoredTensor], *, origin: str) -> None:
    """Copy into a model what this process holds of its weights."""
    own = weights_of(model)
    check_fit(stored, own, origin=origin)
    with torch.no_grad():
        for name, tensor in own.items():
            local_part(tensor).copy_(part_like(stored[name], tensor))


def _block(parameter: DTensor) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Where in the whole the block of this process begins, and its shape."""
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

    sizes, offsets = compute_local_shape_and_global_offset(parameter.shape, parameter.device_mesh, parameter.placements)
    return tuple(offsets), tuple(sizes)
