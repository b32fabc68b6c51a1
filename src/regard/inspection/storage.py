"""Records in files: JSON for people and other programs, .npz for large ones. Nothing is unpickled.

Both hold the same description (axes, maps, outputs); arrays are `{"shape", "dtype", "data"}` in JSON, where data is a
nested list of numbers or base64 of little-endian bytes, and arrays of their own in .npz, where the description says
which. Single precision comes back to the last bit, half precision as half precision has it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from regard.config.bounded import parse_json, read_text
from regard.data.io.arrays import DAMAGED, open_arrays
from regard.errors import DataError, UsageError
from regard.inspection.record import About, Axis, Computed, Look, Map, Outputs
from regard.inspection.words import Words

FORMAT = "regard attention 1"
_DTYPES = ("float16", "float32")
Kept = TypeVar("Kept", bound=Look)
Array = NDArray[np.float32]
Put = Callable[[str, Array], Any]
Get = Callable[[Any], Array]


def to_json(look: Look, *, compact: bool) -> str:
    """The record as one JSON object."""
    return json.dumps(_describe(look, _as_base64 if compact else _as_numbers), ensure_ascii=False)


def from_json(kind: type[Kept], text: str) -> Kept:
    """What `to_json` wrote."""
    try:
        return _restore(kind, parse_json(text), _from_json)
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
        raise DataError(f"not a record as to_json writes it: {type(error).__name__} {error}") from error


def save(look: Look, path: Path | str, *, half: bool) -> Path:
    """Write .json or .npz, whichever the name says."""
    path = Path(path)
    if path.suffix.lower() not in (".json", ".npz"):
        raise UsageError(f"{path}: not a record's name; allowed are .json, .npz")
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix.lower() == ".json":
        path.write_text(to_json(look, compact=half) + "\n", encoding="utf-8")
        return path
    arrays: dict[str, NDArray[Any]] = {}

    def put(name: str, array: Array) -> str:
        arrays[name] = array.astype(np.float16 if half else np.float32)
        return name

    record = json.dumps(_describe(look, put), ensure_ascii=False)
    np.savez_compressed(path, record=np.frombuffer(record.encode(), np.uint8), **arrays)  # type: ignore[arg-type]
    return path


def load(kind: type[Kept], path: Path | str) -> Kept:
    """What `save` wrote."""
    path = Path(path)
    if not path.is_file():
        raise DataError(f"{path}: there is no such file", hint="give what Look.save wrote")
    if path.suffix.lower() != ".npz":
        try:
            return from_json(kind, read_text(path))
        except (DataError, OSError, ValueError) as error:
            raise DataError(f"{path}: {error}") from error
    try:
        with open_arrays(path) as arrays:
            record = parse_json(arrays["record"].tobytes())
            return _restore(kind, record, lambda name: arrays[name].astype(np.float32))
    except DAMAGED as error:
        raise DataError(f"{path}: not a record as Look.save writes it: {type(error).__name__} {error}") from error


def _describe(look: Look, put: Put) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "title": look.title,
        "about": None if look.about is None else asdict(look.about),
        "axes": {name: asdict(axis) for name, axis in look.axes.items()},
        "maps": {kind: _describe_map(attention, put) for kind, attention in look.maps.items()},
        "outputs": None if look.outputs is None else asdict(look.outputs),
    }


def _describe_map(attention: Map, put: Put) -> dict[str, Any]:
    facts = {name: getattr(attention, name) for name in ("rows", "columns", "layers", "heads")}
    facts["weights"] = put(f"{attention.kind}.weights", attention.weights)
    if (made := attention.computed) is not None:
        facts["computed"] = {
            "form": made.form,
            "scale": made.scale,
            "queries": put(f"{attention.kind}.queries", made.queries),
            "keys": put(f"{attention.kind}.keys", made.keys),
            "vector": None if made.vector is None else put(f"{attention.kind}.vector", made.vector),
        }
    return facts


def _restore(kind: type[Kept], record: Mapping[str, Any], get: Get) -> Kept:
    if record.get("format") != FORMAT:
        raise ValueError(f"its format is {record.get('format')!r}, and {FORMAT!r} is known")
    axes = {
        name: Axis(axis["labels"], axis["kind"], None if axis["words"] is None else Words(**axis["words"]))
        for name, axis in record["axes"].items()
    }
    maps = {name: _restore_map(name, facts, get) for name, facts in record["maps"].items()}
    about = None if record.get("about") is None else About(**record["about"])
    return kind(axes, maps, _restore_outputs(record["outputs"]), record["title"], about=about)


def _restore_map(kind: Any, facts: Mapping[str, Any], get: Get) -> Map:
    computed = None
    if (made := facts.get("computed")) is not None:
        vector = None if made["vector"] is None else get(made["vector"])
        computed = Computed(made["form"], made["scale"], get(made["queries"]), get(made["keys"]), vector)
    layers, heads = tuple(facts["layers"]), tuple(facts["heads"])
    return Map(kind, facts["rows"], facts["columns"], get(facts["weights"]), layers, heads, computed)


def _restore_outputs(facts: Mapping[str, Any] | None) -> Outputs | None:
    if facts is None:
        return None
    given = [None if one is None else (str(one[0]), float(one[1])) for one in facts["given"]]
    return Outputs(facts["axis"], facts["says"], facts["tokens"], facts["probabilities"], given)


def _as_numbers(_: str, array: Array) -> dict[str, Any]:
    """Numbers in the fewest digits that bring the same bits back."""
    shortest = array.astype(np.float32).ravel().astype("U").astype(np.float64)
    return {"shape": array.shape, "dtype": "float32", "data": shortest.reshape(array.shape).tolist()}


def _as_base64(_: str, array: Array) -> dict[str, Any]:
    raw = array.astype("<f2").tobytes()
    return {"shape": array.shape, "dtype": "float16", "data": base64.b64encode(raw).decode()}


def _from_json(facts: Mapping[str, Any]) -> Array:
    data, dtype = facts["data"], facts["dtype"]
    if dtype not in _DTYPES:
        raise ValueError(f"numbers of {dtype!r}; known are {', '.join(_DTYPES)}")
    if isinstance(data, str):
        flat = np.frombuffer(base64.b64decode(data, validate=True), np.dtype(dtype).newbyteorder("<"))
        return flat.astype(np.float32).reshape(facts["shape"])
    return np.array(data, dtype=np.float32).reshape(facts["shape"])
