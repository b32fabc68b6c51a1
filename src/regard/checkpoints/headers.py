"""What weights are without reading them: names and shapes from a file's header, parameters from a model's options.

stored_weights(path)                   names → shape and type, of a safetensors file
count_of("gpt", {"size": "gpt2", …})   how many parameters a model has, built without memory for its weights
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from regard.config.bounded import open_regular, parse_json, regular_size
from regard.errors import CheckpointError, ConfigError, RegardError
from regard.models.registry import build

_LONGEST = 100_000_000  # bytes of a header, as the format has it
_BITS = {"F64": 64, "F32": 32, "F16": 16, "BF16": 16, "I64": 64, "I32": 32, "I16": 16, "I8": 8, "U64": 64, "U32": 32,
         "U16": 16, "U8": 8, "BOOL": 8, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
         "C64": 64, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6}  # fmt: skip
_ELEMENTWISE = (
    "neg",
    "sin",
    "cos",
    "exp",
    "log",
    "mul",
    "div",
    "sub",
    "add",
    "pow",
    "__rpow__",
    "__rsub__",
    "__rtruediv__",
)


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
        with open_regular(path) as file:
            size, n = regular_size(path), int.from_bytes(file.read(8), "little")
            if not 2 <= n <= min(_LONGEST, size - 8):
                raise ValueError(f"its header would have {n:,} bytes")
            return _stored(parse_json(file.read(n)), size - 8 - n)
    except FileNotFoundError as problem:
        raise CheckpointError(f"{path}: there is no such file") from problem
    except (OSError, ValueError) as problem:
        raise CheckpointError(
            f"{path}: not a whole safetensors file ({problem})", hint="it may have been cut short while being copied"
        ) from problem


def _stored(header: Any, size: int) -> dict[str, Stored]:
    """The tensors that a header describes, if they fill the bytes behind it one after another."""
    if not isinstance(header, dict):
        raise ValueError("its header is no object")
    found: dict[str, Stored] = {}
    ends: dict[int, int] = {}
    for name, facts in header.items():
        if name == "__metadata__":
            continue
        found[name], begin, end = _entry(name, facts)
        if end > begin:
            if begin in ends:
                raise ValueError(f"two tensors begin at the same place, {name[:80]!r} is one of them")
            ends[begin] = end
    place = 0
    while place in ends:
        place = ends.pop(place)
    if ends or place != size:
        raise ValueError(f"its tensors do not fill the {size:,} bytes behind its header")
    return found


def _entry(name: str, facts: Any) -> tuple[Stored, int, int]:
    try:
        shape, (begin, end), bits = tuple(facts["shape"]), facts["data_offsets"], _BITS[facts["dtype"]]
        whole = all(type(one) is int and one >= 0 for one in (*shape, begin, end))
    except (TypeError, LookupError, ValueError):
        whole = False
    if not whole or 8 * (end - begin) != math.prod(shape) * bits:
        raise ValueError(f"what it says of {name[:80]!r} is not a tensor")
    return Stored(shape, facts["dtype"]), begin, end


def count_of(model: str, options: Mapping[str, Any]) -> int:
    """How many parameters a registered model has; shared ones count once."""
    from regard.models.flops import count_parameters

    return count_parameters(outline(model, options))


class _Unfilled(TorchFunctionMode):
    """Leaves out whatever would fill a tensor: without memory there is nothing to fill, and shapes are all that counts.

    For the meta device torch would import its compiler to draw first weights, to count or to take sines, which takes
    seconds; so the few functions that tables are made of are done here. All others are left to torch.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, named = getattr(func, "__name__", ""), kwargs or {}
        filled = args[0] if args else named.get("tensor")  # torch.nn.init names it
        if name.endswith("_") and not name.endswith("__") and getattr(filled, "is_meta", False):
            return filled
        if name == "__setitem__" and getattr(filled, "is_meta", False):
            return None
        if func in (torch.rand, torch.randn):
            return torch.empty(*args, **{key: value for key, value in named.items() if key != "generator"})
        if func is torch.arange and all(isinstance(one, int) for one in args):
            return torch.empty(len(range(*args)), dtype=named.get("dtype", torch.int64), device="meta")
        if func in (torch.stack, torch.cat) and getattr(args[0][0], "is_meta", False):
            dim = args[1] if len(args) > 1 else named.get("dim", 0)
            return _joined(args[0], dim, new=func is torch.stack)
        if name in _ELEMENTWISE and getattr(filled, "is_meta", False):
            return _like([one for one in args if isinstance(one, Tensor)])
        return func(*args, **named)


def _like(tensors: Sequence[Tensor]) -> Tensor:
    """What an operation on each element of these gives."""
    real = next((one.dtype for one in tensors if one.is_floating_point()), torch.get_default_dtype())
    return torch.empty(np.broadcast_shapes(*(tuple(one.shape) for one in tensors)), dtype=real, device="meta")


def _joined(tensors: Sequence[Tensor], dim: int, *, new: bool) -> Tensor:
    """What `torch.cat` gives, or with a new dimension `torch.stack`."""
    first = tensors[0]
    shape = list(first.shape)
    dim %= len(shape) + new
    if new:
        shape.insert(dim, len(tensors))
    else:
        shape[dim] = sum(one.shape[dim] for one in tensors)
    return torch.empty(shape, dtype=first.dtype, device="meta")


def outline(model: str, options: Mapping[str, Any]) -> nn.Module:
    """A registered model without memory for its weights; options that make none are an error."""
    try:
        with torch.device("meta"), _Unfilled():
            return build(model, options)
    except RegardError:
        raise
    except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as problem:
        raise ConfigError(f"its options make no {model}: {problem}") from problem
