"""Rows of a table to the cells that are asked for: TSV, CSV, JSONL, Parquet and saved Arrow, one small reader each.

    read_cells(path, ("text", "label"), format="csv")     any columns; JSONL and Parquet keep the types of their values
    read_texts(path, (0, 1), format="tsv")                the same, of columns that have to hold text
    find_columns(path, {"audio": "audio", "text": "text"}, format="csv")      ("file", "transcript"), by common names

Columns are named by strings or counted from 0 by integers. A header line is read if, and only if, names are given.
The delimiter of CSV (comma, semicolon, tab or bar) is told from its first lines (`dialect.py`); it may hold line breaks
inside quotes. A tab always separates in TSV, which knows no quotes unless its whole first line is quoted. JSONL, one
array of objects, and Parquet take names only; "translation.de" also reaches `de` inside an object called `translation`.
A blank line is a pair of empty texts, so that the checks count it rather than lose it; so is a null.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from difflib import get_close_matches
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

from regard.config.bounded import parse_json, require
from regard.data.io.columns import flat_names, is_known_name, match_columns
from regard.data.io.dialect import SAMPLE, Dialect, TableRow, sniff_dialect, split_rows
from regard.data.io.lines import STDIN, Say, display_name, open_bytes, stream_lines
from regard.data.io.saved import arrow_batches, is_saved
from regard.errors import DataError, EnvironmentProblem, UsageError

Column = str | int
FORMATS = ("tsv", "csv", "jsonl", "parquet", "arrow")
_SUFFIXES = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".parquet": "parquet"}


class Cells(NamedTuple):
    """The chosen cells of a row, and the line (for Parquet: the row) it starts on, from 1."""

    values: tuple[Any, ...]
    line: int


def read_cells(
    path: Path | str, columns: Sequence[Column], *, format: str, say: Say = lambda _: None
) -> Iterator[Cells]:
    """The chosen columns of a table in one of `FORMATS`; a blank line gives empty texts."""
    if format not in FORMATS:
        raise UsageError(f"table format '{format}' is not known; allowed: {', '.join(FORMATS)}")
    if format == "jsonl":
        return _jsonl_cells(path, columns, say)
    if format == "parquet":
        return _parquet_cells(path, columns)
    if format == "arrow":
        return _record_cells(arrow_batches(path), columns, name=str(path))
    return _pick_cells(_split(path, format, say)[1], columns, name=display_name(path))


def read_texts(
    path: Path | str, columns: Sequence[Column], *, format: str, say: Say = lambda _: None
) -> Iterator[Cells]:
    """The same for columns of text: a null is an empty one, anything else is an error."""
    for values, line in read_cells(path, columns, format=format, say=say):
        where = f"{path}: row {line}" if format in ("parquet", "arrow") else f"{display_name(path)}:{line}"
        yield Cells(as_texts(values, columns, where=where), line)


def table_format(path: Path | str) -> str:
    """The format of a table by its file's suffix, a last `.gz` aside; anything unknown is TSV, a saved folder Arrow."""
    if is_saved(path):
        return "arrow"
    return _SUFFIXES.get(Path(str(path).lower().removesuffix(".gz")).suffix, "tsv")


def is_table(path: Path | str) -> bool:
    """Whether a file is called as tables are, or is a saved folder: parallel texts have other suffixes, or none."""
    suffix = Path(str(path).lower().removesuffix(".gz")).suffix
    return suffix in _SUFFIXES or suffix in (".tsv", ".tab") or is_saved(path)


def read_header(path: Path | str, *, format: str) -> list[str]:
    """The first row of a TSV or CSV table, the names of a JSONL or Parquet one; nothing where there is nothing."""
    if format == "parquet":
        return _parquet_names(path)
    if format == "arrow":
        return flat_names(_as_record(batch.schema) for batch in islice(arrow_batches(path), 1))
    if format == "jsonl":
        return flat_names(record for _, record in islice(_jsonl_records(path), SAMPLE) if record)
    return next(([cell.strip() for cell in cells] for _, cells in _split(path, format)[1]), [])


def has_header(path: Path | str, *, format: str) -> bool:
    """Whether the first row of a table is one of names; JSONL and Parquet always have them."""
    return format in ("jsonl", "parquet", "arrow") or _split(path, format)[0].header


def find_columns(
    path: Path | str, usual: Mapping[str, str], *, format: str, keys: Mapping[str, str] | None = None
) -> tuple[str, ...]:
    """The column of each role: as it is usually called, where there is one; else by the common names of the role.

    A name that was given, and is not that of its role, has to be there.
    """
    header = [] if str(path) == STDIN else read_header(path, format=format)
    lacking = [role for role, name in usual.items() if role == name and name not in header]
    if not header or not lacking:
        return tuple(usual.values())
    free = [name for name in header if name not in usual.values()]
    found = match_columns(free, lacking, where=f"{display_name(path)}:1", keys=keys)
    return tuple(found.get(role, name) for role, name in usual.items())


