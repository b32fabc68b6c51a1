"""Images and what people say about them: a table of images and captions, one caption a row.

    image,caption                          CSV, TSV, JSONL or Parquet; an image with five captions has five rows
    dogs/1.jpg,a dog runs on the beach

    1000268201.jpg#0⇥A child in a dress .  Flickr8k's own layout, known by its first line

A `CaptionSource` may be narrowed to the images that a second file lists, one a line, as Flickr8k's splits are. Given a
folder it finds the table inside. What cannot be used is named with its file and row, all of it together.

The images that captions are about, from a folder or straight out of an archive, decoded once into a store.

    held = hold_pictures(source, place, size=80, folder=…)        examples, and their pixels uint8 (n, 3, 80, 80)

An image that is missing or cannot be read is named with the row that asks for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from regard.config.data import BadRows
from regard.data.images.arrays import Array
from regard.data.images.sources import ImageExample
from regard.data.images.store import ImageStore
from regard.data.io.archives import is_archive, members_of
from regard.data.io.lines import Say, display_name, empty_file, hash_file, listed, open_bytes, stream_lines
from regard.data.io.tables import FORMATS, Column, find_columns, read_texts, table_format
from regard.errors import DataError, UsageError

TABLES = (".csv", ".tsv", ".jsonl", ".parquet", ".token.txt", "captions.txt")
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
        files = sorted(entry for entry in path.iterdir() if entry.is_file())
        tables = [file for file in files if file.name.lower().removesuffix(".gz").endswith(TABLES)]
        named = [entry for entry in tables if entry.name.startswith("captions.")]
        if len(named or tables) == 1:
            return (named or tables)[0]
        there = f"{len(tables)}: {', '.join(entry.name for entry in tables[:5])}" if tables else "none"
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

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """The columns of images and captions: as given, or by their names."""
        if isinstance(self.image, int) or isinstance(self.caption, int) or self.resolved_format == "flickr":
            return self.image, self.caption
        return find_columns(self.table, {"image": self.image, "caption": self.caption}, format=self.resolved_format)

    def examples(self, *, bad: BadRows = "refuse", say: Say = lambda _: None) -> list[Captioned]:
        """The images with their captions, in the order of the table, or of the list that narrows it."""
        by_image, wrong = self._gathered(say)
        if wrong and bad == "refuse":
            raise DataError(listed(wrong), hint='correct them, or leave them out: data.bad="drop"')
        if wrong:
            say(f"{self.name}: {len(wrong):,} rows left out: {listed(wrong)}")
        if self.only is not None:
            by_image = self._narrowed(by_image)
        if not by_image:
            raise DataError(f"{self.name}: there is no caption that can be used")
        return [Captioned(image, tuple(captions), line) for image, (line, captions) in by_image.items()]

    def fingerprint(self) -> str:
        """A SHA-256 over the bytes of the table and the list, and the way they are read."""
        files = [hash_file(path) for path in (self.table, self.only) if path is not None]
        return sha256(repr((files, self.resolved_format, *self.columns)).encode()).hexdigest()

    def _gathered(self, say: Say) -> tuple[dict[str, tuple[int, list[str]]], list[str]]:
        """Captions by image, and what is wrong with the rows that are left out."""
        by_image: dict[str, tuple[int, list[str]]] = {}
        wrong, empty = [], True
        for image, caption, line in self._rows(say):
            empty = False
            if not image.strip() or not caption.strip():
                what = "image" if not image.strip() else "caption"
                wrong.append(f"{self.name}:{line}: the {what} is empty")
            else:
                by_image.setdefault(image.strip(), (line, []))[1].append(" ".join(caption.split()))
        if empty:
            raise empty_file(self.table)
        return by_image, wrong

    def _rows(self, say: Say) -> Iterator[tuple[str, str, int]]:
        if self.resolved_format == "flickr":
            return self._flickr(say)
        rows = read_texts(self.table, self.columns, format=self.resolved_format, say=say)
        return ((image, caption, line) for (image, caption), line in rows)

    def _flickr(self, say: Say) -> Iterator[tuple[str, str, int]]:
        for number, line in enumerate(stream_lines(self.table, say=say), start=1):
            parts = _FLICKR.fullmatch(line)
            if parts is None:
                raise DataError(
                    f"{self.name}:{number}: not a row of Flickr8k's captions ({line[:40]!r})",
                    hint="a row is image.jpg#0, a tab, and the caption",
                )
            yield parts[1], parts[2], number

    def _narrowed(self, by_image: dict[str, tuple[int, list[str]]]) -> dict[str, tuple[int, list[str]]]:
        assert self.only is not None
        names = [(name.strip(), line) for line, name in enumerate(stream_lines(self.only), start=1) if name.strip()]
        lost = [
            f"{self.only}:{line}: {name} has no caption in {self.name}" for name, line in names if name not in by_image
        ]
        if lost:
            raise DataError(listed(lost))
        return {name: by_image[name] for name, _ in names}


_STRAY = re.compile(r"[^\w\s'’-]|(?<!\w)['’-]+|['’-]+(?!\w)")


def without_punctuation(text: str) -> str:
    """The words alone, with the hyphens and apostrophes inside them."""
    return " ".join(_STRAY.sub(" ", text).split())


@dataclass(frozen=True, eq=False)
class Held:
    """Images with captions: `examples` and, in their order, `pixels` (n, 3, H, W)."""

    examples: list[Captioned]
    pixels: Array

    def __len__(self) -> int:
        return len(self.examples)


def hold_pictures(
    source: CaptionSource, images: Path, *, size: int, folder: Path, bad: BadRows = "refuse", say: Say = lambda _: None
) -> Held:
    """Read captions and decode their images under `folder`, or find there what was decoded before.

    Names are looked for in `place`, a folder or an archive; in an archive, folders around a file need not be named.
    """
    examples = source.examples(bad=bad, say=say)
    key = sha256(repr((source.fingerprint(), _stamp(images, examples), size, bad)).encode()).hexdigest()

    def build(made: Path) -> ImageStore:
        read = _from_archive if is_archive(images) else _loose
        asked = read(examples, images, source.name)
        return ImageStore.build(asked, made, size=(size, size), bad=bad, fingerprint=key)

    store = ImageStore.cached(key, folder, build=build, say=say)
    if store.header.dropped:
        say(f"{source.name}: {store.header.dropped:,} of {len(examples):,} images left out: they cannot be read")
    by_name = {example.image: example for example in examples}
    return Held([by_name[store.header.names[label]] for label in store.labels.tolist()], store.pixels)


def _loose(examples: Sequence[Captioned], folder: Path, table: str) -> Iterator[ImageExample]:
    if not folder.is_dir():
        raise DataError(
            f"{folder}: images are looked for there, and it is neither a folder nor an archive",
            hint="say where they are: data.images=FOLDER, or an archive (.tar.gz, .zip)",
        )
    for example in examples:
        path = folder / example.image
        yield ImageExample(path, example.image, f"{table}:{example.line}: {path}")


def _from_archive(examples: Sequence[Captioned], archive: Path, table: str) -> Iterator[ImageExample]:
    """The archive is read once from front to back; what is not in it comes last."""
    waiting: dict[str, list[Captioned]] = {}
    for example in examples:
        waiting.setdefault(PurePosixPath(example.image).name, []).append(example)
    for member, content in members_of(archive):
        for example in list(waiting.get(member.name, ())) if content is not None else ():
            asked = PurePosixPath(example.image).parts
            shared = min(len(asked), len(member.parts))
            if content is not None and member.parts[-shared:] == asked[-shared:]:
                waiting[member.name].remove(example)
                yield ImageExample(content, example.image, f"{table}:{example.line}: {archive}: {member}")
    for example in (example for left in waiting.values() for example in left):
        path = archive / example.image
        yield ImageExample(path, example.image, f"{table}:{example.line}: {path}")


def _stamp(images: Path, examples: Sequence[Captioned]) -> object:
    """What changes when the images do: an archive's hash; of loose files, their sizes and times."""
    if is_archive(images):
        return hash_file(images)
    stamps = []
    for example in examples:
        try:
            facts = (images / example.image).stat()
            stamps.append((facts.st_size, facts.st_mtime_ns))
        except OSError:
            stamps.append((-1, -1))
    return stamps
