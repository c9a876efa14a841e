"""A period is of a physical column in one complete reading: rows are selected by it, and the ledger keeps it."""

import shutil
from datetime import UTC, datetime, timedelta, timezone
from fractions import Fraction
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from dpcube.cli import main
from dpcube.core.domain import Date, Domain, Integer
from dpcube.core.errors import BudgetError
from dpcube.core.ledger.ledger import Ledger
from dpcube.core.period import Period
from dpcube.core.request import Range
from dpcube.core.sources import CsvDialect
from dpcube.curator import publish
from dpcube.curator.publishing import count
from dpcube.release import Release
from dpcube.release.periods import merged

OLD = Path(__file__).parent / "ledgers" / "format1.ledger"
TENTH = Fraction(1, 10)
AGE = Integer("age", 0, 3)


def domain(**reading: Any) -> Domain:
    return Domain(AGE, Date("admitted", "2026-01-01", "2026-12-31", every="month", **reading))


def period(domain: Domain, first: str, last: str, csv: CsvDialect | None = None) -> Period:
    chosen = Range.from_request(("admitted", first, last), domain, csv)
    assert chosen is not None
    return chosen.period()


def test_a_period_of_an_attribute_selects_by_its_column_and_reading() -> None:
    table = pa.table({"Adm": ["01.02.2026", "02.01.2026", "2026-02-03", "?"], "age": [1, 1, 1, 1]})
    read = domain(column="Adm", format="%d.%m.%Y")
    chosen = Range.from_request(("admitted", "2026-02-01", "2026-02-28"), read, None)
    assert count(table, read, rows_of=chosen).sum() == 2
    assert chosen is not None
    assert chosen.period() == Period("Adm", "date", 739648, 739676, '{"format": ["%d.%m.%Y"]}')


def test_a_moment_is_in_the_period_of_its_day_in_the_zone() -> None:
    table = pa.table({"admitted": ["2026-01-31T23:30:00Z"], "age": [1]})
    for zone, in_february in ((None, 0), ("Europe/Berlin", 1)):
        read = domain(format="iso", zone=zone)
        assert (
            count(table, read, rows_of=Range.from_request(("admitted", "2026-02-01", "2026-02-28"), read, None)).sum()
            == in_february
        )


JANUARY = ("2026-01-01", "2026-01-31")
FEBRUARY = ("2026-02-01", "2026-02-28")


@pytest.mark.parametrize(
    ("one", "other", "spent"),
    [
        (domain(), domain(), TENTH),
        (domain(format="iso", trim=True), domain(format="iso", trim=True), TENTH),
        (domain(), domain(format="%m/%d/%Y"), 2 * TENTH),
        (domain(format="%d/%m/%Y"), domain(format="%m/%d/%Y"), 2 * TENTH),
        (domain(format="iso"), domain(format="iso", zone="Europe/Berlin"), 2 * TENTH),
        (domain(format="iso"), domain(format="iso", trim=True), 2 * TENTH),
        (domain(column="a"), domain(column="b"), 2 * TENTH),
        (domain(null_text=[str(i) for i in range(999)]), domain(null_text=[str(i) for i in range(998)]), 2 * TENTH),
    ],
)
def test_periods_of_two_readings_add_up(one: Domain, other: Domain, spent: Fraction, tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "t.ledger", total=Fraction(1))
    for read, ends in ((one, JANUARY), (other, FEBRUARY)):
        ledger.charge(TENTH, strategy="cells", domain="d", period=period(read, *ends))
    assert Ledger(tmp_path / "t.ledger").statement().spent == spent


def test_how_a_file_is_cut_is_part_of_a_reading() -> None:
    plain = period(domain(), *JANUARY)
    assert plain.reading == ""
    assert period(domain(), *JANUARY, CsvDialect()) == plain
    assert period(domain(), *JANUARY, CsvDialect(delimiter=";")).reading == '{"csv": {"delimiter": ";"}}'
    assert "multiline" in period(Domain(*domain().attributes, multiline=True), *JANUARY).reading


