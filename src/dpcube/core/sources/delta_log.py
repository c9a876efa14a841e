"""The log of a Delta table: its current version, the columns, and the Parquet files that hold its rows.

The log is a checkpoint, if there is one, and the commits after it; each commit adds and removes files. The statistics
of files that it has beside them are least and greatest values of rows, which no run may depend on: they are read past,
as text. So the log is replayed here, and not by a library that parses them and fails on some. Values of partition
columns are values of rows as well, and may stand in the names of files: no message states either.

What is read is what the protocol of version 1 says, and features that add nothing to it. A table that declares any
other feature is refused by that declaration, whether a file makes use of it or not.
"""

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from dpcube.core.errors import SourceError
from dpcube.core.sources.lakehouse import DataFile, LakeColumn, Lakehouse, Snapshot, declared_type

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
class _State:
    """What the actions so far amount to."""

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
        return Snapshot(table, version, tuple(_columns(state)), tuple(_files(table, state)))
    msg = f"the log of {table.words} is not whole, or you may not read it; {table.export}"
    raise SourceError(msg)


def _columns(state: _State) -> Iterator[LakeColumn]:
    for column in json.loads(state.metadata["schemaString"])["fields"]:
        type_ = column["type"] if isinstance(column["type"], str) else ""
        declared = declared_type(type_, DELTA_TYPES)
        is_partition = column["name"] in state.metadata["partitionColumns"]
        yield LakeColumn(column["name"], pa.string() if is_partition else declared, column["name"].lower())


def _files(table: Lakehouse, state: _State) -> Iterator[DataFile]:
    for path, values in sorted(state.added.items()):
        partition = {name: values.get(name) or None for name in state.metadata["partitionColumns"]}  # "" is null there
        yield DataFile(_place(table, path), partition)


def _replayed(log: Path) -> tuple[int, _State]:
    """Return the last version in a log, and what all actions up to it amount to; OSError if a commit is missing."""
    names = sorted(path.name for path in log.iterdir())
    commits = [int(found[1]) for name in names if (found := COMMIT.fullmatch(name))]
    start, parts = _checkpoint(log, names)
    last = max([start, *commits])
    state = _State()
    for part in parts:
        for action in _checkpointed(part):
            state.apply(action)
    for version in range(start + 1, last + 1):
        for line in (log / f"{version:020}.json").read_bytes().decode("utf-8", "surrogateescape").split("\n"):
            if line.strip():
                state.apply(json.loads(line))
    return last, state


def _checkpoint(log: Path, names: list[str]) -> tuple[int, list[Path]]:
    """Return the version of the last whole checkpoint and its files; -1 and none if there is none."""
    parts: dict[tuple[int, int], list[Path]] = {}
    for name in names:
        if found := CHECKPOINT.fullmatch(name):
            parts.setdefault((int(found[1]), int(found[3] or 1)), []).append(log / name)
    whole = [(version, files) for (version, number), files in parts.items() if len(files) == number]
    return max(whole, default=(-1, []))


def _checkpointed(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the actions of a checkpoint that decide what is in the table; statistics are not read."""
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
    """Return an action with a map as the mapping that it is in a commit."""
    return {key: dict(value) if key == "configuration" and value else value for key, value in action.items()}


def _decoded(path: str) -> str:
    return unquote(path, errors="surrogateescape")


def _text(octets: bytes) -> str:
    return octets.decode("utf-8", "surrogateescape")


def _refuse_features(table: Lakehouse, state: _State) -> None:
    """Refuse a table by what it declares, and never by what its files make use of: a row could bring that about."""
    protocol, settings = state.protocol, state.metadata.get("configuration") or {}
    version, features = protocol["minReaderVersion"], {*(protocol.get("readerFeatures") or ())}
    mapped = settings.get("delta.columnMapping.mode", "none") != "none"
    known = SAME_AS_VERSION_1 if mapped else {*SAME_AS_VERSION_1, "columnMapping"}
    found = sorted(features - known) or (["columnMapping"] if mapped else [])
    if any(key.startswith("delta.coordinatedCommits") for key in settings):
        found = [*found, "coordinatedCommits"]
    if found or version > 3:
        what = ", ".join(found) or f"version {version} of the protocol"
        msg = f"{table.words} declares features that are not read here: {what}; {table.export}"
        raise SourceError(msg)


def _place(table: Lakehouse, path: str) -> Path:
    """Return where a file of the log is: below the table's directory, and there."""
    place = table.root / path
    if re.match(r"/|[A-Za-z][A-Za-z0-9+.-]*:", path) or ".." in place.relative_to(table.root).parts:
        msg = f"{table.words} names files by whole paths, or outside its directory (a shallow clone); {table.export}"
        raise SourceError(msg)
    if not place.is_file():
        msg = f"{table.words} lacks files that its log names (removed, or not copied); {table.export}"
        raise SourceError(msg)
    return place
