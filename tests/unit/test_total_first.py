"""The total first: charged, drawn and judged before the rest is charged; kept in the transcript of what goes on."""

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from dpcube import Domain
from dpcube.core.errors import BudgetError, EmptyTotalError, LedgerError
from dpcube.core.exact import DenseCounts
from dpcube.core.feasible import TOTAL_SHARE as SHARE
from dpcube.core.feasible import error_of_total
from dpcube.core.ledger.ledger import Ledger
from dpcube.curator import publish
from dpcube.curator.total_first import draw_total
from dpcube.measurements.manifest import spent

DOMAIN = Domain.of_shape((2, 3))
FULL, EMPTY = np.full((2, 3), 10_000), np.zeros((2, 3), np.int64)
ONE = Fraction(1)
Events = list[tuple[Any, ...]]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "t.ledger"


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch, place: Path) -> Events:
    """Every charge by its parts, every withdrawal, and every draw with what the ledger holds at the time."""
    seen: Events = []
    honest, given_back = Ledger.charge_parts, Ledger.withdraw

    def charge_parts(ledger: Ledger, parts: list[tuple[str, Fraction]], **terms: Any) -> list[int]:
        seen.append(("charge", *(epsilon for _, epsilon in parts)))
        return honest(ledger, parts, **terms)

    def withdraw(ledger: Ledger, charge: int) -> None:
        (withdrawn,) = (one.epsilon for one in ledger.statement().charges if one.number == charge)
        seen.append(("withdraw", withdrawn))
        given_back(ledger, charge)

    class Silent:
        private = True

        def draw(self, epsilon: Fraction, size: int) -> NDArray[np.int64]:
            seen.append(("draw", epsilon, size, Ledger(place).statement().spent if place.exists() else None))
            return np.zeros(size, np.int64)

    monkeypatch.setattr(Ledger, "charge_parts", charge_parts)
    monkeypatch.setattr(Ledger, "withdraw", withdraw)
    monkeypatch.setattr("dpcube.core.gate.ExactNoise", Silent)
    return seen


def release(counts: Any, place: Path | None, **more: Any) -> Any:
    return publish(counts, DOMAIN, epsilon=1, strategy="cells", ledger=place, even_if_empty=False, **more)


def test_both_parts_are_charged_at_once_before_either_is_drawn(place: Path, events: Events) -> None:
    made = release(FULL, place)
    rest = ONE - SHARE
    assert events == [("charge", SHARE, rest), ("draw", SHARE, 1, ONE), ("draw", rest, 6, ONE)]
    state = Ledger(place).statement()
    assert state.spent == made.provenance.epsilon == 1
    assert [charge.digest for charge in state.charges] == [made.digest] * 2
    assert [charge.strategy for charge in state.charges] == ["total", "cells"]
    assert spent(made.transcript, made.provenance) == {"total": "1/17", "cells": "16/17"}


def test_a_total_that_is_not_above_its_error_costs_its_own_part_alone(place: Path, events: Events) -> None:
    for rows in (0, error_of_total(SHARE, 1)):
        events.clear()
        place.unlink(missing_ok=True)
        counts = np.array([[rows, 0, 0], [0, 0, 0]])
        with pytest.raises(EmptyTotalError, match=rf"counts about {rows} rows, .* epsilon 1/17 was charged, .* 16/17"):
            release(counts, place)
        assert events == [("charge", SHARE, ONE - SHARE), ("draw", SHARE, 1, ONE), ("withdraw", ONE - SHARE)]
        state = Ledger(place).statement()
        assert state.remaining == ONE - SHARE
        assert [(charge.withdrawn, charge.is_open) for charge in state.charges] == [(False, True), (True, False)]
    one_more = np.array([[rows + 1, 0, 0], [0, 0, 0]])
    place.unlink()
    assert release(one_more, place).provenance.epsilon == 1


def test_what_is_left_can_be_released_after_the_mistake(place: Path, events: Events) -> None:
    with pytest.raises(EmptyTotalError):
        release(EMPTY, place)
    publish(FULL, DOMAIN, epsilon="16/17", strategy="cells", ledger=place, even_if_empty=False)
    assert Ledger(place).statement().remaining == 0


def test_going_on_even_if_empty_draws_no_total(place: Path, events: Events) -> None:
    publish(EMPTY, DOMAIN, epsilon=1, strategy="cells", ledger=place, even_if_empty=True)
    assert events == [("charge", ONE), ("draw", ONE, 6, ONE)]


