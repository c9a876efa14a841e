"""Ledgers from elsewhere: what they cost is bounded, those of the landed code still open, and WAL mode is refused."""

import itertools
import os
import re
import shutil
import sqlite3
import stat
import sys
import time
from collections.abc import Callable
from contextlib import closing
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpcube import Domain
from dpcube.cli import main
from dpcube.core.errors import BudgetError, InputError, KeptReleaseError, LedgerError
from dpcube.core.ledger import composition
from dpcube.core.ledger import file as ledger_file
from dpcube.core.ledger import ledger as ledger_module
from dpcube.core.ledger.composition import composed_loss
from dpcube.core.ledger.file import APPLICATION, FORMAT, SCHEMA
from dpcube.core.ledger.ledger import Ledger, _append
from dpcube.core.limits import (
    LEDGER_RESERVE,
    MAX_DENOMINATOR_BITS,
    MAX_LEDGER_FILE,
    MAX_LEDGER_NOTE,
    MAX_LEDGER_STEPS,
    MAX_LEDGER_VALUE,
)
from dpcube.core.period import Period
from dpcube.curator import publish

TENTH = Fraction(1, 10)
OLD = Path(__file__).parent / "ledgers" / "format1.ledger"  # made by the code before this file was written
MARKS = f"PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {FORMAT};"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "t.ledger"


