"""The ledger: exact sums, nothing recorded by a refusal, and no accident to its file that lets anybody spend more.

What is detected of a damaged file: any change to an entry, to its number, its order or its being there (each entry is
sealed, entries are numbered without gaps, and SQLite keeps the last number apart), and any damage that SQLite's own
check of its pages finds. What is not: bytes that hold nothing (free space, the change counter, the text of a trigger's
message), after which the statement is the same to the digit; a whole older copy; and a forgery that is sealed anew.
"""

import json
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dpcube.cli import main
from dpcube.core.errors import BudgetError, InputError, LedgerError
from dpcube.core.ledger import file as ledger_file
from dpcube.core.ledger import ledger as ledger_module
from dpcube.core.ledger.ledger import SEALED, Ledger, Statement, _seal
from dpcube.core.period import Period
from dpcube.core.request import LedgerLocation, Range, ledger_path, open_ledger
from dpcube.core.sources import open_rows

TENTH, THIRD = Fraction(1, 10), Fraction(1, 3)
DIGEST = "5e" * 32
NOBODY = 65534


def charge(ledger: Ledger, epsilon: Fraction, **more: Any) -> int:
    return ledger.charge(epsilon, strategy="cells", domain="d0" * 32, **more)


def raw(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, isolation_level=None)


def entries(path: Path) -> list[tuple[Any, ...]]:
    with closing(raw(path)) as connection:
        return connection.execute("SELECT * FROM entry ORDER BY number").fetchall()


@pytest.fixture
def ram(tmp_path: Path) -> Iterator[Path]:
    """A directory in memory where there is one: what is synced here a thousand times costs no time."""
    shared = Path("/dev/shm")
    if not shared.is_dir():
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=shared) as directory:
        yield Path(directory)


@pytest.fixture
def place(ram: Path) -> Path:
    return ram / "t.ledger"


@pytest.fixture
def ledger(place: Path) -> Ledger:
    return Ledger.create(place, total=Fraction(1), purpose="the first")


@pytest.fixture
def full(ledger: Ledger) -> Ledger:
    """A ledger with nothing left: two charges completed, one not."""
    for number in range(3):
        entry = charge(ledger, THIRD, purpose=f"release {number}")
        if number:
            ledger.complete(entry, DIGEST)
    return ledger


# What it keeps.


def test_a_new_ledger_allows_its_total_and_has_spent_nothing(ledger: Ledger) -> None:
    state = ledger.statement()
    assert (state.total, state.spent, state.remaining) == (Fraction(1), Fraction(0), Fraction(1))
    assert state.unit is None
    assert state.charges == ()
    ((time, total, purpose),) = state.totals
    assert (total, purpose) == (Fraction(1), "the first")
    assert datetime.fromisoformat(time).tzinfo is not None
    assert list(ledger.path.parent.iterdir()) == [ledger.path]


def test_a_charge_is_kept_with_what_it_was_for(ledger: Ledger) -> None:
    period = Period("admitted", "date", date(2026, 1, 1).toordinal(), date(2026, 2, 1).toordinal())
    number = ledger.charge(TENTH, strategy="dpcube", domain="d1", purpose="Ärzte 'quoted'\n", period=period)
    (kept,) = Ledger(ledger.path).statement().charges
    assert kept.number == number
    assert (kept.epsilon, kept.strategy, kept.domain) == (TENTH, "dpcube", "d1")
    assert (kept.purpose, kept.period, kept.digest) == ("Ärzte 'quoted'\n", period, None)
    assert period.words == "admitted from 2026-01-01 to 2026-01-31"
    ledger.complete(number, DIGEST)
    assert Ledger(ledger.path).statement().charges[0].digest == DIGEST


@pytest.mark.parametrize(("parts", "share"), [(10, TENTH), (3, THIRD), (7, Fraction(1, 7))], ids=str)
def test_parts_add_up_exactly(parts: int, share: Fraction, ledger: Ledger) -> None:
    for spent in range(parts):
        assert ledger.statement().spent == spent * share
        charge(ledger, share)
    assert ledger.statement().remaining == 0
    with pytest.raises(BudgetError, match=r"0 of 1 is left in t\.ledger; nothing was drawn"):
        charge(ledger, Fraction(1, 10**18))


def test_tenths_that_floats_would_refuse_are_allowed(place: Path) -> None:
    assert 0.1 + 0.2 > 0.3  # noqa: PLR0133, RUF100 (the reason for rationals)
    ledger = Ledger.create(place, total=Fraction(3, 10))
    charge(ledger, TENTH)
    charge(ledger, Fraction(2, 10))
    assert ledger.statement().remaining == 0


def test_a_charge_too_small_for_a_float_is_kept(ledger: Ledger) -> None:
    charge(ledger, 1 - Fraction(1, 10**30))
    charge(ledger, Fraction(1, 10**30))
    assert ledger.statement().remaining == 0
    with pytest.raises(BudgetError):
        charge(ledger, Fraction(1, 10**30))


def test_an_uncompleted_charge_stays_spent(full: Ledger) -> None:
    assert [entry.digest for entry in full.statement().charges] == [None, DIGEST, DIGEST]
    assert full.statement().spent == 1


