"""The audit of units by their names: two people are two units, whatever their names are taken for, in every source.

If two were one, the rows of one would decide which of the other's are counted. The exact audit of `auditor.py` sees
that as a loss above epsilon; each source is audited once as it is, and once with units told apart by what attributes
read of their column, as they once were.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pandas as pd
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from auditor import EPSILON, draws, job, loss
from test_audit import AGE

from dpcube.core.request import PrivacyUnit
from dpcube.core.sources import Rows
from dpcube.core.sources.asked import AskedRows
from dpcube.core.sources.table import Scan, Table
from dpcube.curator.publishing import count
from dpcube.strategies import Cells

VISITS = 99  # of the other person: were both one unit, one of these would be counted in all but 1 of 100 draws
Names = tuple[Any, Any]
Put = Callable[[Path, list[Any], list[int]], Any]


def latin_csv(folder: Path, who: list[Any], age: list[int]) -> Path:
    (folder / "t.csv").write_bytes(b"who,age\n" + b"".join(b"%s,%d\n" % row for row in zip(who, age, strict=True)))
    return folder / "t.csv"


def latin_table(_: Path, who: list[Any], age: list[int]) -> pa.Table:
    raw = pa.array(who, pa.binary())
    return pa.table({"who": pa.Array.from_buffers(pa.string(), len(raw), raw.buffers()), "age": age})


def latin_parquet(folder: Path, who: list[Any], age: list[int]) -> Path:
    pq.write_table(latin_table(folder, who, age), folder / "t.parquet")
    return folder / "t.parquet"


def frame_of(dtype: str) -> Put:
    return lambda _, who, age: pd.DataFrame({"who": pd.Series(who, dtype=object).astype(dtype), "age": age})


LATIN: Names = (b"M\xfcller", b"M\xf6ller")
LARGE: Names = (Decimal(12 * 10**17 + 1), Decimal(12 * 10**17 + 2))
HOURS: Names = (pd.Timestamp(2024, 1, 1, nanosecond=1), pd.Timestamp(2024, 1, 1, nanosecond=2))
NAMED: dict[str, tuple[Names, Put]] = {
    "CSV": (LATIN, latin_csv),
    "Arrow": (LATIN, latin_table),
    "Parquet": (LATIN, latin_parquet),
    "pandas tuples": (((1, 2), (1, 3)), frame_of("object")),
    "pandas times": (HOURS, frame_of("object")),
    "pandas categories": (HOURS, frame_of("category")),
}


def named_loss(names: Names, put: Put, folder: Path) -> Fraction:
    """The largest loss of a second person, of whom one row is to count, beside a first who has one."""
    first, second = names
    run = job(Cells())
    (folder / "alone").mkdir()
    exact = count(put(folder / "alone", [first], [0]), AGE, unit=PrivacyUnit("who", 1))
    both = put(folder, [first] + [second] * VISITS, [0] + [1] * VISITS)
    others = [count(both, AGE, unit=PrivacyUnit("who", 1)) for _ in range(3)]
    assert exact.tolist() == [1, 0, 0, 0, 0, 0]
    return max(abs(loss(run, exact, other, draw)) for draw in draws() for other in others)


@pytest.mark.parametrize("source", NAMED)
def test_a_person_whose_name_is_read_as_anothers_loses_at_most_epsilon(source: str, tmp_path: Path) -> None:
    assert named_loss(*NAMED[source], tmp_path) == EPSILON


def merged(monkeypatch: pytest.MonkeyPatch, read: str = "{}") -> None:
    """Tell units apart by what is read of their column, as attributes do."""

    def faulty(table: Table) -> Table:
        def scans(columns: Sequence[int], of: int | None) -> Iterator[Scan]:
            for scan in table.scans(sorted({*columns, of or 0}), None):
                yield replace(scan, sql=f"(SELECT *, {read.format(f'c{of}')} AS u FROM {scan.sql}) AS faulty")

        return replace(table, scans=scans)

    honest = Rows.limit
    monkeypatch.setattr(
        Rows,
        "limit",
        lambda rows, *a, **b: honest(Rows(AskedRows(faulty(rows._asked.table), rows._asked.within)), *a, **b),
    )


@pytest.mark.parametrize("source", NAMED)
def test_sabotage_people_who_are_one_unit_are_caught(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The row of the first is lost and one of the second won. Over all draws the loss at epsilon 1 is
    log((1 + 99 e^2) / 100) = 1.99; with 10 visits it is 1.92."""
    merged(monkeypatch)
    assert named_loss(*NAMED[source], tmp_path) == 2 * EPSILON


@pytest.mark.slow
def test_people_in_postgresql_lose_at_most_epsilon(
    postgres: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def put(folder: Path, who: list[Any], age: list[int]) -> str:
        name = f"audit_{folder.name.replace('-', '_')}"
        with psycopg.connect(postgres, autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute(f"DROP TABLE IF EXISTS {name}; CREATE TABLE {name} (who numeric(20), age int)")
            cursor.executemany(f"INSERT INTO {name} VALUES (%s, %s)", list(zip(who, age, strict=True)))
        return f"{postgres}#{name}"

    (tmp_path / "honest").mkdir()
    assert named_loss(LARGE, put, tmp_path / "honest") == EPSILON
    merged(monkeypatch)
    (tmp_path / "merged").mkdir()
    assert named_loss(LARGE, put, tmp_path / "merged") == 2 * EPSILON


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # PySpark leaves its sockets to be collected
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_people_in_spark_lose_at_most_epsilon(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def put(_: Path, who: list[Any], age: list[int]) -> Any:
        return spark.createDataFrame(list(zip(who, age, strict=True)), "who string, age int")

    (tmp_path / "honest").mkdir()
    assert named_loss(("a", "a "), put, tmp_path / "honest") == EPSILON
    merged(monkeypatch, "trim({})")
    (tmp_path / "merged").mkdir()
    assert named_loss(("a", "a "), put, tmp_path / "merged") == 2 * EPSILON
