"""Which files hold pairs, of those a recipe names: tables by themselves, parallel texts two by two.

pair_files([["all.tsv"]])                               one table
pair_files([["a.en"], ["a.de"]])                        two parallel texts
pair_files([["1.tsv", "2.tsv"]])                        what one pattern matches: tables
pair_files([["1.en", "2.en"], ["1.de", "2.de"]])        what two patterns match: texts, the n-th of both together
pair_files([["1.en"], ["2.en"], ["1.de"], ["2.de"]])    texts as a shell lists them: by their suffixes
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from regard.data.io.tables import is_table
from regard.errors import ConfigError

Sides = tuple[str, str | None]  # a table alone, or source and target


def pair_files(matched: Sequence[Sequence[str]], *, what: str, parallel: bool | None = None) -> list[Sides]:
    """The sources among the files that each name matches; whether they are `parallel` texts is told by their names."""
    files = list(dict.fromkeys(path for several in matched for path in several))
    if not files:
        raise ConfigError(f"data.{what} names 0 files; allowed are tables, or parallel texts", hint=_hint(what))
    tables = [path for path in files if is_table(path)]
    if parallel is None:
        parallel = len(matched) > 1 and not tables
    if not parallel:
        if tables and len(tables) < len(files):
            other = next(path for path in files if path not in tables)
            raise ConfigError(f"data.{what} names tables, and {other}, which is called like none", hint=_hint(what))
        return [(path, None) for path in files]
    sources, targets = matched if len(matched) == 2 else _by_suffix(files, what)
    if len(sources) != len(targets):
        counts = f"{len(sources)} source {_files(sources)} and {len(targets)} target {_files(targets)}"
        raise ConfigError(
            f"data.{what} names {counts}: {_shown(sources)}; {_shown(targets)}",
            hint="the n-th files of both, in the order of their names, must belong together",
        )
    return list(zip(sources, targets, strict=True))


def _by_suffix(files: Sequence[str], what: str) -> tuple[list[str], list[str]]:
    """More than two names: those with the first one's suffix, and the others, if these have one suffix as well."""
    groups: dict[str, list[str]] = {}
    for path in files:
        groups.setdefault(Path(path.removesuffix(".gz")).suffix, []).append(path)
    if len(groups) != 2:
        raise ConfigError(
            f"data.{what} names {len(files)} texts that are not told apart by two suffixes, such as .en and .de",
            hint=_hint(what),
        )
    first, second = groups.values()
    return first, second


def _hint(what: str) -> str:
    option = what if what in ("train", "valid") else None
    given = f"--{option} FILE, --{option} '*.tsv', or --{option} '*.en' '*.de'; as a setting, " if option else ""
    return f"""{given}data.{what}='["*.en", "*.de"]'"""


def _files(paths: Sequence[str]) -> str:
    return "file" if len(paths) == 1 else "files"


def _shown(paths: Sequence[str]) -> str:
    return ", ".join(paths[:4]) + (", …" if len(paths) > 4 else "")
