"""Tensors in pieces: each process writes what it holds, and whoever opens them takes what it needs.

    optimizer-00001-of-00004.safetensors     the pieces of one process, each under its tensor's name
    optimizer.index.json                     of every tensor: its whole shape, and which file has which piece of it

A piece is a block of rows: it says where it begins in the whole tensor. Opened, a table of tensors is the same whether
it was written whole or in any number of pieces: `StoredTensor.read` puts together what is asked for, and reads no more.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from regard.checkpoints.headers import stored_weights
from regard.checkpoints.weights import write_tensors
from regard.config.bounded import read_json
from regard.data.io.atomic import write_synced
from regard.data.io.hashes import Damaged, FileHash, hash_of
from regard.errors import CheckpointError


class Piece(NamedTuple):
    """A block of a tensor: its numbers, the shape of the whole, and where in it the block begins."""

    tensor: Tensor
    shape: torch.Size
    offsets: tuple[int, ...]


class Written(NamedTuple):
    """A piece in a file."""

    file: str
    shape: tuple[int, ...]  # of the whole tensor
    offsets: tuple[int, ...]
    sizes: tuple[int, ...]


State = Mapping[str, "Tensor | Piece"]


def index_name(table: str) -> str:
    """The file that says where the pieces of a table of tensors are."""
    return f"{table}.index.json"


def write_pieces(folder: Path, table: str, pieces: State, *, part: int, parts: int) -> tuple[FileHash, dict[str, Any]]:
    """Write one process's pieces of a table; the file's hash, and what the index is to say of them."""
    path = folder / f"{table}-{part + 1:05d}-of-{parts:05d}.safetensors"
    blocks = {name: as_piece(piece) for name, piece in pieces.items()}
    hashed = write_tensors(path, {name: block.tensor for name, block in blocks.items()})
    return hashed, {
        name: Written(path.name, tuple(block.shape), block.offsets, tuple(block.tensor.shape))
        for name, block in blocks.items()
    }


def write_index(folder: Path, table: str, written: Iterable[Mapping[str, Written]]) -> FileHash:
    """Write the index of a table from what each process wrote of it."""
    tensors: dict[str, dict[str, Any]] = {}
    for part in written:
        for name, piece in part.items():
            entry = tensors.setdefault(name, {"shape": piece.shape, "pieces": []})
            entry["pieces"].append({"file": piece.file, "offsets": piece.offsets, "shape": piece.sizes})
    path = folder / index_name(table)
    write_synced(path, (json.dumps({"tensors": tensors}) + "\n").encode())
    return hash_of(path)


def as_piece(tensor: Tensor | Piece) -> Piece:
    """The tensor as the one piece of itself."""
    return tensor if isinstance(tensor, Piece) else Piece(tensor, tensor.shape, (0,) * tensor.ndim)


class StoredTensor:
    """A tensor on disk, in one piece or several."""

    def __init__(self, name: str, shape: Sequence[int], pieces: Sequence[Written], files: _Files) -> None:
        self.name, self.shape = name, torch.Size(shape)
        self._pieces, self._files = pieces, files

    @property
    def nbytes(self) -> int:
        """What it takes in memory."""
        return self.shape.numel() * self._files.dtype(self._pieces[0], self.name).itemsize

    def read(self, offsets: Sequence[int] | None = None, sizes: Sequence[int] | None = None) -> Tensor:
        """A block of the tensor, or the whole."""
        begin = tuple(offsets) if offsets is not None else (0,) * len(self.shape)
        wanted = tuple(sizes) if sizes is not None else tuple(self.shape)
        made: Tensor | None = None
        for piece in self._pieces:
            low = [max(a, b) for a, b in zip(begin, piece.offsets, strict=True)]
            ends = zip(begin, wanted, piece.offsets, piece.sizes, strict=True)
            high = [min(a + n, b + m) for a, n, b, m in ends]
            part = self._files.read(piece, self.name, low, high) if all(map(int.__lt__, low, high)) else None
            if made is None:
                made = torch.empty(wanted, dtype=self._files.dtype(piece, self.name))
            if part is not None:
                made[tuple(slice(a - b, c - b) for a, b, c in zip(low, begin, high, strict=True))] = part
        assert made is not None
        return made


class _Files:
    """The files of a folder that pieces are read from, each opened once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @cached_property
    def _open(self) -> dict[str, Any]:
        return {}

    def _file(self, name: str) -> Any:
        path = self.folder / name
        try:
            if name not in self._open:
                self._open[name] = safe_open(path, "pt")
            return self._open[name]
        except (OSError, SafetensorError) as problem:
            raise Damaged(f"{path}: not a whole safetensors file ({problem})") from problem

    def dtype(self, piece: Written, name: str) -> torch.dtype:
        """The type of a tensor's numbers."""
        return self.read(piece, name, piece.offsets, piece.offsets).dtype

    def read(self, piece: Written, name: str, low: Sequence[int], high: Sequence[int]) -> Tensor:
        """The part of a piece between two corners of the whole tensor."""
        if not low:
            return self._file(piece.file).get_tensor(name)  # type: ignore[no-any-return]
        block = tuple(slice(a - b, c - b) for a, b, c in zip(low, piece.offsets, high, strict=True))
        return self._file(piece.file).get_slice(name)[block]  # type: ignore[no-any-return]