def _split(path: Path | str, format: str, say: Say = lambda _: None) -> tuple[Dialect, Iterator[TableRow]]:
    """How a TSV or CSV table is written, and its rows."""
    lines = stream_lines(path, say=say)
    first = list(islice(lines, SAMPLE))
    dialect = sniff_dialect(first)
    if format == "tsv":
        tabs = any("\t" in line for line in first) or str(path).lower().removesuffix(".gz").endswith((".tsv", ".tab"))
        if tabs or not _is_named(first, dialect):
            dialect = sniff_dialect(first, delimiter="\t")
            head = first[dialect.skipped].split("\t") if len(first) > dialect.skipped else []
            dialect = replace(dialect, quoted=dialect.quoted and all(cell.startswith('"') for cell in head))
    return dialect, split_rows(chain(first, lines), dialect, name=display_name(path))


def _is_named(first: Sequence[str], dialect: Dialect) -> bool:
    """Whether lines begin with names of columns that people know: commas alone make no table of a text."""
    head = next((row.cells for row in split_rows(first[:1], dialect, name="")), [])
    return len(head) > 1 and all(map(is_known_name, head))


def _pick_cells(rows: Iterable[TableRow], columns: Sequence[Column], *, name: str) -> Iterator[Cells]:
    rows = iter(rows)
    if isinstance(columns[0], str):
        _, header = next(rows, TableRow(1, []))
        header = [name.strip() for name in header]
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


def _jsonl_cells(path: Path | str, columns: Sequence[Column], say: Say) -> Iterator[Cells]:
    for number, record in _jsonl_records(path, say):
        if record is None:
            yield Cells(("",) * len(columns), number)
            continue
        where = f"{display_name(path)}:{number}"
        yield Cells(tuple(_reach(record, str(column), where=where) for column in columns), number)


def _jsonl_records(path: Path | str, say: Say = lambda _: None) -> Iterator[tuple[int, dict[str, Any] | None]]:
    """The objects of the lines, None for a blank one; or those of one array, which begins with the file."""
    lines = stream_lines(path, say=say)
    first = next(lines, None)
    if first is None:
        return
    whole = first.lstrip().startswith("[") and not first.rstrip().endswith("}")
    texts = [_joined(chain([first], lines), path)] if whole else chain([first], lines)
    for number, line in enumerate(texts, start=1):
        where = f"{display_name(path)}:{number}"
        if not line.strip():
            yield number, None
            continue
        try:
            found = parse_json(line)
        except ValueError as error:
            raise DataError(f"{where}: not JSON ({error})", hint="one JSON object a line is needed") from None
        for row, record in enumerate(found if whole and isinstance(found, list) else [found], start=number):
            if not isinstance(record, dict):
                message = f"{where}: a JSON {type(record).__name__}, an object with columns was expected"
                raise DataError(message, hint='a line looks like {"source": "…", "target": "…"}')
            yield row, record


def _joined(lines: Iterable[str], path: Path | str) -> str:
    """All lines as one text, as long as there is memory for what it says."""
    held, size = [], 0
    for line in lines:
        held.append(line)
        size += len(line) + 1
        require(24.0 * size, f"{display_name(path)}: reading it as one array")
    return "\n".join(held)


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
        return [] if table is None else flat_names([_as_record(table.schema_arrow)])


def _as_record(fields: Any) -> dict[str, Any]:
    """The fields of a schema by name; those of a nested one are objects themselves."""
    nested = {field.name: list(field.type) if str(field.type).startswith("struct") else None for field in fields}
    return {name: _as_record(inner) if inner else None for name, inner in nested.items()}


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
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be read as Parquet ({str(error).splitlines()[0]})") from error


def _parquet_rows(table: Any, columns: Sequence[Column], *, name: str) -> Iterator[Cells]:
    present = table.schema_arrow.names
    roots = [str(column) if column in present else str(column).partition(".")[0] for column in columns]
    for root, column in zip(roots, columns, strict=True):
        if root not in present:
            raise missing_column(str(column), present, where=name)
    yield from _record_cells(table.iter_batches(batch_size=4096, columns=sorted(set(roots))), columns, name=name)


def _record_cells(batches: Iterable[Any], columns: Sequence[Column], *, name: str) -> Iterator[Cells]:
    """The chosen cells of record batches, row by row."""
    number = 0
    for batch in batches:
        for record in batch.to_pylist():
            number += 1
            where = f"{name}: row {number}"
            yield Cells(tuple(_reach(record, str(column), where=where) for column in columns), number)
