"""The version of a lakehouse table that is current, by its format."""

from dpcube.curator.sources.delta_log import delta_snapshot
from dpcube.curator.sources.iceberg import iceberg_snapshot
from dpcube.curator.sources.lakehouse import Lakehouse, Snapshot
from dpcube.errors import SourceError


def current_snapshot(table: Lakehouse) -> Snapshot:
    """Return the current version of a lakehouse table, or refuse one that cannot be read exactly."""
    if table.format == "Delta":
        return delta_snapshot(table)
    if table.format == "Iceberg":
        return iceberg_snapshot(table)
    msg = f"{table.words} is not read here; {table.export}"
    raise SourceError(msg)
