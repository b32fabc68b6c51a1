"""What weights are without reading them: names and shapes from a file's header, parameters from a model's options.

stored_weights(path)                   names → shape and type, of a safetensors file
count_of("gpt", {"size": "gpt2", …})   how many parameters a model has, built without memory for its weights
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from torch import nn
from torch.overrides import TorchFunctionMode

from regard.config.bounded import regular_size
from regard.errors import CheckpointError, ConfigError, RegardError
from regard.models.flops import count_parameters
from regard.models.registry import build


class Stored(NamedTuple):
    """A tensor as a file keeps it."""

    shape: tuple[int, ...]
    dtype: str

    @property
    def size(self) -> int:
        """How many numbers it has."""
        return math.prod(self.shape)


def stored_weights(path: Path) -> dict[str, Stored]:
    """The tensors of a safetensors file by name; a file cut short is an error."""
    try:
        regular_size(path)
        with safe_open(path, "pt") as file:
            slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118 - it is no mapping
            return {name: Stored(tuple(one.get_shape()), one.get_dtype()) for name, one in slices.items()}
    except FileNotFoundError as problem:
        raise CheckpointError(f"{path}: there is no such file") from problem
    except (OSError, SafetensorError) as problem:
        raise CheckpointError(
            f"{path}: not a whole safetensors file ({problem})", hint="it may have been cut short while being copied"
        ) from problem


def count_of(model: str, options: Mapping[str, Any]) -> int:
    """How many parameters a registered model has; shared ones count once."""
    return count_parameters(outline(model, options))


class _Unfilled(TorchFunctionMode):
    """Leaves out whatever would fill a tensor in place: without memory there is nothing to fill.

    For the meta device torch would import its compiler to draw first weights, which takes seconds.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if name.endswith("_") and not name.endswith("__") and args and getattr(args[0], "is_meta", False):
            return args[0]
        return func(*args, **(kwargs or {}))


def outline(model: str, options: Mapping[str, Any]) -> nn.Module:
    """A registered model without memory for its weights; options that make none are an error."""
    try:
        with torch.device("meta"), _Unfilled():
            return build(model, options)
    except RegardError:
        raise
    except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as problem:
        raise ConfigError(f"its options make no {model}: {problem}") from problem