def test_an_entry_without_a_reading_is_of_the_plain_one(tmp_path: Path) -> None:
    place = tmp_path / "t.ledger"
    shutil.copy(OLD, place)
    ledger = Ledger(place)
    periods = [c.period for c in ledger.statement().charges if c.period is not None]
    assert {p.reading for p in periods} == {""}
    start, before = max(p.stop for p in periods), ledger.statement().spent
    for reading, more in (("", 0), ("{}", TENTH)):
        later = Period(periods[0].column, periods[0].kind, start, start + 9, reading)
        ledger.charge(TENTH, strategy="s", domain="d", period=later)
        assert ledger.statement().spent == before + more


def test_a_refusal_says_that_readings_add_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = pa.table({"admitted": ["2026-01-05", "05.02.2026"], "age": [1, 2]})
    place = tmp_path / "a b.ledger"
    ask: dict[str, Any] = {"epsilon": 1, "ledger": place, "strategy": "cells"}
    publish(table, domain(), period=("admitted", *JANUARY), **ask)
    with pytest.raises(BudgetError) as caught:
        publish(table, domain(format="%d.%m.%Y"), period=("admitted", *FEBRUARY), **ask)
    assert str(caught.value).endswith(
        "which would take a b.ledger to 2 of 1 (periods of a column that is read in different ways add up); nothing "
        f"was drawn. The owner of the table may raise the total: dpcube ledger raise '{place}' --total 2 --purpose WHY"
    )
    publish(table, domain(), period=("admitted", *FEBRUARY), **ask)
    monkeypatch.setattr("sys.argv", ["dpcube", "ledger", str(place)])
    with pytest.raises(SystemExit):
        main()
    shown = capsys.readouterr().out
    assert [line.split()[0] for line in shown.splitlines()[-2:]] == ["1", "2"]  # not the numbers of entries


def test_a_query_is_part_of_a_reading() -> None:
    """By another query the column may hold another day of the same row: `SELECT admitted - 31 AS admitted`."""
    one, other, none = (Range("admitted", *JANUARY, query=query).period() for query in ("SELECT 1", "SELECT 2", None))
    assert len({one.axis, other.axis, none.axis}) == 3
    assert one == Range("admitted", *JANUARY, query="SELECT 1").period()
    assert "SELECT" not in one.reading


def test_a_row_is_in_one_period_in_columns_of_every_type() -> None:
    """It was of January among objects, in UTC, and of February in a column of times, in the zone."""
    moment = datetime(2026, 1, 31, 23, 30, tzinfo=UTC)
    read = domain(format="iso", zone="Europe/Berlin")
    columns = [pd.Series([moment]), pd.Series([moment], dtype=object), pd.Series(["2026-01-31T23:30:00Z"])]
    columns += [pd.Series([moment.astimezone(timezone(timedelta(hours=-5)))], dtype=object)]
    for column in columns:
        frame = pd.DataFrame({"admitted": column, "age": 1})
        found = [
            count(frame, read, rows_of=Range.from_request(("admitted", *month), read, None)).sum()
            for month in (JANUARY, FEBRUARY)
        ]
        assert found == [0, 1], column.dtype


def test_merged_periods_cost_what_the_ledger_says(tmp_path: Path) -> None:
    """One row may be of January by one reading and of February by the other, and then pays for both."""
    table = tmp_path / "t.csv"
    table.write_text("admitted,other,age\n2026-01-15,2026-02-15,1\n2026-02-15,2026-01-15,2\n")
    whole = Domain(AGE)

    def made(month: tuple[str, str], name: str, names: tuple[str, ...] | None) -> Release:
        csv = None if names is None else CsvDialect(columns=names)
        return publish(
            table, whole, epsilon="0.1", period=("admitted", *month), ledger=tmp_path / name, total=1, csv=csv
        )

    same = [made(JANUARY, "same.ledger", None), made(FEBRUARY, "same.ledger", None)]
    other = [made(JANUARY, "other.ledger", None), made(FEBRUARY, "other.ledger", ("other", "admitted", "age"))]
    for releases, name, spent in ((same, "same.ledger", TENTH), (other, "other.ledger", 2 * TENTH)):
        assert Ledger(tmp_path / name).statement().spent == spent
        assert merged(releases).provenance.epsilon == spent
    merged(other).save(tmp_path / "merged.dpcube")
    assert Release.open(tmp_path / "merged.dpcube").provenance.epsilon == 2 * TENTH
    same[0].save(tmp_path / "one.dpcube")
    assert Release.open(tmp_path / "one.dpcube").provenance == same[0].provenance
