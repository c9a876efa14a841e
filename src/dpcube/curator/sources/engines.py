"""Tables in a database: an Ibis table, a PostgreSQL address or a Spark frame enters, a `Table` leaves.

Rows stay in the engine: one GROUP BY is sent to it, and only occupied cells come back. Ibis names and quotes the
columns of the table or view (or of a whole query, if the caller wrote one in Ibis); what is computed of them is the SQL
of `sql.py` in the engine's words. Before that, each column is turned into one of four types that engines agree on:

- text: PostgreSQL's CHAR(n) loses its padding and nothing else does; collations do not count, bytes do. Enumerations,
  UUIDs and JSON are their text;
- integers of up to 64 bits, and booleans;
- doubles: decimals become the nearest double, NaN and infinities stay what they are;
- days since 1970: times with a time zone (in Spark, TIMESTAMP) by their day in UTC, times without one by the day they
  say, and PostgreSQL's dates at infinity lie outside of every domain.

The exceptions of engines and drivers may hold rows, addresses and users: they are replaced, never chained.
"""

import re
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from importlib import import_module
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from uuid import uuid4

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpcube.curator.sources.dialect import POSTGRESQL, SPARK, Dialect
from dpcube.curator.sources.sql import kind
from dpcube.curator.sources.table import Scan, Table
from dpcube.errors import SourceError

FAR = 2**31 - 1  # days: outside of every domain, in the direction of its sign
MICROSECONDS_A_DAY = 86_400_000_000
POSTGRES_SCHEMES = ("postgresql://", "postgres://")
SPARK_SCHEME = "spark:"
FETCHED = 100_000


def ibis_table(expression: Any, *, name: str = "the Ibis table", connect: Callable[[], Any] | None = None) -> Table:
    """Return a table that counts an Ibis table where it is; with `connect`, by a connection for each question."""
    engine = None
    with suppress(Exception):
        backend = expression.get_backend()
        engine = backend.name
    if engine == "pyspark":
        frame = None
        with suppress(Exception):
            frame = backend._session.sql(backend.compile(expression))
        return spark_table(_opened(frame, name))
    if engine != "postgres":
        msg = f"an Ibis table of {engine or 'no one engine'} cannot be counted; PostgreSQL's and Spark's can be"
        raise SourceError(msg)
    names, types = expression.columns, list(expression.schema().values())
    schema = pa.schema([(str(n), _arrow(type_)) for n, type_ in zip(names, types, strict=True)])

    def scans(columns: Sequence[int]) -> list[Scan]:
        rows = None
        with suppress(Exception):
            rows = backend.compile(expression.select(**{f"c{i}": expression[names[i]] for i in columns}))
        rows = _opened(rows, name)
        sql = _normalised(f"({rows.strip().rstrip(';')})", columns, lambda i: _postgres_value(f"c{i}", types[i]))
        return [Scan(sql, run=lambda question: _ask_postgres(connect or (lambda: nullcontext(backend.con)), question))]

    return Table(name, schema, scans, POSTGRESQL)


def postgres_table(address: str) -> Table:
    """Return a table of PostgreSQL by an address such as postgresql://user@host/database#schema.table.

    The driver looks up what the address leaves out: PGPASSWORD, ~/.pgpass, PGSERVICE and so on.
    """
    path = _table_path(address)
    name = f"the PostgreSQL table {'.'.join(path)}"
    psycopg, ibis = _imported("psycopg", "db"), _imported("ibis", "db")

    def connect() -> Any:
        connection = psycopg.connect(address.partition("#")[0], application_name="dpcube")
        connection.read_only = True
        return connection

    reached, table = False, None
    with suppress(Exception), connect() as connection:
        reached = True
        backend = ibis.postgres.from_connection(connection)
        table = backend.table(path[-1], database=tuple(path[:-1]) or None)  # a text would be parsed
    if not reached:
        msg = f"{name} cannot be reached; check the address, that its server runs, and that psql would let you in"
        raise SourceError(msg)
    return ibis_table(_opened(table, name), name=name, connect=connect)


