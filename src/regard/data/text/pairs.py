"""Where sentence pairs come from: two parallel text files, or one table (TSV, CSV, JSONL, Parquet), or many of these.

A `PairSource` describes the place, a `PairSet` several; `pairs()` streams what is there. Which columns of a table are
used:

    given           names → the first line is the header; integers → there is none
    not given       `source` and `target`, or columns called as people call them (`columns.py`): by languages, src, …
                    a table without names: columns 0 and 1
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from regard.data.io.columns import match_columns
from regard.data.io.globs import holds_something
from regard.data.io.languages import languages_of
from regard.data.io.lines import STDIN, Say, display_name, empty_file, hash_file, read_lines, stream_lines
from regard.data.io.tables import FORMATS as TABLES
from regard.data.io.tables import Column, has_header, read_header, read_texts, table_format
from regard.errors import DataError, UsageError

__all__ = ["FORMATS", "Pair", "PairSet", "PairSource", "Pairs", "read_lines"]


class Pair(NamedTuple):
    """A source text, its target text, and the line they came from (from 1), of which file where there are several."""

    source: str
    target: str
    line: int
    file: str = ""


_NAMES: tuple[Column, Column] = ("source", "target")
FORMATS = ("lines", *TABLES)


@dataclass(frozen=True)
class PairSource:
    """A description of where pairs are; reads nothing until asked.

    With `target`, two files whose n-th lines belong together. Without, one table whose `format` is taken from the
    file's suffix (a last `.gz` aside) unless it is given; anything unknown, standard input included, is read as TSV.
    Of a source whose pairs serve two ends, each one of `every` is `held` out: this is those pairs, or the others.
    """

    source: Path | str
    target: Path | str | None = None
    columns: tuple[Column, Column] | None = None
    format: str | None = None
    every: int = 0
    held: bool = False

    def __post_init__(self) -> None:
        if self.format is not None and self.format not in FORMATS:
            raise UsageError(f"format '{self.format}' is not known; allowed: {', '.join(FORMATS)}")
        if (self.resolved_format == "lines") != (self.target is not None):
            needed = "one file" if self.target is not None else "two files, source and target"
            raise UsageError(f"format '{self.resolved_format}' needs {needed}")
        if str(self.source) == STDIN == str(self.target):
            raise UsageError("source and target cannot both be standard input", hint="pipe one TSV table instead")
        self._check_columns()

    def _check_columns(self) -> None:
        if self.columns is None:
            return
        if self.target is not None:
            raise UsageError("columns are for tables; two parallel files have none")
        kinds = {type(column) for column in self.columns}
        if len(self.columns) != 2 or kinds not in ({str}, {int}):
            raise UsageError(f"columns are two names or two numbers, not {self.columns!r}")
        if kinds == {int} and self.resolved_format in ("jsonl", "parquet", "arrow"):
            raise UsageError(f"{self.resolved_format} columns have names, not numbers; given {self.columns!r}")
        if kinds == {int} and min(int(column) for column in self.columns) < 0:
            raise UsageError(f"columns are counted from 0; given {self.columns!r}")

    @property
    def resolved_format(self) -> str:
        """The format that will be read: as given, or by the file's suffix."""
        return self.format or ("lines" if self.target is not None else table_format(self.source))

    @cached_property
    def resolved_columns(self) -> tuple[Column, Column]:
        """The columns that will be read: as given, by their names, or the first two of a table without names."""
        if self.columns is not None:
            return self.columns
        format, tabs = self.resolved_format, self.resolved_format == "tsv"
        if format == "lines" or str(self.source) == STDIN:
            return (0, 1) if format in ("tsv", "lines") else _NAMES
        header = read_header(self.source, format=format)
        if not header or set(_NAMES) <= set(header):
            return (0, 1) if tabs and not header else _NAMES
        if not has_header(self.source, format=format):
            return (0, 1)
        try:
            chosen = match_columns(header, ("source", "target"), where=f"{self.name}:1")
        except DataError as problem:
            if tabs:
                return (0, 1)  # a first pair that is shorter than the others looks like names
            first, second = (*header, "target")[:2]
            raise DataError(str(problem), hint=f'say which: data.columns=\'["{first}", "{second}"]\'') from None
        return chosen["source"], chosen["target"]

    @property
    def languages(self) -> tuple[str, str] | None:
        """The codes of both sides, such as en and de, where suffixes or columns tell them."""
        return languages_of(*map(str, self.resolved_columns if self.target is None else (self.source, self.target)))

    @property
    def name(self) -> str:
        """What messages call this source."""
        return display_name(self.source)

    def pairs(self, say: Say = lambda _: None) -> Iterator[Pair]:
        """Stream the pairs; an input without any is an error. At the end, an encoding other than UTF-8 is said."""
        for number, row in enumerate(self.rows(say), start=1):
            if is_chosen(self, number):
                yield row

    def rows(self, say: Say = lambda _: None) -> Iterator[Pair]:
        """All pairs, those of the other end too."""
        row = None
        for row in self._parallel(say) if self.target is not None else self._table(say):
            yield row
        if row is None:
            raise empty_file(self.source)

    def parted(self, share: float, *, most: int) -> tuple[PairSource, PairSource]:
        """The pairs to learn from, and those held out: a share of all, `most` at most, spread evenly."""
        every = held_every(self, share, most=most)
        return replace(self, every=every), replace(self, every=every, held=True)

    def files(self) -> list[Path | str]:
        """The files that are read."""
        return [path for path in (self.source, self.target) if path is not None]

    def _table(self, say: Say) -> Iterator[Pair]:
        columns, format = self.resolved_columns, self.resolved_format
        for (source, target), line in read_texts(self.source, columns, format=format, say=say):
            yield Pair(source, target, line)

    def _parallel(self, say: Say) -> Iterator[Pair]:
        assert self.target is not None
        sources, targets = stream_lines(self.source, say=say), stream_lines(self.target, say=say)
        for number, (source, target) in enumerate(zip_longest(sources, targets), start=1):
            if source is None or target is None:
                longer = targets if source is None else sources
                total = number + sum(1 for _ in longer)
                n, m = (number - 1, total) if source is None else (total, number - 1)
                raise DataError(
                    f"{display_name(self.source)} has {n} lines but {display_name(self.target)} has {m}",
                    hint="the n-th lines of both files must belong together",
                )
            yield Pair(source, target, number)

    def fingerprint(self) -> str:
        """A SHA-256 over the bytes of the files and the way they are read; the same contents give the same one."""
        hashes = [hash_file(path) for path in self.files()]
        parted = (self.every, self.held) if self.every else ()
        how = repr((self.resolved_format, self.resolved_columns, *parted))
        return hashlib.sha256("".join([*hashes, how]).encode()).hexdigest()


