"""Addresses of tables in a database, and Ibis tables: each enters, a `Table` that its engine counts leaves.

Ibis compiles the caller's expression to a query, which is counted as one written by hand is (`postgres.py`,
`spark.py`). Other engines that Ibis knows are refused: their casts and divisions have never been compared with ours.
"""

from contextlib import nullcontext, suppress
from typing import Any

from dpcube.core.errors import SourceError
from dpcube.core.sources import postgres, spark
from dpcube.core.sources.table import Table, opened


def is_address(source: object) -> bool:
    """Say whether a source is an address of a database, which has no place among the files."""
    return isinstance(source, str) and source.startswith((*postgres.SCHEMES, spark.SCHEME))


def address_table(address: str, query: str | None = None) -> Table:
    """Return the table at an address, or the result of a query there."""
    if not address.startswith(spark.SCHEME):
        return postgres.postgres_table(address, query)
    if query is not None:
        msg = "a query goes with the address of a PostgreSQL database; pass the Spark frame of the query instead"
        raise SourceError(msg)
    return spark.spark_path_table(address)


def ibis_table(expression: Any) -> Table:
    """Return a table that counts an Ibis table where it is."""
    engine = sql = frame = None
    name = "the Ibis table"
    with suppress(Exception):
        backend = expression.get_backend()
        engine = backend.name
    if engine not in ("postgres", "pyspark"):
        msg = f"an Ibis table of {engine or 'no one engine'} cannot be counted; PostgreSQL's and Spark's can be"
        raise SourceError(msg)
    with suppress(Exception):
        sql = backend.compile(expression)
    if engine == "postgres":
        return postgres.query_table(opened(sql, name), name, lambda: nullcontext(backend.con))
    with suppress(Exception):
        frame = backend._session.sql(sql)
    return spark.spark_table(opened(frame, name))