def script(path: Path, sql: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.executescript(sql)


def sealed(path: Path, *entries: dict[str, Any]) -> None:
    """Make a ledger of these entries, whatever they say, with seals that are right."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.executescript(SCHEMA)
        connection.execute("BEGIN")
        for entry in entries:
            _append(connection, **entry)
        connection.execute("COMMIT")


# Ledgers of the landed code.


def test_a_ledger_of_format_1_opens_and_is_charged(place: Path) -> None:
    shutil.copy(OLD, place)
    ledger = Ledger(place)
    state = ledger.statement()
    assert (state.total, state.spent) == (Fraction(3, 2), Fraction(1, 3) + Fraction(1, 7))
    assert [charge.digest for charge in state.charges] == ["5e" * 32, None, None]
    january = Period("day", "date", date(2026, 1, 1).toordinal(), date(2026, 2, 1).toordinal())
    assert state.charges[1].period == january
    assert state.charges[0].purpose == "spring 'quoted' Ärzte\n"
    with pytest.raises(BudgetError):
        ledger.charge(Fraction(3, 2), strategy="cells", domain="d")
    number = ledger.charge(TENTH, strategy="cells", domain="d")
    ledger.complete(number, "0f" * 32)
    assert Ledger(place).statement().charges[-1].digest == "0f" * 32


# WAL.


@pytest.mark.parametrize("open_elsewhere", [False, True])
def test_a_ledger_in_wal_mode_is_refused_and_left_alone(place: Path, *, open_elsewhere: bool) -> None:
    ledger = Ledger.create(place, total=Fraction(1))
    other = sqlite3.connect(place, isolation_level=None)
    other.execute("PRAGMA journal_mode = WAL")
    if open_elsewhere:
        other.execute("SELECT count(*) FROM entry").fetchall()
    else:
        other.close()
    before = place.read_bytes()
    for ask in (
        lambda: Ledger(place),
        ledger.statement,
        lambda: ledger.charge(TENTH, strategy="cells", domain="d"),
        lambda: ledger.raise_total(Fraction(2), purpose="more"),
    ):
        with pytest.raises(LedgerError, match=r"t\.ledger is in SQLite's WAL mode.*journal_mode = DELETE"):
            ask()
    assert place.read_bytes() == before
    if not open_elsewhere:
        assert list(place.parent.iterdir()) == [place]
    other.close()
    script(place, "PRAGMA journal_mode = DELETE")  # the remedy that the message names
    assert ledger.charge(TENTH, strategy="cells", domain="d") == 2


def test_a_wal_left_beside_a_ledger_is_refused(place: Path) -> None:
    ledger = Ledger.create(place, total=Fraction(1))
    Path(f"{place}-wal").write_bytes(b"")
    with pytest.raises(LedgerError, match="WAL mode"):
        ledger.charge(TENTH, strategy="cells", domain="d")


# What a ledger from elsewhere may cost.

COLUMNS = ", ".join(f"NULL AS {name}" for name in ledger_module.SEALED if name != "number")
ENDLESS = "WITH RECURSIVE r (number) AS (SELECT 1 UNION ALL SELECT number + 1 FROM r)"
TOTAL: dict[str, Any] = {"kind": "total", "epsilon": "1", "purpose": ""}


def charged(epsilon: str, **more: Any) -> dict[str, Any]:
    return {"kind": "charge", "epsilon": epsilon, "strategy": "s", "domain": "d", "purpose": "", **more}


def placed(kind: Any, start: Any, stop: Any) -> dict[str, Any]:
    return {"period_column": "day", "period_kind": kind, "period_start": start, "period_stop": stop}


def giant(path: Path) -> None:
    sealed(path, TOTAL)
    os.truncate(path, 2**34)


PRIMES = [n for n in range(10**6, 10**6 + 40_000) if all(n % k for k in range(2, 1100))]
FOREIGN: dict[str, tuple[Callable[[Path], object], str]] = {
    "an endless total": (lambda p: sealed(p, {**TOTAL, "epsilon": "1e50000000"}), "has invalid entries"),
    "an endless charge": (lambda p: sealed(p, TOTAL, charged("1e-50000000")), "has invalid entries"),
    "thousands of digits": (lambda p: sealed(p, {**TOTAL, "epsilon": "9" * 5000}), "has invalid entries"),
    "digits of elsewhere": (lambda p: sealed(p, {**TOTAL, "epsilon": "\u0661"}), "has invalid entries"),
    "a negative charge": (lambda p: sealed(p, TOTAL, charged("-1")), "has invalid entries"),
    "nothing charged": (lambda p: sealed(p, TOTAL, charged("0")), "has invalid entries"),
    "divided by zero": (lambda p: sealed(p, TOTAL, charged("1/0")), "has invalid entries"),
    "amounts without a common part": (
        lambda p: sealed(p, TOTAL, *(charged(f"1/{prime}") for prime in PRIMES)),
        "too many digits to be added",
    ),
    "a period of nothing": (lambda p: sealed(p, TOTAL, charged("1/9", **placed("date", 5, 5))), "has invalid entries"),
    "a period without ends": (
        lambda p: sealed(p, TOTAL, charged("1/9", **placed("date", None, None))),
        "has invalid entries",
    ),
    "a period of another kind": (
        lambda p: sealed(p, TOTAL, charged("1/9", **placed("\x1b[2J", 1, 2))),
        "has invalid entries",
    ),
    "a day after all days": (
        lambda p: sealed(p, TOTAL, charged("1/9", **placed("date", 5, 2**40))),
        "has invalid entries",
    ),
    "a view": (
        lambda p: script(p, f"CREATE VIEW entry AS {ENDLESS} SELECT number, {COLUMNS}, '' AS seal FROM r; {MARKS}"),
        "tables differ from those",
    ),
    "a view beside it": (lambda p: script(p, f"{SCHEMA} CREATE VIEW v AS {ENDLESS} SELECT * FROM r"), "tables differ"),
    "a trigger more": (
        lambda p: script(p, f"{SCHEMA} CREATE TRIGGER t AFTER INSERT ON entry BEGIN {ENDLESS[:0]}SELECT 1; END;"),
        "tables differ from those",
    ),
    "a virtual table": (
        lambda p: script(p, f"CREATE VIRTUAL TABLE entry USING fts5(number, seal); {MARKS}"),
        "tables differ from those",
    ),
    "many tables": (
        lambda p: script(p, SCHEMA + "BEGIN;" + "".join(f"CREATE TABLE t{n} (a);" for n in range(2000)) + "COMMIT;"),
        "tables differ from those",
    ),
    "a column more": (
        lambda p: script(p, f"{SCHEMA} ALTER TABLE entry ADD COLUMN more TEXT"),
        "tables differ from those",
    ),
    "an expression as default": (
        lambda p: script(p, SCHEMA.replace("purpose TEXT,", "purpose TEXT DEFAULT (randomblob(900000000)),")),
        "tables differ from those",
    ),
    "a giant value": (
        lambda p: script(
            p,
            f"{SCHEMA} INSERT INTO entry (time, kind, epsilon, seal) VALUES ('', 'total', '1', hex(zeroblob(4000000)))",
        ),
        "too big",
    ),
    "a giant file": (giant, "the limit for a ledger"),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_foreign_ledger_is_refused_in_bounded_time(kind: str, place: Path) -> None:
    make, words = FOREIGN[kind]
    make(place)
    began = time.process_time()
    with pytest.raises(LedgerError, match=words) as caught:
        Ledger(place)
    assert time.process_time() - began < 2
    assert str(caught.value).isprintable()
    assert str(caught.value).endswith("nothing was drawn")


def test_a_file_with_the_mark_of_another_program_is_refused_though_its_tables_are_ours(place: Path) -> None:
    Ledger.create(place, total=Fraction(1))
    script(place, f"PRAGMA application_id = {APPLICATION + 1}")
    with pytest.raises(LedgerError, match=r"t\.ledger is not a dpcube ledger(?!:)"):
        Ledger(place)


def test_sqlite_trusts_no_schema_of_a_ledger(place: Path) -> None:
    """Ours to the letter, a schema runs nothing; functions in it would be refused all the same."""
    with closing(sqlite3.connect(place)) as connection:
        ledger_file.bound(connection)
        assert connection.execute("PRAGMA trusted_schema").fetchone() == (0,)


def test_a_period_read_as_nobody_said_is_kept_as_it_always_was(place: Path) -> None:
    """Entries of the landed code have the kind alone: a period without a reading is the same one as theirs."""
    for reading, kind in (("", "integer"), ('{"case": "ignore"}', 'integer {"case": "ignore"}')):
        period = Period("day", "integer", 1, 5, reading)
        assert period.columns == ("day", kind, 1, 5)
        assert Period.kept(*period.columns) == period
    Ledger.create(place, total=Fraction(1)).charge(
        TENTH, strategy="s", domain="d", period=Period("day", "integer", 1, 5)
    )
    with closing(sqlite3.connect(place)) as connection:
        kept = connection.execute("SELECT period_column, period_kind FROM entry WHERE kind = 'charge'").fetchall()
    assert kept == [("day", "integer")]


def test_sqlite_stops_after_so_many_steps(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Ledger.create(place, total=Fraction(1))
    monkeypatch.setattr(ledger_file, "MAX_LEDGER_STEPS", 10**6)
    with closing(sqlite3.connect(place)) as connection:
        ledger_file.bound(connection)
        with pytest.raises(sqlite3.OperationalError, match="interrupted"):
            connection.execute(f"{ENDLESS} SELECT max(number) FROM r").fetchone()
        with pytest.raises(sqlite3.Error):
            connection.execute("ATTACH ':memory:' AS other")


def test_sqlite_may_take_all_the_steps_that_it_is_allowed(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The steps are counted a thousand at a time: what is stopped has taken more than allowed, by one such count."""
    Ledger.create(place, total=Fraction(1))
    monkeypatch.setattr(ledger_file, "STEPS_AT_A_TIME", 1000)

    def counted(rows: int, most_steps: int | None) -> int:
        """Count rows one by one, within so many steps; return how many thousand steps it took."""
        turns = itertools.count()
        with closing(sqlite3.connect(place)) as connection:
            if most_steps is None:
                connection.set_progress_handler(lambda: next(turns) < 0, 1000)
            else:
                monkeypatch.setattr(ledger_file, "MAX_LEDGER_STEPS", most_steps)
                ledger_file.bound(connection)
            connection.execute(f"{ENDLESS} SELECT number FROM r LIMIT {rows}").fetchall()
        return next(turns)

    thousands = counted(1000, None)
    assert thousands > 5
    counted(1000, 1000 * thousands)
    with pytest.raises(sqlite3.OperationalError, match="interrupted"):
        counted(1000, 1000 * (thousands - 1))


@pytest.mark.slow
def test_the_largest_ledger_is_read_within_the_bounds(place: Path) -> None:
    """One of many thousand releases, as large as may be charged: it opens, and is charged, in the steps allowed."""
    many = [charged(str(Fraction(1, 1000 + n % 50)), **placed("date", 1 + n, 40 + n)) for n in range(30_000)]
    sealed(place, {**TOTAL, "epsilon": "50"}, *many)
    assert 2 * 2**20 < place.stat().st_size < MAX_LEDGER_FILE
    began = time.process_time()
    assert len(Ledger(place).statement().charges) == 30_000
    assert time.process_time() - began < 10


def test_a_full_ledger_says_so_and_still_takes_completions(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger.create(place, total=Fraction(1))
    number = ledger.charge(TENTH, strategy="cells", domain="d")
    monkeypatch.setattr("dpcube.core.ledger.ledger.MAX_LEDGER_FILE", LEDGER_RESERVE + place.stat().st_size - 1)
    with pytest.raises(LedgerError, match="is full"):
        ledger.charge(TENTH, strategy="cells", domain="d")
    ledger.complete(number, "0f" * 32)
    monkeypatch.setattr("dpcube.core.ledger.ledger.MAX_LEDGER_FILE", LEDGER_RESERVE + place.stat().st_size)
    ledger.charge(TENTH, strategy="cells", domain="d")


def test_the_bounds_of_a_ledger_are_those_that_old_ones_were_written_under() -> None:
    """A lower bound would shut out a ledger that was fine, a higher one writes what an older dpcube cannot read."""
    written = (MAX_LEDGER_FILE, LEDGER_RESERVE, MAX_LEDGER_NOTE, MAX_DENOMINATOR_BITS)
    assert written == (16_777_216, 1_048_576, 10_000, 16_384)
    assert (APPLICATION, FORMAT, MAX_LEDGER_VALUE) == (0x64706375, 1, 1_048_576)
    assert (MAX_LEDGER_STEPS, ledger_file.STEPS_AT_A_TIME) == (100_000_000, 100_000)
    assert ledger_module.PATIENCE == 60


def test_a_file_may_be_as_large_as_a_ledger_can_be_and_no_larger(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Ledger.create(place, total=Fraction(1))
    monkeypatch.setattr(ledger_module, "MAX_LEDGER_FILE", place.stat().st_size)
    assert Ledger(place).statement().total == 1
    monkeypatch.setattr(ledger_module, "MAX_LEDGER_FILE", place.stat().st_size - 1)
    with pytest.raises(LedgerError, match="the limit for a ledger"):
        Ledger(place)


def test_what_an_entry_need_not_say_is_read_as_nothing(place: Path) -> None:
    sealed(place, {"kind": "total", "epsilon": "1"}, {"kind": "charge", "epsilon": "1/10"})
    state = Ledger(place).statement()
    [(_, total, purpose)], [made] = state.totals, state.charges
    assert (total, purpose, state.spent) == (Fraction(1), "", TENTH)
    assert (made.strategy, made.domain, made.purpose, made.period, made.digest) == ("", "", "", None, None)


@pytest.mark.parametrize(
    "entries",
    [
        [{"kind": "charge", "epsilon": "1/10"}],
        [
            {"kind": "total", "epsilon": "1"},
            {"kind": "charge", "epsilon": "1/10", "period_column": "c", "period_start": 1, "period_stop": 2},
        ],
    ],
    ids=["no total", "half a period"],
)
def test_entries_that_make_no_sense_are_refused(entries: list[dict[str, Any]], place: Path) -> None:
    sealed(place, *entries)
    with pytest.raises(LedgerError, match="has invalid entries"):
        Ledger(place)


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_seal_that_does_not_fit_its_entry_is_refused_though_the_later_ones_do(number: int, place: Path) -> None:
    ledger = Ledger.create(place, total=Fraction(1))
    for _ in range(2):
        ledger.charge(TENTH, strategy="cells", domain="d")
    script(place, f"DROP TRIGGER no_update; UPDATE entry SET seal = 'other' WHERE number = {number};")
    again = SCHEMA[SCHEMA.index("CREATE TRIGGER no_update") : SCHEMA.index("CREATE TRIGGER no_delete")]
    script(place, again)
    with pytest.raises(LedgerError, match="damaged or missing"):
        ledger.statement()


@pytest.mark.parametrize("end", ["-wal", "-shm"])
def test_either_file_of_wal_mode_beside_a_ledger_is_refused(end: str, place: Path) -> None:
    Ledger.create(place, total=Fraction(1))
    place.with_name(f"{place.name}{end}").touch()
    with pytest.raises(LedgerError, match="WAL mode"):
        Ledger(place)


def test_times_are_kept_to_the_second_and_in_utc(place: Path) -> None:
    [(time_of_total, _, _)] = Ledger.create(place, total=Fraction(1)).statement().totals
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", time_of_total)


def test_a_ledger_with_a_second_name_is_refused_under_both(place: Path) -> None:
    ledger = Ledger.create(place, total=Fraction(1))
    other = place.with_name("other.ledger")
    other.hardlink_to(place)
    for use in (ledger.statement, lambda: Ledger(place), lambda: Ledger(other)):
        with pytest.raises(LedgerError, match=r"has a second name \(a hard link\)"):
            use()
    other.unlink()
    assert ledger.statement().spent == 0


def test_what_could_not_be_read_again_is_not_written(place: Path) -> None:
    ledger = Ledger.create(place, total=Fraction(1))
    before = place.read_bytes()
    with pytest.raises(InputError, match="the purpose is longer than 10,000 characters"):
        ledger.charge(TENTH, strategy="cells", domain="d", purpose="x" * (MAX_LEDGER_NOTE + 1))
    with pytest.raises(InputError, match="hundreds of digits"):
        ledger.charge(Fraction(1, 10**200), strategy="cells", domain="d")
    with pytest.raises(InputError, match="hundreds of digits"):
        ledger.raise_total(Fraction(10**200), purpose="more")
    with pytest.raises(InputError, match="the unit is longer"):
        Ledger.create(place.with_name("new.ledger"), total=Fraction(1), unit="x" * (MAX_LEDGER_NOTE + 1))
    assert place.read_bytes() == before
    assert list(place.parent.iterdir()) == [place]
    ledger.charge(TENTH, strategy="cells", domain="d", purpose="x" * MAX_LEDGER_NOTE)
    ledger.charge(Fraction(1, 10**199), strategy="cells", domain="d")
    assert len(Ledger(place).statement().charges) == 2


def test_amounts_that_make_a_ledger_unreadable_are_refused_with_it_left_readable(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(composition, "MAX_DENOMINATOR_BITS", 8)
    ledger = Ledger.create(place, total=Fraction(1))
    ledger.charge(Fraction(1, 11), strategy="cells", domain="d")
    ledger.charge(Fraction(1, 22), strategy="cells", domain="d")
    with pytest.raises(LedgerError, match="too many digits to be added"):
        ledger.charge(Fraction(1, 13), strategy="cells", domain="d")
    assert Ledger(place).statement().spent == Fraction(3, 22)


def test_amounts_may_have_as_many_digits_together_as_said(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(composition, "MAX_DENOMINATOR_BITS", 8)
    ledger = Ledger.create(place, total=Fraction(1))
    ledger.charge(Fraction(1, 15), strategy="cells", domain="d")
    ledger.charge(Fraction(1, 17), strategy="cells", domain="d")  # 255 together, of 8 bits
    assert ledger.statement().spent == Fraction(32, 255)


def test_what_sqlite_says_is_made_printable_and_short() -> None:
    assert ledger_module._reason(sqlite3.DatabaseError("a\nb\x1b" + "c" * 300)) == "a b " + "c" * 196
    assert ledger_module._reason(OSError(2, "No such file")) == "No such file"
    assert ledger_module._reason(ValueError("secret")) == "a name or note that was given cannot be written"


def test_periods_add_up_as_at_their_starts() -> None:
    """The largest sum is reached at the start of some period: the plain sum over all starts is the same."""
    random = np.random.default_rng(5)
    for _ in range(200):
        ends = random.integers(1, 30, (random.integers(1, 12), 2))
        periods = [Period("day", "date", int(min(e)), int(max(e)) + 1) for e in ends]
        amounts = [Fraction(int(n), int(m)) for n, m in random.integers(1, 9, (len(periods), 2))]
        placed_ = list(zip(amounts, periods, strict=True))
        at_starts = [sum(e for e, p in placed_ if p.start <= q.start < p.stop) for _, q in placed_]
        assert composed_loss(placed_, None) == max(at_starts)
        assert composed_loss([*placed_, (TENTH, None)], None) == max(at_starts) + TENTH
        assert composed_loss(placed_, "who") == sum(amounts)


# What is said when a completion fails.


@pytest.mark.parametrize("broken", ["gone", "damaged", "foreign", "wal"])
def test_a_failed_completion_says_that_the_release_was_made(broken: str, tmp_path: Path, place: Path) -> None:
    def progress(words: str) -> None:
        if words != "writing":
            return
        if broken == "gone":
            place.unlink()
        elif broken == "damaged":
            place.write_bytes(place.read_bytes().replace(b"charge1/2", b"charge1/9"))
        elif broken == "foreign":
            place.unlink()
            script(place, "CREATE TABLE entry (a)")
        else:
            script(place, "PRAGMA journal_mode = WAL")

    saved = tmp_path / "r.dpcube"
    with pytest.raises(KeptReleaseError) as caught:
        publish(np.array([3, 1]), Domain.of_shape((2,)), epsilon="1/2", ledger=place, save_to=saved, progress=progress)
    assert "; the release was made, and what it was charged stays charged" in str(caught.value)
    assert str(caught.value).endswith(f"The release was made and charged for, and is in {saved}")
    assert "nothing" not in str(caught.value)
    assert saved.exists()


# Drafts.


@pytest.mark.parametrize(("from_data", "mode"), [(True, 0o600), (False, 0o644)])
def test_a_draft_from_data_is_its_owner_s_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, from_data: bool, mode: int
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text("age\n31\n42\n")
    flags = ["--from-data"] if from_data else []
    before = os.umask(0o022)
    try:
        for output, code in (("d.toml", 0), ("d.toml", 2)):  # a file that is there is never replaced
            monkeypatch.setattr(sys, "argv", ["dpcube", "domain", "t.csv", "-o", output, *flags])
            with pytest.raises(SystemExit) as stopped:
                main()
            assert stopped.value.code == code
    finally:
        os.umask(before)
    assert stat.S_IMODE(Path("d.toml").stat().st_mode) == mode
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d.toml", "t.csv"]


def test_an_unsigned_domain_is_saved_for_its_owner_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        attributes = Domain.of_shape((2,)).attributes
        for name, signed in (("draft", None), ("signed", "me")):
            Domain(attributes, drafted_from_data=True, signed_public_by=signed).save(tmp_path / name)
    finally:
        os.umask(before)
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("draft", "signed")]
    assert modes == [0o600, 0o644]  # whatever the umask
