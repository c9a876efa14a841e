"""Lakehouse tables: Delta, Iceberg and Hudi, recognised by the metadata that lie beside their Parquet files.

Such a table keeps files of rows that were updated, deleted or compacted away until they are cleaned up. Which files are
current is in its metadata alone, so its files are never counted by their names: the table is read at its current
version, or refused. All that is looked at here are names of files and directories. Messages state the table's directory
and no name below it, where values of rows may stand (`ward=7`).
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

import pyarrow as pa

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
    """A lakehouse table by its format, its directory, and the file of its metadata if one was named."""

    format: Format
    root: Path
    metadata: Path | None = None

    @property
    def words(self) -> str:
        """What messages call the table."""
        return f"the {self.format} table {self.root}"

    @property
    def export(self) -> str:
        """The way out if the table cannot be read: a copy that is plain Parquet, and one ledger for all copies."""
        return (
            f"export its current rows to plain Parquet with the engine that writes it, such as {EXPORTS[self.format]}, "
            "and name the table's one ledger with each such copy (ledger, --ledger FILE)"
        )


@dataclass(frozen=True, slots=True)
class LakeColumn:
    """A column as the metadata declare it: its name, its type, and what it is called in the files.

    In files it has a name (Delta; case does not count) or a number (Iceberg).
    """

    name: str
    type: pa.DataType
    key: str | int


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file of rows, what all of them have in partition columns, as text, and the files that delete rows of it.

    Those name it by its `location`, as the metadata write it.
    """

    path: Path
    partition: Mapping[str, str | None]
    deletes: tuple[Path, ...] = ()
    location: str = ""


@dataclass(frozen=True, slots=True, repr=False)
class Snapshot:
    """One version of a lakehouse table: its columns, and the files that its rows are in."""

    table: Lakehouse
    version: int | None
    columns: tuple[LakeColumn, ...]
    files: tuple[DataFile, ...]

    def __repr__(self) -> str:
        return f"<{self.words} of {self.table.words}>"

    @property
    def words(self) -> str:
        """What a ledger records of the version; None is that of an Iceberg table without a snapshot."""
        return f"{self.table.format} {'version' if self.table.format == 'Delta' else 'snapshot'} {self.version}"


def declared_type(text: str, types: Mapping[str, pa.DataType]) -> pa.DataType:
    """Return the Arrow type of a type as the metadata write it."""
    if decimal := DECIMAL_TYPE.fullmatch(text):
        return pa.decimal128(int(decimal[1]), int(decimal[2]))
    return types.get(text, UNREAD)


def lakehouse_at(path: Path) -> Lakehouse | None:
    """Return the lakehouse table that a path names: by its directory, or by a file of Iceberg's metadata."""
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
    except PermissionError:  # one that may not be listed could hold any
        return True


def lakehouse_above(path: Path) -> Lakehouse | None:
    """Return the lakehouse table that a path names or lies in, by this name of it."""
    return next((found for place in (path, *path.parents) if (found := lakehouse_at(place)) is not None), None)


def refuse_parts(named: str, files: Iterable[Path]) -> None:
    """Refuse Parquet files that belong to a lakehouse table: each may hold rows that the table no longer has."""
    above = cache(lakehouse_above)
    for file in files:
        if not file.name.lower().endswith(".parquet"):  # no lakehouse table keeps its rows as text
            continue
        for directory in dict.fromkeys((file.parent, file.resolve().parent)):
            if (table := above(directory)) is not None:
                msg = (
                    f"{named} names files inside {table.words}, where rows that were updated or deleted stay in files "
                    "for a while; "
                )
                raise SourceError(msg + (table.export if table.format == "Hudi" else f"name the table: {table.root}"))
