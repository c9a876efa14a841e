"""No traceback shows an exact count that a database brought back, wherever in our code an exception is raised."""

import sys
from collections.abc import Callable

import psycopg
import pytest

from dpcube.curator import gate, private_table, publish
from dpcube.curator.sources import Rows
from dpcube.domain import Domain, Integer
from tracebacks import ROWS, Loud, leaks

AGES = Domain((Integer(name="age", min=0, max=3),))

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # a connection that an exception left open
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture
def job(postgres: str, monkeypatch: pytest.MonkeyPatch) -> Callable[[], object]:
    monkeypatch.setattr(gate, "ExactNoise", Loud)
    monkeypatch.setattr(private_table, "ExactNoise", Loud)
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS opaque CASCADE")
        connection.execute("CREATE SCHEMA opaque")
        connection.execute(f"CREATE TABLE opaque.t AS SELECT 3 AS age FROM generate_series(1, {ROWS})")
    return lambda: publish(f"{postgres}#opaque.t", AGES, epsilon="1/2", strategy="cells", ledger=None)


def test_an_exception_at_every_trusted_line_shows_no_count_of_a_database(job: Callable[[], object]) -> None:
    assert leaks(job, (), every=2) == {}
    assert leaks(job, (), every=1, within="postgres.py", last=True, twice=True) == {}


def test_sabotage_counting_in_a_database_without_the_seal_is_caught(
    job: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    published = sys.modules["dpcube.curator.publishing"]

    for owner, name in ((Rows, "count_cells"), (published, "count"), (published, "_counted")):
        monkeypatch.setattr(owner, name, getattr(owner, name).__wrapped__.__wrapped__)
    assert leaks(job, (), every=1, within="rows.py", last=True)
