"""Tables of whole numbers as Parquet: columns enter and bytes leave, or bytes from anywhere and checked columns."""

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dpcube.core.arrays import Ints
from dpcube.core.errors import ReleaseFileError
from dpcube.measurements.measurements import Columns, TableForm
from dpcube.measurements.pages import checked_rows

ROWS_AT_A_TIME = 2**20
BYTES_A_VALUE = 24  # Arrow's table, NumPy's copy of it, and what becomes of it


def parquet_of(columns: Columns) -> bytes:
    """Return a table as a Parquet file."""
    sink, rows = io.BytesIO(), len(next(iter(columns.values())))
    # Signed counts and sorted bounds pack well as differences, and need no dictionary.
    schema, packed = _schema(tuple(columns)), "DELTA_BINARY_PACKED"
    with pq.ParquetWriter(sink, schema, compression="zstd", use_dictionary=False, column_encoding=packed) as writer:
        for start in range(0, rows, ROWS_AT_A_TIME):  # Arrow copies what it is given of a tree's bounds
            some = {name: column[start : start + ROWS_AT_A_TIME] for name, column in columns.items()}
            writer.write_table(pa.table(some, schema=schema))
    return sink.getvalue()


def rows_of(content: bytes, form: TableForm) -> int:
    """Return the number of rows of a Parquet file after checking it against its form; nothing is read yet."""
    # Counted before anything is read: a few bytes can declare, and unpack to, any number of rows.
    rows = checked_rows(content)
    if not form.least <= rows <= form.most:
        raise _wrong_rows()
    return rows


def columns_of(content: bytes, form: TableForm, *, rows: int) -> Columns:
    """Return the columns of a Parquet file, each of 64-bit integers; it has so many rows, which fit into memory."""
    file = pq.ParquetFile(io.BytesIO(content))
    if not file.schema_arrow.equals(_schema(form.columns)):
        msg = "one of its tables does not have the columns it should"
        raise ReleaseFileError(msg)
    # One thread: a process that ends just after Arrow started more is now and then aborted by them.
    table = file.read(use_threads=False)
    if table.num_rows != rows or any(column.null_count for column in table.columns):
        raise _wrong_rows()
    return {name: _numbers(table[name]) for name in form.columns}


def _numbers(column: pa.ChunkedArray) -> Ints:
    """Return a column as an array; Arrow's own `to_numpy` would import pandas."""
    return np.concatenate([np.empty(0, np.int64), *map(np.from_dlpack, column.chunks)])


def _schema(names: tuple[str, ...]) -> pa.Schema:
    return pa.schema([(name, pa.int64()) for name in names])


def _wrong_rows() -> ReleaseFileError:
    return ReleaseFileError("one of its tables does not have the rows it should")
