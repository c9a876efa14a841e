"""A real Spark counts, and nothing else: hostile rows, odd names, units, addresses, and what it is sent."""

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import ibis
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from dpcube.core.domain import Attribute, Category, Date, Domain, Float, Integer
from dpcube.core.errors import InputError, SourceError
from dpcube.core.sources import open_rows
from dpcube.curator import explain

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # PySpark leaves its sockets to be collected
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
SECRET = "Zebulon"
OWN: Any = {"null": "cell", "nan": "cell", "infinite": "cell", "unknown": "cell", "outside": "cell"}
FLOAT = Float(name="v", min=0.0, max=1.0, width=0.1, **OWN)
DATE = Date(name="v", start=date(2025, 1, 1), end=date(2025, 12, 31), null="cell", unknown="cell", outside="cell")
WARD = Category(name="v", values=("north", "south"), null="cell", unknown="cell")


@pytest.fixture(params=["true", "false"], ids=["ANSI", "not ANSI"])
def session(spark: Any, request: pytest.FixtureRequest) -> Iterator[Any]:
    spark.conf.set("spark.sql.ansi.enabled", request.param)
    yield spark
    assert [table.name for table in spark.catalog.listTables()] == []  # nothing is left behind


def cells(session: Any, type_: str, values: list[Any], attribute: Attribute) -> list[int]:
    frame = session.createDataFrame(list(enumerate(values)), f"n int, v {type_}")
    counts = open_rows(frame).count_cells(Domain((Integer(name="n", min=0, max=len(values) - 1), attribute)))
    assert set(counts.sum(axis=1)) <= {0, 1}
    return [int(row.argmax()) if row.any() else -1 for row in counts]


def test_where_hostile_values_go(session: Any) -> None:
    null, nan, infinite, unknown, outside = range(10, 15)
    texts = {"1e400": infinite, "-1e-400": 0, " .5 ": 5, "NaN": nan, "+inf": infinite, "9" * 1000: infinite}
    texts |= dict.fromkeys(["1e99999", "1d", "1\u00a0", "1_0", SECRET, "", "1e", "\0", "9" * 100_000], unknown)
    assert cells(session, "string", [*texts, None], FLOAT) == [*texts.values(), null]
    numbers = [float("nan"), float("-inf"), 5e-324, -0.0, 1.7e308, None]
    assert cells(session, "double", numbers, FLOAT) == [nan, infinite, 0, 0, outside, null]
    assert cells(session, "float", numbers[:4], FLOAT) == [nan, infinite, 0, 0]
    decimals = [Decimal("0.29999999999999998"), Decimal("0.1"), Decimal(10) ** 17, None]
    assert cells(session, "decimal(38, 20)", decimals, FLOAT) == [3, 1, outside, null]
    whole = Integer(name="v", min=2**53 - 4, max=2**53 - 1, width=3, **OWN)
    values = [2**53 - 1, 2**53, 2**63 - 1, -(2**63), 2**53 - 4]
    assert cells(session, "bigint", values, whole) == [1, 6, 6, 6, 0]
    assert cells(session, "boolean", [True, False, None], Integer(name="v", min=0, max=1)) == [1, 0, -1]


def test_a_text_that_many_rows_have_is_read_once_and_counts_as_often(session: Any) -> None:
    texts = ["north", "north", "North", " north ", None, None, "", "south"]
    rows = open_rows(session.createDataFrame([(text,) for text in texts], "v string"))
    found = rows.read_as([WARD])
    assert found == rows.outcomes(Domain((WARD,)))[0]
    assert (found[0]["kept"], found[0]["null"], sum(found[0].values())) == (3, 2, 8)


