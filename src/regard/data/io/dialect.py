"""How a table is written: what separates its cells, whether they are quoted, its header, the look of its numbers.

    dialect = sniff_dialect(first_lines)             Dialect(delimiter=";", quoted=True, header=True, decimal=",", …)
    for line, cells in split_rows(lines, dialect, name="prices.csv"): ...

The delimiter is the one under which most of the first rows have as many cells as the very first, quotes respected;
where several do equally well, a tab goes before a semicolon, that before a bar, and a comma comes last, since commas
are also what texts and German numbers are full of. A header is told by names above numbers or dates, by names that are
common (`columns.is_known_name`), or by short cells above long texts. Where nothing tells, comma and semicolon tables
have one, tab and bar tables do not. Excel's first line `sep=;` is understood.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import NamedTuple

from regard.data.io.columns import is_known_name
from regard.data.io.numbers import COMMA, POINT, Decimal, decimal_in, parse_number, thousands_in
from regard.errors import DataError

DELIMITERS = "\t;|,"  # in the order in which they are believed
SAMPLE = 200  # lines that are looked at
Rows = list[list[str]]

_DIRECTIVE = re.compile(r"sep=(.)", re.IGNORECASE)
_DATE = re.compile(
    r"\d{4}[-/.]\d{1,2}([-/.]\d{1,2})?([T ].*)?|\d{1,2}[-/.]\d{1,2}[-/.]\d{2}(\d{2})?( .*)?|\d{1,2}:\d{2}.*"
)
_QUOTED = re.compile(r'"(?:[^"]|"")*"')
_OPEN_QUOTE = 'is a quotation mark left open? inside a quoted cell write it twice: ""'
_NAME_LENGTH = 40


@dataclass(frozen=True)
class Dialect:
    """How a table is written. `skipped` lines come before it; `thousands` is what groups them, "" if nothing does."""

    delimiter: str
    quoted: bool = True
    header: bool = True
    decimal: Decimal = POINT
    thousands: str = ""
    skipped: int = 0


CSV = Dialect(COMMA)  # as RFC 4180 has it


class TableRow(NamedTuple):
    """The cells of a row, and the line it starts on, from 1; a blank line has no cells."""

    line: int
    cells: list[str]


def sniff_dialect(lines: Sequence[str], *, delimiter: str | None = None, header: bool | None = None) -> Dialect:
    """The dialect of a table that begins with these lines; what is given is believed. No lines: a CSV table."""
    skipped, told = _directive(lines)
    sample = [line for line in lines[skipped : skipped + SAMPLE] if line.strip()]
    delimiter = delimiter or told or _delimiter(sample)
    quoted = _is_quoted(sample, delimiter)
    rows = _rows(sample, delimiter, quoted=quoted)
    if header is None:
        header = _has_header(rows, usual=delimiter in ",;")
    decimal, thousands = _numbers(rows[1:] if header else rows, delimiter)
    return Dialect(delimiter, quoted, header, decimal, thousands, skipped)


def sniffed(lines: Iterable[str]) -> tuple[Dialect, Iterator[str]]:
    """The dialect of lines that can be gone through once, and all of them again."""
    rest = iter(lines)
    first = list(islice(rest, SAMPLE))
    return sniff_dialect(first), chain(first, rest)


def split_rows(lines: Iterable[str], dialect: Dialect, *, name: str) -> Iterator[TableRow]:
    """The rows of a table, its header included; cells in quotes may hold line breaks. The lines come without theirs."""
    lines = islice(lines, dialect.skipped, None)
    before = dialect.skipped
    if not dialect.quoted:
        for number, line in enumerate(lines, start=before + 1):
            yield TableRow(number, line.split(dialect.delimiter) if line else [])
        return
    reader = csv.reader((line + "\n" for line in lines), delimiter=dialect.delimiter, strict=True)
    while True:
        start = before + reader.line_num + 1
        try:
            yield TableRow(start, next(reader))
        except StopIteration:
            return
        except csv.Error as error:
            raise DataError(f"{name}:{start}: not a row of the table ({error})", hint=_OPEN_QUOTE) from None


def _directive(lines: Sequence[str]) -> tuple[int, str | None]:
    """How many lines Excel's `sep=;` takes up, and what it says."""
    found = _DIRECTIVE.fullmatch(lines[0].strip().strip('"')) if lines else None
    if lines and lines[0].strip().lower() == "sep=":  # the tab itself was stripped
        return 1, "\t"
    return (0, None) if found is None else (1, found[1])


