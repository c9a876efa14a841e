"""Tables and queries in PostgreSQL: an address, or SQL and a connection, enter, a `Table` leaves.

Rows stay in the server: one GROUP BY is sent to it, and only occupied cells come back. A query is its owner's own text:
it becomes a sub-select, as it is written, of one statement in a transaction that writes nothing. What is computed of
its columns is the SQL of `sql.py`. Before that, a column that is counted as text becomes TEXT compared by bytes
(CHAR(n) loses its padding and nothing else does; enumerations, UUIDs and JSON are their text), a NUMERIC the nearest
double, and PostgreSQL's dates at infinity lie outside of every domain (`dialect.py`). JSONB is refused: a few bytes of
it may be gigabytes of text, at which the server raises. Units are told apart before all that, by the column itself.

The exceptions of server and driver may hold rows, addresses and users: they are replaced, never chained.
"""

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpcube.core.domain.grammar import LONGEST_TEXT
from dpcube.core.errors import SourceError
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
UNIT_TYPES = ("bytea", "time without time zone")  # which can name a unit, and nothing else


def postgres_table(address: str, query: str | None = None) -> Table:
    """Return the table at an address such as postgresql://user@host/database#schema.table, or a query's result.

    The driver looks up what the address leaves out: PGPASSWORD, ~/.pgpass, PGSERVICE and so on.
    """
    path = _table_path(address, queried=query is not None)
    name = "the PostgreSQL query" if query is not None else f"the PostgreSQL table {'.'.join(path)}"
    psycopg = imported("psycopg", "db")
    # What the driver has to say of a connection that was cut off is no output of ours.
    logging.getLogger("psycopg").addHandler(logging.NullHandler())

    def connect() -> Any:
        connection = psycopg.connect(address.partition("#")[0], application_name="dpcube")
        connection.read_only = True
        return connection

    reached = False
    with suppress(Exception), connect():
        reached = True
    if not reached:
        msg = f"{name} cannot be reached; check the address, that its server runs, and that psql would let you in"
        raise SourceError(msg)
    return connected_table(".".join(map(_quoted, path)) if query is None else _nested(query), name, connect)


def query_table(sql: str, name: str, connect: Callable[[], Any]) -> Table:
    """Return a table that counts the result of a query."""
    return connected_table(_nested(sql), name, connect)


def connected_table(relation: str, name: str, connect: Callable[[], Any]) -> Table:
    """Return a table that counts what follows FROM, by a connection for each question."""
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
    """Return the name and type of each column, and whether its numbers are doubles' by their digits.

    An enumeration's type is told as text.
    """
    with connect() as connection, connection.transaction(), connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION READ ONLY")
        cursor.execute(f"SELECT * FROM {relation} AS r LIMIT 0", binary=True)  # so the server takes one statement only
        columns = cursor.description
        cursor.execute(
            "SELECT oid, CASE typtype WHEN 'e' THEN 'text' ELSE format_type(oid, NULL) END "
            "FROM pg_type WHERE oid = ANY(%s)",
            [[column.type_code for column in columns]],
        )
        types = dict(cursor.fetchall())
        return [(column.name, types[column.type_code], _within_doubles(column)) for column in columns]


def _within_doubles(column: Any) -> bool:
    """Say whether a NUMERIC has at most 38 digits before and after the point, for there may be a thousand zeros."""
    digits, places = column.precision, column.scale  # of which a negative one is told as a large one
    return digits is not None and places is not None and digits <= 38 and 0 <= places <= 38


def _ask(connect: Callable[[], Any], sql: str) -> dict[str, NDArray[Any]]:
    """Run a query in a transaction that writes nothing; inside a transaction of the caller's, in a part of it."""
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
    """Return the schema, if there is one, and the table; refuse an address that holds a password."""
    try:
        parts = urlsplit(address)
        secret = parts.password or parse_qs(parts.query).keys() & {"password", "sslpassword"}
    except ValueError:
        secret, parts = None, urlsplit("#.")
    if secret:
        msg = "a PostgreSQL address must hold no password; set PGPASSWORD, or keep it in ~/.pgpass"
        raise SourceError(msg)
    path = [unquote(part) for part in parts.fragment.split(".")]
    if queried and parts.fragment:
        msg = "a PostgreSQL address beside a query ends in the database, such as postgresql://host/database"
        raise SourceError(msg)
    if not queried and (not all(path) or len(path) > 2):
        msg = "a PostgreSQL address ends in the table, such as postgresql://host/database#schema.table, or has a query"
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
    """Return the form of a unit, and what holds for the rows that have one or are null (`unit.py`)."""
    if type_ in ("numeric", "real", "double precision"):
        return f"NULLIF({column}, CAST('NaN' AS {type_}))", "true"
    if type_ not in (*TEXTS, "bytea"):
        return column, "true"
    form = column if type_ == "bytea" else _bytewise(f"CAST({column} AS TEXT)")
    return form, f"coalesce({POSTGRESQL.octets}({form}) <= {LONGEST_TEXT}, true)"


def _bytewise(text: str) -> str:
    return f'({text}) COLLATE "C"'
