"""No traceback shows an exact count that an engine brought back, wherever in our code an exception is raised."""

import sys
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from dpcube.core import gate
from dpcube.core.domain import Domain, Integer
from dpcube.core.sources import Rows
from dpcube.curator import publish
from tracebacks import ROWS, Loud, leaks

AGES = Domain((Integer(name="age", min=0, max=3),))

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # a connection that an exception left open
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(autouse=True)
def loud(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "ExactNoise", Loud)


@pytest.fixture
def in_postgres(postgres: str) -> Callable[[], object]:
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS opaque CASCADE")
        connection.execute("CREATE SCHEMA opaque")
        connection.execute(f"CREATE TABLE opaque.t AS SELECT 3 AS age FROM generate_series(1, {ROWS})")
    return lambda: publish(f"{postgres}#opaque.t", AGES, epsilon="1/2", strategy="cells", ledger=None)


@pytest.fixture
def in_spark(spark: Any) -> Iterator[Callable[[], object]]:
    frame = spark.createDataFrame([(3,)], "age int").selectExpr("age", f"explode(sequence(1, {ROWS})) AS row")
    yield lambda: publish(frame, AGES, epsilon="1/2", strategy="cells", ledger=None)
    for left in spark.catalog.listTables():  # an exception in the line that drops a view leaves the view
        spark.catalog.dropTempView(left.name)


@pytest.mark.parametrize(
    ("engine", "every"), [("postgres", 2), ("spark", 10), pytest.param("spark", 2, marks=pytest.mark.nightly)]
)
def test_an_exception_at_every_trusted_line_shows_no_count_of_an_engine(
    engine: str, every: int, request: pytest.FixtureRequest
) -> None:
    job = request.getfixturevalue(f"in_{engine}")
    assert leaks(job, (), every=every) == {}
    assert leaks(job, (), every=1, within=f"{engine}.py", last=True, twice=True) == {}


@pytest.mark.parametrize("engine", ["postgres", "spark"])
def test_sabotage_counting_in_an_engine_without_the_seal_is_caught(
    engine: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    published = sys.modules["dpcube.curator.publishing"]
    for owner, name in ((Rows, "count_cells"), (published, "count"), (published, "_counted")):
        monkeypatch.setattr(owner, name, getattr(owner, name).__wrapped__.__wrapped__)
    job = request.getfixturevalue(f"in_{engine}")
    assert leaks(job, (), every=1, within="rows.py", last=True)
    assert leaks(job, (), every=1, within=f"{engine}.py", last=True)