@pytest.mark.parametrize("epsilon", [Fraction(0), Fraction(-1, 2), 0.1, 1, "0.1", None], ids=repr)
def test_only_positive_rationals_are_charged_or_allowed(epsilon: Any, ledger: Ledger, ram: Path) -> None:
    before = entries(ledger.path)
    for ask in (
        lambda: charge(ledger, epsilon),
        lambda: ledger.raise_total(epsilon, purpose="more"),
        lambda: Ledger.create(ram / "new.ledger", total=epsilon),
    ):
        with pytest.raises(BudgetError, match="exact rational above 0"):
            ask()
    assert entries(ledger.path) == before
    assert list(ram.iterdir()) == [ledger.path]


def test_what_is_refused_leaves_nothing(ledger: Ledger) -> None:
    charge(ledger, Fraction(9, 10))
    before = entries(ledger.path)
    with pytest.raises(BudgetError, match="asks for epsilon 1/5 but 1/10 of 1 is left"):
        charge(ledger, Fraction(1, 5))
    with pytest.raises(BudgetError, match=r"would take t\.ledger to 11/10 of 1"):
        charge(ledger, Fraction(1, 5), period=Period("age", "integer", 1, 2))
    with pytest.raises(BudgetError, match="one row"):
        charge(ledger, TENTH, unit="patient")
    for number in (0, 1, 3, 99):
        with pytest.raises(LedgerError, match="has no open charge"):
            ledger.complete(number, DIGEST)
    with pytest.raises(InputError, match="can only be raised"):
        ledger.raise_total(Fraction(1), purpose="the same")
    assert entries(ledger.path) == before
    assert charge(ledger, TENTH) == 3
    assert ledger.statement().remaining == 0


def test_a_charge_is_completed_once(ledger: Ledger) -> None:
    number = charge(ledger, TENTH)
    ledger.complete(number, DIGEST)
    with pytest.raises(LedgerError, match=f"no open charge {number}"):
        ledger.complete(number, "0f" * 32)
    assert ledger.statement().charges[0].digest == DIGEST


def test_a_withdrawn_charge_is_not_spent_and_never_completed(ledger: Ledger) -> None:
    first, rest = ledger.charge_parts([("total", TENTH), ("cells", 9 * TENTH)], domain="d")
    with pytest.raises(BudgetError, match="but 0 of 1 is left"):
        charge(ledger, TENTH)
    ledger.withdraw(rest)
    assert ledger.statement().spent == TENTH
    assert [(c.withdrawn, c.is_open, c.digest) for c in ledger.statement().charges] == [
        (False, True, None),
        (True, False, None),
    ]
    for again in (ledger.withdraw, lambda number: ledger.complete(number, DIGEST)):
        with pytest.raises(LedgerError, match=f"no open charge {rest}"):
            again(rest)
    ledger.complete(first, DIGEST)
    with pytest.raises(LedgerError, match=f"no open charge {first}"):
        ledger.withdraw(first)
    charge(ledger, 9 * TENTH)
    assert ledger.statement().remaining == 0


def test_a_withdrawal_is_no_digest_and_an_older_dpcube_takes_it_for_spent(ledger: Ledger) -> None:
    """Before withdrawals every completion was a digest; the entry is of that form, and its charge was always spent."""
    number = charge(ledger, TENTH)
    with pytest.raises(InputError, match="must be a hash, got 'withdrawn'"):
        ledger.complete(number, "withdrawn")
    ledger.withdraw(number)
    kept = {name: entries(ledger.path)[-1][SEALED.index(name)] for name in ("kind", "charge", "digest")}
    assert kept == {"kind": "completion", "charge": number, "digest": "withdrawn"}


def test_of_parts_all_are_charged_and_completed_or_none(ledger: Ledger) -> None:
    before = entries(ledger.path)
    with pytest.raises(BudgetError, match="asks for epsilon 11/10 but 1 of 1 is left"):
        ledger.charge_parts([("total", TENTH), ("cells", Fraction(1))], domain="d")
    assert entries(ledger.path) == before
    numbers = ledger.charge_parts([("total", TENTH), ("cells", TENTH)], domain="d")
    before = entries(ledger.path)
    with pytest.raises(LedgerError, match="no open charge 9"):
        ledger.complete_parts([*numbers, 9], DIGEST)
    assert entries(ledger.path) == before
    ledger.complete_parts(numbers, DIGEST)
    assert [c.digest for c in ledger.statement().charges] == [DIGEST, DIGEST]


def test_raising_the_total_is_on_record(full: Ledger) -> None:
    full.raise_total(Fraction(3, 2), purpose="the board, 3 May")
    state = full.statement()
    assert state.remaining == Fraction(1, 2)
    assert [(total, purpose) for _, total, purpose in state.totals] == [
        (Fraction(1), "the first"),
        (Fraction(3, 2), "the board, 3 May"),
    ]
    for total in (Fraction(5, 4), Fraction(3, 2)):
        with pytest.raises(InputError, match=f"allows 3/2 already, .* got {total}"):
            full.raise_total(total, purpose="no more")
    charge(full, Fraction(1, 2))
    assert full.statement().remaining == 0


def test_a_ledger_is_for_one_unit(place: Path) -> None:
    ledger = Ledger.create(place, total=Fraction(1), unit="patient")
    assert ledger.statement().unit == "patient"
    for unit in (None, "visit"):
        with pytest.raises(BudgetError, match="protects one 'patient'"):
            charge(ledger, TENTH, unit=unit)
    charge(ledger, TENTH, unit="patient")
    ledger.raise_total(Fraction(2), purpose="more")
    assert (ledger.statement().unit, ledger.statement().spent) == ("patient", TENTH)


