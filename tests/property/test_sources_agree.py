"""The same rows give the same counts, bit for bit, wherever they are: tables and domains at random on every source.

PostgreSQL, DuckDB (Arrow and Parquet), pandas and Polars count 300 tables of a night and 60 with each commit, Spark 30
and 10, with and without its ANSI mode.
"""

import itertools
import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from psycopg import sql

from dpcube.core.domain import Attribute, Category, Date, Domain, Float, Integer
from dpcube.core.errors import DomainError
from dpcube.core.sources import open_rows
from dpcube.testing import check_source
from nightly import only_first
from unit_names import DROPPED, named, named_in_spark

RELAXED = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]
# Hypothesis varies what it has drawn, so 300 of its examples are few in truth: these are 20 families with seeds apart.
FAMILIES, TABLES = 20, 15
FAMILY = settings(
    max_examples=TABLES, deadline=None, suppress_health_check=RELAXED, phases=[Phase.generate], database=None
)
NAMES = [
    "a",
    "A",
    "a.b",
    "it's",
    'say "hi"',
    "select",
    "two words",
    "größe",
    "`tick`",
    "c1",
    "%s {0} $1",
    "v0",
    "back\\",
]
WORDS = ["", " ", "a", "a ", " a", "A", "caf\u00e9", "cafe\u0301", "it's", "\\", "$x{y}", "\t", "null", "0", "é" * 40]
LOOSE = [
    "1.",
    ".5",
    "+1",
    "1e3",
    "1E-2",
    "inf",
    "-Infinity",
    "+iNf",
    "nan",
    "-NaN",
    "1e400",
    "-1e999",
    "1e-400",
    "1e99999",
]
LOOSE += [
    "1_0",
    "0x1",
    "1 2",
    "",
    " ",
    "1\n",
    "\t1",
    "1\u00a0",
    "1\u2003",
    "1\x1f",
    "1e+00012",
    "12e99999",
    "1d",
    "1f",
    "+-1",
    "--1",
    "\u0661",
    "1,5",
    "9" * 400,
    "1" * 2000,
]
LOOSE += ["true", "nan(1)", "0" * 999 + "1", "0" * 1000 + "1", "2.4703282292062327e-324", "2.4703282292062328e-324"]
DAYS = ["2024-02-29", "2023-02-29", "1900-02-29", "2000-02-29", "0000-01-01", "0001-01-01", "9999-12-31", "2024-13-01"]
DAYS += [
    " 2024-06-30 ",
    "2024-06-31",
    "2024-6-3",
    "2024-06-03T00:00",
    "infinity",
    "now",
    "today",
    "2024-06-03\n",
    "J2451187",
]

ZONES = [None, None, "Europe/Berlin", "America/St_Johns", "Pacific/Apia", "Asia/Kathmandu", "America/Santiago"]

here = st.sampled_from(["drop", "cell"])
beyond = st.sampled_from(["drop", "clip", "cell"])
POSTGRES_TYPES = {
    pa.int16(): "smallint",
    pa.int32(): "integer",
    pa.int64(): "bigint",
    pa.float32(): "real",
    pa.float64(): "double precision",
    pa.bool_(): "boolean",
    pa.string(): "text",
    pa.date32(): "date",
    pa.timestamp("us"): "timestamp",
    pa.timestamp("us", "UTC"): "timestamptz",
    pa.decimal128(38, 10): "numeric(38, 10)",
    pa.decimal128(12, 3): "numeric",
}


@dataclass(frozen=True)
class Case:
    """A table and a domain of its columns."""

    table: pa.Table
    domain: Domain


def near(edges: np.ndarray) -> list[float]:
    return [float(x) for x in (*edges, *np.nextafter(edges, -np.inf), *np.nextafter(edges, np.inf))]