@dataclass(frozen=True)
class PairSet:
    """Several sources, one after the other, as if they were one; those without any pair are passed over, and said."""

    sources: tuple[PairSource, ...]
    every: int = 0
    held: bool = False

    @property
    def name(self) -> str:
        """What messages call them all."""
        return f"{self.sources[0].name} and {len(self.sources) - 1} more"

    @property
    def languages(self) -> tuple[str, str] | None:
        """The codes of both sides, where all sources tell the same."""
        told = {source.languages for source in self.sources}
        return told.pop() if len(told) == 1 else None

    def pairs(self, say: Say = lambda _: None) -> Iterator[Pair]:
        """Stream the pairs of all sources, each with the file it came from."""
        number = 0
        for source in self.sources:
            for row in rows_of(source, say):
                number += 1
                if is_chosen(self, number):
                    yield row
        if not number:
            raise DataError(f"{self.name}: all of them are empty", hint="at least one line is needed")

    def parted(self, share: float, *, most: int) -> tuple[PairSet, PairSet]:
        """The pairs to learn from, and those held out: a share of all, `most` at most, spread evenly."""
        every = held_every(self, share, most=most)
        return replace(self, every=every), replace(self, every=every, held=True)

    def files(self) -> list[Path | str]:
        """The files that are read."""
        return [file for source in self.sources for file in source.files()]

    def fingerprint(self) -> str:
        """A SHA-256 over the fingerprints of the sources."""
        parted = (self.every, self.held) if self.every else ()
        facts = repr(([_fingerprint(source) for source in self.sources], *parted))
        return hashlib.sha256(facts.encode()).hexdigest()


Pairs = PairSource | PairSet


def held_every(source: Pairs, share: float, *, most: int) -> int:
    """Each how manieth pair is held out, for a share of all, `most` at most."""
    n = sum(1 for _ in source.pairs())
    if n < 2:
        raise DataError(f"{source.name}: {n} pair cannot be divided", hint="give pairs to choose by: --valid FILE")
    return min(n, max(2, round(n / min(max(1, share * n), most))))


def is_chosen(source: Pairs, number: int) -> bool:
    """Whether a pair, counted from 1, is on this side of those that are held out."""
    return not source.every or (number % source.every == 0) == source.held


def rows_of(source: PairSource, say: Say = lambda _: None) -> Iterator[Pair]:
    """All pairs of one of several sources, with its name; of an empty one there are none, which is said."""
    if _is_empty(source):
        say(f"{source.name}: is empty, and passed over")
        return
    for pair in source.rows(say):
        yield pair._replace(file=source.name)


def _fingerprint(source: PairSource) -> str:
    """Of an empty one, which has no columns to be told, that of nothing."""
    return "" if _is_empty(source) else source.fingerprint()


def _is_empty(source: PairSource) -> bool:
    """Whether no file of a source holds a byte."""
    return not any(holds_something(path) for path in source.files())
