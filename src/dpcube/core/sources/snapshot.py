"""The version of a lakehouse table that is current, by its format."""

from dpcube.core.errors import SourceError
from dpcube.core.sources.delta_log import delta_snapshot
from dpcube.core.sources.iceberg import iceberg_snapshot
from dpcube.core.sources.lakehouse import Lakehouse, Snapshot


def current_snapshot(table: Lakehouse) -> Snapshot:
    """Return the current version of a lakehouse table, or refuse one that cannot be read exactly."""
    if table.format == "Delta":
        return delta_snapshot(table)
    if table.format == "Iceberg":
        return iceberg_snapshot(table)
    msg = f"{table.words} is not read here; {table.export}"
    raise SourceError(msg)
