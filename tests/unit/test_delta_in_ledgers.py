"""A ledger keeps delta beside epsilon: both are added up exactly, neither is overspent, and old ledgers still open."""

import sqlite3
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from dpcube.core.epsilon import parse_delta
from dpcube.core.errors import BudgetError, InputError, LedgerError
from dpcube.core.ledger.composition import amount_text, parse_amount
from dpcube.core.ledger.ledger import Ledger

ONE = Fraction(1)
TINY = Fraction(1, 10**6)
KEPT: dict[str, Any] = {"strategy": "padding", "domain": "d"}


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger.create(tmp_path / "t.ledger", total=ONE, delta=3 * TINY)


def test_both_parts_of_a_charge_are_kept_and_added_up(ledger: Ledger) -> None:
    ledger.charge(Fraction(1, 10), delta=TINY, **KEPT)
    ledger.charge(Fraction(1, 5), strategy="adaptive", domain="d")
    ledger.charge(Fraction(1, 10), delta=2 * TINY, **KEPT)
    state = Ledger(ledger.path).statement()
    assert [(c.epsilon, c.delta) for c in state.charges] == [
        (Fraction(1, 10), TINY),
        (Fraction(1, 5), 0),
        (Fraction(1, 10), 2 * TINY),
    ]
    assert (state.spent, state.spent_delta, state.total_delta) == (Fraction(2, 5), 3 * TINY, 3 * TINY)


@pytest.mark.parametrize("asked", [3 * TINY + Fraction(1, 10**30), 4 * TINY])
def test_a_delta_that_is_not_left_is_refused_with_nothing_recorded(ledger: Ledger, asked: Fraction) -> None:
    for request in (ledger.charge, ledger.check):
        kept: dict[str, Any] = KEPT if request == ledger.charge else {}
        with pytest.raises(BudgetError, match=r"delta .* of 3/1000000 is left .* --delta"):
            request(Fraction(1, 10), delta=asked, **kept)
    assert ledger.statement().charges == ()
    ledger.charge(Fraction(1, 10), delta=3 * TINY, **KEPT)


def test_deltas_of_several_charges_add_up_to_a_refusal(ledger: Ledger) -> None:
    for _ in range(3):
        ledger.charge(Fraction(1, 10), delta=TINY, **KEPT)
    with pytest.raises(BudgetError, match="0 of 3/1000000 is left"):
        ledger.charge(Fraction(1, 10), delta=TINY, **KEPT)
    ledger.charge(Fraction(1, 10), strategy="adaptive", domain="d")  # pure epsilon needs none


def test_a_ledger_from_before_delta_opens_allows_none_and_can_be_given_some(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "old.ledger", total=ONE)
    ledger.charge(Fraction(1, 4), strategy="cells", domain="d")
    with closing(sqlite3.connect(ledger.path)) as file:  # what is in it is what a ledger without delta has
        assert [row[0] for row in file.execute("SELECT epsilon FROM entry")] == ["1", "1/4"]
    with pytest.raises(BudgetError, match="0 of 0 is left"):
        ledger.charge(Fraction(1, 4), delta=TINY, **KEPT)
    ledger.raise_total(ONE, delta=TINY, purpose="linkage with the clinic")
    ledger.charge(Fraction(1, 4), delta=TINY, **KEPT)
    assert (ledger.statement().spent, ledger.statement().spent_delta) == (Fraction(1, 2), TINY)


@pytest.mark.parametrize(
    ("total", "delta"), [(ONE, None), (ONE, 3 * TINY), (ONE, TINY), (2 * ONE, TINY), (ONE / 2, 4 * TINY)]
)
def test_neither_part_of_a_total_is_lowered(ledger: Ledger, total: Fraction, delta: Fraction | None) -> None:
    with pytest.raises(InputError, match="can only be raised"):
        ledger.raise_total(total, delta=delta, purpose="x")
    assert (ledger.statement().total, ledger.statement().total_delta) == (ONE, 3 * TINY)


def test_a_total_is_raised_in_one_part_or_both(ledger: Ledger) -> None:
    ledger.raise_total(2 * ONE, purpose="epsilon")
    assert (ledger.statement().total, ledger.statement().total_delta) == (2 * ONE, 3 * TINY)
    ledger.raise_total(2 * ONE, delta=4 * TINY, purpose="delta")
    assert (ledger.statement().total, ledger.statement().total_delta) == (2 * ONE, 4 * TINY)


@pytest.mark.parametrize("delta", [-TINY, 0.1, "1e-6"])
def test_only_positive_rationals_are_deltas(ledger: Ledger, delta: Fraction) -> None:
    with pytest.raises(BudgetError, match="exact rational above 0"):
        ledger.charge(Fraction(1, 10), delta=delta, **KEPT)


@pytest.mark.parametrize("delta", [TINY, Fraction(0), Fraction(3, 7)])
def test_what_is_written_is_read_again(delta: Fraction) -> None:
    assert parse_amount(amount_text(Fraction(1, 3), delta)) == (Fraction(1, 3), delta)


@pytest.mark.parametrize(
    "text",
    ["1 delta 0", "1 delta ", " delta 1", "1 delta 1 delta 1", "1 delta -1", "1delta 1", "0 delta 1", "1 delta 1e9"],
)
def test_other_texts_are_no_amounts(text: str) -> None:
    with pytest.raises(ValueError, match="not an amount"):
        parse_amount(text)


def test_a_changed_delta_is_noticed(ledger: Ledger) -> None:
    ledger.charge(Fraction(1, 10), delta=TINY, **KEPT)
    with closing(sqlite3.connect(ledger.path, isolation_level=None)) as file:
        (trigger,) = file.execute("SELECT sql FROM sqlite_schema WHERE name = 'no_update'").fetchone()
        file.execute("DROP TRIGGER no_update")
        file.execute("UPDATE entry SET epsilon = '1/10' WHERE kind = 'charge'")
        file.execute(trigger)
    with pytest.raises(LedgerError, match="damaged or missing"):
        Ledger(ledger.path)


@pytest.mark.parametrize("value", ["0", "1e-31", "0.01", "-1e-6", "x", "", None, [1], "1e-99999", "1/0", 10**400])
def test_a_delta_that_protects_nobody_or_is_no_number_is_refused_in_one_line(value: str) -> None:
    with pytest.raises(InputError, match=r"write a number from 1e-30 to 0\.001") as refused:
        parse_delta(value)
    assert "\n" not in str(refused.value)
    assert "epsilon" not in str(refused.value)


@pytest.mark.parametrize("value", ["1e-30", "1e-6", 1e-6, "1/1000", Fraction(1, 12345)])
def test_a_delta_is_read_exactly(value: str) -> None:
    assert parse_delta(value) == Fraction(str(value))


def test_a_delta_has_at_most_400_bits() -> None:
    longest = Fraction(2**380, 2**400 - 1)
    assert parse_delta(longest) == longest
    with pytest.raises(InputError, match="or too long"):
        parse_delta(Fraction(2**380, 2**400 + 1))


@pytest.mark.parametrize(
    "amounts", [(Fraction(1, 10), Fraction(1, 10**2000)), (Fraction(1, 10**2000), Fraction(1, 10))]
)
def test_each_part_of_an_amount_must_be_readable(amounts: tuple[Fraction, Fraction]) -> None:
    with pytest.raises(InputError, match="hundreds of digits"):
        amount_text(*amounts)
