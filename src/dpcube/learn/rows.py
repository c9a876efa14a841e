"""Binning of an analyst's own rows: the cell of each value of a column, by the SQL that counts private tables.

One implementation of the binning rules serves both, so a classifier reads a row as the release did. The rows are the
analyst's own, in memory; this module is the only one of the analyst's side that uses `core.sources`, and opens nothing.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pyarrow as pa

from dpcube.core.arrays import Ints
from dpcube.core.domain import Attribute
from dpcube.core.domain.attribute import listing
from dpcube.core.errors import InputError
from dpcube.core.sources.aggregates import SelectedRows
from dpcube.core.sources.sql import Column, cell, kind
from dpcube.core.sources.table import arrow_table

NO_CELL = -1


def table_of(rows: object) -> pa.Table:
    """Return rows as an Arrow table: an Arrow, pandas or Polars table, or columns by name; InputError otherwise."""
    with suppress(pa.ArrowException, TypeError, ValueError):
        return rows if isinstance(rows, pa.Table) else pa.table(rows)
    msg = "rows must be a table with named columns (Arrow, pandas, Polars) or a mapping of names to lists, "
    msg += f"got a {type(rows).__name__}"
    raise InputError(msg)


def cells_of_rows(attributes: Sequence[Attribute], rows: object) -> Ints:
    """Return the cell of each row along each attribute, shape (rows, attributes); NO_CELL for values that have none."""
    table = table_of(rows)
    names = set(table.column_names)
    columns = [one.source_column if one.source_column in names else one.name for one in attributes]
    if missing := [name for name in columns if table.column_names.count(name) != 1]:
        msg = f"the rows must have one column '{missing[0]}'; their columns are {listing(table.column_names)}"
        raise InputError(msg)
    return _cells(attributes, [table.column(name) for name in columns], len(table))


def cells_of(attribute: Attribute, column: pa.ChunkedArray) -> Ints:
    """Return the cell of each value of a column, whatever its type."""
    return _cells([attribute], [column], len(column))[:, 0]


def _cells(attributes: Sequence[Attribute], columns: Sequence[pa.ChunkedArray], number: int) -> Ints:
    arrays = [*columns, pa.array(np.arange(number))]
    rows = pa.table(arrays, names=list(map(str, range(len(arrays)))))
    selected = SelectedRows(arrow_table("the table", rows.schema, lambda i: rows.select(list(i)).to_batches()))
    parts = [
        cell(one, Column(f"c{j}", column.type, declared=kind(column.type) == "text"), f"v{j}", t=f"t{j}")
        for j, (one, column) in enumerate(zip(attributes, columns, strict=True))
    ]
    found = [f"coalesce(CASE WHEN {p.keep} THEN CAST({p.index} AS BIGINT) END, {NO_CELL})" for p in parts]
    select = ", ".join(f"{sql} AS a{j}" for j, sql in enumerate([*found, f"c{len(parts)}"]))
    answer = selected.aggregate(select, rows.column_names, cells=[replace(part, keep="true") for part in parts])
    cells = np.full((number, len(parts)), NO_CELL)
    for axis in range(len(parts)):
        cells[answer[f"a{len(parts)}"], axis] = answer[f"a{axis}"]
    return cells


def no_cell_words(attributes: Sequence[Attribute], cells: Ints) -> Mapping[str, int]:
    """Return how many values of each attribute have no cell, where any have none."""
    lost = (cells == NO_CELL).sum(axis=0).tolist()
    return {one.name: number for one, number in zip(attributes, lost, strict=True) if number}
