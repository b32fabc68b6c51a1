"""Where sentence pairs come from: two parallel text files, or one table (TSV, CSV, JSONL, Parquet).

A `PairSource` describes the place; `pairs()` streams what is there. Which columns of a table are used:

    TSV             columns 0 and 1, no header       names given → the first line is the header
    CSV             `source` and `target`            integers given → there is no header
    JSONL, Parquet  `source` and `target`            names only
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from regard.data.io.lines import STDIN, display_name, empty_file, hash_file, read_lines, stream_lines
from regard.data.io.tables import FORMATS as TABLES
from regard.data.io.tables import Column, read_texts, table_format
from regard.errors import DataError, UsageError

__all__ = ["FORMATS", "Pair", "PairSource", "read_lines"]


class Pair(NamedTuple):
    """A source text, its target text, and the line they came from (from 1)."""

    source: str
    target: str
    line: int


_NAMES: tuple[Column, Column] = ("source", "target")
FORMATS = ("lines", *TABLES)


@dataclass(frozen=True)
class PairSource:
    """A description of where pairs are; reads nothing until asked.

    With `target`, two files whose n-th lines belong together. Without, one table whose `format` is taken from the
    file's suffix (a last `.gz` aside) unless it is given; anything unknown, standard input included, is read as TSV.
    """

    source: Path | str
    target: Path | str | None = None
    columns: tuple[Column, Column] | None = None
    format: str | None = None

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
        if kinds == {int} and self.resolved_format in ("jsonl", "parquet"):
            raise UsageError(f"{self.resolved_format} columns have names, not numbers; given {self.columns!r}")
        if kinds == {int} and min(int(column) for column in self.columns) < 0:
            raise UsageError(f"columns are counted from 0; given {self.columns!r}")

    @property
    def resolved_format(self) -> str:
        """The format that will be read: as given, or by the file's suffix."""
        return self.format or ("lines" if self.target is not None else table_format(self.source))

    @property
    def resolved_columns(self) -> tuple[Column, Column]:
        """The columns that will be read: as given, or the default of the format."""
        if self.columns is not None:
            return self.columns
        return (0, 1) if self.resolved_format == "tsv" else _NAMES

    @property
    def name(self) -> str:
        """What messages call this source."""
        return display_name(self.source)

    def pairs(self) -> Iterator[Pair]:
        """Stream the pairs; an input without any is an error."""
        row = None
        for row in self._parallel() if self.target is not None else self._table():
            yield row
        if row is None:
            raise empty_file(self.source)

    def _table(self) -> Iterator[Pair]:
        for (source, target), line in read_texts(self.source, self.resolved_columns, format=self.resolved_format):
            yield Pair(source, target, line)

    def _parallel(self) -> Iterator[Pair]:
        assert self.target is not None
        sources, targets = stream_lines(self.source), stream_lines(self.target)
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
        hashes = [hash_file(path) for path in (self.source, self.target) if path is not None]
        how = repr((self.resolved_format, self.resolved_columns))
        return hashlib.sha256("".join([*hashes, how]).encode()).hexdigest()
