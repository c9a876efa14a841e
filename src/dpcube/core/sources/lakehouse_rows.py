"""Lakehouse snapshot reader: the rows of one version of a table, read from its data files.

A partition column that the files lack has its value in the metadata, and is read like a text column. A column that was
added after a file was written is null there. No value decides whether a file can be read: when the table is opened,
each column's type in each file is compared with the declared one, and casts between the two cannot raise. Statistics
are not used, whether in the metadata or in the files, for they are values of rows.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dpcube.core.errors import SourceError
from dpcube.core.sources.lakehouse import DataFile, Snapshot
from dpcube.core.sources.sql import kind
from dpcube.core.sources.table import Table, arrow_table, metadata_without_arrow

DELETION = ("file_path", "pos")
FIELD_ID = b"PARQUET:field_id"
WIDER = {  # lossless type widenings that schema evolution allows after a file was written
    (pa.int32(), pa.int64()),
    (pa.float32(), pa.float64()),
}


@dataclass(frozen=True, slots=True)
class _Part:
    """Data file, its Parquet metadata, and its own names of those columns of the table that it has."""

    file: DataFile
    metadata: pq.FileMetaData
    names: Mapping[str, str]


def lakehouse_table(snapshot: Snapshot) -> Table:
    """Return a table of the rows of a snapshot."""
    schema = pa.schema([(column.name, column.type) for column in snapshot.columns])
    parts = [_openable(file, snapshot) for file in snapshot.files]

    def batches(columns: Sequence[int]) -> Iterable[pa.RecordBatch]:
        asked = pa.schema([schema.field(i) for i in columns])
        for part in parts:
            yield from _batches(part, asked)

    return arrow_table(snapshot.table.words, schema, batches)


def _openable(file: DataFile, snapshot: Snapshot) -> _Part:
    """Return a data file, or refuse one whose columns have other types than those declared, even when widened."""
    found = None
    with suppress(OSError, pa.ArrowException, ValueError):
        metadata = metadata_without_arrow(file.path)
        found = {_key(field, snapshot): field for field in metadata.schema.to_arrow_schema()}
    if found is None:
        msg = f"a data file of {snapshot.table.words} cannot be opened; check that it is complete and readable"
        raise SourceError(msg)
    if None in found:
        msg = f"{snapshot.table.words} has data files whose columns have no field ids; {snapshot.table.export}"
        raise SourceError(msg)
    names = {}
    for column in snapshot.columns:
        if column.name in file.partition or column.key not in found or kind(column.type) is None:
            continue
        field = found[column.key]
        if not _is_readable(field.type, column.type):
            msg = f"{snapshot.table.words} declares '{column.name}' as {column.type}, but a data file stores it as "
            msg += f"{field.type}; {snapshot.table.export}"
            raise SourceError(msg)
        names[column.name] = field.name
    return _Part(file, metadata, names)


def _key(field: pa.Field, snapshot: Snapshot) -> str | int | None:
    """Return the key of a data file's column; None for a column without a field id in an Iceberg table."""
    if snapshot.table.format == "Delta":
        return str(field.name.lower())
    number = (field.metadata or {}).get(FIELD_ID)
    return None if number is None else int(number)


def _is_readable(found: pa.DataType, declared: pa.DataType) -> bool:
    if pa.types.is_timestamp(found):
        return bool(pa.types.is_timestamp(declared))
    if pa.types.is_decimal(found) and pa.types.is_decimal(declared):
        return bool(found.scale == declared.scale and found.precision <= declared.precision)
    return found == declared or (found, declared) in WIDER


def _batches(part: _Part, asked: pa.Schema) -> Iterable[pa.RecordBatch]:
    """Yield the rows of a data file that are not deleted, with the requested columns."""
    file = pq.ParquetFile(part.file.path, metadata=part.metadata, coerce_int96_timestamp_unit="us")
    deleted, row = _deleted(part), 0
    for batch in file.iter_batches(columns=[part.names[name] for name in asked.names if name in part.names]):
        whole = pa.record_batch([_column(part, batch, column) for column in asked], asked)
        kept = ~np.isin(np.arange(row, row + batch.num_rows), deleted)
        row += batch.num_rows
        yield whole.filter(pa.array(kept)) if part.file.deletes else whole


def _deleted(part: _Part) -> NDArray[np.int64]:
    """Return the positions of the rows that positional delete files remove from a data file."""
    own, found = part.file.location.encode(), [np.zeros(0, np.int64)]
    for path in part.file.deletes:
        for batch in pq.ParquetFile(path, metadata=metadata_without_arrow(path)).iter_batches(columns=list(DELETION)):
            is_own = pc.equal(batch.column("file_path").cast(pa.binary()), pa.scalar(own, pa.binary()))
            found.append(batch.column("pos").filter(is_own).to_numpy(zero_copy_only=False))
    return np.concatenate(found)


def _column(part: _Part, batch: pa.RecordBatch, column: pa.Field) -> pa.Array:
    if column.name in part.file.partition:
        text = part.file.partition[column.name]
        octets = None if text is None else text.encode("utf-8", "surrogatepass")  # as text, it may be no UTF-8
        return pa.repeat(pa.scalar(octets, pa.binary()), batch.num_rows).view(pa.string())
    if column.name not in part.names:
        return pa.nulls(batch.num_rows, column.type)
    array = batch.column(part.names[column.name])
    if not pa.types.is_timestamp(column.type):
        return array.cast(column.type)
    # Instants keep their number whether or not a file states a zone (INT96 does not): the declared type decides.
    return array.cast(pa.timestamp(column.type.unit, array.type.tz), safe=False).view(column.type)
