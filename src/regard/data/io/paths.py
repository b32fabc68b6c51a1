"""Where a recipe's files are: names are looked for here first, then under the data root; standard input is kept."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from regard.data.io.lines import STDIN
from regard.errors import DataError


def find_data(name: str, root: Path | None) -> str:
    """The path of a file or a folder that a recipe names; standard input is what it is."""
    if name == STDIN or Path(name).exists() or Path(name).is_absolute():
        return name
    if root is not None and (root / name).exists():
        return str(root / name)
    places = "here" if root is None else f"here or under {root}"
    raise DataError(
        f"{name}: there is no such file {places}",
        hint="set REGARD_DATA or --data-root to the folder that holds the data",
    )


def keep_stdin(path: Path) -> Path:
    """What came through standard input, kept: training reads it more than once, and again when it goes on."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".draft-{path.name}")
        with draft.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        draft.replace(path)
    return path