def test_where_dates_go(session: Any) -> None:
    null, unknown, outside = 365, 366, 367
    days = {"2025-02-29": unknown, " 2025-01-02": 1, "0000-01-01": unknown, "2025-1-2": unknown, "now": unknown,
            "2025-01-02\n": 1, "epoch": unknown, "9999-12-31": outside}  # fmt: skip
    assert cells(session, "string", [*days, None], DATE) == [*days.values(), null]
    assert cells(session, "date", [date(2025, 1, 2), date.max, date.min, None], DATE) == [1, outside, outside, null]
    moments = [datetime(2025, 1, 1, 23, 59, tzinfo=UTC), datetime(2024, 12, 31, 23, 59, tzinfo=UTC), None]
    assert cells(session, "timestamp", moments, DATE) == [0, outside, null]
    naive = [datetime(2025, 1, 1, 23, 59), datetime(2024, 12, 31, 23, 59)]
    assert cells(session, "timestamp_ntz", naive, DATE) == [0, outside]


def test_categories_are_compared_by_bytes(session: Any) -> None:
    assert cells(session, "string", ["north", "north ", "North", None], WARD) == [0, 3, 3, 2]
    assert cells(session, "string collate UTF8_LCASE", ["north", "North"], WARD) == [0, 3]
    values = ("it's", "back\\", "${x}", "\n", '"', "\\'", "'; DROP TABLE x; --", "caf\u00e9")
    odd = Category(name="v", values=values, unknown="cell")
    assert cells(session, "string", [*values, "cafe\u0301", "x"], odd) == [*range(8), 8, 8]
    many = Category(name="v", values=(*values, *(f"value {i}" for i in range(100))), unknown="cell")
    assert cells(session, "string", [*values, "value 99", "value"], many) == [*range(8), 107, 108]
    assert cells(session, "string collate UTF8_LCASE", ["value 0", "VALUE 0"], many) == [8, 108]


ODD = [
    'say "hi"',
    "it's",
    "a.b",
    "select",
    "two words",
    "größe",
    "c1",
    "AGE",
    "age",
    "a\nb",
    "v0",
    "%s{}",
    "`q`",
    "a,b",
]


def test_odd_names(session: Any) -> None:
    frame = session.createDataFrame([tuple(range(len(ODD)))], ", ".join(f"x{i} int" for i in range(len(ODD)))).toDF(
        *ODD
    )
    rows = open_rows(frame)
    assert rows.columns == tuple(ODD)
    counts = rows.count_cells(Domain(tuple(Integer(name=name, min=i, max=i) for i, name in enumerate(ODD))))
    assert counts.sum() == 1


def test_units_are_limited(session: Any) -> None:
    frame = session.sql("SELECT u, k FROM (SELECT id AS u, explode(sequence(1, id)) AS k FROM range(1, 21))")
    frame = frame.union(session.sql("SELECT NULL, id FROM range(1, 6)"))
    domain = Domain((Integer(name="u", min=1, max=20, null="cell"), Integer(name="k", min=1, max=20)))
    draws = [open_rows(frame).limit("u", max_rows=3).count_cells(domain) for _ in range(3)]
    for counts in draws:
        assert counts.sum(axis=1).tolist() == [*(min(u, 3) for u in range(1, 21)), 0]
    assert len({counts.tobytes() for counts in draws}) > 1
    each = open_rows(frame).limit("u", max_rows=1, null="each").count_cells(domain)
    assert each.sum(axis=1).tolist() == [1] * 20 + [5]


def test_rows_that_stay_under_a_limit_which_nobody_reaches(session: Any, tmp_path: Path) -> None:
    """A fraction names nobody, not even itself, so its row goes; nulls and NaN stay with `each`, as in Arrow."""
    units: dict[str, tuple[pa.Array, list[int]]] = {
        "double": (pa.array([3.0, 0.5, -0.0, float("nan"), 2.0**53, None]), [1, 0, 1, 1, 0, 1]),
        "float": (pa.array([3.0, 0.5, -0.0, float("nan"), float("-inf"), None], pa.float32()), [1, 0, 1, 1, 0, 1]),
        "bigint": (pa.array([3, 0, -3, 2**53 - 1, 2**53, None]), [1, 1, 1, 1, 0, 1]),
        "decimal(38,38)": (pa.array(map(Decimal, ["0", "1e-38", "-1e-38", "0.5", "-0"]), pa.decimal128(38, 38)),
                           [1, 0, 0, 0, 1]),
        "decimal(3,1)": (pa.array(map(Decimal, ["3", "99.9", "-99.9", "-99", "0.1"]), pa.decimal128(3, 1)),
                         [1, 0, 0, 1, 0]),
        "string": (pa.array(["3", "0.5", "n/k", " nan", "1e400", None]), [1, 0, 1, 1, 0, 1]),
        "binary": (pa.array([b"3", b"0.5", b"\xff", b"NaN", b"-inf", None]), [1, 0, 1, 1, 0, 1]),
    }  # fmt: skip
    for type_, (array, stay) in units.items():
        table = pa.table({"who": array, "row": range(len(array))})
        pq.write_table(table, tmp_path / "t.parquet")
        frame = session.read.parquet(str(tmp_path / "t.parquet"))
        assert frame.dtypes[0][1] == type_
        for source in (frame, table):
            rows = open_rows(source).limit("who", max_rows=10**6, null="each")
            assert rows.count_cells(Domain((Integer(name="row", min=0, max=len(array) - 1),))).tolist() == stay, type_


