"""Rows of a wide table are the same in every engine: keys of their cells come back, nothing of the domain's size."""

from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from dpcube import Category, Domain, Integer
from dpcube.core.sources import open_rows

ATTRIBUTES, ROWS = 22, 400
COLOURS = ("red", "green", "blue")


def table() -> pa.Table:
    """More keys than one, values outside every bound, nulls, and rows that are alike."""
    generator = np.random.default_rng(11)
    numbers = {f"x{j}": generator.integers(-1, 30, ROWS // 2) for j in range(ATTRIBUTES)}
    null = generator.random(ROWS // 2) < 0.1
    columns = {name: pa.array(values, mask=null if name == "x0" else None) for name, values in numbers.items()}
    colours = [(*COLOURS, "grey")[k] for k in generator.integers(0, 4, ROWS // 2)]
    half = pa.table({**columns, "colour": colours})
    return pa.concat_tables([half, half])


def domain() -> Domain:
    ends: list[Any] = [
        Integer(f"x{j}", 0, 29, null="cell" if j == 0 else "drop", outside="clip" if j else "drop")
        for j in range(ATTRIBUTES)
    ]
    return Domain([*ends, Category("colour", COLOURS, unknown="cell")])


def counted(source: object, **limit: Any) -> dict[tuple[int, ...], int]:
    rows = open_rows(source)
    if limit:
        rows = rows.limit("x1", max_rows=10**6)
    codes, many = rows.count_alike(domain())
    return dict(zip(zip(*(code.tolist() for code in codes), strict=True), many.tolist(), strict=True))


EXPECTED = counted(table())


def test_what_is_expected_is_not_trivial() -> None:
    assert domain().size > 2**100
    assert ROWS // 2 < sum(EXPECTED.values()) < ROWS
    assert max(EXPECTED.values()) > 1


def test_files_and_limited_units_agree(tmp_path: Path) -> None:
    pq.write_table(table(), tmp_path / "t.parquet")
    pacsv.write_csv(table(), tmp_path / "t.csv")
    assert counted(tmp_path / "t.parquet") == EXPECTED
    assert counted(tmp_path / "t.csv") == EXPECTED
    assert counted(table(), limited=True) == EXPECTED


@pytest.mark.slow
def test_postgres_agrees(postgres: str) -> None:
    rows = table()
    with psycopg.connect(postgres, autocommit=True) as connection:
        columns = ", ".join(f"{name} {'text' if name == 'colour' else 'bigint'}" for name in rows.column_names)
        connection.execute("DROP TABLE IF EXISTS wide_rows")
        connection.execute(f"CREATE TABLE wide_rows ({columns})".encode())
        with connection.cursor() as cursor, cursor.copy("COPY wide_rows FROM STDIN") as copy:
            for row in rows.to_pylist():
                copy.write_row(list(row.values()))
    assert counted(f"{postgres}#wide_rows") == EXPECTED


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # PySpark leaves its sockets to be collected
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_spark_agrees(spark: Any, tmp_path: Path) -> None:
    pq.write_table(table(), tmp_path / "t.parquet")
    assert counted(spark.read.parquet(str(tmp_path / "t.parquet"))) == EXPECTED
