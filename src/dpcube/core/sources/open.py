"""Opening a source: the `Rows` of a file, frame, database table or array. Only names and types are read.

Ibis compiles the caller's expression to a query, which is counted like one written by hand (`postgres.py`, `spark.py`).
Ibis tables of other engines are refused: their casts and divisions were never compared with ours.
"""

import glob
import re
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.fs as pafs
from numpy.typing import NDArray

from dpcube.core.domain import Domain
from dpcube.core.errors import SourceError
from dpcube.core.limits import MAX_COUNT
from dpcube.core.seal import sealed
from dpcube.core.sources import postgres, spark
from dpcube.core.sources.aggregates import SelectedRows
from dpcube.core.sources.csv import CsvDialect, csv_table
from dpcube.core.sources.frames import pandas_table, polars_table
from dpcube.core.sources.lakehouse import Snapshot, current_snapshot, lakehouse_at, refuse_parts
from dpcube.core.sources.lakehouse_rows import lakehouse_table
from dpcube.core.sources.names import listed
from dpcube.core.sources.rows import Rows
from dpcube.core.sources.spark import spark_table
from dpcube.core.sources.table import (
    Table,
    arrow_table,
    dataset_table,
    file_fragments,
    opened,
    parquet_table,
    stream_table,
)

QUERIED: dict[str, Callable[[str, str | None], Table]] = dict.fromkeys(postgres.SCHEMES, postgres.postgres_table)
"""Databases by the beginning of an address, which may come with a query."""
ADDRESSED: dict[str, Callable[[str], Table]] = {spark.SCHEME: spark.spark_path_table}
"""Engines by the beginning of an address that names a table, and takes no query."""


def is_address(source: object) -> bool:
    """Return whether a source is the address of a table in a database, and not a path."""
    return isinstance(source, str) and source.startswith((*QUERIED, *ADDRESSED))


def address_table(address: str, query: str | None = None) -> Table:
    """Return the table at an address, or the result of a query there."""
    for scheme, queried in QUERIED.items():
        if address.startswith(scheme):
            return queried(address, query)
    if query is not None:
        msg = "query needs the address of a PostgreSQL database; for Spark, pass the DataFrame of the query instead"
        raise SourceError(msg)
    return next(table(address) for scheme, table in ADDRESSED.items() if address.startswith(scheme))


def ibis_table(expression: Any) -> Table:
    """Return a table that counts an Ibis table in its own database."""
    engine = sql = frame = None
    name = "the Ibis table"
    with suppress(Exception):
        backend = expression.get_backend()
        engine = backend.name
    if engine not in ("postgres", "pyspark"):
        msg = f"Ibis tables of PostgreSQL and Spark can be counted, got one of {engine or 'no single engine'}"
        raise SourceError(msg)
    with suppress(Exception):
        sql = backend.compile(expression)
    if engine == "postgres":
        return postgres.query_table(opened(sql, name), name, lambda: nullcontext(backend.con))
    with suppress(Exception):
        frame = backend._session.sql(sql)
    return spark.spark_table(opened(frame, name))


ALLOWED = ".csv, .tsv (also .gz or .zst), .parquet"


def open_rows(source: Any, *, csv: CsvDialect | None = None, query: str | None = None) -> Rows:
    """Open files, an Arrow table, dataset or stream, a pandas, Polars or Spark frame, or a table in a database.

    Tables in a database are Ibis tables of PostgreSQL or Spark, postgresql://user@host/database#schema.table, the
    result of a `query` at postgresql://user@host/database, or spark:PATH of Parquet that Spark reads. Files are one
    file, a directory of files of one kind, or a pattern such as data/*.csv.gz. The extension of a file decides its
    kind, and a file with several names is read once. A Delta table is given by its directory, an Iceberg table by its
    directory or a file of its metadata; their current rows are read. `csv` is the dialect of CSV files; the default is
    a header line, and fields separated by commas, or by tabs in .tsv files.
    """
    return Rows(SelectedRows(_table(source, csv, query)))


def pinned(source: Any) -> Any:
    """Return the current snapshot of a lakehouse table, which later writes do not change; other sources as they are."""
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
        msg = "query needs the address of a database, such as postgresql://user@host/database"
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
        f"rows cannot be read from a {type(source).__name__}; pass a path, an address of a database, a pandas, Polars "
        "or Spark frame, an Ibis table, or Arrow data"
    )
    raise SourceError(msg)


def _local_files(dataset: pads.Dataset) -> Iterator[Path]:
    """Yield the local files of a dataset."""
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
            msg = f"{path} contains {paths[0].name} and {other.name}, but the files of a table must be of one kind; "
            msg += f"choose them by a pattern such as '*.{kind}'"
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
        msg = f"{path.name} has no known extension; allowed are {ALLOWED}"
        raise SourceError(msg)
    return found[1]


@sealed
def counts_from_array(array: Any, domain: Domain) -> NDArray[np.int64]:
    """Return an array of exact counts as integers; an error names the rule that is broken, not the count.

    >>> counts_from_array([[1.0, 2.0]], Domain.of_shape((1, 2)))
    array([[1, 2]])
    """
    given = np.asarray(array)
    if given.shape != domain.shape:
        msg = f"the counts have the shape {given.shape}, but the domain has {domain.shape}; give a count for each cell"
        raise SourceError(msg)
    if given.dtype.kind not in "iuf":
        msg = f"the counts must be whole numbers, got an array of type {given.dtype}"
        raise SourceError(msg)
    whole = given.dtype.kind != "f" or bool(np.all(given == np.floor(given)))
    if not whole or not (given.min() >= 0 and given.max() <= MAX_COUNT):
        msg = "the counts must be whole numbers from 0 to 2^53; at least one is not"
        raise SourceError(msg)
    if np.sum(given, dtype=np.float64) > 2.0**62:  # a sum of doubles is off by a small part of itself
        msg = "the counts must add up to less than 2^62; they add up to more"
        raise SourceError(msg)
    return given.astype(np.int64, order="C")  # as the gate needs it: it would copy once the budget is charged
