"""What a run was begun with: the size, time and hash of every data file, kept in data.json, so that a change is seen.

    now = read_record(recipe, context.data_root, before=before)     the files as they are
    changes(before, now)                                            ["train.tsv: 1,204 → 1,310 bytes", …]

Files are called as the recipe calls them, those of a folder by their place in it, those of a pattern by themselves;
images and recordings that a table names are among them. A file of the same size and time is believed to be the same; of
any other all bytes count, which are read a part at a time.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from regard.checkpoints.run import RunFolder
from regard.config.recipe import Recipe
from regard.data.io.globs import expand
from regard.data.io.hashes import NAME as HASHES
from regard.data.io.hashes import hash_of
from regard.data.io.lines import STDIN
from regard.data.io.paths import find_data
from regard.errors import DataError, RegardError
from regard.tasks.registry import resolve, task_spec

NAME = "data.json"
_PLACES = ("images", "digits")  # settings of [data] that name a file or a folder, besides the sets


class FileFacts(NamedTuple):
    """A data file as it was: bytes, time of the last change in nanoseconds, and hash."""

    bytes: int
    time: int
    sha256: str


Record = dict[str, FileFacts]


def read_kept(run: RunFolder) -> Record | None:
    """What data.json says; None where an older version began the run, or it was not yet begun."""
    try:
        said = json.loads((run.path / NAME).read_text(encoding="utf-8"))
        return {name: FileFacts(*facts) for name, facts in said.items()}
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, AttributeError) as problem:
        raise DataError(
            f"{run.path / NAME}: cannot be read ({problem!r})", hint="go on without it: --no-check"
        ) from None


def keep_record(run: RunFolder, record: Mapping[str, FileFacts]) -> None:
    """Write data.json."""
    run.write_text(NAME, json.dumps(record, indent=1, ensure_ascii=False) + "\n")


def forget_record(run: RunFolder) -> None:
    """Leave no trace of a run that was refused before it was begun."""
    for name in (NAME, HASHES):
        (run.path / name).unlink(missing_ok=True)


def read_record(recipe: Recipe, root: Path | None, *, before: Mapping[str, FileFacts]) -> Record:
    """The files as they are now; what has the size and the time that it had `before` is not read again."""
    return {name: _facts(path, before.get(name)) for name, path in _named(recipe, root)}


def changes(before: Mapping[str, FileFacts], now: Mapping[str, FileFacts]) -> list[str]:
    """What is another file now, what is new, and what is gone, a line each."""
    both = [name for name in before if name in now]
    other = [name for name in both if before[name][::2] != now[name][::2]]
    lines = [f"{name}: {_sizes(before[name].bytes, now[name].bytes)}" for name in other]
    lines += [f"{name}: was not there" for name in now if name not in before]
    return lines + [f"{name}: is no longer there" for name in before if name not in now]


def _sizes(before: int, now: int) -> str:
    return f"{before:,} → {now:,} bytes" if before != now else f"its {now:,} bytes are others"


def _facts(path: Path, before: FileFacts | None) -> FileFacts:
    try:
        about = path.stat()
        if before is not None and (about.st_size, about.st_mtime_ns) == (before.bytes, before.time):
            return before
        return FileFacts(about.st_size, about.st_mtime_ns, hash_of(path).sha256)
    except OSError as problem:
        raise DataError(f"{path}: cannot be read ({problem.strerror or problem})") from problem


def _named(recipe: Recipe, root: Path | None) -> Iterator[tuple[str, Path]]:
    """Every file by the name that the recipe gives it; standard input is the run's own.

    What cannot be found or read is left to whoever reads it as data to say.
    """
    names = list(dict.fromkeys(_names(recipe)))
    for name in names:
        with suppress(DataError):
            for one in expand(name, root) if name != STDIN else ():
                yield from _inside(one, Path(find_data(one, root)))
    inputs = task_spec(recipe.task).inputs
    with suppress(RegardError):
        for path in resolve(inputs)(recipe.data, root) if inputs and STDIN not in names else ():
            if Path(path).is_file():
                yield str(path), Path(path)


def _names(recipe: Recipe) -> Iterator[str]:
    data: Any = recipe.data
    yield from getattr(data, "train", ())
    yield from getattr(data, "valid", ())
    for files in dict(getattr(data, "test", {})).values():
        yield from files
    places: Iterable[Any] = [getattr(data, name, None) for name in _PLACES]
    for place in (*places, getattr(recipe.tokenizer, "file", None)):
        if place is not None:
            yield str(place)


def _inside(name: str, path: Path) -> Iterator[tuple[str, Path]]:
    """A file, or those of a folder; hidden ones are left alone, as everywhere."""
    if not path.is_dir():
        if path.is_file():
            yield name, path
        return
    for inner in sorted(path.rglob("*")):
        place = inner.relative_to(path)
        if inner.is_file() and not any(part.startswith(".") for part in place.parts):
            yield f"{name.rstrip('/')}/{place.as_posix()}", inner