def test_paths(session: Any, tmp_path: Path) -> None:
    path = tmp_path / "it's a table.parquet"
    path.mkdir()
    for i in range(2):
        pq.write_table(pa.table({"v": [i, None]}), path / f"{i}.parquet")
    rows = open_rows(f"spark:{path}")
    assert rows.count_cells(Domain((Integer(name="v", min=0, max=1, null="cell"),))).tolist() == [1, 1, 2]
    assert str(tmp_path) not in repr(rows)
    for address, match in {
        f"spark:{tmp_path}/nowhere.parquet": "the Spark table nowhere.parquet cannot be opened",
        f"spark:{tmp_path}/t.csv.gz": "is CSV, which dpcube reads without Spark",
    }.items():
        with pytest.raises(SourceError, match=match) as raised:
            open_rows(address)
        assert str(tmp_path) not in str(raised.value)
        assert raised.value.__context__ is None


@pytest.mark.filterwarnings("ignore")  # of what Ibis asks of Spark
def test_an_ibis_table_of_spark(session: Any) -> None:
    session.createDataFrame([(1, "x"), (2, "y")], "v int, `odd name` string").createOrReplaceTempView("mine")
    zone = session.conf.get("spark.sql.session.timeZone")
    table = ibis.pyspark.connect(session).table("mine")
    rows = open_rows(table.filter(table.v > 1))
    assert rows.count_cells(Domain((Category(name="odd name", values=("x", "y")),))).tolist() == [0, 1]
    session.catalog.dropTempView("mine")
    session.conf.set("spark.sql.session.timeZone", zone)  # Ibis sets its own


def test_failures_are_told_in_words_of_our_own(
    session: Any, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG, logger="dpcube")
    frame = session.sql(f"SELECT IF(id = 1, raise_error('{SECRET}'), 1) AS v FROM range(2)")
    with pytest.raises(SourceError, match="the Spark frame could not be read to its end") as raised:
        open_rows(frame).count_cells(Domain((Integer(name="v", min=0, max=1),)))
    assert raised.value.__cause__ is None
    assert raised.value.__context__ is None
    assert SECRET not in "".join(capfd.readouterr())


def test_unusable_columns(session: Any) -> None:
    rows = open_rows(session.sql("SELECT array(1) AS a, X'00' AS b, 1.5D AS d"))
    for name in ("a", "b"):  # not refused, for one row may decide what Spark infers
        assert rows.count_cells(Domain(Integer(name, 0, 1, null="cell", unknown="cell"))).tolist() == [0, 0, 0, 1]
    assert rows.count_cells(Domain((Category(name="d", values=("1.5",)),))).tolist() == [1]


def test_explaining_runs_nothing(session: Any) -> None:
    frame = session.sql(f"SELECT raise_error('{SECRET}') AS v FROM range(2)")
    sql = explain(frame, Domain((Category(name="v", values=("it's",)),)))
    assert "CAST(X'69742773' AS STRING)" in sql


