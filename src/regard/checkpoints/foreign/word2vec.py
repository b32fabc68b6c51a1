"""Word vectors in the formats of word2vec and GloVe.

text      a line `V D`, then a line for each word: the word and D numbers, parted by spaces; GloVe leaves the first out
binary    the same first line, then for each word its bytes, a space, and D single-precision numbers

Both begin with the most frequent word. Words are UTF-8 and hold no whitespace.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.data.io.lines import display_name, open_bytes, read_all, read_line
from regard.errors import DataError, UsageError


class NamedVectors(NamedTuple):
    """Words, and a vector (D,) for each: (V, D)."""

    words: tuple[str, ...]
    vectors: Tensor


def write_word2vec(path: Path | str, named: NamedVectors, *, binary: bool = False) -> None:
    """Write vectors whole or not at all: as text with what single precision needs to come back, or binary."""
    words, vectors = named.words, named.vectors.detach().float().cpu().numpy()
    if len(words) != len(vectors):
        raise UsageError(f"{len(words)} words and {len(vectors)} vectors; each word has one")
    strange = next((word for word in words if not word or any(char.isspace() for char in word)), None)
    if strange is not None:
        raise UsageError(f"the word {strange!r} cannot be written: word2vec's formats part words by spaces")
    path = Path(path)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    path.parent.mkdir(parents=True, exist_ok=True)
    with draft.open("wb") as file:
        file.write(f"{len(words)} {vectors.shape[1]}\n".encode())
        for word, row in zip(words, vectors, strict=True):
            numbers = row.astype("<f4").tobytes() if binary else " ".join(f"{value:.9g}" for value in row).encode()
            file.write(word.encode() + b" " + numbers + b"\n")
    os.replace(draft, path)


def holds_vectors(path: Path | str) -> bool:
    """Whether a file begins as one of word vectors does: with two numbers, or with a word and some numbers."""
    if not Path(path).is_file():
        return False
    with open_bytes(path) as file:
        first = file.readline(1 << 16)
    return _header(first) is not None or bool(_numbers(first, len(first.rstrip().split(b" ")) - 1))


def read_word2vec(path: Path | str) -> NamedVectors:
    """Read vectors of either format, also gzipped; which one it is can be seen from the file."""
    with open_bytes(path) as file:
        first = read_line(file, path)
        if not first.strip():
            raise DataError(f"{display_name(path)}: is empty, word vectors were expected")
        header = _header(first)
        if header is None:
            return _read_text(path, first, file, n=None)
        n, d = header
        rest = read_line(file, path)
        if _numbers(rest, d) is not None or not n:
            return _read_text(path, rest, file, n=n)
        return _read_binary(path, rest + read_all(file, path, grows=3.0), n, d)


def _header(line: bytes) -> tuple[int, int] | None:
    parts = line.split()
    if len(parts) != 2 or not all(part.isdigit() for part in parts):
        return None
    return int(parts[0]), int(parts[1])


def _numbers(line: bytes, d: int) -> list[float] | None:
    """The numbers of a line of text, if it is one."""
    parts = line.rstrip().split(b" ")
    try:
        return [float(part) for part in parts[1:]] if len(parts) == d + 1 else None
    except ValueError:
        return None


def _read_text(path: Path | str, first: bytes, file: BinaryIO, *, n: int | None) -> NamedVectors:
    words: list[str] = []
    rows: list[NDArray[np.float32]] = []
    d = len(first.rstrip().split(b" ")) - 1
    begin = 1 if n is None else 2
    line = first
    while line.strip():
        numbers = _numbers(line, d)
        if not numbers:
            where = f"{display_name(path)}:{begin + len(words)}"
            raise DataError(f"{where}: not a word and {max(d, 1)} numbers: {line[:50]!r}")
        words.append(_text(line.rstrip().split(b" ")[0], path))
        rows.append(np.array(numbers, np.float32))
        line = read_line(file, path)
    if n is not None and len(words) != n:
        raise DataError(f"{display_name(path)}: holds {len(words):,} vectors, and says that there are {n:,}")
    return _named(path, words, np.stack(rows) if rows else np.zeros((0, max(d, 1)), np.float32))


def _read_binary(path: Path | str, content: bytes, n: int, d: int) -> NamedVectors:
    most = min(n, len(content) // (4 * d + 1))  # a vector and the space before it; the header may promise anything
    words, rows, at = [], np.empty((most, d if most else 0), np.float32), 0
    for i in range(n):
        space = content.find(b" ", at)
        end = space + 1 + 4 * d
        if i >= most or space < 0 or end > len(content):
            raise DataError(
                f"{display_name(path)}: ends after {i:,} of {n:,} vectors", hint="the file may be cut short"
            )
        words.append(_text(content[at:space].lstrip(b"\n"), path))
        rows[i] = np.frombuffer(content[space + 1 : end], "<f4")
        at = end
    return _named(path, words, rows)


def _text(word: bytes, path: Path | str) -> str:
    try:
        return word.decode()
    except UnicodeDecodeError:
        raise DataError(f"{display_name(path)}: a word is not UTF-8: {word[:40]!r}") from None


def _named(path: Path | str, words: Sequence[str], rows: NDArray[np.float32]) -> NamedVectors:
    if len(set(words)) < len(words):
        twice = next(word for word, count in Counter(words).items() if count > 1)
        raise DataError(f"{display_name(path)}: the word {twice!r} occurs twice")
    if not np.isfinite(rows).all():
        raise DataError(f"{display_name(path)}: holds values that are no numbers")
    return NamedVectors(tuple(words), torch.from_numpy(rows))
