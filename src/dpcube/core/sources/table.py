"""Table scans: SQL relations over selected columns of Arrow batches and Parquet files.

A scan names its columns c0, c1, ... by position, and passes the engine no value that it could refuse. Text that is not
UTF-8 gets replacement characters, text of megabytes is cut, and times are passed as their stored integers, for the
engine's own conversions raise on some. In all other respects Arrow arrays are assumed to be valid.
"""

import os
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pyarrow.fs as pafs
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dpcube.core.domain.grammar import UNKNOWN
from dpcube.core.errors import SourceError
from dpcube.core.limits import MAX_EXACT_WHOLE, MAX_TEXT
from dpcube.core.sources import unit
from dpcube.core.sources.dialect import DUCKDB, Dialect, literal
from dpcube.core.sources.names import identity, refuse_twice
from dpcube.core.sources.sql import is_binary, is_long, kind, may_be_inferred, value_type

TEXT = pa.large_binary()  # of which the bytes are kept, that tell units apart
INT128 = pa.binary(16)
Batches = Callable[[Sequence[int]], Iterable[pa.RecordBatch]]
Parts = Callable[[Sequence[int], int | None], Iterable[pa.RecordBatch]]
Start = TypeVar("Start")
Filtered = TypeVar("Filtered", pa.RecordBatch, pa.Table)


@dataclass(frozen=True, slots=True)
class Scan:
    """Relation for a FROM clause, and its requirements: a stream named `stream`, files to open, or another engine.

    `run` sends SQL to another engine and returns the columns of the result. `bounds_hold` says whether the minimum and
    maximum that a file states for a column hold for every row (NaN is left out of them).
    """

    sql: str
    stream: Callable[[], pa.RecordBatchReader] | None = None
    paths: tuple[str, ...] = ()
    run: Callable[[str], dict[str, NDArray[Any]]] | None = None
    bounds_hold: bool = True


Scans = Callable[[Sequence[int], int | None], Iterable[Scan]]


@dataclass(frozen=True, slots=True)
class Table:
    """Table: its name in messages, its schema, and alternative scans of some of its columns, to be tried in turn.

    A scan may also include the form of a privacy unit, named u (`unit.py`); `named` tells which columns have one.
    `declared` means that column types do not depend on the rows, as an inferred type may. `lines` is a scan of a
    file's lines that are not empty, whether they are rows or malformed. With `in_first_line`, the column names come
    from the first line of a file, which may be a row if the file has no header.
    """

    name: str
    schema: pa.Schema
    scans: Scans
    named: Callable[[int], bool]
    dialect: Dialect = DUCKDB
    declared: bool = False
    lines: Scan | None = None
    in_first_line: bool = False


def normalised(
    rows: str,
    columns: Sequence[int],
    value: Callable[[int], str],
    unit: tuple[str, str] | None = None,
) -> str:
    """Return rows of another engine, named r, with the chosen columns converted to types that all engines share.

    `unit` is the form of a privacy unit, and a condition that a row has one or is null.
    """
    form, kept = unit or ("", "true")
    selected = [f"{value(i)} AS c{i}" for i in columns] + ([f"{form} AS u"] if form else [])
    return f"(SELECT {', '.join(selected)} FROM {rows} AS r WHERE {kept}) AS s"


def imported(module: str, extra: str) -> Any:
    """Import a module of an optional dependency; SourceError if it is not installed."""
    try:
        return import_module(module)
    except ImportError:
        msg = f"this source needs {module.partition('.')[0]}; install it with: pip install 'dpcube[{extra}]'"
    raise SourceError(msg)


def opened(found: Any, name: str) -> Any:
    """Return what an engine found; SourceError if it found nothing."""
    if found is None:
        msg = f"{name} cannot be opened; check that it exists and that you may read it"
        raise SourceError(msg)
    return found


def arrow_table(name: str, schema: pa.Schema, batches: Batches) -> Table:
    """Return a table of Arrow batches, which each scan requests anew."""

    def parts(columns: Sequence[int], of: int | None) -> Iterable[pa.RecordBatch]:
        asked = sorted({*columns, *(() if of is None else (of,))})
        for batch in batches(asked):
            arrays = {f"c{i}": batch.column(asked.index(i)) for i in columns}
            if of is None:
                yield pa.record_batch(list(arrays.values()), list(arrays))
            else:
                arrays["u"], named = unit.form(batch.column(asked.index(of)))
                yield kept_rows(pa.record_batch(list(arrays.values()), list(arrays)), named)

    return streamed_table(name, schema, parts)


