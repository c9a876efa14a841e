"""Lakehouse tables (Delta Lake, Iceberg, Hudi) and the snapshot of one that is read.

A lakehouse table keeps files whose rows were updated, deleted or compacted away until they are cleaned up. Only its
metadata say which files are current. So its files are never counted by their names: a table is read at its current
version (`Snapshot`), or refused. Tables are recognised by names of files and directories alone. Messages name the
table's directory and nothing below it, for names there may hold values of rows (`ward=7`).

**Delta Lake log reader.** The log is a checkpoint, if there is one, and the commits after it; each commit adds and
removes files. The log also holds statistics: the minimum and maximum of each column in each file. No run may depend on
those values of rows, so they are skipped as text. This is why the log is replayed here and not by a library, which
would parse them and fail on some. Values of partition columns are values of rows too, and may stand in file names: no
message shows either. What is read is protocol version 1, and features that add nothing to it. A table that declares any
other feature is refused by that declaration, whether or not a file uses it.

**Iceberg metadata reader.** pyiceberg parses the metadata. Only the table's catalog knows which metadata file is
current. In the directory only `version-hint.text` says so, which some catalogs write and others do not; without it the
user names the file. pyiceberg reads no rows and is given no filter, so the minima and maxima in the metadata decide
nothing. A table is refused by its format version and by delete files that cannot be applied; which files exist is
public.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from dpcube.core.errors import SourceError

Format = Literal["Delta", "Iceberg", "Hudi"]
ICEBERG_METADATA = ".metadata.json"
EXPORTS = {
    "Delta": "spark.read.format('delta').load(TABLE).write.parquet(NEW)",
    "Iceberg": "spark.table(TABLE).write.parquet(NEW)",
    "Hudi": "spark.read.format('hudi').load(TABLE).write.parquet(NEW)",
}
UNREAD = pa.opaque(pa.null(), "nested or unknown", "lakehouse")  # of a column that cannot be counted
DECIMAL_TYPE = re.compile(r"decimal\((\d+),\s*(\d+)\)")


@dataclass(frozen=True, slots=True)
class Lakehouse:
    """Lakehouse table: its format, its directory, and its metadata file if the user named one."""

    format: Format
    root: Path
    metadata: Path | None = None

    @property
    def words(self) -> str:
        """Name of the table in messages."""
        return f"the {self.format} table {self.root}"

    @property
    def export(self) -> str:
        """Remedy if the table cannot be read: export it to plain Parquet, and use one ledger for all copies."""
        return (
            f"export its current rows to plain Parquet with the engine that writes it, such as {EXPORTS[self.format]}, "
            "and use one ledger for the table and all such copies (ledger, --ledger FILE)"
        )


@dataclass(frozen=True, slots=True)
class LakeColumn:
    """Column as the metadata declare it: its name, its type, and its key in the data files.

    The key is a name in lower case (Delta) or a field id (Iceberg).
    """

    name: str
    type: pa.DataType
    key: str | int


@dataclass(frozen=True, slots=True)
class DataFile:
    """Data file, the values of its rows in partition columns as text, and the delete files that apply to it.

    Delete files refer to it by its `location`, as the metadata write it.
    """

    path: Path
    partition: Mapping[str, str | None]
    deletes: tuple[Path, ...] = ()
    location: str = ""


@dataclass(frozen=True, slots=True, repr=False)
class Snapshot:
    """One version of a lakehouse table: its columns and its data files."""

    table: Lakehouse
    version: int | None
    columns: tuple[LakeColumn, ...]
    files: tuple[DataFile, ...]

    def __repr__(self) -> str:
        return f"<{self.words} of {self.table.words}>"

    @property
    def words(self) -> str:
        """Name of the version in a ledger; `None` is that of an Iceberg table without a snapshot."""
        return f"{self.table.format} {'version' if self.table.format == 'Delta' else 'snapshot'} {self.version}"


def declared_type(text: str, types: Mapping[str, pa.DataType]) -> pa.DataType:
    """Return the Arrow type for a type name of the metadata."""
    if decimal := DECIMAL_TYPE.fullmatch(text):
        return pa.decimal128(int(decimal[1]), int(decimal[2]))
    return types.get(text, UNREAD)


def lakehouse_at(path: Path) -> Lakehouse | None:
    """Return the lakehouse table at a path: a table's directory, or a metadata file of Iceberg; None if none."""
    if ICEBERG_METADATA in path.name and path.parent.name == "metadata" and path.is_file():
        return Lakehouse("Iceberg", path.parent.parent, path)
    if (path / "_delta_log").is_dir():
        return Lakehouse("Delta", path)
    if (path / ".hoodie").is_dir():
        return Lakehouse("Hudi", path)
    return Lakehouse("Iceberg", path) if _has_iceberg_metadata(path / "metadata") else None


