"""Iceberg tables: the columns of a snapshot and the Parquet files that hold its rows, as pyiceberg reads the metadata.

Which file of metadata is current is known to the table's catalog. In the directory only `version-hint.text` says it,
which catalogs of files keep and others do not: without it the file is to be named. Nothing of pyiceberg's reads rows,
and no filter is given to it, so that the least and greatest values of rows in the metadata decide nothing. A table is
refused by its format version and by files of deletions that cannot be applied; which files there are is public.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

from dpcube.core.errors import SourceError
from dpcube.core.sources.lakehouse import DataFile, LakeColumn, Lakehouse, Snapshot, declared_type

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
        raise _unread(table, f"it is of version {found.metadata.format_version} of the format")
    current = found.current_snapshot()
    columns = tuple(_column(column) for column in found.schema().fields)
    files = () if current is None else tuple(_files(table, found, current))
    return Snapshot(table, None if current is None else current.snapshot_id, columns, files)


def _static_table() -> Any:
    with suppress(ImportError):
        from pyiceberg.table import StaticTable

        return StaticTable
    msg = "an Iceberg table needs pyiceberg; install it with: pip install 'dpcube[lake]'"
    raise SourceError(msg)


def _hinted(table: Lakehouse) -> Path:
    """Return the file of metadata that a catalog of files has as the current one: of the hint, or after it."""
    folder, number = table.root / "metadata", -1
    with suppress(OSError, ValueError):
        number = int((folder / "version-hint.text").read_text("ascii"))
    if number < 0:
        msg = (
            f"{table.words} has no hint of its current metadata, which its catalog knows: name the file, such as "
            f"{folder / '00007-....metadata.json'} (metadata_location in pyiceberg); or {table.export}"
        )
        raise SourceError(msg)
    while (found := _numbered(folder, number + 1)).exists():
        number += 1
    return found if (found := _numbered(folder, number)).exists() else folder / f"v{number}.metadata.json"


def _numbered(folder: Path, number: int) -> Path:
    plain = folder / f"v{number}.metadata.json"
    return plain if plain.exists() else folder / f"v{number}.gz.metadata.json"


def _column(field: Any) -> LakeColumn:
    return LakeColumn(field.name, declared_type(str(field.field_type), ICEBERG_TYPES), field.field_id)


def _files(table: Lakehouse, found: Any, current: Any) -> Iterator[DataFile]:
    """Yield the files of a snapshot, all of which lie below the table's directory."""
    _place(table, current.manifest_list)
    manifests = tasks = None
    with suppress(Exception):
        manifests = current.manifests(found.io)
    for manifest in manifests or ():
        _place(table, manifest.manifest_path)
    with suppress(Exception):
        tasks = list(found.scan().plan_files())
    if manifests is None or tasks is None:
        raise _unread(table, "its files cannot be listed, or some delete rows by their values (equality deletes)")
    for task in tasks:
        files = (task.file, *task.delete_files)
        if any(str(getattr(file.file_format, "value", file.file_format)).upper() != "PARQUET" for file in files):
            raise _unread(table, "some of its files are not Parquet")
        place, *deletes = (_place(table, file.file_path) for file in files)
        yield DataFile(place, {}, tuple(deletes), task.file.file_path)


def _place(table: Lakehouse, location: str) -> Path:
    """Return where a file of the metadata is: below the table's directory, and there."""
    place = Path(re.sub("^file:(//)?", "", location))
    if table.root.resolve() not in place.resolve().parents:
        raise _unread(table, "its metadata name files outside its directory (it was copied, or is kept elsewhere)")
    if not place.is_file():
        raise _unread(table, "files that its metadata name are not there")
    return place


def _unread(table: Lakehouse, why: str) -> SourceError:
    return SourceError(f"{table.words} is not read here: {why}; {table.export}")