def kept_rows(rows: Filtered, kept: pa.Array | pa.ChunkedArray) -> Filtered:
    """Return the rows of a batch or a table that are kept; views, which Arrow cannot filter, become bytes."""
    arrays = [column.cast(pa.large_binary()) if _is_view(column.type) else column for column in rows.columns]
    return type(rows).from_arrays(arrays, rows.schema.names).filter(kept)


def streamed_table(name: str, schema: pa.Schema, parts: Parts) -> Table:
    """Return a table of batches with the requested columns and, on request, the form of a privacy unit."""

    def scans(columns: Sequence[int], of: int | None) -> list[Scan]:
        sent = pa.schema([(f"c{i}", _sent(schema.types[i])) for i in columns])
        whole = sent if of is None else sent.append(pa.field("u", unit.form_type(schema.types[of])))

        def mended() -> Iterable[pa.RecordBatch]:
            for batch in parts(columns, of):
                arrays = list(map(_mend, batch.columns[: len(sent)], sent.types))
                if of is None:
                    yield pa.record_batch(arrays, whole)
                else:
                    yield pa.record_batch([*arrays, batch["u"]], whole).filter(unit.short_enough(batch["u"]))

        return [Scan("stream", lambda: pa.RecordBatchReader.from_batches(whole, mended()))]

    return Table(name, schema, scans, lambda i: unit.has_form(schema.types[i]) or may_be_inferred(schema.types[i]))


def stream_table(name: str, reader: pa.RecordBatchReader) -> Table:
    """Return a table that reads a stream of batches; only one scan is possible."""
    unread = [reader]
    table = arrow_table(name, reader.schema, lambda columns: (batch.select(list(columns)) for batch in reader))

    def scans(columns: Sequence[int], of: int | None) -> Iterable[Scan]:
        try:
            unread.pop()  # in one step, so that of two threads one is refused
        except IndexError:
            msg = f"{name} can be read only once, and has been read; pass a table or a dataset instead"
            raise SourceError(msg) from None
        return table.scans(columns, of)

    return replace(table, scans=scans)


def dataset_table(name: str, dataset: pads.Dataset) -> Table:
    """Return a table that reads an Arrow dataset; refuse one that contains a file twice."""
    refuse_twice(name, _read_by(name, dataset))
    names, types = dataset.schema.names, dataset.schema.types
    table = arrow_table(
        name, dataset.schema, lambda i: dataset.to_batches(columns={f"c{j}": pads.field(names[j]) for j in i})
    )

    def scans(columns: Sequence[int], of: int | None) -> Iterable[Scan]:
        # Arrow refuses text that is not UTF-8 when it reads a Parquet file's text into a dictionary.
        for i in (*columns, *(() if of is None else (of,))):
            if (
                kind(types[i]) == "text"
                and types[i] != value_type(types[i])
                and not isinstance(dataset, pads.InMemoryDataset)
            ):
                msg = (
                    f"{name} reads the column '{names[i]}' as a dictionary, which fails on some text; pass the path "
                    "of the files instead"
                )
                raise SourceError(msg)
        return table.scans(columns, of)

    return replace(table, scans=scans)


def _read_by(name: str, dataset: pads.Dataset) -> Iterator[tuple[Hashable, str]]:
    """Yield the parts that a dataset reads: files, or row groups of a Parquet file that it contains in fragments.

    Datasets in memory are the owner's own rows, repeated or not.
    """
    parts: dict[Hashable, list[Any]] = {}
    for fragment in file_fragments(dataset):
        parts.setdefault(_file(fragment), []).append(fragment)
    for file, fragments in parts.items():
        if len(fragments) > 1 and all(isinstance(fragment, pads.ParquetFileFragment) for fragment in fragments):
            groups = None
            with suppress(OSError, pa.ArrowException):
                groups = [((file, group.id), part.path) for part in fragments for group in part.row_groups]
            yield from opened(groups, name)
        else:
            yield from ((file, fragment.path) for fragment in fragments)


def file_fragments(dataset: pads.Dataset) -> Iterator[pads.FileFragment]:
    """Yield the file fragments of a dataset."""
    todo = [dataset]
    while todo:
        part = todo.pop()
        todo += part.children if isinstance(part, pads.UnionDataset) else []
        if isinstance(part, pads.FileSystemDataset):
            # A dataset with a filter does not list its fragments; as a child of a union it has no filter.
            yield from pads.UnionDataset(part.schema, [part]).children[0].get_fragments()


