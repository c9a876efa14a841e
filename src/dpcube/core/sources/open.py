"""Opening a table: a path, an address, a frame or Arrow data enters, `Rows` leave. Only names and types are read."""

import glob
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.fs as pafs

from dpcube.core.errors import SourceError
from dpcube.core.sources.asked import AskedRows
from dpcube.core.sources.csv import CsvDialect, csv_table
from dpcube.core.sources.engines import address_table, ibis_table, is_address
from dpcube.core.sources.frames import pandas_table, polars_table
from dpcube.core.sources.lakehouse import Snapshot, lakehouse_at, refuse_parts
from dpcube.core.sources.lakehouse_rows import lakehouse_table
from dpcube.core.sources.names import listed
from dpcube.core.sources.rows import Rows
from dpcube.core.sources.snapshot import current_snapshot
from dpcube.core.sources.spark import spark_table
from dpcube.core.sources.table import (
    Table,
    arrow_table,
    dataset_table,
    file_fragments,
    parquet_table,
    stream_table,
)

ALLOWED = ".csv, .tsv (also .gz or .zst), .parquet"


def open_rows(source: Any, *, csv: CsvDialect | None = None, query: str | None = None) -> Rows:
    """Open files, an Arrow table, dataset or stream, a pandas, Polars or Spark frame, or a table in a database.

    Tables in a database are Ibis tables of PostgreSQL or Spark, postgresql://user@host/database#schema.table, the
    result of a `query` at postgresql://user@host/database, or spark:PATH of Parquet that Spark reads. Files are one
    file, a directory of files of one kind, or a pattern such as data/*.csv.gz; a file's kind goes by its name, and a
    file of several names is read once. A Delta table is its directory, an Iceberg table that or a file of its metadata:
    their current rows are read. `csv` is the dialect of CSV files; without it, fields are divided by commas, or
    by tabs in .tsv files, and the first line names the columns.
    """
    return Rows(AskedRows(_table(source, csv, query)))


def pinned(source: Any) -> Any:
    """Return a lakehouse table as it is now, to be read at this version whatever is written next; else the source."""
    if isinstance(source, str | PathLike) and not is_address(source):
        table = None
        with suppress(OSError, ValueError):
            table = lakehouse_at(Path(source).absolute())
        return source if table is None else current_snapshot(table)
    return source


def _table(source: Any, dialect: CsvDialect | None, query: str | None) -> Table:
    library = type(source).__module__.partition(".")[0]
    if isinstance(source, str) and is_address(source):
        return address_table(source, query)
    if query is not None:
        msg = "a query goes with the address of a database, such as postgresql://user@host/database"
        raise SourceError(msg)
    if isinstance(source, Snapshot):
        return lakehouse_table(source)
    if isinstance(source, str | PathLike):
        return _files(Path(source).absolute(), dialect)
    if isinstance(source, pa.Table | pa.RecordBatch):
        return arrow_table("the Arrow table", source.schema, lambda i: pa.table(source.select(list(i))).to_batches())
    if isinstance(source, pads.Dataset):
        refuse_parts("the Arrow dataset", _local_files(source))
        return dataset_table("the Arrow dataset", source)
    if isinstance(source, pa.RecordBatchReader):
        return stream_table("the Arrow stream", source)
    if library == "pandas" and hasattr(source, "columns"):
        return pandas_table(source)
    if library == "polars" and hasattr(source, "lazy"):
        return polars_table(source)
    if library == "ibis" and hasattr(source, "get_backend"):
        return ibis_table(source)
    if library == "pyspark" and hasattr(source, "sparkSession"):
        return spark_table(source)
    msg = (
        f"rows cannot be read from a {type(source).__name__}; pass a path, an address, a pandas, Polars or Spark "
        "frame, an Ibis table, or Arrow data"
    )
    raise SourceError(msg)


def _local_files(dataset: pads.Dataset) -> Iterator[Path]:
    """Yield the files of this machine that a dataset names by their paths."""
    for fragment in file_fragments(dataset):
        system, path = fragment.filesystem, fragment.path
        while fragment.buffer is None and isinstance(system, pafs.SubTreeFileSystem):
            system, path = system.base_fs, system.base_path + path
        local = isinstance(system, pafs.LocalFileSystem)
        if fragment.buffer is None and (local or isinstance(getattr(system, "handler", None), pafs.FSSpecHandler)):
            yield Path(path).absolute()


def _files(path: Path, dialect: CsvDialect | None) -> Table:
    try:
        if (lakehouse := lakehouse_at(path)) is not None:
            return lakehouse_table(current_snapshot(lakehouse))
        if not path.exists() and not glob.has_magic(str(path)):
            _kind(path)
        paths = [file.path for file in listed(path)]
        refuse_parts(str(path), paths)
    except (OSError, ValueError):  # no file can have this name, or a directory on the way may not be read
        msg = f"{path} cannot be opened; check its name and that you may read it"
        raise SourceError(msg) from None
    kind = _kind(paths[0])
    for other in paths:
        if _kind(other) != kind:
            msg = f"{path} has {paths[0].name} as well as {other.name}; the files of a table are of one kind: choose "
            msg += f"them by a pattern such as '*.{kind}'"
            raise SourceError(msg)
    if kind == "parquet":
        return parquet_table(str(path), paths)
    declared = dialect or CsvDialect()
    if kind == "tsv" and declared.delimiter is None:
        declared = replace(declared, delimiter="\t")
    return csv_table(str(path), paths, declared)


def _kind(path: Path) -> str:
    found = re.search(r"\.(csv|tsv|parquet)(\.\w+)?$", path.name.lower())
    if found is None or (found[1] != "parquet" and found[2] not in (None, ".gz", ".zst")):
        msg = f"{path.name} has no extension that says how to read it; allowed are {ALLOWED}"
        raise SourceError(msg)
    return found[1]
