"""Where rows lie: Arrow batches or Parquet files enter, scans of chosen columns that the engine can run leave.

A scan calls its columns c0, c1, ... by position, and hands the engine nothing that it could refuse for its value: text
that is not UTF-8 gets replacement characters, text of megabytes is cut, and times go as the integers they are stored as
(the engine's own conversions raise on some). In all else an Arrow array is taken to be valid.
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

from dpcube.core.domain.grammar import LONGEST_TEXT, UNKNOWN
from dpcube.core.domain.written import LARGEST_WHOLE
from dpcube.core.errors import SourceError
from dpcube.core.sources import unit
from dpcube.core.sources.dialect import DUCKDB, Dialect, literal
from dpcube.core.sources.names import identity, refuse_twice
from dpcube.core.sources.sql import is_binary, is_long, kind, value_type

TEXT = pa.large_binary()  # of which the bytes are kept, that tell units apart
INT128 = pa.binary(16)
Batches = Callable[[Sequence[int]], Iterable[pa.RecordBatch]]
Parts = Callable[[Sequence[int], int | None], Iterable[pa.RecordBatch]]
Start = TypeVar("Start")
Filtered = TypeVar("Filtered", pa.RecordBatch, pa.Table)


@dataclass(frozen=True, slots=True)
class Scan:
    """What follows FROM, and what it needs: a stream to be called `stream`, leave to open files, or its own engine.

    `run` sends SQL to an engine elsewhere and brings back the columns of the answer. `bounds_hold` says whether the
    least and the greatest value that a file states for a column are so for every row.
    """

    sql: str
    stream: Callable[[], pa.RecordBatchReader] | None = None
    paths: tuple[str, ...] = ()
    run: Callable[[str], dict[str, NDArray[Any]]] | None = None
    bounds_hold: bool = True


Scans = Callable[[Sequence[int], int | None], Iterable[Scan]]


@dataclass(frozen=True, slots=True)
class Table:
    """A table by its name in messages, its schema, and ways to scan some of its columns, to be tried in turn.

    A scan may be asked for the form of a unit as well, which it calls u (`unit.py`); `named` says of which columns.
    `declared` says that the types of columns are known apart from the rows, and not inferred from them by a library.
    `lines` is a scan of a file's lines, the empty ones left out, whether they are rows or break the rules. The names of
    columns `in_first_line` of a file may be a row, if it has no header.
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
    """Return rows of an engine elsewhere, called r, with the chosen columns turned into types that engines share.

    A unit is its form, and what holds for the rows that have one or are null.
    """
    form, kept = unit or ("", "true")
    selected = [f"{value(i)} AS c{i}" for i in columns] + ([f"{form} AS u"] if form else [])
    return f"(SELECT {', '.join(selected)} FROM {rows} AS r WHERE {kept}) AS s"


def imported(module: str, extra: str) -> Any:
    """Return a module of a library that not every installation has."""
    try:
        return import_module(module)
    except ImportError:
        msg = f"this source needs {module.partition('.')[0]}; install it with: pip install 'dpcube[{extra}]'"
    raise SourceError(msg)


def opened(found: Any, name: str) -> Any:
    """Return what an engine found, if it did."""
    if found is None:
        msg = f"{name} cannot be opened; check that it is there and that you may read it"
        raise SourceError(msg)
    return found


def arrow_table(name: str, schema: pa.Schema, batches: Batches) -> Table:
    """Return a table of Arrow batches, which are asked for anew in each scan."""

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
    """Return the rows of a batch or a table that are kept; views, which Arrow does not filter, as octets."""
    arrays = [column.cast(pa.large_binary()) if _is_view(column.type) else column for column in rows.columns]
    return type(rows).from_arrays(arrays, rows.schema.names).filter(kept)


def streamed_table(name: str, schema: pa.Schema, parts: Parts) -> Table:
    """Return a table of batches of chosen columns and, if it is asked for, the form of a unit."""

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

    return Table(name, schema, scans, lambda i: unit.carries(schema.types[i]))


def stream_table(name: str, reader: pa.RecordBatchReader) -> Table:
    """Return a table that reads a stream of batches, once."""
    unread = [reader]
    table = arrow_table(name, reader.schema, lambda columns: (batch.select(list(columns)) for batch in reader))

    def scans(columns: Sequence[int], of: int | None) -> Iterable[Scan]:
        try:
            unread.pop()  # in one step, so that of two threads one is refused
        except IndexError:
            msg = f"{name} can be read once, and has been; pass a table or a dataset instead"
            raise SourceError(msg) from None
        return table.scans(columns, of)

    return replace(table, scans=scans)


def dataset_table(name: str, dataset: pads.Dataset) -> Table:
    """Return a table that reads an Arrow dataset, in which no file is twice."""
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
                    f"{name} reads the column '{names[i]}' into a dictionary, where some text fails; pass a file's path"
                )
                raise SourceError(msg)
        return table.scans(columns, of)

    return replace(table, scans=scans)