def _file(fragment: pads.FileFragment) -> Hashable:
    """Return the identity of a fragment's source: a local file, the path of a remote file, or an address in memory."""
    system, path = fragment.filesystem, fragment.path
    if fragment.buffer is not None:
        return int(fragment.buffer.address)
    while isinstance(system, pafs.SubTreeFileSystem):
        system, path = system.base_fs, system.base_path + path
    if isinstance(system, pafs.LocalFileSystem | pafs.PyFileSystem):  # the latter may be fsspec's, of this machine too
        with suppress(OSError, ValueError):
            return identity(path)
    return str(system.type_name), path


def parquet_table(name: str, paths: Sequence[Path]) -> Table:
    """Return a table that reads Parquet files: with the engine's own reader if possible, else through Arrow.

    The engine's reader raises on some times and on text that is not UTF-8, or replaces it by question marks, which are
    valid text. Arrow's reader raises on such text in dictionary columns, unless it uses the Parquet types instead of
    the Arrow schema in the file.
    A column whose type differs between files is read as text: one missing value makes the whole numbers of its file
    real ones, and must not decide about the other files. Lists stay what they are, unknown values, beside other types.
    """
    metadata = read_each(paths, metadata_without_arrow)
    schemas = list(map(_schema, paths, metadata))
    schema = common_schema(paths, schemas)
    alike = all(one.types == schema.types for one in schemas)

    def batches(columns: Sequence[int]) -> Iterable[pa.RecordBatch]:
        asked = pa.schema([schema.field(i) for i in columns])
        for path, part in zip(paths, metadata, strict=True):
            for batch in pq.ParquetFile(path, metadata=part).iter_batches(columns=asked.names):
                found = [array.storage if _is_wrapped(array.type) else array for array in batch.select(asked.names)]
                typed = zip(found, asked.types, strict=True)
                arrays = [
                    array if array.type == type_ or kind(array.type) is None else _as_octets(array)
                    for array, type_ in typed
                ]
                yield pa.record_batch(arrays, asked.names)

    through_arrow = arrow_table(name, schema, batches)
    aliases = ", ".join(f"c{i}" for i in range(len(schema)))
    options = "hive_partitioning = false, utf8_validation = 'strict'"
    texts = tuple(map(str, paths))
    direct = f"read_parquet([{', '.join(map(literal, texts))}], {options}) AS t({aliases})"
    pattern = any(mark in text for mark in "*?[" for text in texts)  # the engine would read every file that matches

    def scans(columns: Sequence[int], of: int | None) -> Iterable[Scan]:
        read = {schema.types[i] for i in (*columns, *(() if of is None else (of,)))}
        if alike and not pattern and not any(_is_converted(type_) for type_ in read):
            real = any(map(pa.types.is_floating, read))
            if of is None:
                yield Scan(direct, paths=texts, bounds_hold=not real)
            elif kind(schema.types[of]) in ("integer", "boolean", "date") or pa.types.is_floating(schema.types[of]):
                sql = _with_unit(direct, [f"c{i}" for i in columns], f"c{of}", schema.types[of])
                yield Scan(sql, paths=texts, bounds_hold=not real)
        yield from through_arrow.scans(columns, of)

    return replace(through_arrow, scans=scans)


def _with_unit(rows: str, columns: Sequence[str], column: str, type_: pa.DataType) -> str:
    """Return rows of the engine with the form of a privacy unit, as in `unit.form`."""
    whole = f"abs({column}::DOUBLE) <= {MAX_EXACT_WHOLE}"
    if pa.types.is_floating(type_):
        form, kept = f"CASE WHEN isnan({column}) THEN NULL ELSE {column} END", f"{whole} AND {column} = floor({column})"
        kept = f"isnan({column}) OR ({kept})"
    else:
        form, kept = column, whole if pa.types.is_integer(type_) else "true"
    return f"(SELECT {', '.join((*columns, f'{form} AS u'))} FROM {rows} WHERE coalesce({kept}, true))"


def read_each(paths: Sequence[Path], read: Callable[[Path], Start]) -> list[Start]:
    """Read the header or footer of each file; an error says which file cannot be read, and not why."""
    found: list[Start] = []
    with suppress(OSError, pa.ArrowException, ValueError):
        for path in paths:
            found.append(read(path))
        return found
    path = paths[len(found)]
    msg = f"{path} cannot be opened as a {path.suffix} file; check that it is complete and that you may read it"
    raise SourceError(msg)


def common_schema(paths: Sequence[Path], schemas: Sequence[pa.Schema]) -> pa.Schema:
    """Return a schema for all files, text where types differ; refuse other column names."""
    first = schemas[0]
    types = [{*held} for held in zip(*(schema.types for schema in schemas), strict=False)]
    for path, schema in zip(paths, schemas, strict=True):
        if schema.names != first.names:
            msg = f"{path} has other columns than {paths[0]}; the files of a table must have the same column names in "
            msg += "the same order"
            raise SourceError(msg)
    return pa.schema([(n, held.pop() if len(held) == 1 else TEXT) for n, held in zip(first.names, types, strict=True)])


