"""Many files by one name: `parts/*.txt.gz`, with `*`, `?`, `[…]`, and `**` for folders at any depth.

    expand("parts/*.txt", root)         ["parts/a.txt", "parts/b.txt"], in the order of their names
    expand_all(["a.txt", "*.txt"], …)   every file once, where it is named first

A pattern is looked for here first, then under the data root, as names are; what exists under the name itself is meant
itself, brackets or not. Hidden files have to be named.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from glob import glob, has_magic
from pathlib import Path

from regard.data.io.lines import STDIN, open_bytes
from regard.errors import DataError


def is_pattern(name: str, root: Path | None = None) -> bool:
    """Whether a name stands for those that match it: it has `*`, `?` or `[…]`, and nothing is called so."""
    return name != STDIN and has_magic(name) and not any((place / name).exists() for place in _places(root))


def expand(name: str, root: Path | None = None) -> list[str]:
    """The names that a pattern matches, sorted; a name without one is itself, whether it is there or not."""
    if not is_pattern(name, root):
        return [name]
    for place in _places(root):
        if found := glob(name, root_dir=place, recursive=True):
            return sorted(found, key=lambda match: Path(match).parts)
    where = "here" if root is None else f"here or under {root}"
    raise DataError(f"{name}: no file matches this pattern {where}", hint=_hint(name, root))


def expand_all(names: Iterable[str], root: Path | None = None) -> list[str]:
    """The same for several; a file that is named more than once comes once."""
    found: dict[str, str] = {}
    for name in names:
        for match in expand(name, root):
            found.setdefault(os.path.normpath(match), match)
    return list(found.values())


def holds_something(path: Path | str) -> bool:
    """Whether a file has a byte to read, unpacked; a folder counts as it is."""
    if str(path) == STDIN or Path(path).is_dir():
        return True
    with open_bytes(path) as stream:
        return bool(stream.read(1))


def _places(root: Path | None) -> list[Path]:
    return [Path(), *([] if root is None else [root])]


def _hint(name: str, root: Path | None) -> str:
    """What the last folder without a pattern holds; or that there is none."""
    parts = Path(name).parts
    plain = Path(*parts[: next(i for i, part in enumerate(parts) if has_magic(part))])
    folder = next((place / plain for place in _places(root) if (place / plain).is_dir()), None)
    if folder is None:
        return f"there is no folder {plain}; set REGARD_DATA or --data-root to the folder that holds the data"
    held = sorted(entry.name for entry in folder.iterdir() if not entry.name.startswith("."))
    shown = ", ".join(held[:8]) + (", …" if len(held) > 8 else "")
    place = "this folder" if folder == Path() else str(folder)
    return f"{place} holds: {shown}" if held else f"{place} is empty"