def _has_iceberg_metadata(directory: Path) -> bool:
    try:
        return directory.is_dir() and any(ICEBERG_METADATA in entry.name for entry in directory.iterdir())
    except PermissionError:  # a directory that may not be listed could contain any
        return True


def lakehouse_above(path: Path) -> Lakehouse | None:
    """Return the lakehouse table that a path is or lies in, without following links."""
    return next((found for place in (path, *path.parents) if (found := lakehouse_at(place)) is not None), None)


def refuse_parts(named: str, files: Iterable[Path]) -> None:
    """Refuse Parquet files that belong to a lakehouse table: they may contain rows that the table no longer has."""
    above = cache(lakehouse_above)
    for file in files:
        if not file.name.lower().endswith(".parquet"):  # no lakehouse table keeps its rows as text
            continue
        for directory in dict.fromkeys((file.parent, file.resolve().parent)):
            if (table := above(directory)) is not None:
                msg = (
                    f"{named} names files inside {table.words}, which may still contain rows that were updated or "
                    "deleted; "
                )
                raise SourceError(msg + (table.export if table.format == "Hudi" else f"name the table: {table.root}"))


COMMIT = re.compile(r"(\d{20})\.json")
CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10}))?\.parquet")
DELTA_TYPES = {
    "string": pa.string(),
    "long": pa.int64(),
    "integer": pa.int32(),
    "short": pa.int16(),
    "byte": pa.int8(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
SAME_AS_VERSION_1 = {"timestampNtz", "vacuumProtocolCheck"}
LOG_COLUMNS = (
    "add.path",
    "add.partitionValues",
    "metaData.schemaString",
    "metaData.partitionColumns",
    "metaData.configuration",
    "protocol",
)
AS_BYTES = pa.map_(pa.binary(), pa.binary())


@dataclass(slots=True)
class _LogState:
    """State of a Delta table after the log's actions so far."""

    protocol: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    added: dict[str, dict[str, str | None]] = field(default_factory=dict)

    def apply(self, action: dict[str, Any]) -> None:
        self.protocol = action.get("protocol") or self.protocol
        self.metadata = action.get("metaData") or self.metadata
        if add := action.get("add"):
            self.added[_decoded(add["path"])] = dict(add.get("partitionValues") or {})
        if remove := action.get("remove"):
            self.added.pop(_decoded(remove["path"]), None)


def delta_snapshot(table: Lakehouse) -> Snapshot:
    """Return the current version of a Delta table, or refuse one that cannot be read exactly."""
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError, pa.ArrowException):
        version, state = _replayed(table.root / "_delta_log")
        _refuse_features(table, state)
        return Snapshot(table, version, tuple(_delta_columns(state)), tuple(_delta_files(table, state)))
    msg = f"the log of {table.words} is incomplete or cannot be read; {table.export}"
    raise SourceError(msg)


def _delta_columns(state: _LogState) -> Iterator[LakeColumn]:
    for column in json.loads(state.metadata["schemaString"])["fields"]:
        type_ = column["type"] if isinstance(column["type"], str) else ""
        declared = declared_type(type_, DELTA_TYPES)
        is_partition = column["name"] in state.metadata["partitionColumns"]
        yield LakeColumn(column["name"], pa.string() if is_partition else declared, column["name"].lower())


def _delta_files(table: Lakehouse, state: _LogState) -> Iterator[DataFile]:
    for path, values in sorted(state.added.items()):
        partition = {name: values.get(name) or None for name in state.metadata["partitionColumns"]}  # "" is null there
        yield DataFile(_delta_place(table, path), partition)


def _replayed(log: Path) -> tuple[int, _LogState]:
    """Return the last version in a log and the state after replaying it; OSError if a commit is missing."""
    names = sorted(path.name for path in log.iterdir())
    commits = [int(found[1]) for name in names if (found := COMMIT.fullmatch(name))]
    start, parts = _checkpoint(log, names)
    last = max([start, *commits])
    state = _LogState()
    for part in parts:
        for action in _checkpointed(part):
            state.apply(action)
    for version in range(start + 1, last + 1):
        for line in (log / f"{version:020}.json").read_bytes().decode("utf-8", "surrogateescape").split("\n"):
            if line.strip():
                state.apply(json.loads(line))
    return last, state


def _checkpoint(log: Path, names: list[str]) -> tuple[int, list[Path]]:
    """Return the version of the last complete checkpoint and its files; -1 and none if there is none."""
    parts: dict[tuple[int, int], list[Path]] = {}
    for name in names:
        if found := CHECKPOINT.fullmatch(name):
            parts.setdefault((int(found[1]), int(found[3] or 1)), []).append(log / name)
    whole = [(version, files) for (version, number), files in parts.items() if len(files) == number]
    return max(whole, default=(-1, []))


def _checkpointed(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the actions of a checkpoint that define the table's contents; statistics are not read."""
    file = pq.ParquetFile(path)
    for batch in file.iter_batches(columns=list(LOG_COLUMNS)):
        columns = {name: batch.column(name) for name in batch.schema.names}
        add = columns.pop("add")
        paths = add.field("path").cast(pa.binary()).to_pylist()  # not every text is UTF-8, and none may raise
        values = add.field("partitionValues").cast(AS_BYTES).to_pylist()
        for there, octets, pairs in zip(add.is_valid().to_pylist(), paths, values, strict=True):
            if there:
                partition = {_text(key): None if value is None else _text(value) for key, value in pairs}
                yield {"add": {"path": _text(octets), "partitionValues": partition}}
        for name, column in columns.items():
            yield from ({name: _plain(action)} for action in column.to_pylist() if action is not None)


def _plain(action: dict[str, Any]) -> dict[str, Any]:
    """Return an action whose Parquet map is a mapping, as in a JSON commit."""
    return {key: dict(value) if key == "configuration" and value else value for key, value in action.items()}


def _decoded(path: str) -> str:
    return unquote(path, errors="surrogateescape")


def _text(octets: bytes) -> str:
    return octets.decode("utf-8", "surrogateescape")


def _refuse_features(table: Lakehouse, state: _LogState) -> None:
    """Refuse a table by the features it declares, never by those its files use: a row could cause the latter."""
    protocol, settings = state.protocol, state.metadata.get("configuration") or {}
    version, features = protocol["minReaderVersion"], {*(protocol.get("readerFeatures") or ())}
    mapped = settings.get("delta.columnMapping.mode", "none") != "none"
    known = SAME_AS_VERSION_1 if mapped else {*SAME_AS_VERSION_1, "columnMapping"}
    found = sorted(features - known) or (["columnMapping"] if mapped else [])
    if any(key.startswith("delta.coordinatedCommits") for key in settings):
        found = [*found, "coordinatedCommits"]
    if found or version > 3:
        what = ", ".join(found) or f"version {version} of the protocol"
        msg = f"{table.words} declares features that are not supported: {what}; {table.export}"
        raise SourceError(msg)


def _delta_place(table: Lakehouse, path: str) -> Path:
    """Return the path of a file that the log names; it must exist below the table's directory."""
    place = table.root / path
    if re.match(r"/|[A-Za-z][A-Za-z0-9+.-]*:", path) or ".." in place.relative_to(table.root).parts:
        msg = f"{table.words} names files by absolute paths or outside its directory (a shallow clone); {table.export}"
        raise SourceError(msg)
    if not place.is_file():
        msg = f"{table.words} lacks files that its log names (removed, or not copied); {table.export}"
        raise SourceError(msg)
    return place


ICEBERG_TYPES = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
    "string": pa.string(),
    "binary": pa.binary(),
}
HIGHEST_FORMAT = 2


def iceberg_snapshot(table: Lakehouse) -> Snapshot:
    """Return the current snapshot of an Iceberg table, or refuse one that cannot be read exactly."""
    metadata = table.metadata or _hinted(table)
    found = None
    with suppress(Exception):  # whatever the library says may quote values that stand in the names of files
        found = _static_table().from_metadata(str(metadata))
    if found is None:
        raise _unread(table, f"its metadata in {metadata.name} cannot be read")
    if found.metadata.format_version > HIGHEST_FORMAT:
        raise _unread(table, f"it has format version {found.metadata.format_version}")
    current = found.current_snapshot()
    columns = tuple(_iceberg_column(column) for column in found.schema().fields)
    files = () if current is None else tuple(_iceberg_files(table, found, current))
    return Snapshot(table, None if current is None else current.snapshot_id, columns, files)


def _static_table() -> Any:
    with suppress(ImportError):
        from pyiceberg.table import StaticTable

        return StaticTable
    msg = "an Iceberg table needs pyiceberg; install it with: pip install 'dpcube[lake]'"
    raise SourceError(msg)


def _hinted(table: Lakehouse) -> Path:
    """Return the current metadata file of a file-based catalog: that of the version hint, or a later one."""
    folder, number = table.root / "metadata", -1
    with suppress(OSError, ValueError):
        number = int((folder / "version-hint.text").read_text("ascii"))
    if number < 0:
        msg = (
            f"{table.words} has no version hint, so only its catalog knows its current metadata: name the file, such "
            f"as {folder / '00007-....metadata.json'} (metadata_location in pyiceberg); or {table.export}"
        )
        raise SourceError(msg)
    while (found := _numbered(folder, number + 1)).exists():
        number += 1
    return found if (found := _numbered(folder, number)).exists() else folder / f"v{number}.metadata.json"


def _numbered(folder: Path, number: int) -> Path:
    plain = folder / f"v{number}.metadata.json"
    return plain if plain.exists() else folder / f"v{number}.gz.metadata.json"


def _iceberg_column(field: Any) -> LakeColumn:
    return LakeColumn(field.name, declared_type(str(field.field_type), ICEBERG_TYPES), field.field_id)


def _iceberg_files(table: Lakehouse, found: Any, current: Any) -> Iterator[DataFile]:
    """Yield the files of a snapshot, all of which lie below the table's directory."""
    _iceberg_place(table, current.manifest_list)
    manifests = tasks = None
    with suppress(Exception):
        manifests = current.manifests(found.io)
    for manifest in manifests or ():
        _iceberg_place(table, manifest.manifest_path)
    with suppress(Exception):
        tasks = list(found.scan().plan_files())
    if manifests is None or tasks is None:
        raise _unread(table, "its files cannot be listed, or some delete rows by their values (equality deletes)")
    for task in tasks:
        files = (task.file, *task.delete_files)
        if any(str(getattr(file.file_format, "value", file.file_format)).upper() != "PARQUET" for file in files):
            raise _unread(table, "some of its files are not Parquet")
        place, *deletes = (_iceberg_place(table, file.file_path) for file in files)
        yield DataFile(place, {}, tuple(deletes), task.file.file_path)


def _iceberg_place(table: Lakehouse, location: str) -> Path:
    """Return the path of a file that the metadata name; it must exist below the table's directory."""
    place = Path(re.sub("^file:(//)?", "", location))
    if table.root.resolve() not in place.resolve().parents:
        raise _unread(table, "its metadata name files outside its directory (it was copied, or is stored elsewhere)")
    if not place.is_file():
        raise _unread(table, "files that its metadata name do not exist")
    return place


def _unread(table: Lakehouse, why: str) -> SourceError:
    return SourceError(f"{table.words} cannot be read: {why}; {table.export}")


def current_snapshot(table: Lakehouse) -> Snapshot:
    """Return the current version of a lakehouse table, or refuse one that cannot be read exactly."""
    if table.format == "Delta":
        return delta_snapshot(table)
    if table.format == "Iceberg":
        return iceberg_snapshot(table)
    msg = f"{table.words} cannot be read: {table.format} is not supported; {table.export}"
    raise SourceError(msg)
