"""Writing tables as new CSV or Parquet files, whole or not at all.

Labels come from the maker of a release: in CSV, no spreadsheet runs them (`spreadsheets.py`). Parquet and JSON, which
are for programs, have every text as it is.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from dpcube.core.errors import InputError
from dpcube.core.files import new_file
from dpcube.core.spreadsheets import FORMULA, PLAIN_NUMBER, spreadsheet_text

WRITERS = {".csv": pacsv.CSVWriter, ".parquet": pq.ParquetWriter}


def check_new_table(path: Path) -> None:
    """Raise InputError unless `path` names a new CSV or Parquet file; asked before any work is done."""
    if path.suffix.lower() not in WRITERS:
        msg = f"the format of {path} is unknown; end its name in {' or '.join(WRITERS)}"
        raise InputError(msg)
    if path.exists():
        raise _exists(path)
    if not path.parent.is_dir() or not os.access(path.parent, os.W_OK) or "\0" in path.name:
        msg = f"cannot write {path}: {path.parent} is no directory that can be written to, or no file has such a name"
        raise InputError(msg)


def spreadsheet_batches(batches: pa.RecordBatchReader) -> pa.RecordBatchReader:
    """Return a stream whose texts and names of columns no spreadsheet runs."""
    schema = pa.schema([field.with_name(spreadsheet_text(field.name)) for field in batches.schema])

    def made() -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.record_batch(list(map(_without_formulas, batch.columns)), schema)

    return pa.RecordBatchReader.from_batches(schema, made())


def _without_formulas(column: pa.Array) -> pa.Array:
    if pa.types.is_dictionary(column.type):
        return pa.DictionaryArray.from_arrays(column.indices, _without_formulas(column.dictionary))
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return column
    is_number = pc.match_substring_regex(column, PLAIN_NUMBER)
    is_formula = pc.and_not(pc.match_substring_regex(column, FORMULA), is_number)
    mark, nothing = (pa.scalar(text, column.type) for text in ("'", ""))
    return pc.if_else(is_formula, pc.binary_join_element_wise(mark, column, nothing), column)


def write_table(batches: pa.RecordBatchReader, path: Path) -> int:
    """Write a stream to a new file, by the ending of its name, and return how many rows it had."""
    check_new_table(path)
    batches = spreadsheet_batches(batches) if path.suffix.lower() == ".csv" else batches
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
