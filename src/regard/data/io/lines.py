"""Bytes to lines: the one place that opens text files.

A line ends at "\\n" and nowhere else (U+2028 and friends are ordinary characters); a "\\r" before it and a byte-order
mark at the start of the file are taken off. Gzip is recognised by its first two bytes, whatever the file is called,
and "-" is standard input. Files are streamed: memory holds a block and a line. Bytes become text in `encoding.py`.
"""

import hashlib
import io
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

from regard.config.bounded import open_regular, require
from regard.errors import DataError

STDIN = "-"
GZIP_MAGIC = b"\x1f\x8b"
BOM = b"\xef\xbb\xbf"
Say = Callable[[str], None]
LONGEST_LINE = 1 << 26  # characters
_BLOCK = 1 << 24
_SHOWN = 5  # problems of many


def display_name(path: Path | str) -> str:
    """What messages call this input: its path, or `<stdin>`."""
    return "<stdin>" if str(path) == STDIN else str(path)


@contextmanager
def open_bytes(path: Path | str) -> Iterator[BinaryIO]:
    """Open a file, or standard input for "-", for reading bytes; gzip is undone."""
    raw = _open_raw(path)
    try:
        buffered = io.BufferedReader(raw)
        if buffered.peek(2)[:2] == GZIP_MAGIC:
            from regard.data.io.gzipped import Unpacked

            yield io.BufferedReader(Unpacked(buffered))
        else:
            yield buffered
        buffered.detach()  # otherwise dropping the wrapper would close standard input
    except (EOFError, zlib.error) as error:
        message = f"{display_name(path)}: damaged gzip data ({error})"
        raise DataError(message, hint="the file may be cut short; fetch it again") from error
    finally:
        if str(path) != STDIN:
            raw.close()


def read_all(stream: BinaryIO, path: Path | str, *, grows: float = 1.0) -> bytes:
    """All bytes of a stream, as long as `grows` times as much memory is allowed: gzip does not say its size."""
    blocks, size = [], 0
    while block := stream.read(_BLOCK):
        blocks.append(block)
        size += len(block)
        require(size * grows, f"{display_name(path)}: reading it")
    return blocks[0] if len(blocks) == 1 else b"".join(blocks)


def read_line(stream: BinaryIO, path: Path | str) -> bytes:
    """The next line of a stream, if it is no longer than a line may be."""
    line = stream.readline(LONGEST_LINE + 1)
    if len(line) > LONGEST_LINE:
        raise long_line(display_name(path))
    return line


def long_line(where: str) -> DataError:
    """The error for a line that nobody wrote."""
    message = f"{where}: a line is longer than {LONGEST_LINE:,} characters"
    return DataError(message, hint="break it into lines; is it a text at all?")


def _open_raw(path: Path | str) -> Any:  # a raw file or a buffered one: it only needs readinto
    if str(path) == STDIN:
        return sys.stdin.buffer
    try:
        return open_regular(path, buffered=False, streams=True)
    except FileNotFoundError:
        raise DataError(f"{path}: no such file", hint=_nearby(Path(path))) from None
    except IsADirectoryError:
        raise DataError(f"{path}: is a directory, a file was expected", hint="name one file inside it") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from error


def _nearby(path: Path) -> str:
    """A hint for a missing file: what its folder holds."""
    if not path.parent.is_dir():
        return f"the folder {path.parent} does not exist either"
    names = sorted(entry.name for entry in path.parent.iterdir() if entry.is_file())
    if not names:
        return f"{path.parent} holds no files"
    return f"{path.parent} holds: {', '.join(names[:8])}{', …' if len(names) > 8 else ''}"


def stream_lines(path: Path | str, *, ends: bool = False, say: Say = lambda _: None) -> Iterator[str]:
    """Every line of a file without its ending, or with "\\n" for one if `ends`; an empty file gives none.

    The encoding is told from the bytes (`encoding.py`); at the end it is said, where it is not UTF-8.
    """
    from regard.data.io.encoding import open_text  # which is built on this file

    with open_text(path) as text:
        yield from text.lines(ends=ends)
        if text.note:
            say(text.note)


def read_lines(path: Path | str) -> Iterator[str]:
    """Every line of a one-sided text file, streamed; an empty file is an error."""
    empty = True
    for line in stream_lines(path):
        empty = False
        yield line
    if empty:
        raise empty_file(path)


def empty_file(path: Path | str) -> DataError:
    """The error for an input that holds nothing at all."""
    return DataError(f"{display_name(path)}: is empty", hint="at least one line is needed")


def listed(problems: Sequence[str]) -> str:
    """The first few problems, a line each, and how many more there are."""
    rest = f"\n  … and {len(problems) - _SHOWN:,} more" if len(problems) > _SHOWN else ""
    return "\n  ".join(problems[:_SHOWN]) + rest


def hash_file(path: Path | str) -> str:
    """A SHA-256 over the bytes of a file; of a saved folder, over those of its tables."""
    if str(path) == STDIN:
        raise DataError("standard input has no fingerprint: it can be read only once", hint="save it to a file first")
    from regard.data.io.saved import arrow_files

    if inside := arrow_files(path):
        return hashlib.sha256("".join(map(hash_file, inside)).encode()).hexdigest()
    try:
        about = Path(path).stat()
        return _hash_bytes(str(path), about.st_ino, about.st_size, about.st_mtime_ns)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from error


@lru_cache(maxsize=4096)
def _hash_bytes(path: str, *_state: int) -> str:
    """The hash of a file in a state; several ask for the same one, and a large one takes its time."""
    with open_regular(path, streams=True) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()  # type: ignore[arg-type]