def test_a_ledger_is_never_replaced(full: Ledger) -> None:
    before = full.path.read_bytes()
    with pytest.raises(LedgerError, match="never replaced"):
        Ledger.create(full.path, total=Fraction(50))
    assert full.path.read_bytes() == before
    assert list(full.path.parent.iterdir()) == [full.path]


def test_a_clock_that_goes_back_changes_nothing_but_the_times(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Backwards(datetime):
        at = datetime(2026, 5, 1, tzinfo=UTC)

        @classmethod
        def now(cls, tz: Any = None) -> Any:  # noqa: ARG003
            cls.at -= timedelta(days=400)
            return cls.at

    monkeypatch.setattr(ledger_module, "datetime", Backwards)
    ledger = Ledger.create(place, total=Fraction(1))
    numbers = [charge(ledger, THIRD) for _ in range(3)]
    ledger.complete(numbers[0], DIGEST)
    with pytest.raises(BudgetError):
        charge(ledger, THIRD)
    ledger.raise_total(Fraction(2), purpose="later, and earlier")
    state = ledger.statement()
    assert [entry.number for entry in state.charges] == numbers == [2, 3, 4]
    assert [entry.digest for entry in state.charges] == [DIGEST, None, None]
    assert (state.total, state.spent) == (Fraction(2), Fraction(1))
    times = [row[1] for row in entries(place)]
    assert times == sorted(times, reverse=True)


def test_the_shown_name_is_the_file_s_alone(full: Ledger) -> None:
    assert repr(full) == "<Ledger t.ledger>"


# Periods.

JANUARY, FEBRUARY = Period("day", "date", 100, 131), Period("day", "date", 131, 159)
LATE_JANUARY, SPRING = Period("day", "date", 120, 131), Period("day", "date", 110, 140)


@pytest.mark.parametrize(
    ("periods", "spent"),
    [
        ([JANUARY, FEBRUARY], TENTH),
        ([JANUARY, JANUARY], 2 * TENTH),
        ([JANUARY, LATE_JANUARY], 2 * TENTH),
        ([SPRING, JANUARY, FEBRUARY], 2 * TENTH),
        ([SPRING, JANUARY, FEBRUARY, LATE_JANUARY], 3 * TENTH),
        ([JANUARY, None], 2 * TENTH),
        ([JANUARY, FEBRUARY, None, None], 3 * TENTH),
        ([JANUARY, Period("age", "integer", 100, 131)], 2 * TENTH),
        ([JANUARY, Period("day", "integer", 200, 231)], 2 * TENTH),
        ([Period("age", "integer", -5, 0), Period("age", "integer", 0, 1)], TENTH),
    ],
    ids=str,
)
def test_only_disjoint_periods_of_one_column_compose_in_parallel(
    periods: list[Period | None], spent: Fraction, ram: Path
) -> None:
    for turn, order in enumerate((periods, periods[::-1])):
        by_row = Ledger.create(ram / f"row{turn}", total=spent)
        by_unit = Ledger.create(ram / f"unit{turn}", total=len(periods) * TENTH, unit="patient")
        for period in order:
            charge(by_row, TENTH, period=period)
            charge(by_unit, TENTH, period=period, unit="patient")
        assert by_row.statement().spent == spent
        assert by_unit.statement().spent == len(periods) * TENTH  # one patient can be in all of them
        for ledger, unit in ((by_row, None), (by_unit, "patient")):
            with pytest.raises(BudgetError):
                charge(ledger, Fraction(1, 10**9), unit=unit)


def test_a_period_that_was_not_charged_is_left_whole(place: Path) -> None:
    ledger = Ledger.create(place, total=Fraction(1))
    charge(ledger, Fraction(1), period=JANUARY)
    with pytest.raises(
        BudgetError, match=r"day from 0001-05-11 to 0001-06-07, which would take t\.ledger to 11/10 of 1"
    ):
        charge(ledger, Fraction(11, 10), period=FEBRUARY)
    charge(ledger, Fraction(1), period=FEBRUARY)
    with pytest.raises(BudgetError):
        charge(ledger, Fraction(1, 10**9), period=SPRING)


LAST_DAY = date.max.toordinal()


def test_a_period_may_be_as_wide_as_there_are_days_and_no_wider() -> None:
    assert Period("c", "date", 1, LAST_DAY + 1).words == "c from 0001-01-01 to 9999-12-31"
    assert Period("c", "integer", -5, 3).words == "c from -5 to 2"
    for wrong in [("date", 0, 5), ("date", 1, LAST_DAY + 2), ("integer", 5, 5), ("integer", 6, 5)]:
        with pytest.raises(InputError, match="a period is a range of dates or whole numbers"):
            Period("c", *wrong)


@pytest.mark.parametrize("wrong", [("date", 5, 5), ("date", 6, 5), ("text", 1, 2), ("", 1, 2)], ids=str)
def test_a_period_that_holds_nothing_cannot_be(wrong: tuple[str, int, int]) -> None:
    """It would be charged to nobody."""
    with pytest.raises(InputError, match="range of dates or whole numbers"):
        Period("day", *wrong)


DAYS = [date(2026, 1, 14) + timedelta(days=i) for i in range(30)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("values", "first", "last"),
    [
        (DAYS, "2026-01-15", "2026-02-10"),
        (DAYS, date(2026, 1, 31), date(2026, 1, 31)),
        ([day.isoformat() for day in DAYS], "2026-01-15", "2026-02-10"),
        (list(range(-10, 10)), -3, 4),
        ([i / 2 for i in range(-10, 10)], "-3", "4"),
        ([str(i) for i in range(-10, 10)], 0, 0),
    ],
    ids=["dates", "one day", "text of dates", "integers", "reals", "text of integers"],
)
def test_the_period_charged_is_the_period_selected(values: list[Any], first: Any, last: Any) -> None:
    """The rows that the gate lets through are those of the range that the ledger keeps, to the row."""
    chosen = Range("at", first, last)
    period = chosen.period()

    def place_of(value: Any) -> float:
        if period.kind == "date":
            return (value if isinstance(value, date) else date.fromisoformat(value)).toordinal()
        return float(value)

    expected = [value for value in values if period.start <= place_of(value) < period.stop]
    assert 0 < len(expected) < len(values)
    table = pa.table({"at": pa.array([*values, None])})
    assert chosen.select(open_rows(table)).count() == len(expected)
    at = [values.index(expected[0]), values.index(expected[-1])]
    for value in values[at[0] - 1 : at[0] + 1] + values[at[1] : at[1] + 2]:
        one = pa.table({"at": pa.array([value])})
        assert chosen.select(open_rows(one)).count() == (value in expected)


@pytest.mark.parametrize(
    ("first", "last"),
    [("2026-02-01", "2026-01-01"), (5, 4), ("2026-01-01", 5), (2**53, 2**54), ("soon", "later"), (1.5, 2), (None, 1)],
    ids=str,
)
def test_ends_that_bound_no_range_are_refused(first: Any, last: Any) -> None:
    with pytest.raises(InputError):
        Range("at", first, last).period()


# Append-only, and what becomes of a file that was changed all the same.

UNDOING = (
    "UPDATE entry SET epsilon = '1/1000' WHERE kind = 'charge'",
    "UPDATE entry SET purpose = 'nothing' WHERE number = 1",
    "DELETE FROM entry WHERE number = 4",
    "DELETE FROM entry",
)


@pytest.mark.parametrize("sql", UNDOING)
def test_entries_are_neither_changed_nor_removed(sql: str, full: Ledger) -> None:
    before = entries(full.path)
    with closing(raw(full.path)) as connection, pytest.raises(sqlite3.IntegrityError, match="append-only"):
        connection.execute(sql)
    assert entries(full.path) == before


FORGING = (
    *UNDOING,
    "UPDATE entry SET digest = 'other' WHERE kind = 'completion'",
    "UPDATE entry SET time = '2020-01-01T00:00:00+00:00' WHERE number = 2",
    "UPDATE entry SET kind = 'total' WHERE number = 2",
    "UPDATE entry SET period_column = 'a', period_kind = 'date', period_start = 5, period_stop = 5",
    "UPDATE entry SET number = 17 WHERE number = 6",
    "DELETE FROM entry WHERE number = 6",
    "DELETE FROM entry WHERE number > 1",
    "DELETE FROM sqlite_sequence",
    "UPDATE sqlite_sequence SET seq = 4",
    "INSERT INTO entry (time, kind, epsilon, seal) VALUES ('2026', 'total', '50', 'none')",
    "INSERT OR REPLACE INTO entry (number, time, kind, epsilon, seal) VALUES (4, '2026', 'charge', '1/9', 'none')",
    "DROP TABLE entry",
    "ALTER TABLE entry RENAME COLUMN epsilon TO epsilom",
)


def forge(path: Path, sql: str) -> None:
    """Change entries and put the triggers back, so that nothing but the entries tells."""
    with closing(raw(path)) as connection:
        triggers = [text for (text,) in connection.execute("SELECT sql FROM sqlite_schema WHERE type = 'trigger'")]
        connection.executescript(f"DROP TRIGGER no_update; DROP TRIGGER no_delete; {sql};")
        with suppress(sqlite3.OperationalError):  # a table that is gone has no triggers
            connection.executescript("".join(f"{text};" for text in triggers))


def test_a_forger_who_changes_nothing_goes_unnoticed(full: Ledger) -> None:
    """Otherwise the forgeries below might be refused for what forging itself leaves behind."""
    before = full.statement()
    forge(full.path, "UPDATE entry SET epsilon = epsilon")
    assert full.statement() == before


@pytest.mark.parametrize("number", [2, 3, 4, 5])
def test_an_entry_that_was_sealed_anew_by_itself_does_not_fit_the_next(number: int, full: Ledger) -> None:
    """A seal holds the seal before it: to change an entry, all that follow must be sealed anew too."""
    columns = ", ".join(SEALED)
    with closing(raw(full.path)) as connection:
        entry = list(connection.execute(f"SELECT {columns} FROM entry WHERE number = {number}").fetchone())
        (before,) = connection.execute(f"SELECT seal FROM entry WHERE number = {number - 1}").fetchone()
    entry[SEALED.index("time")] = "2020-01-01T00:00:00+00:00"
    seal = _seal(before, entry)
    forge(full.path, f"UPDATE entry SET time = '2020-01-01T00:00:00+00:00', seal = '{seal}' WHERE number = {number}")
    with pytest.raises(LedgerError, match="damaged or missing"):
        full.statement()


@pytest.mark.parametrize("sql", FORGING)
def test_a_ledger_changed_behind_our_back_refuses(sql: str, full: Ledger) -> None:
    forge(full.path, sql)
    with pytest.raises(LedgerError):
        full.statement()
    with pytest.raises(LedgerError):
        charge(full, TENTH)
    with pytest.raises(LedgerError):
        Ledger(full.path)


def never_cheaper(path: Path, truth: Statement) -> bool:
    """Fail unless a full ledger refuses every charge; return whether it can still be read, and says what it said."""
    try:
        ledger = Ledger(path)
        told = ledger.statement()
    except LedgerError:
        return False
    assert told == truth
    with pytest.raises((BudgetError, LedgerError)):
        charge(ledger, Fraction(1, 10**6))
    return True


def flips(whole: bytes) -> Iterator[tuple[int, bytes]]:
    """Every byte that holds something, with one, some or all of its bits turned over; some of the others."""
    for at, octet in enumerate(whole):
        if octet or at % 97 == 0:
            mask = (0x01, 0x80, 0xFF, 0x20, 0x03)[at % 5]
            yield at, whole[:at] + bytes([octet ^ mask]) + whole[at + 1 :]


@pytest.mark.slow
def test_no_flipped_byte_buys_anything(full: Ledger, ram: Path) -> None:
    truth, whole = full.statement(), full.path.read_bytes()
    damaged = ram / "damaged.ledger"
    outcomes = []
    for _, content in flips(whole):
        damaged.write_bytes(content)
        outcomes.append(never_cheaper(damaged, truth))
    assert len(outcomes) > 2000
    assert outcomes.count(False) > 1000


def test_a_flipped_byte_of_an_amount_is_seen(full: Ledger) -> None:
    """The byte flips above would be no test without this: these bytes are money, and SQLite itself sees nothing."""
    whole = full.path.read_bytes()
    assert whole.count(b"charge1/3") == 3
    full.path.write_bytes(whole.replace(b"charge1/3", b"charge1/9"))
    with closing(raw(full.path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    with pytest.raises(LedgerError, match="damaged or missing"):
        full.statement()


def test_no_truncated_file_buys_anything(full: Ledger, ram: Path) -> None:
    truth, whole = full.statement(), full.path.read_bytes()
    damaged = ram / "damaged.ledger"
    for length in sorted({*range(0, len(whole), 509), *range(0, len(whole), 4096), len(whole) - 1, 1, 99, 100}):
        damaged.write_bytes(whole[:length])
        assert not never_cheaper(damaged, truth), f"a file of {length} of {len(whole)} bytes was taken for whole"


@pytest.mark.parametrize("page", range(4))
def test_no_page_of_zeros_or_of_another_page_buys_anything(page: int, full: Ledger, ram: Path) -> None:
    truth, whole = full.statement(), full.path.read_bytes()
    damaged = ram / "damaged.ledger"
    fresh = Ledger.create(ram / "fresh.ledger", total=Fraction(1), purpose="the first").path.read_bytes()
    pages = slice(4096 * page, 4096 * (page + 1))
    assert len(whole) == len(fresh) == 4 * 4096
    readable = []
    for other in (bytes(4096), whole[:4096], whole[-4096:], fresh[pages], os.urandom(4096)):
        damaged.write_bytes(whole[: pages.start] + other + whole[pages.stop :])
        readable.append(never_cheaper(damaged, truth))
    assert not all(readable)


def test_a_restored_copy_forgets_and_the_digests_in_circulation_tell(ledger: Ledger, tmp_path: Path) -> None:
    """What no file can notice: docs/explanation/threat-model.md says how its owner does."""
    number = charge(ledger, Fraction(1, 2))
    backup = shutil.copy(ledger.path, tmp_path / "backup")
    ledger.complete(number, DIGEST)
    second = charge(ledger, Fraction(1, 2))
    ledger.complete(second, "0f" * 32)
    shutil.copy(backup, ledger.path)
    state = Ledger(ledger.path).statement()
    assert state.spent == Fraction(1, 2)
    assert {DIGEST, "0f" * 32} - {entry.digest for entry in state.charges} == {DIGEST, "0f" * 32}


# Files that are no ledger of ours.


def _sqlite(path: Path, script: str) -> None:
    with closing(raw(path)) as connection:
        connection.executescript(script)


def _release(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("manifest.json", "{}")


FOREIGN: dict[str, tuple[Callable[[Path], Any], str]] = {
    "missing": (lambda _: None, "no ledger at"),
    "empty": (lambda path: path.touch(), "empty"),
    "directory": (lambda path: path.mkdir(), "no ledger at"),
    "dangling link": (lambda path: path.symlink_to(path.parent / "nowhere"), "no ledger at"),
    "link to itself": (lambda path: path.symlink_to(path), "no ledger at"),
    "pipe": (os.mkfifo, "no ledger at"),
    "text": (lambda path: path.write_text("age,sex\n31,F\n" * 99), "not a database"),
    "one byte": (lambda path: path.write_bytes(b"\0"), "ledger"),
    "release": (_release, "not a database"),
    "other SQLite file": (
        lambda path: _sqlite(path, "CREATE TABLE entry (a); PRAGMA user_version = 1"),
        "not a dpcube",
    ),
    "empty SQLite file": (lambda path: _sqlite(path, "PRAGMA user_version = 1; VACUUM"), "not a dpcube ledger"),
    "our mark alone": (
        lambda path: _sqlite(path, f"PRAGMA application_id = {ledger_file.APPLICATION}; PRAGMA user_version = 1"),
        "its tables differ from those of a ledger",
    ),
    "no entries": (lambda path: _sqlite(path, ledger_file.SCHEMA), "damaged or missing"),
    "future format": (
        lambda path: _sqlite(path, ledger_file.SCHEMA + "PRAGMA user_version = 2;"),
        "has ledger format 2, but this version of dpcube reads format 1",
    ),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_what_is_no_ledger_refuses_and_is_left_alone(kind: str, place: Path) -> None:
    make, words = FOREIGN[kind]
    make(place)
    before = place.read_bytes() if place.is_file() else None
    with pytest.raises(LedgerError, match=words) as caught:
        Ledger(place)
    assert str(place) in str(caught.value) or kind == "no entries"
    assert caught.value.__cause__ is None
    if kind not in ("missing", "pipe"):
        with pytest.raises(LedgerError):
            open_ledger(place, Fraction(1), total=None, unit=None)
        with pytest.raises(LedgerError):
            Ledger.create(place, total=Fraction(1))
    assert (place.read_bytes() if place.is_file() else None) == before
    assert place.exists() == (kind not in ("missing", "dangling link", "link to itself"))


@pytest.mark.parametrize("name", ["no/where.ledger", "t.csv/x.ledger", "a\0b", "x" * 300, "../" * 2000])
def test_a_place_where_no_ledger_can_be_made_refuses(name: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").touch()
    with pytest.raises(LedgerError, match="nothing was spent"):
        Ledger.create(tmp_path / name, total=Fraction(1))
    with pytest.raises(LedgerError, match="nothing was spent"):
        open_ledger(tmp_path / name, Fraction(1), total=None, unit=None)
    with pytest.raises(LedgerError):
        Ledger(tmp_path / name)
    assert list(tmp_path.iterdir()) == [tmp_path / "t.csv"]


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs /proc, a file system that takes no files")
def test_a_file_system_that_takes_no_files_refuses() -> None:
    with pytest.raises(LedgerError, match="nothing was spent"):
        Ledger.create("/proc/t.ledger", total=Fraction(1))


def test_odd_names_are_names_like_any_other(tmp_path: Path) -> None:
    for name in ("a b.ledger", "q?mode=memory", "h#1", "100%25", "ä", ";DROP TABLE entry", "x" * 240, "-v"):
        ledger = Ledger.create(tmp_path / name, total=Fraction(1))
        charge(ledger, TENTH)
        assert Ledger(tmp_path / name).statement().spent == TENTH


def test_a_note_that_is_no_text_refuses_and_leaves_nothing(ledger: Ledger) -> None:
    """Arguments that are not UTF-8 come as lone surrogates."""
    with pytest.raises(LedgerError, match="cannot be written"):
        charge(ledger, TENTH, purpose="\udcff")
    assert ledger.statement().spent == 0


# Files that cannot be written or waited for.


@contextmanager
def without_privileges() -> Iterator[None]:
    """Be nobody for a while: root is let through every permission."""
    mine = os.geteuid()
    if mine == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(mine)


@pytest.fixture
def visible() -> Iterator[Path]:
    """A directory whose every parent anybody may enter."""
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)
        yield Path(directory)
        Path(directory).chmod(0o755)


def test_a_read_only_file_is_shown_and_refuses_charges(visible: Path) -> None:
    ledger = Ledger.create(visible / "t.ledger", total=Fraction(1))
    number = charge(ledger, TENTH)
    ledger.path.chmod(0o444)
    if os.geteuid() != 0:
        visible.chmod(0o555)
    with without_privileges():
        assert Ledger(ledger.path).statement().spent == TENTH
        for change in (
            lambda: charge(ledger, TENTH),
            lambda: ledger.complete(number, DIGEST),
            lambda: ledger.raise_total(Fraction(2), purpose="more"),
        ):
            with pytest.raises(LedgerError, match="readonly"):
                change()
        assert (ledger.statement().spent, ledger.statement().total) == (TENTH, Fraction(1))


def test_a_read_only_directory_refuses(visible: Path) -> None:
    """Without a journal beside it a ledger cannot be changed safely."""
    ledger = Ledger.create(visible / "t.ledger", total=Fraction(1))
    ledger.path.chmod(0o666)
    visible.chmod(0o555)
    with without_privileges():
        with pytest.raises(LedgerError, match="cannot use the ledger"):
            charge(ledger, TENTH)
        with pytest.raises(LedgerError, match="nothing was spent"):
            Ledger.create(visible / "new.ledger", total=Fraction(1))
        assert ledger.statement().spent == 0
    assert list(visible.iterdir()) == [ledger.path]


@pytest.mark.parametrize("hidden", ["file", "directory"])
def test_what_may_not_be_read_refuses(hidden: str, visible: Path) -> None:
    inside = visible / "inside"
    inside.mkdir()
    ledger = Ledger.create(inside / "t.ledger", total=Fraction(1))
    (inside if hidden == "directory" else ledger.path).chmod(0o000)
    with without_privileges():
        for ask in (
            ledger.statement,
            lambda: charge(ledger, TENTH),
            lambda: Ledger(ledger.path),
            lambda: open_ledger(ledger.path, Fraction(1), total=None, unit=None),
        ):
            with pytest.raises(LedgerError):
                ask()
    inside.chmod(0o755)


@contextmanager
def files_up_to(size: int) -> Iterator[None]:
    """Let no file grow beyond a size: a disk that is full, one file at a time."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("size", [0, 1, 512, 1024, 4096, 4097, 8704, 12_288, 16_383, 16_384, 20_480, 24_576])
def test_a_full_disk_refuses_and_loses_nothing(size: int, ram: Path) -> None:
    ledger = Ledger.create(ram / "t.ledger", total=Fraction(1, 2))
    charge(ledger, Fraction(1, 100))
    kept, refused = 1, 0
    with files_up_to(size):
        for _ in range(60):  # more than the total allows
            try:
                charge(ledger, Fraction(1, 100), purpose="a note that fills the pages of the file" * 4)
            except (LedgerError, BudgetError):
                refused += 1
            else:
                kept += 1
        seen = ledger.statement() if size >= 4096 else None
    assert refused > 0
    state = Ledger(ledger.path).statement()
    assert len(state.charges) == kept <= 50
    assert state.spent == Fraction(kept, 100)
    assert seen in (None, state)
    for _ in range(50 - kept):
        charge(ledger, Fraction(1, 100))
    with pytest.raises(BudgetError):
        charge(ledger, Fraction(1, 100))


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 8192, 12_288, 16_384])
def test_a_full_disk_makes_a_whole_ledger_or_none(size: int, ram: Path) -> None:
    expected: AbstractContextManager[object] = (
        nullcontext() if size == 16_384 else pytest.raises(LedgerError, match="nothing was spent")
    )
    with files_up_to(size), expected:
        Ledger.create(ram / "t.ledger", total=Fraction(1))
    assert [path.name for path in ram.iterdir()] == ["t.ledger"] * (size == 16_384)


FULL_TMPFS = """
import sys
from fractions import Fraction
from pathlib import Path
from dpcube.core.errors import LedgerError
from dpcube.core.ledger.ledger import Ledger
from dpcube.core.period import Period
place = Path(sys.argv[1])
ledger, kept = Ledger.create(place / "t.ledger", total=Fraction(1)), 0
while True:
    try:
        ledger.charge(Fraction(1, 1000), strategy="s", domain="d", purpose="p" * 500)
        kept += 1
    except LedgerError as error:
        print(error)
        break
assert len(Ledger(ledger.path).statement().charges) == kept > 0
print(kept)
"""


def test_a_disk_without_space_refuses_and_loses_nothing(tmp_path: Path) -> None:
    mounted = f'mount -t tmpfs -o size=64k tmpfs "{tmp_path}"'
    if (
        shutil.which("unshare") is None
        or subprocess.run(["unshare", "-m", "sh", "-c", mounted], capture_output=True, check=False).returncode
    ):
        pytest.skip("mounting a small disk needs privileges that this process has not")
    command = f'{mounted} && exec "$0" -c "$1" "{tmp_path}"'
    ran = subprocess.run(
        ["unshare", "-m", "sh", "-c", command, sys.executable, FULL_TMPFS], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    message, kept = ran.stdout.splitlines()
    assert "full" in message
    assert int(kept) > 5


@pytest.mark.parametrize("lock", ["BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"])
def test_a_lock_held_beyond_patience_refuses(lock: str, ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_module, "PATIENCE", 0.05)
    number = charge(ledger, TENTH)
    with closing(raw(ledger.path)) as other:
        other.execute(lock)
        for change in (
            lambda: charge(ledger, TENTH),
            lambda: ledger.complete(number, DIGEST),
            lambda: ledger.raise_total(Fraction(2), purpose="more"),
        ):
            with pytest.raises(LedgerError, match="locked"):
                change()
        if lock == "BEGIN EXCLUSIVE":
            with pytest.raises(LedgerError, match="locked"):
                Ledger(ledger.path)
        else:
            assert Ledger(ledger.path).statement().spent == TENTH
        other.execute("ROLLBACK")
    ledger.complete(number, DIGEST)
    charge(ledger, TENTH)
    assert ledger.statement().spent == 2 * TENTH


def test_every_change_is_synced_with_its_directory(ledger: Ledger) -> None:
    """Durability against power loss is SQLite's: this is the strongest mode it has."""
    with ledger._connection() as connection:
        assert connection.execute("PRAGMA synchronous").fetchone()[0] == 3
        assert connection.execute("PRAGMA journal_mode").fetchone()[0] == "delete"


# Where it is, and how it is shown.


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[dict[str, Any], list[str]]]:
    """Every connection to SQLite that is opened from now on: how, and what is asked of it."""
    connect, opened = sqlite3.connect, list[tuple[dict[str, Any], list[str]]]()

    def watched(place: Any, **how: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(place, **how)
        opened.append((how, []))
        connection.set_trace_callback(opened[-1][1].append)
        return connection

    monkeypatch.setattr(sqlite3, "connect", watched)
    return opened


def test_a_charge_is_decided_under_a_lock_and_synced(
    place: Path, asked: list[tuple[dict[str, Any], list[str]]]
) -> None:
    """Another process must wait before it reads what is left, and a power cut must not undo what was granted."""
    ledger = Ledger.create(place, total=Fraction(1))
    assert next(words for how, words in asked if "uri" not in how)[0] == "PRAGMA synchronous = EXTRA"
    del asked[:]
    charge(ledger, TENTH)
    [(how, words)] = asked
    assert how == {"uri": True, "timeout": 60, "isolation_level": None}
    begun = words.index("BEGIN IMMEDIATE")
    assert "PRAGMA synchronous = EXTRA" in words[:begun]
    assert not any("FROM entry" in word for word in words[:begun])
    assert any("FROM entry" in word for word in words[begun:])
    assert words[-1] == "COMMIT"


def test_every_entry_says_whom_it_counts_epsilon_for(place: Path) -> None:
    ledger = Ledger.create(place, total=Fraction(1), unit="patient")
    charge(ledger, TENTH, unit="patient")
    ledger.raise_total(Fraction(2), purpose="more")
    with closing(raw(place)) as connection:
        assert connection.execute("SELECT kind, unit FROM entry ORDER BY number").fetchall() == [
            ("total", "patient"),
            ("charge", "patient"),
            ("total", "patient"),
        ]


def test_a_ledger_is_beside_its_table(tmp_path: Path) -> None:
    for table, ledger in {"a.csv": "a.ledger", "a.b.parquet": "a.b.ledger", "a.csv.gz": "a.ledger"}.items():
        assert ledger_path(LedgerLocation.BESIDE_TABLE, tmp_path / table) == tmp_path / ledger
        assert ledger_path(LedgerLocation.BESIDE_TABLE, str(tmp_path / table)) == tmp_path / ledger
    with pytest.raises(InputError, match=r"a table in memory has no place .* \(ledger=None, --no-ledger\)"):
        ledger_path(LedgerLocation.BESIDE_TABLE, pa.table({"a": [1]}))
    assert ledger_path("x", pa.table({"a": [1]})) == Path("x")
    assert ledger_path(None, tmp_path / "a.csv") is None
    assert ledger_path("x", tmp_path / "a.csv") == Path("x")


def test_a_link_to_a_table_leads_to_the_table_s_ledger(tmp_path: Path) -> None:
    """Two names of one table have one budget."""
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "t.csv").write_text("age\n31\n")
    (tmp_path / "link.csv").symlink_to(tmp_path / "real" / "t.csv")
    assert ledger_path(LedgerLocation.BESIDE_TABLE, tmp_path / "link.csv") == tmp_path / "real" / "t.ledger"
    (tmp_path / "loop.csv").symlink_to(tmp_path / "loop.csv")
    for name in ("loop.csv", "a\0b.csv"):  # refused when the table is opened
        assert ledger_path(LedgerLocation.BESIDE_TABLE, tmp_path / name) is not None


def run(*arguments: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["dpcube", *arguments])
    with pytest.raises(SystemExit) as stopped:
        main()
    printed = capsys.readouterr()
    assert isinstance(stopped.value.code, int)
    return stopped.value.code, printed.out, printed.err


def test_the_command_starts_raises_and_shows_a_ledger(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask(*arguments: str) -> tuple[int, str, str]:
        return run("ledger", *arguments, capsys=capsys, monkeypatch=monkeypatch)

    assert ask("init", str(place), "--total", "0.3", "--purpose", "the board") == (
        0,
        f"wrote {place}: total epsilon 3/10\n",
        "",
    )
    code, _, error = ask("init", str(place), "--total", "1")
    assert (code, error) == (1, f"dpcube: {place} exists, and a ledger is never replaced; choose another name\n")
    ledger = Ledger(place)
    ledger.complete(charge(ledger, TENTH, purpose="steer \x1b[2J the terminal"), DIGEST)
    charge(ledger, TENTH, period=JANUARY)
    ledger.withdraw(charge(ledger, TENTH))
    code, shown, _ = ask(str(place))
    assert code == 0
    assert ask("show", str(place)) == (0, shown, "")
    assert shown.splitlines()[:4] == ["total      0.3", "spent      0.2", "left       0.1", "protects   one row"]
    assert DIGEST[:16] in shown
    assert "not completed" in shown
    assert "withdrawn" in shown.splitlines()[-1]
    assert "\x1b" not in shown
    code, _, error = ask("raise", str(place), "--total", "0.2", "--purpose", "less")
    assert (code, error.count("\n")) == (2, 1)
    assert ask("raise", str(place), "--total", "1/2", "--purpose", "more")[:2] == (
        0,
        f"{place}: total epsilon 1/2, 3/10 is left\n",
    )
    told = json.loads(ask(str(place), "--json")[1])
    assert {key: told[key] for key in ("total", "spent", "left", "unit")} == {
        "total": "1/2",
        "spent": "1/5",
        "left": "3/10",
        "unit": None,
    }
    assert [(entry["release"], entry["withdrawn"]) for entry in told["charges"]] == [
        (DIGEST, False),
        (None, False),
        (None, True),
    ]
    assert [entry["period"] for entry in told["charges"]] == [None, JANUARY.words, None]
    assert [(entry["total"], entry["purpose"]) for entry in told["totals"]] == [("3/10", "the board"), ("1/2", "more")]


def test_the_command_fails_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "t.csv").write_text("age\n7919\n")
    for arguments, expected in (
        (("ledger", str(tmp_path / "no.ledger")), 1),
        (("ledger", str(tmp_path / "t.csv")), 1),
        (("ledger", "init", str(tmp_path / "t.csv"), "--total", "1"), 1),
        (("ledger", "init", str(tmp_path / "new.ledger"), "--total", "0"), 2),
        (("ledger", "raise", str(tmp_path / "no.ledger"), "--total", "1", "--purpose", "p"), 1),
        (("ledger", "raise", str(tmp_path / "no.ledger"), "--total", "1"), 2),
    ):
        code, out, error = run(*arguments, capsys=capsys, monkeypatch=monkeypatch)
        assert (code, out, error.count("\n")) == (expected, "", 1)
        assert "7919" not in error
        assert "internal" not in error
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


def test_a_unit_that_steers_a_terminal_is_shown_in_letters(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Ledger.create(place, total=Fraction(1), unit="pat\x1b[2Jient")
    assert "pat\\x1b[2Jient" in run("ledger", str(place), capsys=capsys, monkeypatch=monkeypatch)[1]
