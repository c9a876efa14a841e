"""What a domain is learnt from is the same in every source, and in columns of every type that a library may infer."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from dpcube.core.sources import Rows, open_rows
from dpcube.core.text_code import MAX_OCTETS
from dpcube.curator.column_readings import reading_axes, readings_of

VALUES = [
    "a",
    " a ",
    "A",
    "",
    "  ",
    None,
    "3",
    "03",
    "3.0",
    "-0",
    "1e2",
    "2.5",
    "inf",
    "nan",
    "True",
    "FALSE",
    "7th-8th",
]
VALUES += [
    "2026-01-31",
    "08:30",
    "31.01.2026",
    "1/2/2026",
    "18-24",
    "1.500,25",
    "1,234",
    "é" * 40,
    "\ufffd",
    "it's",
    "\\",
]
VALUES += ["x" * MAX_OCTETS, "x" * (MAX_OCTETS + 1), "9007199254740993", "10th", "2020-01", "5d"]
COLUMN = [value for at, value in enumerate(VALUES) for _ in range(1 + at % 3)]


def readings(rows: Rows, *, declared: bool) -> dict[tuple[int, ...], int]:
    """The joint cells of all readings of the column x, and their counts."""
    axes, _ = reading_axes("x", readings_of("text", declared=declared))
    codes, alike = rows.count_readings(axes)
    return dict(zip(zip(*(code.tolist() for code in codes), strict=True), alike.tolist(), strict=True))


def texts(rows: Rows) -> dict[str, int]:
    found, counts = rows.count_texts("x", above=0)
    return dict(zip(found, counts.tolist(), strict=True))


def sources(folder: Path, column: Any) -> list[Any]:
    table = pa.table({"x": column})
    pq.write_table(table, folder / "t.parquet")
    return [table, folder / "t.parquet", table.to_pandas(), pl.from_arrow(table)]


def test_sources_count_texts_and_readings_alike(tmp_path: Path) -> None:
    every = [open_rows(source) for source in sources(tmp_path, pa.array(COLUMN))]
    assert all(texts(rows) == texts(every[0]) for rows in every)
    assert all(readings(rows, declared=False) == readings(every[0], declared=False) for rows in every)
    assert sum(readings(every[0], declared=False).values()) == len(COLUMN)


def test_the_texts_are_those_of_what_values_denote() -> None:
    found = texts(open_rows(pa.table({"x": COLUMN})))
    gone = [
        "2.5",
        "inf",
        "nan",
        "2026-01-31",
        "08:30",
        "31.01.2026",
        "1/2/2026",
        "\ufffd",
        "9007199254740993",
        "2020-01",
    ]
    gone += ["x" * (MAX_OCTETS + 1), "5d"]
    merged = {" a ": "a", "": "", "  ": "", None: "", "03": "3", "3.0": "3", "-0": "0", "1e2": "100", "True": "true"}
    merged["FALSE"] = "false"
    expected = Counter(merged.get(value, value) for value in COLUMN if value not in gone)
    assert found == expected


def test_declared_text_keeps_its_writing(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(
        "x,n\n" + "".join(f'"{v}",1\n' for v in ("03", "3", "3.0", " a", "a", "", "2026-01-31"))
    )
    assert texts(open_rows(tmp_path / "t.csv")) == {"03": 1, "3": 1, "3.0": 1, "a": 2, "": 1, "2026-01-31": 1}


TYPED: dict[str, list[str]] = {
    "whole": ["1", "2", "2", "-7"],
    "real": ["1", "2.5", "2", "1e2"],
    "booleans": ["True", "False", "True"],
    "days": ["2026-01-31", "2026-02-01", "2026-02-01"],
    "words": ["a", "b", "b"],
}


READERS: list[Callable[[str], Any]] = [
    lambda text: pacsv.read_csv(pa.BufferReader(text.encode())),
    lambda text: pd.read_csv(pa.BufferReader(text.encode())),
    lambda text: pl.read_csv(text.encode(), try_parse_dates=True, infer_schema_length=None),
]
MORE = ["", "n/k", "3.5", "True", "2026-03-01"]


@pytest.mark.slow
@pytest.mark.parametrize("name", TYPED)
def test_one_row_more_changes_one_text_and_one_cell(name: str) -> None:
    """Types are inferred by Arrow, pandas and Polars from all rows of a CSV file: one row may change each of them."""
    for turn, more in enumerate(MORE):
        read = READERS[(turn + len(name)) % len(READERS)]
        before, after = (
            open_rows(read("x,n\n" + "".join(f"{value},1\n" for value in values)))
            for values in (TYPED[name], [*TYPED[name], more])
        )
        for of in (texts, lambda rows: readings(rows, declared=False)):
            one, other = Counter(of(before)), Counter(of(after))
            assert not one - other
            assert sum((other - one).values()) <= 1


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # PySpark leaves its sockets to be collected
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_spark_counts_them_alike(spark: Any, tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": COLUMN}), tmp_path / "t.parquet")
    arrow, other = open_rows(pa.table({"x": COLUMN})), open_rows(spark.read.parquet(str(tmp_path / "t.parquet")))
    assert texts(other) == texts(arrow)
    assert readings(other, declared=False) == readings(arrow, declared=False)


@pytest.mark.slow
def test_postgresql_counts_them_as_a_file_of_text_does(postgres: str, tmp_path: Path) -> None:
    import psycopg

    kept = [value for value in COLUMN if value]
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS learnt; CREATE TABLE learnt (x text, n integer)")
        connection.cursor().executemany("INSERT INTO learnt VALUES (%s, 1)", [(value,) for value in kept])
        try:
            quoted = "".join('"{}",1\n'.format(value.replace('"', '""')) for value in kept)
            (tmp_path / "t.csv").write_text(f"x,n\n{quoted}")
            server, file = open_rows(f"{postgres}#learnt"), open_rows(tmp_path / "t.csv")
            assert texts(server) == texts(file)
            assert readings(server, declared=True) == readings(file, declared=True)
        finally:
            connection.execute("DROP TABLE learnt")
