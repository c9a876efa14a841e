"""The ledger against a model that is slow and plainly right: the loss of every row there could be, worked out anew.

The model knows no rule of composition. It lists the rows that the charges can tell apart, one for each combination of
values of the period columns, adds up what each was charged, and takes the largest sum; for a unit, which may have any
rows, it adds up everything.
"""

import itertools
import math
import tempfile
from fractions import Fraction
from functools import cache
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from dpcube.core.errors import BudgetError, InputError, LedgerError
from dpcube.core.ledger.ledger import Ledger
from dpcube.core.period import Period

RAM = Path("/dev/shm")
AMOUNTS = st.fractions(Fraction(1, 1000), Fraction(1, 2), max_denominator=1000)
GERMAN = '{"format": ["%d.%m.%Y"]}'
COLUMNS = (("admitted", "date", ""), ("admitted", "date", GERMAN), ("admitted", "integer", ""), ("age", "integer", ""))
LAST = 4
ROWS = [dict(zip(COLUMNS, values, strict=True)) for values in itertools.product(range(1, LAST + 2), repeat=4)]


@st.composite
def periods(draw: st.DrawFn) -> Period:
    column, kind, reading = draw(st.sampled_from(COLUMNS))
    start = draw(st.integers(1, LAST))
    return Period(column, kind, start, draw(st.integers(start + 1, LAST + 1)), reading)


def loss(charges: list[tuple[Fraction, Period | None]], unit: str | None) -> Fraction:
    """The most that any row, or any unit with all the rows it likes, was charged."""
    if unit is not None:
        return sum((epsilon for epsilon, _ in charges), Fraction(0))
    whole = math.lcm(*(epsilon.denominator for epsilon, _ in charges))  # whole numbers add up faster than fractions
    parts = [(int(epsilon * whole), rows_of(period)) for epsilon, period in charges]
    sums = (sum(part for part, rows in parts if rows[row]) for row in range(len(ROWS)))
    return Fraction(max(sums), whole)


@cache
def rows_of(period: Period | None) -> list[bool]:
    return [touches(period, row) for row in ROWS]


def touches(period: Period | None, row: dict[tuple[str, str, str], int]) -> bool:
    """A row has a value of its own for each way in which a column is read."""
    return period is None or period.start <= row[period.column, period.kind, period.reading] < period.stop