def test_the_command_starts_a_session_of_its_own(tmp_path: Path) -> None:
    pq.write_table(pa.table({"v": np.arange(10)}), tmp_path / "t.parquet")
    Domain((Integer(name="v", min=0, max=9),)).save(tmp_path / "d.toml")
    command: list[str | Path] = [Path(sys.executable).with_name("dpcube"), "release", f"spark:{tmp_path}/t.parquet"]
    command += ["--domain", tmp_path / "d.toml", "--epsilon", "1", "-o", tmp_path / "r.dpcube"]
    refused = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert refused.returncode == 2
    assert "no place for a ledger beside it" in refused.stderr
    command += ["--ledger", tmp_path / "t.ledger", "--even-if-empty"]
    made = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, env={**os.environ})
    assert made.returncode == 0, made.stderr
    assert (tmp_path / "r.dpcube").exists()
    with pytest.raises(InputError):
        open_rows("spark:")


def test_a_frame_that_reads_a_file_twice_is_refused(session: Any, tmp_path: Path) -> None:
    """Spark counts a file by each of its names, and says of one that is named twice only that it is there."""
    x, y, z = (str(tmp_path / f"{name}.parquet") for name in "xyz")
    pq.write_table(pa.table({"n": [1]}), x)
    Path(y).symlink_to(x)
    pq.write_table(pa.table({"n": [1]}), z)

    def read(*paths: str) -> Any:
        return session.read.parquet(*paths)

    session.conf.set("spark.sql.sources.useV1SourceList", "")
    newer = read(x, x)
    session.conf.unset("spark.sql.sources.useV1SourceList")
    twice = f"(SELECT * FROM parquet.`{x}`)"
    again = [
        newer,
        read(x, x),
        read(x, y),
        read(str(tmp_path)),
        read(str(tmp_path)).filter("n > 0").cache(),
        read(x).union(read(x)),
        read(x).union(read(z)).union(read(y).selectExpr("n + 1")),
        read(x, y).join(read(z), "n"),
        session.sql(f"WITH t AS {twice} SELECT * FROM t UNION ALL SELECT * FROM t"),
        ibis.pyspark.connect(session).sql(f"SELECT * FROM {twice} UNION ALL SELECT * FROM parquet.`{y}`"),
    ]
    for frame in again:
        with pytest.raises(
            SourceError, match=r"reads .*parquet (twice|and .*parquet, which are the same file), so each"
        ):
            open_rows(frame)
    session.catalog.clearCache()
    assert open_rows(read(x, z)).count() == open_rows(read(x).union(read(z))).count() == 2
    assert open_rows(session.sql(f"WITH t AS {twice} SELECT * FROM t")).count() == 1
    assert open_rows(read(x).join(read(x).withColumnRenamed("n", "m"))).count() == 1  # a join is its owner's affair
    assert open_rows(session.createDataFrame([(1,)], "n int")).count() == 1


def test_long_text_is_read_by_no_pattern(session: Any) -> None:
    frame = session.sql("SELECT repeat(' ', 100000000) AS v UNION ALL SELECT repeat('9', 10000000)")
    for attribute in (DATE, FLOAT, WARD):
        counts = open_rows(frame).count_cells(Domain((attribute,)))
        assert counts.reshape(-1)[attribute.bins + attribute.own_cells.index("unknown")] == 2


def test_files_of_a_lakehouse_table_that_spark_found_by_their_names_are_refused(spark: Any, tmp_path: Path) -> None:
    table = tmp_path / "visits"
    write_deltalake(table, pa.table({"ward": ["north", SECRET], "n": [1, 2]}), partition_by=["ward"])
    DeltaTable(table).update(updates={"n": "3"}, predicate="n = 1")
    assert spark.read.parquet(str(table)).count() == 3  # what Spark itself would count
    plain = spark.createDataFrame([("north", 1)], "ward string, n int")
    sources = [f"spark:{table}", spark.read.parquet(str(table)), plain.join(spark.read.parquet(str(table)), "n")]
    for source in sources:
        with pytest.raises(SourceError, match=r"inside the Delta table .*name the table") as raised:
            open_rows(source)
        assert SECRET not in str(raised.value)
    assert open_rows(table).count() == 2
