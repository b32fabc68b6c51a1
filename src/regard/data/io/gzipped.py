"""Gzip undone block by block, however many parts a file has, and however much stands behind the last.

Some programs fill files up with zeros, and these are passed over; but not without end, as the standard library would,
a byte at a time.
"""

from __future__ import annotations

import io
import zlib
from typing import Any, BinaryIO

_BLOCK = 1 << 17
_MOST_ZEROS = 1 << 20  # bytes that may fill a file up
_GZIP = 16 + zlib.MAX_WBITS


class Unpacked(io.RawIOBase):
    """The bytes that a gzip stream stands for; what is damaged is an EOFError or a zlib.error."""

    def __init__(self, packed: BinaryIO) -> None:
        self._packed, self._rest = packed, b""
        self._unpacker: Any = zlib.decompressobj(_GZIP)

    def readable(self) -> bool:
        """It is there to be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer with what comes next; 0 at the end."""
        while True:
            if self._unpacker.eof and not self._next_part():
                return 0
            given: bytes = self._unpacker.unconsumed_tail or self._read()
            content = self._unpacker.decompress(given, len(buffer))
            if content:
                buffer[: len(content)] = content
                return len(content)
            if not given and not self._unpacker.eof:
                raise EOFError("Compressed file ended before the end-of-stream marker was reached")

    def _next_part(self) -> bool:
        """Begin the part after this one, if there is one."""
        rest: bytes = self._unpacker.unused_data.lstrip(b"\0")
        zeros = len(self._unpacker.unused_data) - len(rest)
        while not rest:
            given = self._packed.read(_BLOCK)
            if not given:
                return False
            rest = given.lstrip(b"\0")
            zeros += len(given) - len(rest)
            if zeros > _MOST_ZEROS:
                raise zlib.error(f"more than {_MOST_ZEROS:,} zeros stand behind it")
        self._unpacker = zlib.decompressobj(_GZIP)
        self._rest = rest
        return True

    def _read(self) -> bytes:
        """More packed bytes: first those that were read too far."""
        rest, self._rest = self._rest, b""
        return rest or self._packed.read(_BLOCK)