class Accounts(RuleBasedStateMachine):
    """Everything that can be asked of a ledger, in any order, from a fresh handle or an old one."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory(dir=RAM if RAM.is_dir() else None)
        self.path = Path(self.directory.name) / "t.ledger"

    def teardown(self) -> None:
        self.directory.cleanup()

    @initialize(
        total=st.fractions(Fraction(1, 100), Fraction(2), max_denominator=1000),
        unit=st.sampled_from([None, None, "patient"]),
    )
    def create(self, total: Fraction, unit: str | None) -> None:
        self.ledger = Ledger.create(self.path, total=total, unit=unit)
        self.totals, self.unit = [total], unit
        self.charges: list[tuple[Fraction, Period | None]] = []
        self.numbers: list[int] = []
        self.digests: dict[int, str] = {}
        self.withdrawn: set[int] = set()

    def spending(self) -> list[tuple[Fraction, Period | None]]:
        """What was charged and not given back."""
        return [
            charge for number, charge in zip(self.numbers, self.charges, strict=True) if number not in self.withdrawn
        ]

    @rule(epsilon=AMOUNTS, period=st.none() | periods())
    def charge(self, epsilon: Fraction, period: Period | None) -> None:
        would_be = loss([*self.spending(), (epsilon, period)], self.unit)
        if would_be > self.totals[-1]:
            with pytest.raises(BudgetError, match="nothing was drawn"):
                self._charge(epsilon, period)
        else:
            self.numbers.append(self._charge(epsilon, period))
            self.charges.append((epsilon, period))

    @rule(parts=st.lists(AMOUNTS, min_size=1, max_size=3), period=st.none() | periods())
    def charge_parts(self, parts: list[Fraction], period: Period | None) -> None:
        """All parts of a release, or none of them."""
        named = [(f"part {turn}", epsilon) for turn, epsilon in enumerate(parts)]
        if loss([*self.spending(), (sum(parts, Fraction(0)), period)], self.unit) > self.totals[-1]:
            with pytest.raises(BudgetError, match="nothing was drawn"):
                self.ledger.charge_parts(named, domain="d", unit=self.unit, period=period)
        else:
            self.numbers += self.ledger.charge_parts(named, domain="d", unit=self.unit, period=period)
            self.charges += [(epsilon, period) for epsilon in parts]

    @rule(number=st.integers(0, 12))
    def withdraw(self, number: int) -> None:
        if number in self.numbers and number not in self.withdrawn and number not in self.digests:
            self.ledger.withdraw(number)
            self.withdrawn.add(number)
        else:
            with pytest.raises(LedgerError, match=r"no open charge"):
                self.ledger.withdraw(number)

    @rule(numbers=st.lists(st.integers(0, 12), min_size=2, max_size=3))
    def complete_parts(self, numbers: list[int]) -> None:
        waiting = set(self.numbers) - self.withdrawn - set(self.digests)
        if set(numbers) <= waiting and len(set(numbers)) == len(numbers):
            self.ledger.complete_parts(numbers, "of all")
            self.digests |= dict.fromkeys(numbers, "of all")
        else:
            with pytest.raises(LedgerError):
                self.ledger.complete_parts(numbers, "of all")

    @rule(period=st.none() | periods())
    def charge_the_rest(self, period: Period | None) -> None:
        """What the model says is left for a period can be spent to the last, and nothing after it."""
        without = loss(self.spending(), self.unit)
        probe = 2 * self.totals[-1]
        left = self.totals[-1] - (loss([*self.spending(), (probe, period)], self.unit) - probe)
        assert left >= self.totals[-1] - without
        if left > 0:
            self.charge(left, period)
        with pytest.raises(BudgetError):
            self._charge(Fraction(1, 10**12), period)

    def _charge(self, epsilon: Fraction, period: Period | None) -> int:
        return self.ledger.charge(epsilon, strategy="cells", domain="d", unit=self.unit, period=period)

    @rule(epsilon=AMOUNTS, other=st.sampled_from([None, "patient", "visit"]))
    def charge_for_another_unit(self, epsilon: Fraction, other: str | None) -> None:
        if other != self.unit:
            with pytest.raises(BudgetError, match="; use a separate ledger"):
                self.ledger.charge(epsilon, strategy="cells", domain="d", unit=other)

    @rule(number=st.integers(0, 12), digest=st.text(st.characters(codec="utf-8"), max_size=5))
    def complete(self, number: int, digest: str) -> None:
        if number in self.numbers and number not in self.digests and number not in self.withdrawn:
            self.ledger.complete(number, digest)
            self.digests[number] = digest
        else:
            with pytest.raises(LedgerError):
                self.ledger.complete(number, digest)

    @precondition(lambda self: self.totals[-1] < 8)
    @rule(total=st.fractions(Fraction(1, 100), Fraction(4), max_denominator=100))
    def raise_total(self, total: Fraction) -> None:
        if total > self.totals[-1]:
            self.ledger.raise_total(total, purpose="more")
            self.totals.append(total)
        else:
            with pytest.raises(InputError):
                self.ledger.raise_total(total, purpose="no more")

    @rule()
    def open_again(self) -> None:
        self.ledger = Ledger(self.path)

    @invariant()
    def the_statement_is_the_model_s(self) -> None:
        state = self.ledger.statement()
        assert state.spent == loss(self.spending(), self.unit) <= state.total == self.totals[-1]
        assert state.remaining == state.total - state.spent
        assert [(charge.epsilon, charge.period) for charge in state.charges] == self.charges
        assert [charge.number for charge in state.charges] == self.numbers
        assert {c.number: c.digest for c in state.charges if c.digest is not None} == self.digests
        assert {c.number for c in state.charges if c.withdrawn} == self.withdrawn
        assert [total for _, total, _ in state.totals] == self.totals
        assert state.unit == self.unit


TestAccounts = pytest.mark.slow(Accounts.TestCase)  # tests/unit/test_ledger.py holds each rule by itself
TestAccounts.settings = settings(deadline=None, max_examples=40, stateful_step_count=25, derandomize=True)


def test_the_model_can_disagree(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ledger that lets overlapping periods compose in parallel is found out by the same machine."""

    def parallel(charges: list[tuple[Fraction, Period | None]], unit: str | None) -> Fraction:
        return max((epsilon for epsilon, _ in charges), default=Fraction(0))

    monkeypatch.setattr("dpcube.core.ledger.ledger.composed_loss", parallel)
    machine = Accounts()
    machine.create(total=Fraction(1), unit=None)
    machine.charge(Fraction(1, 2), None)
    machine.charge(Fraction(1, 4), Period("age", "integer", 1, 5))
    with pytest.raises(AssertionError):
        machine.the_statement_is_the_model_s()
    machine.teardown()