def open_tensors(folder: Path, table: str) -> dict[str, StoredTensor]:
    """A table of tensors by name, written whole or in pieces; what it says of itself is compared with its files."""
    files = _Files(folder)
    if not (folder / index_name(table)).exists():
        name = f"{table}.safetensors"
        stored = stored_weights(folder / name)
        zero = {key: Written(name, one.shape, (0,) * len(one.shape), one.shape) for key, one in stored.items()}
        return {key: StoredTensor(key, piece.shape, [piece], files) for key, piece in zero.items()}
    return _indexed(folder, folder / index_name(table), files)


def _indexed(folder: Path, path: Path, files: _Files) -> dict[str, StoredTensor]:
    try:
        tensors = read_json(path)["tensors"]
        pieces = {
            name: [
                Written(Path(p["file"]).name, tuple(entry["shape"]), tuple(p["offsets"]), tuple(p["shape"]))
                for p in entry["pieces"]
            ]
            for name, entry in tensors.items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as problem:
        raise Damaged(f"{path}: not an index of tensors ({problem!r})") from problem
    headers = {name: _header(folder / name) for name in {p.file for several in pieces.values() for p in several}}
    for name, several in pieces.items():
        if wrong := _problem(name, several, headers):
            raise Damaged(f"{path}: {name}: {wrong}")
    return {name: StoredTensor(name, several[0].shape, several, files) for name, several in pieces.items()}


def _problem(name: str, pieces: Sequence[Written], headers: Mapping[str, Mapping[str, Any]]) -> str | None:
    """What keeps pieces from making up a tensor: they cover it without a gap, row block by row block."""
    if not pieces:
        return "it has no pieces"
    covered = 0
    for piece in sorted(pieces, key=lambda piece: piece.offsets[:1]):
        stored = headers[piece.file].get(name)
        if stored is None or tuple(stored.shape) != piece.sizes:
            return f"{piece.file} does not have the piece that is named"
        if any(piece.offsets[1:]) or piece.sizes[1:] != piece.shape[1:] or len(piece.sizes) != len(piece.shape):
            return "its pieces are not blocks of rows"
        if piece.sizes and piece.sizes[0] and piece.offsets[0] != covered:
            return f"its rows from {min(covered, piece.offsets[0])} on are missing or there twice"
        covered += piece.sizes[0] if piece.sizes else 0
    if pieces[0].shape and covered != pieces[0].shape[0]:
        return f"{covered} of its {pieces[0].shape[0]} rows are there"
    return None


def _header(path: Path) -> Mapping[str, Any]:
    try:
        return stored_weights(path)
    except CheckpointError as problem:
        raise Damaged(str(problem), hint=problem.hint) from problem
