"""Whether a GGUF file is as long as its own counts say: walked once, before the `gguf` package believes them.

    magic "GGUF" · version u32 · tensors u64 · entries u64
    entry      name · type u32 · value                  a text is its length u64 and its bytes
    tensor     name · dimensions u32 · that many sizes u64 · type u32 · offset u64
    data       from the next multiple of `general.alignment` on

A list says how many values it has; where those cannot be in what is left of the file, it is refused.
"""

from __future__ import annotations

import math
import mmap
import struct
from collections.abc import Mapping
from pathlib import Path

from regard.config.bounded import open_regular, require

_TEXT, _LIST = 8, 9
_WIDTHS: Mapping[int, int] = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_MOST_DIMENSIONS = 8
_DEEPEST = 4


def check_layout(path: Path) -> None:
    """Refuse a file whose counts and lengths do not fit it; what is wrong is a ValueError."""
    with open_regular(path) as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        _Walk(data, path).all()


class _Walk:
    """A place in the file, which moves on."""

    def __init__(self, data: mmap.mmap, path: Path) -> None:
        self.data, self.path, self.at, self.order = data, path, 0, "<"
        self.alignment = 32

    def all(self) -> None:
        if self.data[:4] != b"GGUF":
            raise ValueError("it does not begin as one does")
        self.at = 4
        if not self.number(4) & 0xFFFF:  # written on a machine of the other byte order
            self.order = ">"
        n_tensors, n_entries = self.number(8), self.number(8)
        self.fits(n_tensors * 32, f"{n_tensors:,} tensors")
        self.fits(n_entries * 13, f"{n_entries:,} entries")
        for _ in range(n_entries):
            name = self.text()
            kind, at = self.number(4), self.at
            self.value(kind)
            if name == b"general.alignment" and kind == 4:
                self.alignment = self.at_place(at)
        if self.alignment < 1 or self.alignment % 8:
            raise ValueError(f"its tensors are said to begin at multiples of {self.alignment}")
        self.tensors(n_tensors)

    def tensors(self, n: int) -> None:
        from gguf import GGML_QUANT_SIZES

        sizes = {int(kind): size for kind, size in GGML_QUANT_SIZES.items()}
        ends, numbers = [], 0
        for _ in range(n):
            name = self.text().decode("utf-8")
            n_dimensions = self.number(4)
            if n_dimensions > _MOST_DIMENSIONS:
                raise ValueError(f"the tensor {name[:60]!r} has {n_dimensions} dimensions")
            count = math.prod(self.number(8) for _ in range(n_dimensions))
            kind, offset = self.number(4), self.number(8)
            if kind not in sizes:
                raise ValueError(f"the tensor {name[:60]!r} has the type {kind}, which is not known")
            block, width = sizes[kind]
            ends.append((name, offset + -(-count // block) * width))
            numbers += count
        begin = -(-self.at // self.alignment) * self.alignment
        for name, end in ends:
            if begin + end > len(self.data):
                raise ValueError(f"the tensor {name[:60]!r} ends behind the file")
        require(4.0 * numbers, f"{self.path}: its weights")

    def value(self, kind: int, *, depth: int = 0) -> None:
        if kind == _TEXT:
            self.text()
        elif kind == _LIST and depth < _DEEPEST:
            inner, n = self.number(4), self.number(8)
            self.fits(n * _WIDTHS.get(inner, 8), f"a list of {n:,} values")
            if inner in _WIDTHS:
                self.at += n * _WIDTHS[inner]
                return
            for _ in range(n):
                self.value(inner, depth=depth + 1)
        elif kind in _WIDTHS:
            self.fits(_WIDTHS[kind], "a value")
            self.at += _WIDTHS[kind]
        else:
            raise ValueError(f"a value has the type {kind}, which is not known")

    def text(self) -> bytes:
        size = self.number(8)
        self.fits(size, f"a text of {size:,} bytes")
        self.at += size
        return self.data[self.at - size : self.at]

    def number(self, width: int) -> int:
        self.fits(width, "a number")
        self.at += width
        return self.at_place(self.at - width, width)

    def at_place(self, at: int, width: int = 4) -> int:
        found: int = struct.unpack_from(self.order + ("I" if width == 4 else "Q"), self.data, at)[0]
        return found

    def fits(self, size: int, what: str) -> None:
        if size > len(self.data) - self.at:
            raise ValueError(f"{what} cannot be in the {len(self.data) - self.at:,} bytes that are left of it")
