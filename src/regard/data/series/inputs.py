"""Series as people have them in memory: a table of named columns, or an array whose columns go by their order.

    series_of(frame, columns=["one", "two"])          a pandas DataFrame, whose index may be the dates
    series_of({"date": […], "one": […]}, columns=…)   columns by name
    series_of(array, columns=["one", "two"])          numbers (n, C)

They are read as a file with the same cells is, and refused for the same reasons.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from regard.data.io.dialect import TableRow
from regard.data.series.covariates import NOTHING, Beside
from regard.data.series.files import AS_IT_IS, Reading, series_of_table
from regard.data.series.series import Series
from regard.data.series.table import Table
from regard.errors import DataError, UsageError, kind_of

SeriesInput: TypeAlias = str | Path | Mapping[str, Sequence[Any]] | NDArray[Any] | Any  # and a pandas DataFrame


def check_series(inputs: Sequence[object]) -> None:
    """Refuse what is no series, by its number."""
    for number, given in enumerate(inputs):
        if not isinstance(given, str | Path | Mapping | np.ndarray) and not hasattr(given, "columns"):
            raise UsageError(f"input {number} is {kind_of(given)}; a path, a table of columns or an array was expected")


def series_of(
    table: SeriesInput,
    *,
    columns: Sequence[str],
    beside: Beside = NOTHING,
    reading: Reading = AS_IT_IS,
    name: str = "the table",
) -> Series:
    """These columns of a table; errors call it by its name. Of an array, columns of numbers beside them come last."""
    cells = table_of(table, columns=(*columns, *beside.numbers), name=name)
    return series_of_table(cells, columns=columns, beside=beside, reading=reading)


def table_of(table: SeriesInput, *, columns: Sequence[str], name: str = "the table") -> Table:
    """A table in memory as cells of text; `columns` are those of an array."""
    cells = _columns(table, columns, name)
    lengths = {len(values) for values in cells.values()}
    if len(lengths) != 1 or not min(lengths):
        shown = ", ".join(f"{column} {len(values):,}" for column, values in cells.items())
        raise DataError(f"{name}: its columns have {shown or 'no'} rows; as many in each, at least one, are needed")
    rows = [TableRow(i, list(row)) for i, row in enumerate(zip(*cells.values(), strict=True), start=2)]
    return Table(name, list(cells), rows)


def _columns(table: Any, columns: Sequence[str], name: str) -> dict[str, list[str]]:
    """All columns as cells of text, by name."""
    if isinstance(table, np.ndarray):
        values = table[:, None] if table.ndim == 1 else table
        if values.ndim != 2 or values.shape[1] != len(columns):
            raise UsageError(
                f"{name} has the shape {table.shape}; (n, {len(columns)}) was expected: {', '.join(columns)}"
            )
        return {column: _cells(values[:, place]) for place, column in enumerate(columns)}
    cells = {str(column): _cells(table[column]) for column in (table if isinstance(table, Mapping) else table.columns)}
    index = getattr(table, "index", None)
    if index is not None and str(getattr(index, "dtype", "")).startswith("datetime"):
        cells = {str(index.name or "date"): _cells(index)} | cells
    return cells


def _cells(values: Iterable[Any]) -> list[str]:
    return [str(value).replace("T", " ") if isinstance(value, np.datetime64) else str(value) for value in values]