def spark_path_table(address: str) -> Table:
    """Return a table that a Spark session reads from Parquet, at a path such as spark:/data/visits.parquet.

    The session is the one that runs, or a local one. CSV is refused: Spark has its own rules for lines that break the
    rules, by which one stray quote may change many rows.
    """
    path = address.removeprefix(SPARK_SCHEME)
    name = f"the Spark table {path.rstrip('/').rpartition('/')[2]}"
    if re.search(r"\.(csv|tsv)(\.\w+)?$", path.lower()):
        msg = f"{name} is CSV, which is read without Spark: pass the path alone, or a Spark frame if you must"
        raise SourceError(msg)
    sql = _imported("pyspark.sql", "spark")
    frame = None
    with suppress(Exception):
        frame = (sql.SparkSession.getActiveSession() or _local_session(sql)).read.parquet(path)
    return spark_table(_opened(frame, name), name=name)


def spark_table(frame: Any, *, name: str = "the Spark frame") -> Table:
    """Return a table that counts a Spark DataFrame where it is."""
    fields = frame.schema.fields
    types = [field.dataType.simpleString() for field in fields]
    schema = pa.schema([(field.name, _arrow_of_spark(type_)) for field, type_ in zip(fields, types, strict=True)])

    def scans(columns: Sequence[int]) -> list[Scan]:
        view = f"dpcube_{uuid4().hex}"
        sql = _normalised(view, columns, lambda i: _spark_value(f"c{i}", types[i]))
        return [Scan(sql, run=lambda question: _ask_spark(frame, view, question))]

    return Table(name, schema, scans, SPARK)


def is_address(source: object) -> bool:
    """Say whether a source is an address of a database, which has no place among the files."""
    return isinstance(source, str) and source.startswith((*POSTGRES_SCHEMES, SPARK_SCHEME))


def address_table(address: str) -> Table:
    """Return the table at an address."""
    return spark_path_table(address) if address.startswith(SPARK_SCHEME) else postgres_table(address)


def _normalised(rows: str, columns: Sequence[int], value: Callable[[int], str]) -> str:
    return f"(SELECT {', '.join(f'{value(i)} AS c{i}' for i in columns)} FROM {rows} AS r) AS s"


def _table_path(address: str) -> list[str]:
    """Return the schema, if there is one, and the table; refuse an address that holds a password."""
    try:
        parts = urlsplit(address)
        secret = parts.password or parse_qs(parts.query).keys() & {"password", "sslpassword"}
    except ValueError:
        secret, parts = None, urlsplit("")
    if secret:
        msg = "a PostgreSQL address must hold no password; set PGPASSWORD, or keep it in ~/.pgpass"
        raise SourceError(msg)
    path = [unquote(part) for part in parts.fragment.split(".")]
    if not all(path) or len(path) > 2:
        msg = "a PostgreSQL address ends in the table, such as postgresql://host/database#schema.table"
        raise SourceError(msg)
    return path


def _imported(module: str, extra: str) -> Any:
    try:
        return import_module(module)
    except ImportError:
        msg = f"this source needs {module.partition('.')[0]}; install it with: pip install 'dpcube[{extra}]'"
    raise SourceError(msg)


def _opened(found: Any, name: str) -> Any:
    if found is None:
        msg = f"{name} cannot be opened; check that it is there and that you may read it"
        raise SourceError(msg)
    return found


def _arrow(type_: Any) -> pa.DataType:
    """Return the Arrow type of an Ibis type; a NUMERIC of any size is taken as a double."""
    if type_.is_decimal():
        return pa.float64()
    try:
        return type_.to_pyarrow()
    except Exception:  # a geometry, say, raises ImportError: whatever it is, no attribute can read such a column
        return pa.opaque(pa.null(), str(type_), "Ibis")