def _read_by(name: str, dataset: pads.Dataset) -> Iterator[tuple[Hashable, str]]:
    """Yield what a dataset reads from files: whole files or, of a Parquet file that is there in parts, row groups.

    Datasets in memory are their owner's own rows, repeated or not.
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
    """Yield what a dataset reads of files."""
    todo = [dataset]
    while todo:
        part = todo.pop()
        todo += part.children if isinstance(part, pads.UnionDataset) else []
        if isinstance(part, pads.FileSystemDataset):
            # With a filter a dataset does not tell its fragments; as the part of a union it has none.
            yield from pads.UnionDataset(part.schema, [part]).children[0].get_fragments()


def _file(fragment: pads.FileFragment) -> Hashable:
    """Return what a fragment is read from: a file of this machine, of another by its path, or memory by its place."""
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
    """Return a table that reads Parquet files: by the engine's own reader if it can, else through Arrow.

    The engine's reader raises on some times and on text that is not UTF-8, or else makes question marks of it, which
    are text like any other. Arrow's raises on such text in dictionary columns, unless it reads by the types of Parquet
    instead of those that Arrow noted in the file. A column that has one type in one file and another in the next is
    read as text: a row without a value makes whole numbers real ones in its file, and must not decide about the others.
    """
    metadata = read_each(paths, metadata_without_arrow)
    schemas = list(map(_schema, metadata))
    schema = common_schema(paths, schemas)
    alike = all(one.types == schema.types for one in schemas)

    def batches(columns: Sequence[int]) -> Iterable[pa.RecordBatch]:
        asked = pa.schema([schema.field(i) for i in columns])
        for path, part in zip(paths, metadata, strict=True):
            for batch in pq.ParquetFile(path, metadata=part).iter_batches(columns=asked.names):
                found = zip(batch.select(asked.names).columns, asked.types, strict=True)
                arrays = [array if array.type == type_ else _as_octets(array) for array, type_ in found]
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
    """Return rows of the engine with a unit's form, as `unit.form` has it."""
    whole = f"abs({column}::DOUBLE) <= {LARGEST_WHOLE}"
    if pa.types.is_floating(type_):
        form, kept = f"CASE WHEN isnan({column}) THEN NULL ELSE {column} END", f"{whole} AND {column} = floor({column})"
        kept = f"isnan({column}) OR ({kept})"
    else:
        form, kept = column, whole if pa.types.is_integer(type_) else "true"
    return f"(SELECT {', '.join((*columns, f'{form} AS u'))} FROM {rows} WHERE coalesce({kept}, true))"


def read_each(paths: Sequence[Path], read: Callable[[Path], Start]) -> list[Start]:
    """Return what stands at the start or the end of each file; an error says which cannot be read, and not why."""
    found: list[Start] = []
    with suppress(OSError, pa.ArrowException, ValueError):
        for path in paths:
            found.append(read(path))
        return found
    path = paths[len(found)]
    msg = f"{path} cannot be opened as a {path.suffix} file; check that it is whole and that you may read it"
    raise SourceError(msg)


def common_schema(paths: Sequence[Path], schemas: Sequence[pa.Schema]) -> pa.Schema:
    """Return a schema for all files, text where their types differ; refuse other names, and lists beside others."""
    first = schemas[0]
    types = [{*held} for held in zip(*(schema.types for schema in schemas), strict=False)]
    nested = any(len(held) > 1 and None in map(kind, held) for held in types)
    for path, schema in zip(paths, schemas, strict=True):
        if schema.names != first.names or (nested and schema.types != first.types):
            msg = f"{path} has other columns than {paths[0]}; the files of a table have columns of the same names, in "
            msg += "the same order, and values of one kind in each"
            raise SourceError(msg)
    return pa.schema([(n, held.pop() if len(held) == 1 else TEXT) for n, held in zip(first.names, types, strict=True)])


def _schema(metadata: pq.FileMetaData) -> pa.Schema:
    """Return the schema of a Parquet file, in which integers of 128 bits, which Polars alone writes, are text."""
    schema = metadata.schema.to_arrow_schema()
    if str(metadata.created_by).startswith("Polars"):  # which writes bytes of any number, and no others of 16
        types = [TEXT if type_ == INT128 else type_ for type_ in schema.types]
        schema = pa.schema(list(zip(schema.names, types, strict=True)))
    return schema


def _as_octets(array: pa.Array) -> pa.Array:
    """Return the texts of values, by which they are read as they are in a column of their own type."""
    if array.type == INT128:
        numbers = (None if v is None else int.from_bytes(v, "little", signed=True) for v in array.to_pylist())
        return pa.array([None if number is None else str(number).encode() for number in numbers], TEXT)
    if pa.types.is_floating(array.type):
        array = array.cast(pa.float64())
    return (array if kind(array.type) == "text" and not is_long(array.type) else array.cast(pa.string())).cast(TEXT)


def metadata_without_arrow(path: Path) -> pq.FileMetaData:
    """Return the metadata of a Parquet file with the key to its Arrow schema changed, so that nobody finds it."""
    with path.open("rb") as file:
        file.seek(-8, os.SEEK_END)
        end = file.read()
        file.seek(-8 - int.from_bytes(end[:4], "little"), os.SEEK_END)
        footer = file.read().replace(b"ARROW:schema", b"arrow-schema")
    return pq.read_metadata(pa.BufferReader(b"PAR1" + footer))


def _sent(type_: pa.DataType) -> pa.DataType:
    """Return the type in which a column goes to the engine."""
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
    """Say whether Arrow reads a column of a Parquet file, for the engine's own conversion could raise."""
    is_time = pa.types.is_timestamp(type_) or pa.types.is_time(type_)
    return is_time or is_binary(type_) or is_long(type_) or kind(type_) is None


def _mend(array: pa.Array, type_: pa.DataType) -> pa.Array:
    if kind(array.type) is None:
        return pc.if_else(array.is_valid(), UNKNOWN, pa.scalar(None, pa.string()))
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
    if array.nbytes <= LONGEST_TEXT:
        return array
    long = array.cast(pa.large_string())
    if (pc.max(pc.binary_length(long)).as_py() or 0) <= LONGEST_TEXT:
        return array
    return pc.utf8_slice_codeunits(long, 0, LONGEST_TEXT).cast(type_)
