"""A record as bytes for another process: dataclasses, arrays and plain values, and nothing is pickled.

    write(file, look)            a length, a description in JSON, then the numbers of each array as they lie in memory
    look = read(file)            the same; None where the file has ended

The description of a value is the value where JSON has it, and otherwise an object of one key that says what it is:
{"array": [shape, dtype]}, {"tuple": […]}, {"dict": {…}}, {"object": [class, {…}]}.
"""

from __future__ import annotations

import importlib
import json
import math
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

_LENGTH = 8  # bytes of a length
_KINDS = "biuf"  # numbers and truth values: no array of objects is ever read


def n_bytes(value: Any) -> int:
    """How many bytes the arrays of a value have."""
    return sum(array.nbytes for array in _arrays(value))


def write(file: BinaryIO, value: Any) -> None:
    """Write a value; arrays are not copied."""
    header = json.dumps(_described(value)).encode()
    file.write(len(header).to_bytes(_LENGTH, "little") + header)
    for array in _arrays(value):
        if array.size:
            file.write(np.ascontiguousarray(array).data.cast("B"))
    file.flush()


def read(file: BinaryIO) -> Any:
    """The next value; None where there is none any more."""
    length = file.read(_LENGTH)
    if len(length) < _LENGTH:
        return None
    return _restored(json.loads(_exactly(file, int.from_bytes(length, "little"))), file)


def _arrays(value: Any) -> Iterator[NDArray[Any]]:
    """The arrays of a value, in the order of their descriptions."""
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from _arrays(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _arrays(one)
    elif is_dataclass(value):
        for field in fields(value):
            yield from _arrays(getattr(value, field.name))


def _described(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return {"array": [list(value.shape), value.dtype.str]}
    if isinstance(value, list):
        return [_described(one) for one in value]
    if isinstance(value, tuple):
        return {"tuple": [_described(one) for one in value]}
    if isinstance(value, dict):
        return {"dict": {str(name): _described(one) for name, one in value.items()}}
    if is_dataclass(value):
        kind = type(value)
        held = {field.name: _described(getattr(value, field.name)) for field in fields(value)}
        return {"object": [f"{kind.__module__}:{kind.__qualname__}", held]}
    raise TypeError(f"a {type(value).__name__} cannot be sent to another process")


def _restored(told: Any, file: BinaryIO) -> Any:
    if isinstance(told, list):
        return [_restored(one, file) for one in told]
    if not isinstance(told, dict):
        return told
    ((what, held),) = told.items()
    if what == "array":
        return _array(file, tuple(held[0]), np.dtype(held[1]))
    if what == "tuple":
        return tuple(_restored(one, file) for one in held)
    if what == "dict":
        return {name: _restored(one, file) for name, one in held.items()}
    kind = _class(held[0])
    return kind(**{name: _restored(one, file) for name, one in held[1].items()})


def _array(file: BinaryIO, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    if dtype.kind not in _KINDS:
        raise TypeError(f"an array of {dtype} is not read")
    return np.frombuffer(_exactly(file, math.prod(shape) * dtype.itemsize), dtype).reshape(shape)


def _class(name: str) -> Any:
    module, _, path = name.partition(":")
    kind = getattr(importlib.import_module(module), path)
    if not is_dataclass(kind):
        raise TypeError(f"{name} is no dataclass")
    return kind


def _exactly(file: BinaryIO, n: int) -> bytes:
    data = file.read(n)
    if len(data) < n:
        raise EOFError("the other process has ended")
    return data