def _arrow_of_spark(type_: str) -> pa.DataType:
    known = {
        "tinyint": pa.int8(),
        "smallint": pa.int16(),
        "int": pa.int32(),
        "bigint": pa.int64(),
        "float": pa.float32(),
        "double": pa.float64(),
        "boolean": pa.bool_(),
        "date": pa.date32(),
        "timestamp": pa.timestamp("us", "UTC"),
        "timestamp_ntz": pa.timestamp("us"),
        "void": pa.null(),
    }
    if type_.startswith("decimal"):
        return pa.float64()
    text = type_.startswith(("string", "varchar", "char"))
    return pa.string() if text else known.get(type_, pa.opaque(pa.null(), type_, "Spark"))


def _value(column: str, type_: pa.DataType, dialect: Dialect) -> str:
    names = {"text": dialect.text, "real": dialect.double}
    held = kind(type_)
    return f"CAST({column} AS {names[held]})" if held in names else column


def _postgres_value(column: str, type_: Any) -> str:
    if type_.is_decimal():  # MONEY too comes as one
        sized = type_.precision is not None and type_.precision <= 38
        numeric = f"CAST({column} AS NUMERIC)"
        return f"CAST({numeric} AS {POSTGRESQL.double})" if sized else POSTGRESQL.nearest(numeric)
    held = kind(_arrow(type_))
    if held == "date":
        if type_.is_timestamp():
            zone = "" if type_.timezone is None else " AT TIME ZONE 'UTC'"
            column = f"CAST({column}{zone} AS DATE)"
        ends = f"WHEN {column} = 'infinity' THEN {FAR} WHEN {column} = '-infinity' THEN {-FAR}"
        return f"CASE {ends} ELSE {column} - DATE '1970-01-01' END"
    collation = ' COLLATE "C"' if held == "text" else ""
    return _value(column, _arrow(type_), POSTGRESQL) + collation


def _spark_value(column: str, type_: str) -> str:
    if type_ == "timestamp":  # whose day would be one in the session's time zone
        micros = f"unix_micros({column})"
        before = SPARK.one_if(f"{micros} % {MICROSECONDS_A_DAY} < 0")
        return f"({micros} DIV {MICROSECONDS_A_DAY} - {before})"
    if type_ in ("date", "timestamp_ntz"):
        return f"CAST(unix_date(CAST({column} AS DATE)) AS BIGINT)"
    if "collate" in type_:
        return f"CAST(CAST({column} AS BINARY) AS STRING)"
    return _value(column, _arrow_of_spark(type_), SPARK)


def _ask_postgres(connect: Callable[[], Any], sql: str) -> dict[str, NDArray[Any]]:
    """Run a query in a transaction that writes nothing; inside a transaction of the caller's, in a part of it."""
    with connect() as connection, connection.transaction(), connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION READ ONLY")
        cursor.execute(sql)
        names = [column.name for column in cursor.description]
        parts: dict[str, list[NDArray[Any]]] = {name: [] for name in names}
        while rows := cursor.fetchmany(FETCHED):
            for name, values in zip(names, zip(*rows, strict=True), strict=True):
                parts[name].append(np.array(values))
    return {name: np.concatenate(arrays) if arrays else np.zeros(0, np.int64) for name, arrays in parts.items()}


def _ask_spark(frame: Any, view: str, sql: str) -> dict[str, NDArray[Any]]:
    """Run a query on a view of the frame, its columns called by position, for names may differ in case alone."""
    session = frame.sparkSession
    frame.toDF(*(f"c{i}" for i in range(len(frame.columns)))).createOrReplaceTempView(view)
    try:
        answer = session.sql(sql).toArrow()
    finally:
        session.catalog.dropTempView(view)
    return {name: answer[name].to_numpy(zero_copy_only=False) for name in answer.column_names}


def _local_session(sql: Any) -> Any:
    """Start Spark on this machine; it listens to this machine only, and logs nothing that could hold a row."""
    local = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "OFF",
    }
    return sql.SparkSession.builder.master("local[*]").appName("dpcube").config(map=local).getOrCreate()
