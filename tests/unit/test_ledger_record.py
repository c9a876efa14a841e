"""The record of a ledger for people: exact amounts, every charge, and a page that holds whatever was noted."""

import re
from datetime import date
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcube.cli import commands
from dpcube.core.ledger.ledger import Ledger
from dpcube.core.period import Period
from dpcube.release.ledger_record import CHARGE_COLUMNS, amount, budget_lines, charge_rows, ledger_page


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    made = Ledger.create(tmp_path / "visits.ledger", total=Fraction(3), unit="patient_id", purpose="board of 2 May")
    period = Period("admitted", "date", date(2025, 1, 1).toordinal(), date(2025, 2, 1).toordinal())
    first = made.charge(
        Fraction(8, 17), strategy="adaptive", domain="d0" * 32, unit="patient_id", purpose="<b>bold & \x1b[31m</b>"
    )
    made.complete(first, "ab" * 32)
    made.charge(Fraction(1, 2), strategy="cells", domain="d0" * 32, unit="patient_id", period=period)
    made.raise_total(Fraction(4), purpose="board of 9 May")
    return made


@given(st.fractions(min_value=0, max_value=10**6))
def test_an_amount_is_exact_or_has_its_fraction_beside_it(value: Fraction) -> None:
    written, _, exact = amount(value).partition(" ")
    assert Fraction(exact.strip("()") or written) == value
    assert abs(Fraction(written) - value) <= value / 10**5


def test_the_lines_say_what_is_left_and_whom_the_budget_protects(ledger: Ledger) -> None:
    told = dict(budget_lines(ledger.statement()))
    spent = ledger.statement().spent
    assert told == {
        "total": "4",
        "spent": amount(spent),
        "left": amount(4 - spent),
        "protects": "one patient_id",
    }


def test_each_charge_is_a_row(ledger: Ledger) -> None:
    rows = charge_rows(ledger.statement())
    assert [row[0] for row in rows] == ["1", "2"]
    assert all(len(row) == len(CHARGE_COLUMNS) for row in rows)
    assert [row[CHARGE_COLUMNS.index("release")] for row in rows] == ["ab" * 8, "not completed"]
    assert rows[1][CHARGE_COLUMNS.index("period")] == "admitted from 2025-01-01 to 2025-01-31"
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", row[1]) for row in rows)


def test_the_page_has_every_charge_and_decision_and_runs_nothing_that_was_noted(ledger: Ledger) -> None:
    page = ledger_page(ledger.statement(), title="<script>visits")
    assert "<script" not in page
    assert "<b>" not in page
    assert "\x1b" not in page
    for said in ("8/17", "0.5", "board of 2 May", "board of 9 May", "2025-01-31", "signature", "one patient_id"):
        assert said in page


def test_a_new_ledger_has_nothing_spent(tmp_path: Path) -> None:
    statement = Ledger.create(tmp_path / "new.ledger", total=Fraction(1)).statement()
    assert dict(budget_lines(statement))["spent"] == "0"
    assert "Nothing has been released. The budget allows epsilon 1 for one row." in ledger_page(statement, title="new")


def test_a_page_is_never_overwritten(ledger: Ledger, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "record.html"
    words = ["ledger", str(ledger.path), "--page", str(page)]
    assert commands.main(words, standalone_mode=False) in (None, 0)
    assert page.read_text().startswith("<!doctype html>")
    page.write_text("kept")
    with pytest.raises(Exception, match="exists; choose another name"):
        commands.main(words, standalone_mode=False)
    assert page.read_text() == "kept"
    assert "save it as PDF" in capsys.readouterr().out
