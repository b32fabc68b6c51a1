"""Plain text to documents: files, folders, tables with a text column, standard input; streamed.

How a text file is cut into documents is its `split`:

    file       the whole file is one
    blank      blank lines stand between them
    heading    each begins at a line ` = Title = ` before a blank one, as articles do in WikiText; deeper headings,
               ` = = Part = = `, do not count
    line       each line is one

A row of a JSONL or Parquet table, or of one that the `datasets` package saved, is a document by itself. Of a folder,
all `.txt`, `.jsonl` and `.parquet` files are read (the first two also as `.gz`), those in folders inside it too, in the
order of their names. Line ends are "\\n" whatever they were in the file; with `file` and `heading` nothing else
changes, and the documents put together are the file. A document too long to hold comes in several: all but the last say
that there is `more`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import Path
from typing import NamedTuple, get_args

from regard.config.data import Split
from regard.data.io.lines import STDIN, display_name, empty_file, hash_file, stream_lines
from regard.data.io.saved import is_saved
from regard.data.io.tables import read_texts, table_format
from regard.errors import DataError, UsageError

SUFFIXES = (".txt", ".jsonl", ".parquet")
PART = 2**20  # characters after which a document goes on in another one

# One equals sign a side; "= = Description = =" is a heading inside an article.
_HEADING = re.compile(r"\s*=\s(?!=).*(?<!=)\s=\s*")


class Document(NamedTuple):
    """A text, where it begins (`file:line`), and whether the next document goes on with it."""

    text: str
    where: str
    more: bool = False


@dataclass(frozen=True)
class TextSource:
    """A description of where texts are; reads nothing until asked. `column` is for tables, `split` for text files.

    Of the paths those `needed` have to hold text; by default, all. Others may be empty, as some of many are.
    """

    paths: tuple[Path | str, ...]
    split: Split = "file"
    column: str = "text"
    needed: frozenset[str] | None = None

    def __post_init__(self) -> None:
        if self.split not in get_args(Split):
            raise UsageError(f"split '{self.split}' is not known; allowed: {', '.join(get_args(Split))}")
        if not self.paths:
            raise UsageError("no text is named", hint="name a file, a folder, or - for standard input")

    @property
    def name(self) -> str:
        """What messages call this source."""
        others = len(self.paths) - 1
        return display_name(self.paths[0]) + (f" and {others} more" if others else "")

    def files(self) -> list[Path | str]:
        """The files that will be read, in order."""
        return [file for path in self.paths for file in _files(path)]

    def documents(self) -> Iterator[Document]:
        """Stream the documents; a file that is named and empty is an error, and so is a source without any text."""
        n = 0
        for file in self.files():
            for document in self.documents_of(file):
                n += 1
                yield document
        if not n:
            raise DataError(f"{self.name}: its files hold no text", hint="are they all empty?")

    def documents_of(self, file: Path | str) -> Iterator[Document]:
        """Stream the documents of one of the files."""
        document = None
        for document in self._read(file):
            yield document
        if document is None and str(file) in ({*map(str, self.paths)} if self.needed is None else self.needed):
            raise _nothing_in(file)

    def _read(self, file: Path | str) -> Iterator[Document]:
        format = table_format(file)
        if format in ("jsonl", "parquet", "arrow"):
            return self._rows(file, format)
        return _SPLITTERS[self.split](file)

    def _rows(self, file: Path | str, format: str) -> Iterator[Document]:
        for (text,), line in read_texts(file, (self.column,), format=format):
            if text.strip():
                yield Document(text, f"{display_name(file)}:{line}")

    def fingerprint(self) -> str:
        """A SHA-256 over the bytes of the files and the way they are read; the same contents give the same one."""
        hashes = [hash_file(file) for file in self.files()]
        return hashlib.sha256(repr((hashes, self.split, self.column)).encode()).hexdigest()


def _files(path: Path | str) -> Sequence[Path | str]:
    whole = str(path) == STDIN or not Path(path).is_dir() or is_saved(path)
    return [path] if whole else _inside(Path(path))


def _inside(folder: Path) -> list[Path]:
    """The text files of a folder and of those inside it; hidden ones are left alone."""
    paths = [path for path in folder.rglob("*") if _is_text(path) and path.is_file()]
    shown = [path for path in paths if not any(part.startswith(".") for part in path.relative_to(folder).parts)]
    if not shown:
        names = sorted(entry.name for entry in folder.iterdir())
        holds = f"it holds: {', '.join(names[:8])}{', …' if len(names) > 8 else ''}" if names else "it is empty"
        raise DataError(f"{folder}: no text files in this folder ({', '.join(SUFFIXES)}); {holds}")
    return sorted(shown, key=lambda path: path.relative_to(folder).parts)


def _is_text(path: Path) -> bool:
    name = path.name.lower()
    return name.removesuffix(".gz").endswith(SUFFIXES[:2]) or name.endswith(SUFFIXES)


def _nothing_in(file: Path | str) -> DataError:
    if str(file) != STDIN and Path(file).stat().st_size == 0:
        return empty_file(file)
    return DataError(f"{display_name(file)}: holds no text, only empty lines", hint="at least one line is needed")


def _cut(file: Path | str, begins: Callable[[str, str], bool]) -> Iterator[Document]:
    """Documents that begin where a line, seen with the one after it, says so; blank lines alone are none."""
    lines: list[str] = []
    start, size = 1, 0
    for number, (line, after) in enumerate(pairwise(chain(stream_lines(file, ends=True), [""])), start=1):
        new = begins(line, after)
        # A long text is parted before a line that is not indented, where no tokenizer has a piece across.
        if (new or (size > PART and not line[:1].isspace())) and any(map(str.strip, lines)):
            yield Document("".join(lines), f"{display_name(file)}:{start}", more=not new)
            lines, start, size = [], number, 0
        lines.append(line)
        size += len(line)
    if any(map(str.strip, lines)):
        yield Document("".join(lines), f"{display_name(file)}:{start}")


def _by_blank(file: Path | str) -> Iterator[Document]:
    lines: list[str] = []
    number = 0
    for number, line in enumerate(stream_lines(file), start=1):
        if line.strip():
            lines.append(line)
        elif lines:
            yield Document("\n".join(lines), f"{display_name(file)}:{number - len(lines)}")
            lines = []
    if lines:
        yield Document("\n".join(lines), f"{display_name(file)}:{number - len(lines) + 1}")


def _by_line(file: Path | str) -> Iterator[Document]:
    for number, line in enumerate(stream_lines(file), start=1):
        if line.strip():
            yield Document(line, f"{display_name(file)}:{number}")


_SPLITTERS: dict[str, Callable[[Path | str], Iterator[Document]]] = {
    "file": lambda file: _cut(file, lambda line, after: False),
    "blank": _by_blank,
    # The blank line tells a title from a line like " = 7 / 2 = " that a formula was broken into.
    "heading": lambda file: _cut(file, lambda line, after: not after.strip() and bool(_HEADING.fullmatch(line))),
    "line": _by_line,
}
