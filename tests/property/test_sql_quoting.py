"""Names and values that are SQL themselves reach an engine as text, and count what they name."""

import re
from pathlib import Path
from tempfile import TemporaryDirectory

import ibis
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from psycopg import sql

from dpcube.core.domain import Category, Domain, Integer
from dpcube.core.sources import open_rows
from dpcube.core.sources.dialect import DUCKDB, POSTGRESQL, SPARK, Dialect
from dpcube.core.sources.sql import Column, cell
from dpcube.curator import CsvDialect

pytestmark = pytest.mark.slow

MARK = "Zq7"  # which no SQL of ours has in it
PIECES = [
    "'",
    '"',
    "`",
    ";",
    "--",
    "/*",
    "*/",
    "\\",
    "\\'",
    "$$",
    "$1",
    "%s",
    "%",
    "{",
    "}",
    "${x}",
    "?",
    ":x",
    "\0",
    "\n",
]
PIECES += [
    "\r",
    "\t",
    "\u2028",
    "\u02bc",
    "\uff07",
    "E'",
    "X'",
    "') DROP TABLE victim; --",
    "' OR ''='",
    "' || 'a",
    "x" * 10_000,
]
hostile = st.lists(st.sampled_from(PIECES) | st.text(max_size=4), max_size=6).map("".join)
values = hostile.map(lambda text: f"{text}{MARK}{text[::-1]}")
names = values.map(lambda text: f"{MARK}{text}")
LITERALS = {
    DUCKDB: r"'(?:[^']|'')*+'",
    POSTGRESQL: r"E'(?:[^'\\]|''|\\.)*+'|'(?:[^'\\]|'')*+'|\"(?:[^\"]|\"\")*+\"",  # a bare one may hold no backslash
    SPARK: r"X'[0-9a-f]*+'|'[^'\\${]*+'",  # what any setting of its parser takes as it is
}
MANY = tuple(f"value {i}" for i in range(20))  # enough to be looked up, not compared
long = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


def outside_quotes(text: str, dialect: Dialect) -> str:
    return re.sub(LITERALS[dialect], "''", text, flags=re.DOTALL)


def test_the_search_finds_what_is_not_quoted() -> None:
    for dialect in LITERALS:
        assert MARK not in outside_quotes(f"SELECT '{MARK}'", dialect)
        assert MARK in outside_quotes(f"SELECT 'a', {MARK}", dialect)
        assert MARK in outside_quotes(f"SELECT 'a'{MARK}' FROM t WHERE x = 'b'", dialect)
    assert MARK in outside_quotes(f"SELECT 'a\\' {MARK}", POSTGRESQL)
    assert MARK in outside_quotes(f"SELECT 'a\\' {MARK}", SPARK)


@pytest.mark.parametrize("dialect", LITERALS, ids=lambda dialect: type(dialect).__name__)
@long
@given(values, values, st.sampled_from([(), MANY]))
def test_values_stay_inside_their_quotes(dialect: Dialect, one: str, other: str, more: tuple[str, ...]) -> None:
    attribute = Category(name=f"{MARK}{one}", values=tuple(dict.fromkeys((one, other, *more))), unknown="cell")
    part = cell(attribute, Column("c0", pa.string(), dialect), "v")
    whole = " ".join((*(sql for _, sql in part.steps), part.value, part.index, part.keep))
    assert MARK not in outside_quotes(whole, dialect)
    assert "'" not in outside_quotes(whole, dialect).replace("''", "")


@settings(long, max_examples=20)
@given(names, values, st.sampled_from([(), MANY]))
@example("Zq7", "a\0Zq7", ())
@example("Zq7", "a\0Zq7", MANY)
def test_duckdb_counts_what_is_named(name: str, value: str, more: tuple[str, ...]) -> None:
    domain = Domain((Category(name=name, values=("plain", value, *more)), Integer(name="n", min=0, max=2)))
    table = pa.table({name: ["plain", value, f"{value}'", None], "n": [0, 1, 2, 2]})
    with TemporaryDirectory() as place:
        path = Path(place) / (re.sub(r"[/\0]", "", name)[:40] + ".parquet")
        pq.write_table(table, path)
        for source in (table, path):
            rows = open_rows(source)
            assert rows.count_cells(domain)[:2].tolist() == [[1, 0, 0], [0, 1, 0]]
            assert rows.count_cells(domain).sum() == 2
            limited = rows.limit(name, max_rows=1, null="drop")
            assert limited.count_cells(domain).sum() == 2
            # The name of the file is in the SQL, and is quoted there as well.
            assert MARK not in outside_quotes(rows.explain(domain), DUCKDB)


@settings(long, max_examples=20)
@given(values, names)
def test_texts_of_a_csv_dialect_are_quoted(null: str, name: str) -> None:
    null, name = (re.sub(r"[\r\n,\"]", "", text) for text in (null, name))
    with TemporaryDirectory() as place:
        path = Path(place) / "t.csv"
        path.write_text(f"{null}\nplain\n{null}\n", encoding="utf-8", newline="")
        rows = open_rows(path, csv=CsvDialect(header=False, columns=(name,), null_text=(null,)))
        domain = Domain((Category(name=name, values=("plain", null), null="cell"),))
        assert rows.count_cells(domain).tolist() == [1, 0, 2]
        assert MARK not in outside_quotes(rows.explain(domain), DUCKDB)


@pytest.mark.slow
@settings(long, max_examples=20)
@given(names, values, st.sampled_from([(), MANY]))
def test_postgresql_counts_what_is_named(postgres: str, name: str, value: str, more: tuple[str, ...]) -> None:
    name = name.replace("\0", "").encode()[:60].decode(errors="ignore")
    stored = value.replace("\0", "")
    domain = Domain((Category(name=name, values=tuple(dict.fromkeys(("plain", value, stored, *more)))),))
    with psycopg.connect(postgres, autocommit=True) as server:
        for statement in (
            "DROP SCHEMA IF EXISTS quoting CASCADE",
            "CREATE SCHEMA quoting",
            "CREATE TABLE quoting.victim ()",
        ):
            server.execute(statement)
        table = sql.Identifier("quoting", name)
        server.execute(sql.SQL("CREATE TABLE {} ({} text)").format(table, sql.Identifier(name)))
        for row in ("plain", stored, None, f"{stored}'"):
            server.execute(sql.SQL("INSERT INTO {} VALUES ({})").format(table, sql.Literal(row)))
        rows = open_rows(ibis.postgres.from_connection(server).table(name, database="quoting"))
        counts = dict(zip(domain.attributes[0].labels(), rows.count_cells(domain).tolist(), strict=True))
        assert (counts.pop("plain"), counts.pop(stored), sum(counts.values())) == (1, 1, 0)
        assert MARK not in outside_quotes(rows.explain(domain), POSTGRESQL)
        left = server.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'quoting'").fetchone()
        assert left == (2,)
