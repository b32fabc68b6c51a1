"""Folders that the `datasets` package saved: Arrow files of one table, or a folder with one of those for each part.

is_saved(path)                    data-00000-of-00002.arrow, …, dataset_info.json, state.json
saved_part(path, "valid")         …/validation of a folder with dataset_dict.json; other paths as they are
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from regard.config.bounded import regular_size, require
from regard.errors import DataError, EnvironmentProblem

_PARTS = {"train": ("train",), "valid": ("validation", "valid", "dev", "val"), "test": ("test",)}


def is_saved(path: Path | str) -> bool:
    """Whether this is the folder of one saved table."""
    return bool(arrow_files(path))


def arrow_files(path: Path | str) -> list[Path]:
    """The Arrow files of a saved table, in their order."""
    return sorted(Path(path).glob("*.arrow")) if Path(path).is_dir() else []


def saved_part(path: Path | str, part: str) -> str | None:
    """The folder of a part inside a saved folder of several; None if it has no such part, or is none."""
    inside = [Path(path) / name for name in _PARTS.get(part, (part,))]
    return next((str(folder) for folder in inside if is_saved(folder)), None)


def arrow_batches(path: Path | str) -> Iterator[Any]:
    """The record batches of a saved table; the first has its schema."""
    try:
        import pyarrow
    except ImportError:
        raise EnvironmentProblem(f"{path}: reading Arrow needs pyarrow", hint='pip install "regard[parquet]"') from None
    for file in arrow_files(path):
        try:
            require(4.0 * regular_size(file), f"{file}: reading it")
            with pyarrow.OSFile(str(file)) as raw, pyarrow.ipc.open_stream(raw) as batches:
                for batch in batches:
                    batch.validate(full=True)  # it is mapped as it lies there: lengths and texts may be anything
                    yield batch
        except (pyarrow.ArrowException, OSError, ValueError) as error:
            raise DataError(f"{file}: cannot be read as Arrow ({str(error).splitlines()[0]})") from error
