"""The files of a text as units of work: neighbours together until there is enough, so that many can be read at once.

    units = TextUnits.of(source, most=2**27)                the files, at most so many bytes a unit, or one file
    units = TextUnits.of(source, most=…, held=held)         without what is held out
    units.documents(3)                                      those of the fourth unit

A document never goes on from one file to the next, so that units put together are the text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from math import ceil
from pathlib import Path

from regard.config.data import LearntTokenizer
from regard.data.io.lines import STDIN
from regard.data.io.shards import group_files
from regard.data.io.workers import each
from regard.data.text.documents import Document, TextSource
from regard.errors import DataError


@dataclass(frozen=True)
class TextUnits:
    """Files of a source, in groups; with `border`, only what is before it. `starts` are characters before each file."""

    source: TextSource
    files: tuple[Path | str, ...]
    groups: tuple[tuple[int, int], ...]
    border: int | None = None
    starts: tuple[int, ...] = ()

    @classmethod
    def of(cls, source: TextSource, *, most: int, held: HeldOut | None = None) -> TextUnits:
        """The units of a source, of at most so many bytes as they lie on the disk; without what is `held` out."""
        files = tuple(source.files())
        groups = tuple(group_files([file_bytes(file) for file in files], most))
        if held is None:
            return cls(source, files, groups)
        return cls(source, files, groups, held.border, tuple(held.starts))

    def __len__(self) -> int:
        return len(self.groups)

    def key(self) -> list[object]:
        """What tells these units from others of the same text."""
        return [[list(group) for group in self.groups], self.border]

    def documents(self, unit: int) -> Iterator[Document]:
        """The documents of a unit."""
        for number in range(*self.groups[unit]):
            documents = self.source.documents_of(self.files[number])
            if self.border is None:
                yield from documents
            elif self.starts[number] < self.border:
                yield from (before for before, _ in cut_at(documents, self.border - self.starts[number]) if before)


def cut_at(documents: Iterator[Document], border: int) -> Iterator[tuple[Document | None, Document | None]]:
    """Every document as what is before so many characters and what is behind, of which one may be None."""
    done = 0
    for document in documents:
        before = document.text[: max(0, border - done)]
        after = document.text[len(before) :]
        done += len(document.text)
        yield (
            document._replace(text=before, more=document.more and not after) if before else None,
            document._replace(text=after) if after else None,
        )


@dataclass(frozen=True)
class HeldOut:
    """The last documents of a text, with about a share of all characters: where they begin among all characters.

    The document that the border runs through is kept to learn from, unless it is the last: then it is cut there.
    """

    source: TextSource
    border: int
    starts: tuple[int, ...]  # characters before each file

    @classmethod
    def of(cls, source: TextSource, share: float, *, workers: int = 1) -> HeldOut:
        """Count the characters of all files, and find the border."""
        files = tuple(source.files())
        small = sum(map(file_bytes, files)) < _SMALL
        counts = each(_Characters(source, files), range(len(files)), workers=1 if small else workers)
        total = sum(counts.values())
        if not total:
            raise DataError(f"{source.name}: its files hold no text", hint="are they all empty?")
        starts, done = [], 0
        for number in range(len(files)):
            starts.append(done)
            done += counts[number]
        border = int(total * (1 - share))
        around = next(i for i in range(len(files)) if counts[i] and starts[i] + counts[i] >= border)
        end = next(end for end in _ends(source.documents_of(files[around]), starts[around]) if end >= border)
        return cls(source, border if end == total else end, tuple(starts))

    @cached_property
    def _files(self) -> tuple[Path | str, ...]:
        return tuple(self.source.files())

    def documents(self) -> Iterator[tuple[bool, Document]]:
        """Every document, or part of the one that is cut, with whether it is held out."""
        for file, start in zip(self._files, self.starts, strict=True):
            for before, after in cut_at(self.source.documents_of(file), self.border - start):
                yield from ((held, one) for held, one in ((False, before), (True, after)) if one is not None)

    def held(self) -> Iterator[Document]:
        """Those held out; files before them are not read."""
        ends = (*self.starts[1:], None)
        for file, start, end in zip(self._files, self.starts, ends, strict=True):
            if end is None or end > self.border:
                cut = cut_at(self.source.documents_of(file), self.border - start)
                yield from (after for _, after in cut if after is not None)


_SMALL = 2**24  # bytes that are counted sooner than processes are started


@dataclass(frozen=True)
class _Characters:
    """How many characters the documents of a file have."""

    source: TextSource
    files: tuple[Path | str, ...]

    def __call__(self, number: int) -> int:
        return sum(len(document.text) for document in self.source.documents_of(self.files[number]))


def _ends(documents: Iterator[Document], start: int) -> Iterator[int]:
    for document in documents:
        start += len(document.text)
        if not document.more:
            yield start


def file_bytes(path: Path | str) -> int:
    """How many bytes of a file, or of a saved folder, lie on the disk; of standard input, none."""
    if str(path) == STDIN:
        return 0
    place = Path(path)
    try:
        return sum(inner.stat().st_size for inner in place.iterdir()) if place.is_dir() else place.stat().st_size
    except OSError:
        return 0  # whoever reads it says so


def sample_every(files: Iterable[Path | str], pieces: LearntTokenizer) -> int:
    """Each how manieth example of these files a tokenizer is learnt from; a packed file counts as four of its size."""
    total = sum(file_bytes(file) * (4 if str(file).endswith(".gz") else 1) for file in files)
    return max(1, ceil(total / (pieces.sample_mib * 2**20)))
