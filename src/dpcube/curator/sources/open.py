"""Opening a table: a path, an address, a frame or Arrow data enters, `Rows` leave. Only names and types are read."""

import re
from os import PathLike
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as pads

from dpcube.curator.sources.csv import CsvDialect, csv_table
from dpcube.curator.sources.engines import address_table, ibis_table, is_address, spark_table
from dpcube.curator.sources.frames import pandas_table, polars_table
from dpcube.curator.sources.rows import Rows
from dpcube.curator.sources.table import Table, arrow_table, dataset_table, parquet_table, stream_table
from dpcube.errors import SourceError

ALLOWED = ".csv, .tsv (also .gz or .zst), .parquet"


def open_rows(source: Any, *, csv: CsvDialect | None = None) -> Rows:
    """Open a file, an Arrow table, dataset or stream, a pandas, Polars or Spark frame, or a table in a database.

    Tables in a database are Ibis tables of PostgreSQL or Spark, postgresql://user@host/database#schema.table, or
    spark:PATH of Parquet that Spark reads. A file's kind goes by its name. `csv` is the dialect of a CSV file; without
    it, fields are divided by commas, or by tabs in a .tsv file, and the first line names the columns.
    """
    return Rows(_table(source, csv))


def _table(source: Any, dialect: CsvDialect | None) -> Table:
    library = type(source).__module__.partition(".")[0]
    if isinstance(source, str) and is_address(source):
        return address_table(source)
    if isinstance(source, str | PathLike):
        return _file(Path(source).absolute(), dialect)
    if isinstance(source, pa.Table | pa.RecordBatch):
        return arrow_table("the Arrow table", source.schema, lambda i: pa.table(source.select(list(i))).to_batches())
    if isinstance(source, pads.Dataset):
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


def _file(path: Path, dialect: CsvDialect | None) -> Table:
    kind = re.search(r"\.(csv|tsv|parquet)(\.\w+)?$", path.name.lower())
    if kind is None or (kind[1] != "parquet" and kind[2] not in (None, ".gz", ".zst")):
        msg = f"{path.name} has no extension that says how to read it; allowed are {ALLOWED}"
        raise SourceError(msg)
    try:
        if not path.is_file():
            msg = f"there is no file {path}"
            raise SourceError(msg)
        if kind[1] == "parquet":
            return parquet_table(path)
        return csv_table(path, dialect or CsvDialect(delimiter="\t" if kind[1] == "tsv" else ","))
    except (OSError, pa.ArrowException, ValueError):
        msg = f"{path} cannot be opened as a {kind[0]} file; check that it is whole and that you may read it"
    raise SourceError(msg)
