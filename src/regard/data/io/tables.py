"""Rows of a table to the cells that are asked for: TSV, CSV, JSONL and Parquet, one small reader each.

    read_cells(path, ("text", "label"), format="csv")     any columns; JSONL and Parquet keep the types of their values
    read_texts(path, (0, 1), format="tsv")                the same, of columns that have to hold text

Columns are named by strings or counted from 0 by integers. A header line is read if, and only if, names are given.
TSV knows no quoting (a tab always separates); CSV follows RFC 4180 and may hold line breaks inside quotes.
JSONL and Parquet take names only; "translation.de" also reaches `de` inside an object called `translation`.
A blank line is a pair of empty texts, so that the checks count it rather than lose it; so is a null.
"""

import csv
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

from regard.data.io.lines import STDIN, display_name, open_bytes, stream_lines
from regard.errors import DataError, EnvironmentProblem, UsageError

Column = str | int
FORMATS = ("tsv", "csv", "jsonl", "parquet")
_SUFFIXES = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".parquet": "parquet"}


class Cells(NamedTuple):
    """The chosen cells of a row, and the line (for Parquet: the row) it starts on, from 1."""

    values: tuple[Any, ...]
    line: int


def read_cells(path: Path | str, columns: Sequence[Column], *, format: str) -> Iterator[Cells]:
    """The chosen columns of a table in one of `FORMATS`; a blank line gives empty texts."""
    if format not in FORMATS:
        raise UsageError(f"table format '{format}' is not known; allowed: {', '.join(FORMATS)}")
    if format == "jsonl":
        return _jsonl_cells(path, columns)
    if format == "parquet":
        return _parquet_cells(path, columns)
    rows = _tsv_rows(path) if format == "tsv" else _csv_rows(path)
    return _pick_cells(rows, columns, name=display_name(path))


def read_texts(path: Path | str, columns: Sequence[Column], *, format: str) -> Iterator[Cells]:
    """The same for columns of text: a null is an empty one, anything else is an error."""
    for values, line in read_cells(path, columns, format=format):
        where = f"{path}: row {line}" if format == "parquet" else f"{display_name(path)}:{line}"
        yield Cells(as_texts(values, columns, where=where), line)


def table_format(path: Path | str) -> str:
    """The format of a table by its file's suffix, a last `.gz` aside; anything unknown is TSV."""
    return _SUFFIXES.get(Path(str(path).lower().removesuffix(".gz")).suffix, "tsv")


def read_header(path: Path | str, *, format: str) -> list[str]:
    """The first row of a TSV or CSV table, the names of a JSONL or Parquet one; nothing where there is nothing."""
    if format == "parquet":
        return _parquet_names(path)
    if format == "jsonl":
        return next((list(record) for _, record in _jsonl_records(path) if record), [])
    return next((cells for _, cells in (_tsv_rows(path) if format == "tsv" else _csv_rows(path))), [])


def _tsv_rows(path: Path | str) -> Iterator[tuple[int, list[str]]]:
    return ((number, line.split("\t") if line else []) for number, line in enumerate(stream_lines(path), start=1))


def _csv_rows(path: Path | str) -> Iterator[tuple[int, list[str]]]:
    # The reader sees a line break inside quotes only if the lines still carry theirs.
    reader = csv.reader((line + "\n" for line in stream_lines(path)), strict=True)
    while True:
        start = reader.line_num + 1
        try:
            yield start, next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            message = f"{display_name(path)}:{start}: not a CSV row ({error})"
            raise DataError(
                message, hint='is a quotation mark left open? inside a quoted field write it twice: ""'
            ) from None


def _pick_cells(rows: Iterable[tuple[int, list[str]]], columns: Sequence[Column], *, name: str) -> Iterator[Cells]:
    rows = iter(rows)
    if isinstance(columns[0], str):
        _, header = next(rows, (1, []))
        if not header:
            return
        places = [_place(header, column, where=f"{name}:1") for column in columns]
    else:
        places = [int(column) for column in columns]
    needed = max(places) + 1
    for number, cells in rows:
        if not cells:
            yield Cells(("",) * len(places), number)
        elif len(cells) < needed:
            message = f"{name}:{number}: has {len(cells)} column{'s' * (len(cells) != 1)}, at least {needed} are needed"
            raise DataError(message, hint="is this the right format and separator?")
        else:
            yield Cells(tuple(cells[index] for index in places), number)


