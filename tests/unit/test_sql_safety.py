"""SQL can do nothing but compute: each statement is refused by the allow-list, and by the engine without it."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from dpcube import Domain, Release, evaluate
from dpcube.core.errors import QueryError
from dpcube.release.sql.engine import engine
from dpcube.testing import SilentNoise


@pytest.fixture(scope="module")
def release() -> Release:
    return evaluate.experiment(np.ones((3, 4), np.int64), epsilon=1, strategy="cells", noise=SilentNoise())


FORBIDDEN = (
    *("DROP TABLE cube", "CREATE TABLE t AS SELECT 1", "INSERT INTO cube VALUES (1)", "DELETE FROM cube"),
    *("UPDATE cube SET axis0 = 1", "COPY (SELECT 1) TO 'stolen.csv'", "EXPORT DATABASE 'stolen'", "ATTACH 'stolen.db'"),
    *("INSTALL httpfs", "LOAD httpfs", "SET memory_limit = '1GB'", "RESET memory_limit", "PRAGMA database_list"),
    *(
        "CALL duckdb_settings()",
        "EXPLAIN SELECT 1",
        "DESCRIBE other",
        "SHOW ALL TABLES",
        "BEGIN",
        "CHECKPOINT",
        "USE main",
    ),
    *("FROM cube", "VALUES (1)", "PREPARE p AS SELECT 1", "EXECUTE p", "VACUUM", "SUMMARIZE cube"),
)
SELECTS = (
    *("SELECT * FROM 'secret.csv'", "SELECT * FROM read_csv('secret.csv')", "SELECT * FROM read_text('secret.csv')"),
    *("SELECT * FROM glob('*')", "SELECT * FROM duckdb_settings()", "SELECT * FROM information_schema.tables"),
    *("SELECT * FROM pg_catalog.pg_tables", "SELECT * FROM duckdb_tables", "SELECT * FROM sqlite_master"),
    *(
        "SELECT * FROM range(10)",
        "SELECT * FROM generate_series(1, 10)",
        "SELECT unnest([1, 2])",
        "SELECT getenv('HOME')",
    ),
    *("SELECT current_setting('threads')", "SELECT read_blob('secret.csv')", "SELECT * FROM table"),
    *("SELECT count(*) FROM cube, read_csv('secret.csv')", "SELECT random()", "SELECT now()", "SELECT nextval('s')"),
    *("SELECT query('SELECT 1')", "SELECT * FROM query_table('cube')", "SELECT dpcube_order_statistic([], 1, 'min')"),
    *("WITH RECURSIVE t AS (SELECT 1 UNION ALL SELECT 1 FROM t) SELECT * FROM t", 'SELECT * FROM "dpcube rows 1"'),
    *("SELECT count(*) FROM cube WHERE axis0 > (SELECT content FROM read_text('secret.csv'))", "SELECT w FROM cube"),
    *(
        "SELECT count(*) INTO t FROM cube",
        "SELECT count(*) FROM cube TABLESAMPLE 10%",
        "SELECT repeat('a', 1000000000)",
    ),
    *(
        "SELECT count(*) FROM cube FOR UPDATE",
        "SELECT COLUMNS(*) FROM (SELECT 1) t",
        "SELECT * EXCLUDE (a) FROM (SELECT 1 AS a) t",
    ),
    *("SELECT count(*) FROM main.cube", "SELECT count(*) FROM cube PIVOT (sum(axis0) FOR axis1 IN (1))"),
    *("SELECT $1", "SELECT ?", "SELECT 1 /*", "SELECT axis0::STRUCT(a INT) FROM cube", "SELECT list(axis0) FROM cube"),
    *("SELECT count(*) FROM (DELETE FROM cube) t", "SELECT lambda x : x", "SELECT [x for x in [1]]", "SELECT {'a': 1}"),
)


@pytest.mark.parametrize("query", [*FORBIDDEN, *SELECTS])
def test_only_allowed_selects_are_read(
    release: Release, query: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret.csv").write_text("password\n1234\n")
    with pytest.raises(QueryError) as caught:
        release.sql(query)
    assert "1234" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["secret.csv"]
    assert capfd.readouterr().err == ""  # sqlglot's own warnings about odd statements stay away


@pytest.mark.parametrize(
    "query",
    [
        *(
            "SELECT * FROM 'secret.csv'",
            "SELECT * FROM read_csv('secret.csv')",
            "SELECT * FROM read_text('secret.csv')",
        ),
        *("COPY (SELECT 1) TO 'stolen.csv'", "ATTACH 'stolen.db'", "INSTALL httpfs", "LOAD httpfs"),
        *("SET enable_external_access = true", "SET threads = 1"),
        *("EXPORT DATABASE 'stolen'", "SET lock_configuration = false", "RESET memory_limit"),
    ],
)
def test_the_engine_itself_is_locked(query: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret.csv").write_text("password\n1234\n")
    with engine(confidence=0.95, seconds=5) as locked, pytest.raises(QueryError, match="the query cannot be run"):
        locked.run(query)
    assert [path.name for path in tmp_path.iterdir()] == ["secret.csv"]


def test_the_engine_does_compute() -> None:
    with engine(confidence=0.95, seconds=5) as locked:
        locked.add("known", pa.table({"x": [1, 2]}))
        assert locked.run("SELECT sum(x) AS s FROM known").to_pylist() == [{"s": 3}]


def test_text_in_a_query_stays_text(release: Release) -> None:
    names = "'); DROP TABLE x; --", "\"'", "\\", "a\nb"
    for text in names:
        query = f"SELECT '{text.replace(chr(39), chr(39) * 2)}' AS t, count(*) AS n FROM cube"
        assert release.sql(query).to_pylist() == [{"t": text, "n": pytest.approx(12)}]
        alias = text.replace('"', '""')
        assert release.sql(f'SELECT count(*) AS "{alias}" FROM cube').column_names == [text]
    assert Domain.of_shape((3, 4)) == release.domain
