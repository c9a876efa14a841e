"""PostgreSQL source: a table or query that the server counts.

Rows stay in the server: one GROUP BY is sent to it, and only occupied cells come back. A query is its owner's own text:
it becomes, as written, a sub-select of one statement in a read-only transaction. `sql.py` writes the expressions over
its columns. Before that, each column is converted. Columns counted as text become TEXT compared by bytes (only CHAR(n)
loses its padding; enumerations, UUIDs and JSON are their text), and a NUMERIC becomes the nearest double. Dates at
infinity lie outside every domain (`dialect.py`). JSONB is refused: a few bytes of it may be gigabytes of text, at which
the server raises. Privacy units are distinguished by the unconverted column.

Exceptions of the server and the driver may contain rows, addresses and users: they are replaced, never chained.
"""

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpcube.core.errors import SourceError
from dpcube.core.limits import MAX_TEXT
from dpcube.core.sources.dialect import POSTGRESQL
from dpcube.core.sources.sql import kind
from dpcube.core.sources.table import Scan, Table, imported, normalised, opened

SCHEMES = ("postgresql://", "postgres://")
FETCHED = 100_000
TEXTS = ("text", "character varying", "character", '"char"', "name", "citext", "uuid", "json", "xml")
POSTGRES_TYPES = {
    "smallint": pa.int16(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "real": pa.float32(),
    "double precision": pa.float64(),
    "numeric": pa.float64(),
    "money": pa.float64(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp without time zone": pa.timestamp("us"),
    "timestamp with time zone": pa.timestamp("us", "UTC"),
    **dict.fromkeys(TEXTS, pa.string()),
}
UNIT_TYPES = ("bytea", "time without time zone")  # that can only name a privacy unit


def postgres_table(address: str, query: str | None = None) -> Table:
    """Return the table at an address such as postgresql://user@host/database#schema.table, or a query's result.

    The driver looks up the rest of the address: PGPASSWORD, ~/.pgpass, PGSERVICE and so on.
    """
    path = _table_path(address, queried=query is not None)
    name = "the PostgreSQL query" if query is not None else f"the PostgreSQL table {'.'.join(path)}"
    psycopg = imported("psycopg", "db")
    # The driver's log messages about broken connections are not part of our output.
    logging.getLogger("psycopg").addHandler(logging.NullHandler())

    def connect() -> Any:
        connection = psycopg.connect(address.partition("#")[0], application_name="dpcube")
        connection.read_only = True
        return connection

    reached = False
    with suppress(Exception), connect():
        reached = True
    if not reached:
        msg = f"{name} cannot be reached; check the address, that the server runs, and that psql can connect with it"
        raise SourceError(msg)
    return connected_table(".".join(map(_quoted, path)) if query is None else _nested(query), name, connect)


def query_table(sql: str, name: str, connect: Callable[[], Any]) -> Table:
    """Return a table that counts the result of a query."""
    return connected_table(_nested(sql), name, connect)


def connected_table(relation: str, name: str, connect: Callable[[], Any]) -> Table:
    """Return a table that counts a relation (the text after FROM), with a new connection for each query."""
    described = None
    with suppress(Exception):
        described = _describe(relation, connect)
    columns = opened(described, name)
    schema = pa.schema([(column, _arrow(type_)) for column, type_, _ in columns])

    def value(i: int) -> str:
        column, type_, within_doubles = columns[i]
        return _value(f"r.{_quoted(column)}", type_, within_doubles=within_doubles)

    def scans(chosen: Sequence[int], of: int | None) -> list[Scan]:
        unit = None if of is None else _unit(f"r.{_quoted(columns[of][0])}", columns[of][1])
        return [Scan(normalised(relation, chosen, value, unit), run=lambda question: _ask(connect, question))]

    return Table(
        name, schema, scans, lambda i: columns[i][1] in (*POSTGRES_TYPES, *UNIT_TYPES), POSTGRESQL, declared=True
    )


def _describe(relation: str, connect: Callable[[], Any]) -> list[tuple[str, str, bool]]:
    """Return the name and type of each column, and whether its precision keeps it within the range of doubles.

    The type of an enumeration is given as text.
    """
    with connect() as connection, connection.transaction(), connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION READ ONLY")
        cursor.execute(f"SELECT * FROM {relation} AS r LIMIT 0", binary=True)  # binary: the server takes one statement
        columns = cursor.description
        cursor.execute(
            "SELECT oid, CASE typtype WHEN 'e' THEN 'text' ELSE format_type(oid, NULL) END "
            "FROM pg_type WHERE oid = ANY(%s)",
            [[column.type_code for column in columns]],
        )
        types = dict(cursor.fetchall())
        return [(column.name, types[column.type_code], _within_doubles(column)) for column in columns]


def _within_doubles(column: Any) -> bool:
    """Return whether a NUMERIC has at most 38 digits before and after the point; a scale may allow a thousand."""
    digits, places = column.precision, column.scale  # the driver reports a negative scale as a large one
    return digits is not None and places is not None and digits <= 38 and 0 <= places <= 38


def _ask(connect: Callable[[], Any], sql: str) -> dict[str, NDArray[Any]]:
    """Run a query in a read-only transaction, or in a savepoint of the caller's transaction."""
    with connect() as connection, connection.transaction(), connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION READ ONLY")
        cursor.execute(sql, binary=True)
        names = [column.name for column in cursor.description]
        parts: dict[str, list[NDArray[Any]]] = {name: [] for name in names}
        while rows := cursor.fetchmany(FETCHED):
            for name, values in zip(names, zip(*rows, strict=True), strict=True):
                parts[name].append(np.array(values))
    return {name: np.concatenate(arrays) if arrays else np.zeros(0, np.int64) for name, arrays in parts.items()}


def _table_path(address: str, *, queried: bool) -> list[str]:
    """Return the schema, if given, and the table of an address; refuse an address that contains a password."""
    try:
        parts = urlsplit(address)
        secret = parts.password or parse_qs(parts.query).keys() & {"password", "sslpassword"}
    except ValueError:
        secret, parts = None, urlsplit("#.")
    if secret:
        msg = "a PostgreSQL address must not contain a password; set PGPASSWORD, or store it in ~/.pgpass"
        raise SourceError(msg)
    path = [unquote(part) for part in parts.fragment.split(".")]
    if queried and parts.fragment:
        msg = "with a query, the PostgreSQL address must end in the database, such as postgresql://host/database"
        raise SourceError(msg)
    if not queried and (not all(path) or len(path) > 2):
        msg = "a PostgreSQL address must end in #table or #schema.table, such as "
        msg += "postgresql://host/database#schema.table; or pass a query"
        raise SourceError(msg)
    return path


def _nested(query: str) -> str:
    return f"(\n{query.strip().rstrip(';')}\n)"  # a comment may end the query


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _arrow(type_: str) -> pa.DataType:
    return POSTGRES_TYPES.get(type_, pa.opaque(pa.null(), type_, "PostgreSQL"))


def _value(column: str, type_: str, *, within_doubles: bool) -> str:
    if type_ in ("numeric", "money"):
        numeric = f"CAST({column} AS NUMERIC)"
        sized = type_ == "money" or within_doubles
        return f"CAST({numeric} AS {POSTGRESQL.double})" if sized else POSTGRESQL.nearest(numeric)
    names = {
        "text": _bytewise(POSTGRESQL.start(f"CAST({column} AS TEXT)")),
        "real": f"CAST({column} AS {POSTGRESQL.double})",
    }
    return names.get(kind(_arrow(type_)) or "", column)


def _unit(column: str, type_: str) -> tuple[str, str]:
    """Return the form of a privacy unit, and a condition that its rows have one or are null (`unit.py`)."""
    if type_ in ("numeric", "real", "double precision"):
        return f"NULLIF({column}, CAST('NaN' AS {type_}))", "true"
    if type_ not in (*TEXTS, "bytea"):
        return column, "true"
    form = column if type_ == "bytea" else _bytewise(f"CAST({column} AS TEXT)")
    return form, f"coalesce({POSTGRESQL.octets}({form}) <= {MAX_TEXT}, true)"


def _bytewise(text: str) -> str:
    return f'({text}) COLLATE "C"'
