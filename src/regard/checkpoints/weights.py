"""Weights to and from safetensors files. Shared tensors are stored once, and everything that does not fit is listed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from regard.checkpoints.headers import stored_weights
from regard.config.bounded import regular_size, require
from regard.data.io.hashes import Damaged, FileHash, hash_synced
from regard.errors import CheckpointError, EnvironmentProblem


class Shaped(Protocol):
    """A tensor, or something that stands for one."""

    @property
    def shape(self) -> torch.Size:
        """Its sizes."""


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """Parameters and lasting buffers by name, each shared one under its first name."""
    lasting = model.state_dict()
    buffers = {name: tensor for name, tensor in model.named_buffers() if name in lasting}
    return dict(model.named_parameters()) | buffers


def load_weights(model: nn.Module, tensors: Mapping[str, Tensor], *, origin: str) -> None:
    """Copy tensors into the model; all that is missing, unknown or misshapen is said in one message."""
    own = weights_of(model)
    check_fit(tensors, own, origin=origin)
    with torch.no_grad():
        for name, tensor in own.items():
            tensor.copy_(tensors[name])


def check_fit(tensors: Mapping[str, Shaped], own: Mapping[str, Tensor], *, origin: str) -> None:
    """Refuse tensors that are not a model's own; all that is missing, unknown or misshapen is said in one message."""
    problems = misfits(tensors, {name: tensor.shape for name, tensor in own.items()}, whose="the model has")
    if problems:
        raise CheckpointError(
            f"{origin}: {len(problems)} weights do not fit the model:\n  " + "\n  ".join(problems),
            hint="the weights were made by another architecture or another version",
        )


def misfits(tensors: Mapping[str, Shaped], shapes: Mapping[str, torch.Size], *, whose: str = "expected") -> list[str]:
    """Which tensors are missing, unknown or misshapen."""
    problems = [f"{name}: missing" for name in shapes if name not in tensors]
    problems += [f"{name}: unknown" for name in tensors if name not in shapes]
    there = {name: shape for name, shape in shapes.items() if name in tensors and tensors[name].shape != shape}
    return problems + [f"{name}: {list(tensors[name].shape)}, {whose} {list(shape)}" for name, shape in there.items()]


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> FileHash:
    """Write a safetensors file and wait until the disk has it; its hash is taken meanwhile."""
    held = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    try:
        save_file(held, path)
        return hash_synced(path)
    except (OSError, SafetensorError) as problem:
        raise EnvironmentProblem(
            f"{path}: cannot be written ({problem})", hint="free some disk space; what was saved before is untouched"
        ) from problem


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read a safetensors file; anything else, or a file cut short, is an error with its name."""
    try:
        stored_weights(path)
        require(regular_size(path), f"{path}: its weights")
        return load_file(path)
    except FileNotFoundError as problem:
        raise CheckpointError(f"{path}: there is no such file") from problem
    except (OSError, SafetensorError) as problem:
        raise Damaged(
            f"{path}: not a whole safetensors file ({problem})", hint="it may have been cut short while being copied"
        ) from problem
