"""What was made once from files and options, found again by its key."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Self

from regard.errors import DataError


class Cached:
    """Something that is built into a folder, and opened from there the next time."""

    @property
    def fingerprint(self) -> str:
        """Of what it was made from, as given when it was built."""
        raise AttributeError("what is cached has a fingerprint")

    @classmethod
    def open(cls, folder: Path | str) -> Self:
        """Open what was built; anything else, or anything cut short, is a DataError."""
        raise DataError(f"{folder}: a {cls.__name__} cannot be opened")

    @classmethod
    def cached(cls, key: str, root: Path | str, *, build: Callable[[Path], Self]) -> Self:
        """What was made from `key` under `root`; `build(folder)` makes it if it is absent, damaged or another's.

        `build` is to pass `fingerprint=key` on; `corpus_key` makes keys.
        """
        folder = Path(root) / key[:24]
        try:
            found = cls.open(folder)
        except DataError:
            found = None
        if found is not None and found.fingerprint == key:
            return found
        made = build(folder)
        assert made.fingerprint == key, "build must pass fingerprint=key on"
        return made