def test_without_a_ledger_it_stops_all_the_same(events: Events) -> None:
    with pytest.raises(EmptyTotalError):
        release(EMPTY, None)
    assert events == [("draw", SHARE, 1, None)]


def test_a_unit_of_many_rows_has_the_noise_of_all_of_them(events: Events) -> None:
    assert draw_total(DenseCounts(FULL), ONE, max_rows=4) == 60_000
    assert events == [("draw", Fraction(1, 4), 1, None)]
    assert error_of_total(ONE, 4) == error_of_total(Fraction(1, 4), 1)


def test_too_little_left_is_refused_before_the_first_part(place: Path, events: Events) -> None:
    Ledger.create(place, total=Fraction(1, 2))
    with pytest.raises(BudgetError, match="1/2 of 1/2 is left"):
        release("/there/is/no/such.csv", place)  # nor is a row read
    assert events == []


def test_another_release_cannot_come_between(place: Path, events: Events, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two that race for the last of a budget the second is refused whole, and nothing is lost on it."""
    honest = draw_total

    def meanwhile(*given: Any, **more: Any) -> int:
        with pytest.raises(BudgetError, match="1/2 but 0 of 1 is left"):
            Ledger(place).charge(Fraction(1, 2), strategy="other", domain="d")
        return honest(*given, **more)

    monkeypatch.setattr("dpcube.curator.publishing.draw_total", meanwhile)
    release(FULL, place)
    assert Ledger(place).statement().spent == 1
    assert Ledger(place).statement().charges[-1].strategy == "cells"


@pytest.mark.parametrize("fault", [KeyboardInterrupt, MemoryError])
def test_the_rest_is_given_back_if_the_total_is_not_drawn(
    fault: type[BaseException], place: Path, events: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> int:
        raise fault

    monkeypatch.setattr("dpcube.curator.publishing.draw_total", fail)
    with pytest.raises(fault):
        release(FULL, place)
    assert events == [("charge", SHARE, ONE - SHARE), ("withdraw", ONE - SHARE)]
    assert Ledger(place).statement().spent == SHARE


def test_a_withdrawal_that_cannot_be_recorded_is_not_claimed(
    place: Path, events: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(ledger: Ledger, charge: int) -> None:
        msg = "cannot use the ledger: the disk is full; what was charged stays charged"
        raise LedgerError(msg)

    monkeypatch.setattr(Ledger, "withdraw", full)
    with pytest.raises(LedgerError, match=r"stopped: .*But this could not be recorded: .*stays charged"):
        release(EMPTY, place)
    assert Ledger(place).statement().spent == 1


def test_a_fault_that_is_not_ours_is_never_quoted(place: Path, events: Events, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its words may be those of an engine that quotes a row; ours alone are safe to print."""

    def fail(*_: Any, **__: Any) -> int:
        msg = "7654321 rows of ward zebra"
        raise MemoryError(msg)

    def full(ledger: Ledger, charge: int) -> None:
        msg = "the disk is full"
        raise LedgerError(msg)

    monkeypatch.setattr("dpcube.curator.publishing.draw_total", fail)
    monkeypatch.setattr(Ledger, "withdraw", full)
    with pytest.raises(MemoryError):
        release(FULL, place)
    assert Ledger(place).statement().spent == 1


@pytest.mark.parametrize("epsilon", [Fraction(1, 1000), SHARE, Fraction(1, 3), Fraction(5)])
def test_the_error_is_the_least_that_noise_stays_within(epsilon: Fraction) -> None:
    """By adding up the law, P(z) = (1 - q)/(1 + q) q^|z|."""
    q = math.exp(-float(epsilon))

    def beyond(t: int) -> float:
        return 1 - (1 - q) / (1 + q) * (1 + 2 * sum(q**z for z in range(1, t + 1)))

    error = error_of_total(epsilon, 1)
    assert beyond(error) <= 0.05 + 1e-9
    assert error == 0 or beyond(error - 1) > 0.05 - 1e-9


@pytest.mark.slow
def test_an_empty_table_goes_on_as_seldom_as_is_said() -> None:
    """P(z > t) is q^(t + 1) / (1 + q); the false-alarm rate is 1e-6."""
    empty, error, q = DenseCounts(EMPTY), error_of_total(SHARE, 1), math.exp(-float(SHARE))
    passed = sum(draw_total(empty, SHARE, max_rows=1) > error for _ in range(2000))
    law = stats.binom(2000, q ** (error + 1) / (1 + q))
    assert law.ppf(5e-7) <= passed <= law.isf(5e-7)
