"""Arrays in `.npz` files, each read only once its size is known to fit what the file holds of it.

    with open_arrays(path) as arrays:
        arrays.names, arrays["images"]

NumPy makes room for the shape that an array's header claims before it reads; here the claim is compared with the bytes
that are there, and with the memory that may be used. Nothing is unpickled.
"""

from __future__ import annotations

import math
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.config.bounded import open_regular, require

DAMAGED = (OSError, ValueError, LookupError, TypeError, EOFError, zipfile.BadZipFile, zlib.error, SyntaxError,
           tokenize.TokenError, OverflowError, NotImplementedError, AttributeError, RecursionError,
           RuntimeError)  # fmt: skip
_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


class Arrays:
    """The arrays of an open file, by name."""

    def __init__(self, held: zipfile.ZipFile, path: Path | str) -> None:
        self._held, self._path = held, path
        self._entries = {name.removesuffix(".npy"): name for name in held.namelist()}

    @property
    def names(self) -> list[str]:
        """What the arrays are called."""
        return list(self._entries)

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        entry = self._held.getinfo(self._entries[name])
        with self._held.open(entry) as file:
            shape, fortran, dtype = _claim(file, name)
            count = math.prod(shape)
            if file.tell() + count * dtype.itemsize != entry.file_size:
                raise ValueError(f"{name} says it has the shape {list(shape)}, and its bytes are not as many")
            require(2.0 * count * dtype.itemsize, f"{self._path}: {name}")
            flat = np.frombuffer(file.read(count * dtype.itemsize), dtype)
        array = flat.reshape(shape[::-1]).transpose() if fortran else flat.reshape(shape)
        return array.copy()


@contextmanager
def open_arrays(path: Path | str) -> Iterator[Arrays]:
    """The arrays of a file; what is wrong with it is one of `DAMAGED`."""
    with open_regular(path) as file, zipfile.ZipFile(file) as held:
        yield Arrays(held, path)


def _claim(file: Any, name: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, order and type that the header of an array claims."""
    version = np.lib.format.read_magic(file)
    if version not in _HEADERS:
        raise ValueError(f"{name} has version {version} of NumPy's format")
    shape, fortran, dtype = _HEADERS[version](file)
    if dtype.hasobject or not dtype.itemsize or any(size < 0 for size in shape):
        raise ValueError(f"{name} holds {dtype} of the shape {list(shape)}, which is not read")
    return shape, fortran, dtype