def mostly(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Nulls now and then."""
    return st.integers(0, 7).flatmap(lambda dice: values if dice else st.none())


@st.composite
def number_attributes(draw: st.DrawFn, name: str) -> Attribute:
    kinds: Any = {key: draw(here) for key in ("null", "nan", "unknown")}
    kinds |= {key: draw(beyond) for key in ("infinite", "outside")}
    limit = draw(st.sampled_from([3, 1000, 2**40, 2**53 - 2]))
    low = draw(st.integers(-limit, limit))
    bins = draw(st.integers(1, 12))
    try:
        match draw(st.integers(0, 4)):
            case 0:
                width = draw(st.integers(1, 1 + limit // 20))
                return Integer(name=name, min=low, max=min(low + bins * width, 2**53 - 2), width=width, **kinds)
            case 1:
                edges = draw(st.lists(st.integers(-limit, limit), min_size=2, max_size=20, unique=True))
                return Integer(name=name, edges=tuple(sorted(edges)), **kinds)
            case 2:
                step = draw(st.sampled_from([0.1, 1 / 3, 2.5]) | st.floats(1e-3, 10)) * max(1, limit / 100)
                return Float(name=name, min=float(low), max=low + step * bins * 0.9, width=step, **kinds)
            case 3:
                width = draw(st.integers(1, 1 + limit // 20))
                return Float(name=name, min=low, max=low + bins * width, width=width, **kinds)
            case _:
                cuts = draw(st.lists(st.floats(-limit, limit), min_size=2, max_size=20, unique=True))
                return Float(name=name, edges=tuple(sorted(cuts)), **kinds)
    except DomainError:
        return Integer(name=name, min=0, max=9, **kinds)


@st.composite
def number_columns(draw: st.DrawFn, attribute: Attribute, rows: int) -> pa.Array:
    edges = attribute.bin_edges()
    type_ = draw(st.sampled_from([t for t in POSTGRES_TYPES if not pa.types.is_temporal(t)]))
    floats = st.sampled_from(near(edges)) | st.floats(float(edges[0]), float(edges[-1])) | st.floats()
    whole = st.sampled_from([math.floor(edge) + shift for edge in edges for shift in (-1, 0, 1)])
    whole |= st.sampled_from([2**53, 2**53 + 1, 2**63 - 1, -(2**63), 0])
    values: st.SearchStrategy[Any]
    if pa.types.is_integer(type_):
        top = 2 ** (type_.bit_width - 1)
        values = whole.map(lambda x: max(-top, min(top - 1, x)))
    elif pa.types.is_floating(type_):
        values = floats if type_ == pa.float64() else floats.map(single)
    elif pa.types.is_decimal(type_):
        largest, scale = 10 ** (type_.precision - type_.scale) - 1, Decimal(1).scaleb(-type_.scale)
        values = (
            floats.filter(math.isfinite).map(Decimal)
            | whole.map(Decimal)
            | st.decimals(-largest, largest, places=type_.scale)
        )
        values = values.map(lambda x: quantized(max(Decimal(-largest), min(Decimal(largest), x)), scale))
    elif pa.types.is_boolean(type_):
        values = st.booleans()
    else:
        values = (
            st.sampled_from(LOOSE) | floats.map(lambda x: f" {x!r}") | whole.map(str) | st.text(NOT_NUL, max_size=4)
        )
    return pa.array(draw(st.lists(mostly(values), min_size=rows, max_size=rows)), type_)


def single(value: float) -> float:
    with np.errstate(over="ignore"):
        return float(np.float32(value))


def quantized(value: Decimal, scale: Decimal) -> Decimal:
    return value.quantize(scale, context=Context(prec=60))


NOT_NUL = st.characters(exclude_categories=["Cs"], exclude_characters="\0")


@st.composite
def category_columns(draw: st.DrawFn, name: str, rows: int) -> tuple[Attribute, pa.Array]:
    words = st.sampled_from(WORDS) | st.text(NOT_NUL, max_size=4)
    listed = draw(st.lists(words, min_size=1, max_size=draw(st.sampled_from([3, 40])), unique=True))
    type_ = draw(st.sampled_from([pa.string(), pa.string(), pa.int32(), pa.bool_()]))
    values: st.SearchStrategy[Any] = st.sampled_from(listed) | words
    if type_ != pa.string():
        listed = ["true", "0", "-1", "7", "false", "08"]
        values = st.booleans() if type_ == pa.bool_() else st.sampled_from([0, -1, 7, 8])
    attribute = Category(name=name, values=tuple(listed), null=draw(here), unknown=draw(here))  # type: ignore[arg-type]
    return attribute, pa.array(draw(st.lists(mostly(values), min_size=rows, max_size=rows)), type_)


@st.composite
def date_columns(draw: st.DrawFn, name: str, rows: int) -> tuple[Attribute, pa.Array]:
    start = draw(st.dates(date(1850, 1, 1), date(2100, 1, 1)))
    end = start + timedelta(draw(st.integers(0, 400)))
    kinds: Any = {"null": draw(here), "unknown": draw(here), "outside": draw(beyond)}
    kinds["every"] = draw(st.sampled_from(["day", "week", "month", "quarter", "year"]))
    kinds["zone"] = draw(st.sampled_from(ZONES))
    attribute = Date(name=name, start=start, end=end, **kinds)
    type_ = draw(st.sampled_from([pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.string()]))
    days = st.sampled_from([start, end, start - timedelta(1), end + timedelta(1)]) | st.dates(start, end)
    days |= st.sampled_from([date.min, date.max, date(1, 1, 2), date(1970, 1, 1), date(9999, 12, 30)])
    values: st.SearchStrategy[Any] = days
    if pa.types.is_timestamp(type_):
        zone = UTC if type_.tz else None
        times = st.sampled_from(
            [timedelta(0), timedelta(hours=1), timedelta(hours=23), timedelta(days=1, microseconds=-1)]
        ) | st.timedeltas(timedelta(0), timedelta(days=1, microseconds=-1))
        inner = days.filter(lambda d: date(2, 1, 1) < d < date(9998, 1, 1))
        values = st.builds(lambda d, t: datetime(d.year, d.month, d.day, tzinfo=zone) + t, inner, times)
    elif type_ == pa.string():
        values = days.map(str) | st.sampled_from(DAYS) | st.text(NOT_NUL, max_size=4)
    return attribute, pa.array(draw(st.lists(mostly(values), min_size=rows, max_size=rows)), type_)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    rows = draw(st.integers(0, 25))
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True))
    columns = []
    for name in names:
        match draw(st.sampled_from(["number", "number", "category", "date"])):
            case "number":
                attribute = draw(number_attributes(name))
                columns.append((attribute, draw(number_columns(attribute, rows))))
            case "category":
                columns.append(draw(category_columns(name, rows)))
            case _:
                columns.append(draw(date_columns(name, rows)))
    table = pa.table([column for _, column in columns], names=names)
    return Case(table, Domain(tuple(attribute for attribute, _ in columns)))


def load(connection: psycopg.Connection, table: pa.Table, name: str) -> None:
    """Make a table of PostgreSQL."""
    columns = [sql.SQL("{} {}").format(sql.Identifier(f.name), sql.SQL(POSTGRES_TYPES[f.type])) for f in table.schema]
    holds = sql.Identifier(name)
    connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(holds))
    connection.execute(sql.SQL("CREATE TABLE {} ({})").format(holds, sql.SQL(", ").join(columns)))
    with connection.cursor() as cursor, cursor.copy(sql.SQL("COPY {} FROM STDIN").format(holds)) as copy:
        for row in table.to_pylist():
            copy.write_row(tuple(row.values()))


def test_postgres_conforms(postgres: str) -> None:
    with psycopg.connect(postgres, autocommit=True) as connection:

        def loaded(table: pa.Table) -> str:
            load(connection, table, "conform")
            return f"{postgres}#conform"

        check_source(loaded, types=POSTGRES_TYPES)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # PySpark leaves its sockets to be collected
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_spark_conforms(spark: Any, tmp_path: Path) -> None:
    number = itertools.count()

    def loaded(table: pa.Table) -> Any:
        path = tmp_path / f"{next(number)}.parquet"
        pq.write_table(table, path)
        return spark.read.parquet(str(path))

    check_source(loaded)


def check(case: Case, engine: Any, *others: Any, unit: Callable[[Any], Hashable] | None = None) -> None:
    """Check that an engine and others answer as DuckDB does from Arrow.

    Under a limit that nobody reaches, rows stay that have a unit or none at all: in columns of declared types all do,
    and otherwise those that `unit` does not drop (`unit_names.py`).
    """
    expected = open_rows(case.table).count_cells(case.domain)
    rows = open_rows(engine)
    np.testing.assert_array_equal(rows.count_cells(case.domain), expected)
    for other in others:
        np.testing.assert_array_equal(open_rows(other).count_cells(case.domain), expected, err_msg=str(type(other)))
    name = case.domain.names[0]
    for source, unit_in in [(engine, unit), *((other, named) for other in (case.table, *others))]:
        limited = open_rows(source).limit(name, max_rows=10**6, null="each").count_cells(case.domain)
        kept = (
            expected if unit_in is None else open_rows(with_units(case.table, name, unit_in)).count_cells(case.domain)
        )
        np.testing.assert_array_equal(limited, kept, err_msg=str(type(source)))


def with_units(table: pa.Table, name: str, unit: Callable[[Any], Hashable]) -> pa.Table:
    """Return the rows that a rule for privacy units does not drop."""
    return table.filter(pa.array([unit(value) is not DROPPED for value in table[name].to_pylist()], pa.bool_()))


@pytest.mark.slow
@pytest.mark.parametrize("family", only_first(4, range(FAMILIES)))
def test_postgres_and_frames_agree_with_arrow(family: int, postgres: str, tmp_path: Path) -> None:
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("SET synchronous_commit = off")

        @seed(family)
        @FAMILY
        @given(case=cases())
        def agree(case: Case) -> None:
            load(connection, case.table, "Agree.ment")
            pq.write_table(case.table, tmp_path / "t.parquet")
            pandas = case.table.to_pandas(types_mapper=pd.ArrowDtype)
            check(case, f"{postgres}#Agree%2Ement", tmp_path / "t.parquet", pl.from_arrow(case.table), pandas)

        agree()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # PySpark leaves its sockets to be collected
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("family", only_first(2, range(6)))
def test_spark_agrees_with_arrow(family: int, spark: Any, tmp_path: Path) -> None:
    @seed(family)
    @settings(FAMILY, max_examples=5)
    @given(case=cases())
    def agree(case: Case) -> None:
        names = case.table.column_names
        pq.write_table(case.table.rename_columns([f"x{i}" for i in range(len(names))]), tmp_path / "t.parquet")
        frame = spark.read.parquet(str(tmp_path / "t.parquet")).toDF(*names)  # names may differ in case alone
        check(case, frame, unit=named_in_spark)

    spark.conf.set("spark.sql.ansi.enabled", str(family % 2 == 0).lower())
    agree()
