"""The weight files of a foreign folder: safetensors, whole or in shards, or PyTorch's own format.

PyTorch's format is a pickle, which could run code. Only its tensors are read; a file with anything else in it is
refused before any of it is run.
"""

from __future__ import annotations

import json
import pickle
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, is_zipfile

import torch
from torch import Tensor

from regard.checkpoints.foreign.pickle_layout import check_pickles
from regard.checkpoints.weights import read_tensors
from regard.config import bounded
from regard.errors import CheckpointError

_BROKEN = (OSError, RuntimeError, EOFError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError,
           BadZipFile, struct.error, AssertionError)  # fmt: skip
_MOST_IDS, _GAPS = 1 << 31, 1000  # ids that are believed, and how many for each piece
_NAMES = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json")


def read_folder_weights(folder: Path) -> tuple[dict[str, Tensor], Path]:
    """The tensors of a folder in their own names, and the file that they, or the list of them, stood in."""
    for name in _NAMES:
        path = folder / name
        if path.exists():
            read = read_tensors if ".safetensors" in name else read_pickled
            return (_read_shards(path, read) if name.endswith(".json") else read(path)), path
    raise CheckpointError(f"{folder}: there are no weights in it; looked for {', '.join(_NAMES)}")


def read_json(path: Path) -> dict[str, Any]:
    """A JSON file that holds an object."""
    try:
        held = bounded.read_json(path)
    except FileNotFoundError as problem:
        raise CheckpointError(f"{path}: there is no such file") from problem
    except (OSError, ValueError) as problem:
        raise CheckpointError(f"{path}: not a JSON file ({problem})") from problem
    if not isinstance(held, dict):
        raise CheckpointError(f"{path}: a JSON object was expected, not {type(held).__name__}")
    return held


def read_ids(path: Path) -> dict[str, int]:
    """A vocab.json: pieces and their ids, each id once."""
    held = read_json(path)
    wrong = next((piece for piece, index in held.items() if type(index) is not int or not 0 <= index < _MOST_IDS), None)
    if wrong is not None:
        raise CheckpointError(
            f"{path}: the id of {wrong!r:.60} is {held[wrong]!r:.60}, and a whole number was expected"
        )
    if len(set(held.values())) < len(held):
        raise CheckpointError(f"{path}: two pieces have the same id")
    if not held or max(held.values()) > _GAPS * len(held):
        raise CheckpointError(f"{path}: holds {len(held):,} pieces, and their ids are not 0, 1, 2, …")
    return held


def write_json(path: Path, facts: Mapping[str, Any]) -> None:
    """Write an object as others' files have it."""
    path.write_text(json.dumps(facts, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def load_pickled(path: Path) -> Any:
    """What `torch.save` wrote, if it is tensors and plain values; nothing in it is run."""
    return _loaded(path, mmap=False)


def map_pickled(path: Path) -> Any:
    """The same, its tensors left on the disk; read in where the file has an old layout, which cannot be mapped."""
    return _loaded(path, mmap=True)


def _loaded(path: Path, *, mmap: bool) -> Any:
    try:
        check_pickles(path)
        return torch.load(path, map_location="cpu", weights_only=True, mmap=mmap and is_zipfile(path))
    except pickle.UnpicklingError as problem:
        raise CheckpointError(
            f"{path}: holds more than tensors, and was not opened ({_first_line(problem)})",
            hint="a pickle can run code; ask for the weights as safetensors",
        ) from problem
    except _BROKEN as problem:
        raise CheckpointError(
            f"{path}: not a whole PyTorch file ({_first_line(problem)})",
            hint="it may have been cut short while being copied",
        ) from problem


def read_pickled(path: Path) -> dict[str, Tensor]:
    """The tensors of a file that `torch.save` wrote."""
    return as_tensors(load_pickled(path), path)


def as_tensors(held: Any, path: Path) -> dict[str, Tensor]:
    """What a file held, if that is tensors by name, each with all its numbers."""
    if not isinstance(held, Mapping) or not all(isinstance(tensor, Tensor) for tensor in held.values()):
        raise CheckpointError(f"{path}: tensors by name were expected, and it holds something else")
    for name, tensor in held.items():
        if tensor.numel() * tensor.element_size() > tensor.untyped_storage().nbytes():
            raise CheckpointError(f"{path}: {name} has the shape {list(tensor.shape)}, and fewer numbers are stored")
    return {str(name): tensor for name, tensor in held.items()}


def _read_shards(index: Path, read: Callable[[Path], dict[str, Tensor]]) -> dict[str, Tensor]:
    places = read_json(index).get("weight_map")
    if not isinstance(places, dict) or not places:
        raise CheckpointError(f"{index}: weight_map is missing, which says where each weight stands")
    tensors: dict[str, Tensor] = {}
    for name in sorted({str(shard) for shard in places.values()}):
        if Path(name).name != name:
            raise CheckpointError(f"{index}: the shard {name!r} is not a file beside it")
        tensors |= read(index.parent / name)
    return tensors


def _first_line(problem: Exception) -> str:
    return str(problem).strip().split("\n")[0][:200]
