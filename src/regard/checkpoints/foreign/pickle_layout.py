"""Whether a file of `torch.save` is as large as its own numbers say, found out without unpickling any of it.

A new file is a zip archive: how much its members are unpacked is listed. An old one is some pickles, then numbers. In
both, how many numbers a tensor has stands in a pickle as a whole number, and none of those can be larger than the file;
PyTorch would make room for it first.
"""

from __future__ import annotations

import pickletools
import zipfile
from pathlib import Path
from typing import IO

from regard.config.bounded import open_regular, regular_size, require

_MAGIC = 0x1950A86A20F9469CFC6C  # what an old file begins with
_SMALL = 1 << 16  # a count that does no harm: versions and sizes of types are among them
_PICKLES = 5  # of an old file: magic, version, machine, objects, keys
_MOST_STEPS = 20_000_000


def check_pickles(path: Path) -> None:
    """Refuse a file whose counts do not fit it; what is wrong is a ValueError."""
    size = regular_size(path)
    with open_regular(path) as file:
        if not zipfile.is_zipfile(file):
            require(2.0 * size, f"{path}: its weights")
            file.seek(0)
            for _ in range(_PICKLES):
                if file.tell() < size:
                    _check(file, size)
            return
        with zipfile.ZipFile(file) as held:
            entries = held.infolist()
            unpacked = sum(entry.file_size for entry in entries)
            require(2.0 * unpacked, f"{path}: its weights")
            for entry in entries:
                if entry.filename.endswith("data.pkl"):
                    with held.open(entry) as pickled:
                        _check(pickled, max(size, unpacked))


def _check(file: IO[bytes], size: int) -> None:
    """Go through one pickle, step by step, without running it."""
    for number, (_, argument, _) in enumerate(pickletools.genops(file)):
        if number > _MOST_STEPS:
            raise ValueError("its pickle does not end")
        if type(argument) is int and abs(argument) > max(size, _SMALL) and argument != _MAGIC:
            raise ValueError(f"a count in it is {argument:,}, and the file has {size:,} bytes")