def _delimiter(sample: Sequence[str]) -> str:
    def score(delimiter: str) -> float:
        rows = _rows(sample, delimiter, quoted=_is_quoted(sample, delimiter))
        width = len(rows[0]) if rows else 1
        return 0.0 if width < 2 else sum(len(row) == width for row in rows) / len(rows)

    best = max(DELIMITERS, key=score)  # the first of equals
    if score(best) > 0.5:
        return best
    return next((sign for sign in DELIMITERS if sample and sign in sample[0]), ",")  # ragged, or no table at all


def _rows(sample: Sequence[str], delimiter: str, *, quoted: bool) -> Rows:
    if not quoted:
        return [line.split(delimiter) for line in sample]
    rows: Rows = []
    try:
        rows.extend(csv.reader((line + "\n" for line in sample), delimiter=delimiter))
    except csv.Error:
        return rows
    if len(rows) > 1 and "\n" in rows[-1][-1] and rows[-1][-1].endswith("\n"):
        rows.pop()  # the sample ends within quotes
    return rows


def _is_quoted(sample: Sequence[str], delimiter: str) -> bool:
    """Comma and semicolon tables always may quote; others if every cell that begins with a quotation mark ends so.

    Cells of those may hold separators and line breaks if only that gives all rows the same width.
    """
    if delimiter in ",;":
        return True
    opened = [cell for line in sample for cell in line.split(delimiter) if cell.startswith('"')]
    if not opened or all(_QUOTED.fullmatch(cell) for cell in opened):
        return bool(opened)
    try:
        widths = {len(row) for row in csv.reader((line + "\n" for line in sample), delimiter=delimiter, strict=True)}
    except csv.Error:
        return False
    return len(widths) == 1 and widths != {1}


def _has_header(rows: Rows, *, usual: bool) -> bool:
    if not rows:
        return usual
    first, body = rows[0], rows[1:]
    if any(_is_typed(cell) for cell in first):
        return False
    if sum(map(is_known_name, first)) * 2 >= len(first):
        return True
    columns = [[row[i] for row in body if i < len(row) and row[i].strip()] for i in range(len(first))]
    if any(cells and sum(map(_is_typed, cells)) * 2 > len(cells) for cells in columns):
        return True
    if any(first[i].strip() in map(str.strip, cells) for i, cells in enumerate(columns)):
        return False  # a cell that comes again is no name
    if len(set(first)) < len(first) or any(len(cell) > _NAME_LENGTH for cell in first):
        return False
    longer = [sum(map(len, cells)) / len(cells) > 3 * len(first[i]) for i, cells in enumerate(columns) if cells]
    return True if any(longer) and all(cell.strip() for cell in first) else usual


def _is_typed(cell: str) -> bool:
    """Whether a cell is a number or a date."""
    cell = cell.strip()
    return any(parse_number(cell, decimal=mark) is not None for mark in (POINT, COMMA)) or bool(_DATE.fullmatch(cell))


def _numbers(rows: Rows, delimiter: str) -> tuple[Decimal, str]:
    """The decimal mark and what groups thousands, by the cells that can only be read one way."""
    cells = [cell for row in rows for cell in row]
    marks = Counter(mark for cell in cells if (mark := decimal_in(cell)) is not None)
    decimal: Decimal = COMMA if marks[COMMA] > marks[POINT] else POINT
    if not marks and delimiter == ";" and any(re.fullmatch(r"-?\d+,\d+", cell.strip()) for cell in cells):
        decimal = COMMA  # "1,234" beside semicolons: who has commas to spare for thousands separates cells by them
    groups = Counter(sign for cell in cells if decimal_in(cell) == decimal and (sign := thousands_in(cell)))
    return decimal, groups.most_common(1)[0][0] if groups else ""