def _place(header: Sequence[str], column: Column, *, where: str) -> int:
    if column not in header:
        raise missing_column(str(column), header, where=where)
    return header.index(str(column))


def missing_column(column: str, present: Iterable[str], *, where: str) -> DataError:
    """The error for a column that is not there: lists those that are, and the nearest name."""
    names = [str(name) for name in present]
    near = get_close_matches(column, names, n=1)
    shown = ", ".join(names[:12]) + (", …" if len(names) > 12 else "")
    message = f"{where}: no column '{column}'; it has: {shown or 'none'}"
    return DataError(message, hint=f"did you mean '{near[0]}'?" if near else "say which columns to use: columns=(…, …)")


def _jsonl_cells(path: Path | str, columns: Sequence[Column]) -> Iterator[Cells]:
    for number, record in _jsonl_records(path):
        if record is None:
            yield Cells(("",) * len(columns), number)
            continue
        where = f"{display_name(path)}:{number}"
        yield Cells(tuple(_reach(record, str(column), where=where) for column in columns), number)


def _jsonl_records(path: Path | str) -> Iterator[tuple[int, dict[str, Any] | None]]:
    """The objects of the lines, None for a blank one."""
    for number, line in enumerate(stream_lines(path), start=1):
        where = f"{display_name(path)}:{number}"
        if not line.strip():
            yield number, None
            continue
        try:
            record = json.loads(line)
        except (json.JSONDecodeError, RecursionError) as error:
            raise DataError(f"{where}: not JSON ({error})", hint="one JSON object a line is needed") from None
        if not isinstance(record, dict):
            message = f"{where}: a JSON {type(record).__name__}, an object with columns was expected"
            raise DataError(message, hint='a line looks like {"source": "…", "target": "…"}')
        yield number, record


def _reach(record: dict[str, Any], column: str, *, where: str) -> Any:
    if column in record:
        return record[column]
    outer, _, inner = column.partition(".")
    if inner and isinstance(record.get(outer), dict):
        return _reach(record[outer], inner, where=f"{where}: {outer}")
    raise missing_column(column, record, where=where)


def as_texts(values: Sequence[Any], columns: Sequence[Column], *, where: str) -> tuple[str, ...]:
    """Cells that have to be texts: a null is an empty one, anything else is an error."""
    return tuple(_text(value, column, where=where) for value, column in zip(values, columns, strict=True))


def _text(value: Any, column: Column, *, where: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise DataError(f"{where}: column '{column}' holds {value!r:.40} ({type(value).__name__}), text was expected")
    return value.encode("utf-8", "replace").decode("utf-8")  # JSON may smuggle in half a surrogate pair


def _parquet_cells(path: Path | str, columns: Sequence[Column]) -> Iterator[Cells]:
    with _parquet_table(path) as table:
        if table is not None:
            yield from _parquet_rows(table, columns, name=str(path))


def _parquet_names(path: Path | str) -> list[str]:
    with _parquet_table(path) as table:
        return [] if table is None else list(table.schema_arrow.names)


@contextmanager
def _parquet_table(path: Path | str) -> Iterator[Any]:
    """A Parquet file, open; None for an empty one."""
    if str(path) == STDIN:
        raise UsageError("Parquet cannot be read from standard input", hint="name a file, or pipe JSONL")
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise EnvironmentProblem(
            f"{path}: reading Parquet needs pyarrow", hint='pip install "regard[parquet]"'
        ) from None
    with open_bytes(path) as stream:  # for its messages on what cannot be opened
        empty = not stream.peek(1)  # type: ignore[attr-defined]
    if empty:
        yield None
        return
    try:
        with pyarrow.parquet.ParquetFile(path) as table:
            yield table
    except pyarrow.ArrowException as error:
        raise DataError(f"{path}: cannot be read as Parquet ({str(error).splitlines()[0]})") from error


def _parquet_rows(table: Any, columns: Sequence[Column], *, name: str) -> Iterator[Cells]:
    present = table.schema_arrow.names
    roots = [str(column) if column in present else str(column).partition(".")[0] for column in columns]
    for root, column in zip(roots, columns, strict=True):
        if root not in present:
            raise missing_column(str(column), present, where=name)
    number = 0
    for batch in table.iter_batches(batch_size=4096, columns=sorted(set(roots))):
        for record in batch.to_pylist():
            number += 1
            where = f"{name}: row {number}"
            yield Cells(tuple(_reach(record, str(column), where=where) for column in columns), number)