def _schema(path: Path, metadata: pq.FileMetaData) -> pa.Schema:
    """Return the schema of a Parquet file, in which integers of 128 bits, which Polars alone writes, are text.

    UUIDs are UUIDs, as which Arrow reads them; of other extension types the storage is read, such as the text of JSON.
    """
    schema = pq.ParquetFile(path, metadata=metadata).schema_arrow
    types = [type_.storage_type if _is_wrapped(type_) else type_ for type_ in schema.types]
    if str(metadata.created_by).startswith("Polars"):  # which writes bytes of any number, and no others of 16
        types = [TEXT if type_ == INT128 else type_ for type_ in types]
    return pa.schema(list(zip(schema.names, types, strict=True)))


def _is_wrapped(type_: pa.DataType) -> bool:
    return isinstance(type_, pa.BaseExtensionType) and not isinstance(type_, pa.UuidType)


def _as_octets(array: pa.Array) -> pa.Array:
    """Return the texts of values, by which they are read as they are in a column of their own type."""
    if array.type == INT128:
        numbers = (None if v is None else int.from_bytes(v, "little", signed=True) for v in array.to_pylist())
        return pa.array([None if number is None else str(number).encode() for number in numbers], TEXT)
    if pa.types.is_floating(array.type):
        array = array.cast(pa.float64())
    return (array if kind(array.type) == "text" and not is_long(array.type) else array.cast(pa.string())).cast(TEXT)


def metadata_without_arrow(path: Path) -> pq.FileMetaData:
    """Return the metadata of a Parquet file with the key of its Arrow schema renamed, so that Arrow ignores it."""
    with path.open("rb") as file:
        file.seek(-8, os.SEEK_END)
        end = file.read()
        file.seek(-8 - int.from_bytes(end[:4], "little"), os.SEEK_END)
        footer = file.read().replace(b"ARROW:schema", b"arrow-schema")
    return pq.read_metadata(pa.BufferReader(b"PAR1" + footer))


def _sent(type_: pa.DataType) -> pa.DataType:
    """Return the type in which a column is passed to the engine."""
    if pa.types.is_dictionary(type_) and kind(type_) == "text":
        return pa.dictionary(type_.index_type, _sent(type_.value_type), type_.ordered)
    type_ = value_type(type_)
    if _is_time(type_):
        return pa.int64()
    if pa.types.is_float16(type_):
        return pa.float32()
    if kind(type_) is None:
        return pa.string()
    if is_binary(type_) or _is_view(type_) or is_long(type_):
        return pa.large_string()
    return pa.string() if pa.types.is_null(type_) else type_


def _is_view(type_: pa.DataType) -> bool:
    return bool(pa.types.is_string_view(type_) or pa.types.is_binary_view(type_))


def _is_time(type_: pa.DataType) -> bool:
    return kind(type_) in ("date", "time") and not pa.types.is_date32(type_)


def _is_converted(type_: pa.DataType) -> bool:
    """Return whether Arrow must read a column of a Parquet file because the engine's own conversion could raise."""
    is_time = pa.types.is_timestamp(type_) or pa.types.is_time(type_)
    return is_time or is_binary(type_) or is_long(type_) or kind(type_) is None


def _mend(array: pa.Array, type_: pa.DataType) -> pa.Array:
    if kind(array.type) is None:
        return pc.if_else(array.is_valid(), UNKNOWN, pa.scalar(None, pa.string())).cast(type_)
    if pa.types.is_dictionary(type_):
        return pa.DictionaryArray.from_arrays(array.indices, _mend(array.dictionary, type_.value_type))
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if _is_time(array.type):
        return array.view(pa.int32() if array.type.bit_width == 32 else pa.int64()).cast(type_)
    octets = is_binary(array.type) or _is_view(array.type)
    array = array.cast(pa.large_binary()).view(type_) if octets else array.cast(type_)
    return _mend_text(array, type_) if kind(type_) == "text" else array


def _mend_text(array: pa.Array, type_: pa.DataType) -> pa.Array:
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        raw = array.cast(pa.large_binary()).to_pylist()
        array = pa.array([None if octets is None else octets.decode("utf-8", "replace") for octets in raw], type_)
    if array.nbytes <= MAX_TEXT:
        return array
    long = array.cast(pa.large_string())
    if (pc.max(pc.binary_length(long)).as_py() or 0) <= MAX_TEXT:
        return array
    return pc.utf8_slice_codeunits(long, 0, MAX_TEXT).cast(type_)
