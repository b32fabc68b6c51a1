"""Images and what people say about them: a table of images and captions, one caption a row.

    image,caption                          CSV, TSV, JSONL or Parquet; an image with five captions has five rows
    dogs/1.jpg,a dog runs on the beach

    1000268201.jpg#0⇥A child in a dress .  Flickr8k's own layout, known by its first line

A `CaptionSource` may be narrowed to the images that a second file lists, one a line, as Flickr8k's splits are. Given a
folder it finds the table inside. What cannot be used is named with its file and row, all of it together.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from regard.config.data import BadRows
from regard.data.io.lines import display_name, empty_file, open_bytes, stream_lines
from regard.data.io.tables import FORMATS, Column, as_texts, read_cells
from regard.data.text.pairs import hash_file, table_format
from regard.errors import DataError, UsageError

Say = Callable[[str], None]
TABLES = (".csv", ".tsv", ".jsonl", ".parquet", ".token.txt", "captions.txt")
_SHOWN = 5
_FLICKR = re.compile(r"([^\t]+)#\d+\t(.*)")
_HEADER = re.compile(rb"\w+\s*,\s*\w+\s*$")


class Captioned(NamedTuple):
    """An image by its name, its captions, and the row on which it came first (from 1)."""

    image: str
    captions: tuple[str, ...]
    line: int


@dataclass(frozen=True)
class CaptionSource:
    """Where captions are; reads nothing until asked. `only` is a file that lists the images to keep."""

    path: Path | str
    only: Path | str | None = None
    image: Column = "image"
    caption: Column = "caption"
    format: str | None = None

    def __post_init__(self) -> None:
        allowed = (*FORMATS, "flickr")
        if self.format is not None and self.format not in allowed:
            raise UsageError(f"format '{self.format}' is not known; allowed: {', '.join(allowed)}")

    @cached_property
    def table(self) -> Path | str:
        """The table itself: of a folder, the one inside."""
        path = Path(self.path)
        if not path.is_dir():
            return self.path
        found = sorted(e for e in path.iterdir() if e.is_file() and e.name.lower().removesuffix(".gz").endswith(TABLES))
        named = [entry for entry in found if entry.name.startswith("captions.")]
        if len(named or found) == 1:
            return (named or found)[0]
        there = f"{len(found)}: {', '.join(entry.name for entry in found[:5])}" if found else "none"
        raise DataError(
            f"{path}: one table of captions is looked for in this folder, and there is {there}",
            hint="call it captions.csv, with the columns image and caption, or name the file itself",
        )

    @property
    def name(self) -> str:
        """What messages call this source."""
        return display_name(self.table)

    @property
    def folder(self) -> Path:
        """Where the images are, unless something else is said: beside the table."""
        return Path(self.table).parent

    @cached_property
    def resolved_format(self) -> str:
        """The format that will be read: as given, by the suffix, or by the first line."""
        if self.format is not None:
            return self.format
        usual = table_format(self.table)
        if usual != "tsv":
            return usual
        with open_bytes(self.table) as stream:
            first = stream.readline()
        if _FLICKR.match(first.decode("utf-8", "replace")):
            return "flickr"
        return "csv" if _HEADER.match(first) else usual

    def examples(self, *, bad: BadRows = "refuse", say: Say = lambda _: None) -> list[Captioned]:
        """The images with their captions, in the order of the table, or of the list that narrows it."""
        found, wrong = self._gathered()
        if wrong and bad == "refuse":
            raise DataError(listed(wrong), hint='correct them, or leave them out: data.bad="drop"')
        if wrong:
            say(f"{self.name}: {len(wrong):,} rows left out: {listed(wrong)}")
        if self.only is not None:
            found = self._narrowed(found)
        if not found:
            raise DataError(f"{self.name}: there is no caption that can be used")
        return [Captioned(image, tuple(said), line) for image, (line, said) in found.items()]

    def fingerprint(self) -> str:
        """A SHA-256 over the bytes of the table and the list, and the way they are read."""
        files = [hash_file(path) for path in (self.table, self.only) if path is not None]
        return sha256(repr((files, self.resolved_format, self.image, self.caption)).encode()).hexdigest()

    def _gathered(self) -> tuple[dict[str, tuple[int, list[str]]], list[str]]:
        """Captions by image, and what is wrong with the rows that are left out."""
        found: dict[str, tuple[int, list[str]]] = {}
        wrong, empty = [], True
        for image, caption, line in self._rows():
            empty = False
            if not image.strip() or not caption.strip():
                what = "image" if not image.strip() else "caption"
                wrong.append(f"{self.name}:{line}: the {what} is empty")
            else:
                found.setdefault(image.strip(), (line, []))[1].append(" ".join(caption.split()))
        if empty:
            raise empty_file(self.table)
        return found, wrong

    def _rows(self) -> Iterator[tuple[str, str, int]]:
        if self.resolved_format == "flickr":
            yield from self._flickr()
            return
        columns = (self.image, self.caption)
        for values, line in read_cells(self.table, columns, format=self.resolved_format):
            image, caption = as_texts(values, columns, where=f"{self.name}:{line}")
            yield image, caption, line

    def _flickr(self) -> Iterator[tuple[str, str, int]]:
        for number, line in enumerate(stream_lines(self.table), start=1):
            parts = _FLICKR.fullmatch(line)
            if parts is None:
                raise DataError(
                    f"{self.name}:{number}: not a row of Flickr8k's captions ({line[:40]!r})",
                    hint="a row is image.jpg#0, a tab, and the caption",
                )
            yield parts[1], parts[2], number

    def _narrowed(self, found: dict[str, tuple[int, list[str]]]) -> dict[str, tuple[int, list[str]]]:
        assert self.only is not None
        names = [(name.strip(), line) for line, name in enumerate(stream_lines(self.only), start=1) if name.strip()]
        lost = [
            f"{self.only}:{line}: {name} has no caption in {self.name}" for name, line in names if name not in found
        ]
        if lost:
            raise DataError(listed(lost))
        return {name: found[name] for name, _ in names}


def listed(wrong: list[str]) -> str:
    """The first few problems, a line each, and how many more there are."""
    rest = f"\n  … and {len(wrong) - _SHOWN:,} more" if len(wrong) > _SHOWN else ""
    return "\n  ".join(wrong[:_SHOWN]) + rest


_STRAY = re.compile(r"[^\w\s'’-]|(?<!\w)['’-]+|['’-]+(?!\w)")


def without_punctuation(text: str) -> str:
    """The words alone, with the hyphens and apostrophes inside them."""
    return " ".join(_STRAY.sub(" ", text).split())
