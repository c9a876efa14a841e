"""Writing tables: a stream of record batches enters, a new CSV or Parquet file leaves, whole or not at all."""

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from dpcube.errors import InputError
from dpcube.files import new_file

WRITERS = {".csv": pacsv.CSVWriter, ".parquet": pq.ParquetWriter}


def check_new_table(path: Path) -> None:
    """Raise InputError unless `path` names a new CSV or Parquet file; asked before any work is done."""
    if path.suffix.lower() not in WRITERS:
        msg = f"cannot tell what to write to {path}; end its name in {' or '.join(WRITERS)}"
        raise InputError(msg)
    if path.exists():
        raise _exists(path)
    if not path.parent.is_dir() or not os.access(path.parent, os.W_OK) or "\0" in path.name:
        msg = f"cannot write {path}: {path.parent} is no directory that can be written to, or no file has such a name"
        raise InputError(msg)


def write_table(batches: pa.RecordBatchReader, path: Path) -> int:
    """Write a stream to a new file, by the ending of its name, and return how many rows it had."""
    check_new_table(path)
    rows = 0
    try:
        with new_file(path) as part, WRITERS[path.suffix.lower()](part, batches.schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
                rows += batch.num_rows
    except FileExistsError:
        raise _exists(path) from None
    except OSError as error:
        msg = (
            f"cannot write {path}: {os.strerror(error.errno) if error.errno else 'the disk or the file system refused'}"
        )
        raise InputError(msg) from None
    return rows


def _exists(path: Path) -> InputError:
    return InputError(f"{path} exists, and is not overwritten; choose another name, or remove it first")
