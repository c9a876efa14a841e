"""A real PostgreSQL counts, and nothing else: hostile rows, odd names, units, credentials, and what it is sent."""

import logging
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

import ibis
import numpy as np
import psycopg
import pytest
from packaging.version import Version

from dpcube.core.domain import Attribute, Category, Date, Domain, Float, Integer
from dpcube.core.errors import InputError, SourceError
from dpcube.core.sources import Rows, open_rows
from dpcube.curator import LedgerLocation, explain, publish

SECRET = "Zebulon"
OWN: Any = {"null": "cell", "nan": "cell", "infinite": "cell", "unknown": "cell", "outside": "cell"}
FLOAT = Float(name="v", min=0.0, max=1.0, width=0.1, **OWN)
NUMBER = Integer(name="v", min=0, max=9, width=3, **OWN)
DATE = Date(name="v", start=date(2025, 1, 1), end=date(2025, 12, 31), null="cell", unknown="cell", outside="cell")
CLIPPED = Date(name="v", start=date(2025, 1, 1), end=date(2025, 12, 31), every="year", outside="clip")
WARD = Category(name="v", values=("north", "south"), null="cell", unknown="cell")


@pytest.fixture
def server(postgres: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS test CASCADE")
        connection.execute("CREATE SCHEMA test")
        yield connection


def cells(address: str, server: psycopg.Connection, type_: str, values: list[str], attribute: Attribute) -> list[int]:
    """Return which cells the values, written as SQL, fall in."""
    server.execute("DROP TABLE IF EXISTS test.one")
    server.execute(f"CREATE TABLE test.one (v {type_}, n serial)")
    for value in values:
        server.execute(f"INSERT INTO test.one (v) VALUES ({value})")
    number = Integer(name="n", min=1, max=len(values))
    counts = open_rows(f"{address}#test.one").count_cells(Domain((number, attribute)))
    assert set(counts.sum(axis=1)) <= {0, 1}
    return [int(row.argmax()) if row.any() else -1 for row in counts]


def own(attribute: Attribute, kind: str) -> int:
    return attribute.bins + attribute.own_cells.index(kind)


@pytest.mark.parametrize(
    ("type_", "values", "attribute", "expected"),
    [
        ("numeric", ["'NaN'", "'Infinity'", "'-Infinity'", "1e400", "-1e400", "1e-400", "0.3"], FLOAT, "nan inf inf inf inf 0 3"),  # noqa: E501
        ("numeric", ["0.1", "0.29999999999999998", "0.9999999999999999999", "1.00000000000000001"], FLOAT, "1 3 9 9"),
        ("numeric(6, 2)", ["'NaN'", "0.55"], FLOAT, "nan 5"),
        ("double precision", ["'NaN'", "'-Infinity'", "5e-324", "-0.0", "1.7e308"], FLOAT, "nan inf 0 0 out"),
        ("real", ["'NaN'", "0.5", "1e-45"], FLOAT, "nan 5 0"),
        ("text", ["'1e400'", "'-1e-400'", "'1e99999'", "'0x1'", "' .5 '", "'NaN'", "repeat('9', 100000)"], FLOAT, "inf 0 unk unk 5 nan unk"),  # noqa: E501
        ("text", ["E'1\\n'", "'1_0'", "'Zebulon'", "''", "'+inf'", "repeat('9', 1000)", "NULL"], FLOAT, "9 unk unk unk inf inf null"),  # noqa: E501
        ("bigint", ["9223372036854775807", "-9223372036854775808", "9", "10"], NUMBER, "out out 3 out"),
        ("smallint", ["9", "-32768"], NUMBER, "3 out"),
        ("money", ["1.25", "100"], NUMBER, "0 out"),
        ("boolean", ["true", "false", "NULL"], NUMBER, "0 0 null"),
        ("date", ["'infinity'", "'-infinity'", "'2025-01-02'", "'4713-01-01 BC'", "'5874897-12-31'"], DATE, "out out 1 out out"),  # noqa: E501
        ("timestamp", ["'infinity'", "'2025-01-01 23:59:59.999999'", "'294276-01-01'", "'2024-12-31 23:59:59'"], DATE, "out 0 out out"),  # noqa: E501
        ("timestamptz", ["'2025-01-01 00:00+02'", "'2025-01-01 23:00-02'", "'-infinity'"], DATE, "out 1 out"),
        ("text", ["'2025-02-29'", "'2025-01-02'", "'infinity'", "'now'", "'0000-01-01'", "'2025-13-45'", "E'2025-01-02\\n'"], DATE, "unk 1 unk unk unk unk 1"),  # noqa: E501
        ("date", ["'infinity'", "'-infinity'"], CLIPPED, "0 0"),
        ("text", ["'north'", "'north '", "'North'", "NULL", "'Zebulon'"], WARD, "0 unk unk null unk"),
        ("char(8)", ["'north'", "'north  '", "' north'"], WARD, "0 0 unk"),
        ("varchar(9)", ["'south'", "'south '"], WARD, "1 unk"),
    ],
)  # fmt: skip
def test_where_hostile_values_go(
    postgres: str,
    server: psycopg.Connection,
    type_: str,
    values: list[str],
    attribute: Attribute,
    expected: str,
) -> None:
    words = {"inf": "infinite", "out": "outside", "unk": "unknown", "nan": "nan", "null": "null"}
    places = [own(attribute, words[word]) if word in words else int(word) for word in expected.split()]
    assert cells(postgres, server, type_, values, attribute) == places


def test_arithmetic_that_postgres_refuses_is_not_done(postgres: str, server: psycopg.Connection) -> None:
    """Overflow and underflow raise in PostgreSQL: a proof that these rows are hostile, and that they do no harm."""
    with pytest.raises(psycopg.errors.NumericValueOutOfRange):
        server.execute("SELECT 5e-324::float8 / 10::float8")
    wide = Float(name="v", min=0.0, max=100.0, width=12.5)
    assert cells(postgres, server, "float8", ["5e-324", "1.7e308", "100"], wide) == [0, -1, 7]


def test_a_text_that_many_rows_have_is_read_once_and_counts_as_often(postgres: str, server: psycopg.Connection) -> None:
    texts = ["'north'", "'north'", "'North'", "' north '", "NULL", "NULL", "''", "'south'"]
    cells(postgres, server, "text", texts, WARD)
    rows = open_rows(f"{postgres}#test.one")
    found = rows.read_as([WARD])
    assert found == rows.outcomes(Domain((WARD,)))[0]
    assert (found[0]["kept"], found[0]["null"], sum(found[0].values())) == (3, 2, 8)


def test_text_is_compared_by_bytes_whatever_its_collation(postgres: str, server: psycopg.Connection) -> None:
    """A collation may hold different texts to be equal; this build of the server has none of those, so read the SQL."""
    assert cells(postgres, server, 'text COLLATE "C"', ["'north'", "'North'"], WARD) == [0, 3]
    sql = open_rows(f"{postgres}#test.one").limit("v", max_rows=1).explain(Domain((WARD,)))
    assert sql.count(' COLLATE "C" AS c0') == sql.count(' COLLATE "C" AS u') == 1
    assert "PARTITION BY u" in sql


def test_enumerations_and_many_categories(postgres: str, server: psycopg.Connection) -> None:
    server.execute("CREATE TYPE test.ward AS ENUM ('north', 'else')")
    assert cells(postgres, server, "test.ward", ["'north'", "'else'", "NULL"], WARD) == [0, 3, 2]
    values = (*(f"value '{i}' \\ \"" for i in range(3000)), "nul\0")
    many = Category(name="v", values=values, unknown="cell")
    texts = ["E'value ''2999'' \\\\ \"'", "'value'", "E'value ''0'' \\\\ \"'"]
    assert cells(postgres, server, "text", texts, many) == [2999, 3001, 0]


@pytest.mark.parametrize(
    "setting", ["standard_conforming_strings = off", "timezone = 'Asia/Tokyo'", "datestyle = 'SQL, DMY'"]
)
def test_settings_of_the_server_do_not_matter(postgres: str, server: psycopg.Connection, setting: str) -> None:
    server.execute("ALTER ROLE CURRENT_USER SET " + setting)
    try:
        odd = Category(name="v", values=("a\\", "'; SELECT 1; --\\'"), unknown="cell")
        texts = ["'a' || chr(92)", "'''; SELECT 1; --' || chr(92) || ''''", "'a'"]
        assert cells(postgres, server, "text", texts, odd) == [0, 1, 2]
        assert cells(postgres, server, "text", ["'2025-03-02'"], DATE) == [60]
        assert cells(postgres, server, "timestamptz", ["'2025-01-01 23:30+00'"], DATE) == [0]
    finally:
        server.execute("ALTER ROLE CURRENT_USER RESET ALL")


ODD = ['say "hi"', "it's", "a.b", "select", "two words", "größe", "c1", "AGE", "age", "a\nb", "v0", "%s{}", ";--", "q"]


def test_odd_names(postgres: str, server: psycopg.Connection) -> None:
    quoted = [psycopg.sql.Identifier(name).as_string() for name in ODD]
    server.execute(
        f'CREATE SCHEMA "Odd.""schema"; CREATE TABLE "Odd.""schema"."my #table%" ({" int, ".join(quoted)} int)'
    )
    server.execute(f'INSERT INTO "Odd.""schema"."my #table%" VALUES ({", ".join(map(str, range(len(ODD))))})')
    try:
        rows = open_rows(f"{postgres}#Odd%2E%22schema.my %23table%25")
        assert rows.columns == tuple(ODD)
        for i, name in enumerate(ODD):
            counts = rows.count_cells(Domain((Integer(name=name, min=0, max=20),)))
            assert np.flatnonzero(counts).tolist() == [i]
        assert rows.count_cells(Domain(tuple(Integer(name=n, min=i, max=i) for i, n in enumerate(ODD)))).sum() == 1
    finally:
        server.execute('DROP SCHEMA "Odd.""schema" CASCADE')


@pytest.fixture
def visits(postgres: str, server: psycopg.Connection) -> str:
    """20 units of 1 to 20 rows, and 5 rows without a unit."""
    server.execute(
        "CREATE TABLE test.visits AS SELECT u AS unit, k AS v FROM generate_series(1, 20) u, generate_series(1, u) k"
    )
    server.execute("INSERT INTO test.visits SELECT NULL, k FROM generate_series(1, 5) k")
    return f"{postgres}#test.visits"


def test_units_are_limited(visits: str) -> None:
    domain = Domain((Integer(name="unit", min=1, max=20, null="cell"), Integer(name="v", min=1, max=20)))
    seen = set()
    for _ in range(8):
        counts = open_rows(visits).limit("unit", max_rows=3).count_cells(domain)
        assert counts[:20].sum(axis=1).tolist() == [min(u, 3) for u in range(1, 21)]
        assert counts[20].sum() == 0
        seen.add(counts.tobytes())
    assert len(seen) > 1
    each = open_rows(visits).limit("unit", max_rows=1, null="each").count_cells(domain)
    assert each.sum(axis=1).tolist() == [1] * 20 + [5]


def test_ibis_tables_and_queries_are_counted(visits: str, postgres: str) -> None:
    with psycopg.connect(postgres) as connection:
        backend = ibis.postgres.from_connection(connection)
        table = backend.table("visits", database="test")
        domain = Domain((Integer(name="double", min=2, max=40),))
        rows = open_rows(table.filter(table.unit == 4).mutate(double=table.v * 2))
        assert np.flatnonzero(rows.count_cells(domain)).tolist() == [0, 2, 4, 6]
        query = open_rows(backend.sql("SELECT v + 1 AS double FROM test.visits WHERE unit = 2"))
        assert np.flatnonzero(query.count_cells(domain)).tolist() == [0, 1]
        connection.execute("CREATE TEMP TABLE mine AS SELECT 7 AS v")  # what the caller has begun goes on
        assert open_rows(backend.table("mine")).count() == 1
        connection.execute("INSERT INTO mine VALUES (8)")
        assert open_rows(backend.table("mine")).count() == 2


@pytest.mark.filterwarnings("ignore:The 'future.infer_string' option:Warning")  # which Ibis asks of pandas
def test_ibis_tables_elsewhere_are_refused() -> None:
    for table in (ibis.memtable({"v": [1]}), ibis.table({"v": "int"}, name="nowhere")):
        with pytest.raises(SourceError, match="Ibis tables of PostgreSQL and Spark can be counted") as raised:
            open_rows(table)
        assert raised.value.__context__ is None


def test_a_release(visits: str, tmp_path: Path) -> None:
    domain = Domain((Integer(name="v", min=1, max=20),))
    with pytest.raises(InputError, match="no place for a ledger beside it; say where") as raised:
        publish(visits, domain, epsilon=1, ledger=LedgerLocation.BESIDE_TABLE)
    assert "postgres" not in str(raised.value)
    publish(visits, domain, epsilon=1, unit="unit", ledger=tmp_path / "visits.ledger", save_to=tmp_path / "r.dpcube")
    host = visits.partition("host=")[2].partition("#")[0]
    for file in tmp_path.iterdir():
        content = file.read_bytes()
        assert host.encode() not in content
        assert b"postgresql://" not in content


UNIT = Domain((Integer(name="unit", min=1, max=20),))


@pytest.mark.parametrize(
    "query",
    [
        "SELECT unit FROM test.visits WHERE v <= 2",
        "WITH few AS (SELECT * FROM test.visits WHERE v <= 2) SELECT unit, '%s' || v AS \"c0\" FROM few -- two\n; ",
        "SELECT unit, v AS note, 1 AS c0 FROM test.visits WHERE v <= 2 /* it's */ ORDER BY v -- the end",
        "TABLE test.visits LIMIT (SELECT count(*) FROM test.visits) * 0 + 1000000",
    ],
)
def test_a_query_is_counted(visits: str, query: str, tmp_path: Path) -> None:
    database = visits.partition("#")[0]
    rows = open_rows(database, query=query)
    counts = [1, *[2] * 19] if "TABLE" not in query else list(range(1, 21))
    assert rows.count_cells(UNIT).tolist() == counts
    assert rows.limit("unit", max_rows=1).count_cells(UNIT).tolist() == [1] * 20
    assert query.strip().rstrip(";") in explain(database, UNIT, query=query)
    publish(database, UNIT, epsilon=1, query=query, ledger=tmp_path / "t.ledger", save_to=tmp_path / "r.dpcube")
    for file in tmp_path.iterdir():
        assert b"test.visits" not in file.read_bytes()


@pytest.mark.parametrize(
    "query",
    [
        f"SELECT '{SECRET}'::int AS unit",
        f"SELECT {SECRET} FROM test.visits",
        "SELECT 1 AS unit) AS q; DROP TABLE test.visits; SELECT * FROM (SELECT 1 AS unit",
        "SELECT 1 AS unit; DELETE FROM test.visits",
        "DELETE FROM test.visits RETURNING unit",
        "WITH gone AS (DELETE FROM test.visits RETURNING unit) SELECT * FROM gone",
        "",
    ],
)
def test_a_query_that_cannot_be_is_refused_without_being_repeated(
    visits: str, server: psycopg.Connection, query: str
) -> None:
    with pytest.raises(SourceError, match="the PostgreSQL query cannot be opened") as raised:
        open_rows(visits.partition("#")[0], query=query)
    assert SECRET not in str(raised.value)
    assert raised.value.__cause__ is None
    assert raised.value.__context__ is None
    assert server.execute("SELECT count(*) FROM test.visits").fetchall() == [(215,)]


def test_a_query_that_fails_on_a_row_says_nothing_of_it(visits: str, server: psycopg.Connection) -> None:
    server.execute(f"CREATE TABLE test.base AS SELECT '{SECRET}' AS v")
    server.execute("CREATE FUNCTION test.mark() RETURNS int LANGUAGE sql AS $$ DELETE FROM test.base RETURNING 1 $$")
    for query in ("SELECT v::int AS unit FROM test.base", "SELECT test.mark() AS unit FROM test.base"):
        rows = open_rows(visits.partition("#")[0], query=query)
        with pytest.raises(SourceError, match="the PostgreSQL query could not be read to its end") as raised:
            rows.count_cells(UNIT)
        assert SECRET not in str(raised.value)
        assert raised.value.__context__ is None
    assert server.execute("SELECT count(*) FROM test.base").fetchall() == [(1,)]


def test_where_a_query_has_no_place(visits: str, tmp_path: Path) -> None:
    sources = {
        visits: "with a query, .* must end in the database",
        "spark:x": "pass the DataFrame of the query instead",
    }
    for source, match in {**sources, str(tmp_path / "t.csv"): "query needs the address of a database"}.items():
        with pytest.raises(SourceError, match=match):
            open_rows(source, query="SELECT 1 AS v")
    with pytest.raises(SourceError, match="must not contain a password"):
        open_rows("postgresql://me:hunter2@host.example/db", query="SELECT 1 AS v")


def test_the_connection_writes_nothing(postgres: str, server: psycopg.Connection) -> None:
    server.execute("CREATE TABLE test.base (v int); INSERT INTO test.base VALUES (1)")
    server.execute(
        "CREATE FUNCTION test.mark() RETURNS int LANGUAGE sql AS $$ INSERT INTO test.base VALUES (2) RETURNING v $$"
    )
    server.execute("CREATE VIEW test.trap AS SELECT test.mark() AS v")
    with pytest.raises(SourceError, match=r"test.trap could not be read to its end"):
        open_rows(f"{postgres}#test.trap").count_cells(Domain((NUMBER,)))
    assert open_rows(f"{postgres}#test.base").count() == 1


def test_failures_are_told_in_words_of_our_own(
    postgres: str, server: psycopg.Connection, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    server.execute("CREATE TABLE test.base AS SELECT 'Zebulon' AS v")
    server.execute("CREATE VIEW test.broken AS SELECT v::int AS v FROM test.base")  # it fails, and quotes the row
    with pytest.raises(psycopg.Error, match=SECRET):
        server.execute("SELECT * FROM test.broken")
    rows = open_rows(f"{postgres}#test.broken")
    for act in (lambda: rows.count_cells(Domain((NUMBER,))), lambda: rows.different("v")):
        with pytest.raises(
            SourceError, match=r"the PostgreSQL table test.broken could not be read to its end"
        ) as raised:
            act()
        assert raised.value.__cause__ is None
        assert raised.value.__context__ is None
    assert not caplog.records
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("address", "match"),
    [
        ("postgresql://me:hunter2@host.example/db#t", "must not contain a password; set PGPASSWORD"),
        ("postgresql://me@host.example/db?password=hunter2#t", "must not contain a password"),
        ("postgres://me@host.example/db?sslmode=require&sslpassword=hunter2#t", "must not contain a password"),
        ("postgresql://me@host.example/db", "must end in #table"),
        ("postgresql://me@host.example/db#a.b.c", "must end in #table"),
        ("postgresql://me@[host.example/db#t", "must end in #table"),
        ("postgresql://me:p%40ss@host.example/hunter2", "must not contain a password"),
        ("postgresql://me@127.0.0.1:1/db?connect_timeout=2#t", "the PostgreSQL table t cannot be reached"),
    ],
)
def test_an_address_that_cannot_be_is_refused_without_being_repeated(address: str, match: str) -> None:
    with pytest.raises(SourceError, match=match) as raised:
        open_rows(address)
    assert not any(word in str(raised.value) for word in ("hunter2", "host.example", "me@", "127.0.0.1"))
    assert raised.value.__cause__ is None
    assert raised.value.__context__ is None


def test_a_table_that_is_not_there(postgres: str) -> None:
    with pytest.raises(SourceError, match=r"the PostgreSQL table no.where cannot be opened") as raised:
        open_rows(f"{postgres}#no.where")
    assert raised.value.__context__ is None


def test_unusable_columns(postgres: str, server: psycopg.Connection) -> None:
    server.execute("CREATE TABLE test.odd (a int[], b bytea, d double precision, t time)")
    rows: Rows = open_rows(f"{postgres}#test.odd")
    for name in ("a", "b", "t"):
        with pytest.raises(SourceError, match=f"attribute '{name}' needs a column of numbers"):
            rows.count_cells(Domain((Integer(name=name, min=0, max=1),)))
    assert rows.count_cells(Domain((Category(name="d", values=("1.5",)),))).tolist() == [0]


def test_explaining_reads_nothing(visits: str, server: psycopg.Connection, tmp_path: Path) -> None:
    domain = Domain((Category(name="v", values=("it's", "\x1b[31m")),))
    server.execute("DELETE FROM test.visits; ALTER TABLE test.visits ALTER v TYPE text")
    sql = explain(visits, domain, unit="unit", max_rows=2)
    assert 'FROM "test"."visits"' in sql
    assert "'it''s'" in sql
    assert "row_number() OVER (PARTITION BY" in sql
    assert server.execute(sql).fetchall() == []
    domain.save(tmp_path / "d.toml")
    command: list[str | Path] = [
        Path(sys.executable).with_name("dpcube"),
        "release",
        visits,
        "--domain",
        tmp_path / "d.toml",
    ]
    command += ["--epsilon", "1", "-o", tmp_path / "r.dpcube"]
    shown = subprocess.run([*command, "--explain"], capture_output=True, text=True, timeout=600, check=True)
    assert "GROUP BY 1" in shown.stdout
    assert "\x1b" not in shown.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d.toml"]
    command += ["--no-ledger", "--even-if-empty"]
    made = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert made.returncode == 0, made.stderr
    assert (tmp_path / "r.dpcube").exists()


def test_the_pin_of_sqlglot_holds() -> None:
    """Ibis 12 fails with sqlglot 28 and newer when it compiles; see the dependencies in pyproject.toml."""
    ibis_version, sqlglot_version = Version(version("ibis-framework")), Version(version("sqlglot"))
    assert ibis_version >= Version("13") or sqlglot_version < Version("28"), (
        f"Ibis {ibis_version} does not work with sqlglot {sqlglot_version}: pip install 'sqlglot<28'"
    )
    table = ibis.table({"a.b": "int"}, name='my "t')
    assert 'AS "c0"' in ibis.to_sql(table.select(c0=table["a.b"]), dialect="postgres")


@pytest.mark.slow
def test_a_text_longer_than_any_pattern_takes_does_not_fail_a_run(postgres: str) -> None:
    """The server's patterns raise beyond 268 million characters, so one row used to decide whether a run fails."""
    query = "SELECT '2025-01-01' AS v UNION ALL SELECT repeat('x', 268435456 + 10)"
    kinds = {"date": DATE, "float": FLOAT, "ward": WARD}
    domain = Domain(replace(attribute, name=name, column="v") for name, attribute in kinds.items())
    counts = open_rows(postgres, query=query).count_cells(domain)  # one cube: the server makes the text once
    for axis, attribute in enumerate(domain.attributes):
        of_axis = counts.sum(axis=tuple({0, 1, 2} - {axis}))
        unknown = of_axis[attribute.bins + attribute.own_cells.index("unknown")]
        assert (unknown, counts.sum()) == (1 + (attribute.name != "date"), 2)


def test_decimals_of_any_scale_are_read(postgres: str, server: psycopg.Connection) -> None:
    """A NUMERIC of five digits may be followed or led by a thousand zeros, which a cast to a double refuses."""
    outside, zero = FLOAT.bins + FLOAT.own_cells.index("infinite"), 0
    assert cells(postgres, server, "numeric(5, -1000)", ["'1e1003'", "0"], FLOAT) == [outside, zero]
    assert cells(postgres, server, "numeric(5, 1000)", ["'1e-999'", "0"], FLOAT) == [zero, zero]


def test_jsonb_is_refused_whatever_it_holds(postgres: str) -> None:
    """A few bytes of it may be gigabytes of text, at which the server raises."""
    rows = open_rows(postgres, query="SELECT CAST('1e131071' AS jsonb) AS v")
    with pytest.raises(SourceError, match=r"jsonb.*cast it"):
        rows.count_cells(Domain((WARD,)))
