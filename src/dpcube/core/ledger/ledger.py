"""Exact privacy ledger stored in SQLite: the privacy budget of a table and the charges against it.

A request to spend yields a charge that is on disk before this module returns, or a refusal with nothing recorded. The
file is append-only, with three kinds of entry: `total` (the privacy budget; the last one is valid), `charge` (spent
from now on, whatever happens next) and `completion` (the digest of the release that a charge paid for).

**Why it cannot be overspent.** A charge is decided and written inside one IMMEDIATE transaction, which SQLite grants to
one process at a time, and is synced before the transaction ends. A process killed at any point leaves either no charge
or a complete one, and noise is drawn only afterwards. Amounts are exact rationals, stored as text and added as
`Fraction`s. A file that cannot be read, written or parsed is refused. Entries are numbered without gaps, and SQLite's
own table stores the last number. Each entry has a seal, the SHA-256 of the previous seal and of its own columns, so a
ledger in which an entry was changed, lost or moved is refused too. No file can detect its own replacement by an older
copy, or a forgery with recomputed seals: see docs/explanation/threat-model.md. SQLite's WAL mode is refused, for it
stores charges in a second file that a copy or a backup of the ledger lacks.

**Why a ledger from an untrusted source costs little.** It is at most 16 MiB. Before any entry is read its schema must
be exactly ours, so no foreign view, trigger or virtual table can run. SQLite stops after a bounded number of steps.
Amounts are short, and so is their common denominator, so that sums are cheap.

`composition.py` composes the charges.
"""

import hashlib
import json
import shlex
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

from dpcube.core.errors import BudgetError, InputError, LedgerError
from dpcube.core.files import new_file, number_of_names
from dpcube.core.ledger.composition import amount_text, composed_loss, exact_sum, parse_amount
from dpcube.core.ledger.file import SCHEMA, bound, check_ours, refuse_wal
from dpcube.core.limits import LEDGER_RESERVE, MAX_LEDGER_FILE, MAX_LEDGER_NOTE
from dpcube.core.period import Period

PATIENCE = 60  # seconds to wait for another process's transaction
NOTHING_DRAWN = "nothing was drawn"
WITHDRAWN = "withdrawn"  # in place of a digest: the charge is not spent, because no noise was drawn for it

PERIOD = ("period_column", "period_kind", "period_start", "period_stop")
SEALED = ("number", "time", "kind", "epsilon", "unit", "strategy", "domain", "purpose", *PERIOD, "charge", "digest")


@dataclass(frozen=True, slots=True)
class Charge:
    """Charge of a ledger: its purpose, and the digest of its release once there is one."""

    number: int
    time: str
    epsilon: Fraction
    strategy: str
    domain: str
    purpose: str
    period: Period | None
    digest: str | None
    delta: Fraction = Fraction(0)
    withdrawn: bool = False
    """Whether it was given back, with no noise drawn for it."""

    @property
    def is_open(self) -> bool:
        """Whether it waits for the digest of its release."""
        return self.digest is None and not self.withdrawn


@dataclass(frozen=True, slots=True)
class Statement:
    """State of a ledger: the privacy budget, the composed loss so far, and the charges."""

    unit: str | None
    total: Fraction
    spent: Fraction
    charges: tuple[Charge, ...]
    totals: tuple[tuple[str, Fraction, str], ...]
    total_delta: Fraction = Fraction(0)

    @property
    def remaining(self) -> Fraction:
        """Remaining budget for the whole table."""
        return self.total - self.spent

    @property
    def spent_delta(self) -> Fraction:
        """Sum of the deltas of all charges."""
        return exact_sum([charge.delta for charge in self.standing])

    @property
    def standing(self) -> tuple[Charge, ...]:
        """The charges that count as spent: all that were not withdrawn."""
        return tuple(charge for charge in self.charges if not charge.withdrawn)


class Ledger:
    """Ledger in an existing file; `Ledger.create` makes a new one.

    Parameters
    ----------
    path
        File of the ledger.

    Raises
    ------
    LedgerError
        If the file is missing, damaged or not a ledger.

    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.statement()

    def __repr__(self) -> str:
        return f"<Ledger {self.path.name}>"

    @classmethod
    def create(
        cls,
        path: str | Path,
        *,
        total: Fraction,
        delta: Fraction = Fraction(0),
        unit: str | None = None,
        purpose: str = "",
    ) -> "Ledger":
        """Create a ledger. The file is linked into place when it is complete, so nobody ever sees a partial one.

        Parameters
        ----------
        path
            New file.
        total, delta
            Privacy budget: the epsilon and delta that may be spent in total.
        unit
            Column that names the privacy unit; None protects one row.
        purpose
            Note to record.

        Raises
        ------
        LedgerError
            If the file exists or cannot be written.

        """
        path = Path(path)
        try:
            with new_file(path) as part, closing(sqlite3.connect(part, isolation_level=None)) as connection:
                connection.execute("PRAGMA synchronous = EXTRA")
                connection.executescript(SCHEMA)
                _append(connection, kind="total", epsilon=amount_text(total, delta), unit=unit, purpose=purpose)
        except FileExistsError:
            msg = f"{path} exists, and a ledger is never replaced; choose another name"
            raise LedgerError(msg) from None
        except (OSError, ValueError, sqlite3.Error) as error:
            msg = f"cannot create the ledger {path}: {_reason(error)}; nothing was spent"
            raise LedgerError(msg) from None
        return cls(path)

    def charge(
        self,
        epsilon: Fraction,
        *,
        strategy: str,
        domain: str,
        purpose: str = "",
        unit: str | None = None,
        period: Period | None = None,
        delta: Fraction = Fraction(0),
    ) -> int:
        """Record a charge on disk and return its number, or raise BudgetError with nothing recorded."""
        parts = [(strategy, epsilon)]
        return self.charge_parts(parts, domain=domain, purpose=purpose, unit=unit, period=period, delta=delta)[0]

    def charge_parts(
        self,
        parts: Sequence[tuple[str, Fraction]],
        *,
        domain: str,
        purpose: str = "",
        unit: str | None = None,
        period: Period | None = None,
        delta: Fraction = Fraction(0),
    ) -> list[int]:
        """Record the parts of one release, each as a separate charge: all of them, or none and BudgetError.

        A part is a strategy and its epsilon; the delta goes with the first. Their composed cost is compared with the
        remaining budget in the transaction that records them, so no other charge can come between two of them.
        """
        deltas = [delta, *[Fraction(0)] * (len(parts) - 1)]
        amounts = [amount_text(epsilon, of_part) for (_, epsilon), of_part in zip(parts, deltas, strict=True)]
        whole = exact_sum([epsilon for _, epsilon in parts])
        placed = {} if period is None else dict(zip(PERIOD, period.columns, strict=True))
        terms = {"kind": "charge", "unit": unit, "domain": domain, "purpose": purpose, **placed}
        with self._transaction() as connection:
            if self.path.stat().st_size > MAX_LEDGER_FILE - LEDGER_RESERVE:
                msg = f"{self.path} is full; start a new ledger with the rest of its total (dpcube ledger init)"
                raise LedgerError(msg)
            self._refuse_over(_statement(connection), whole, unit, period, delta)
            return [
                _append(connection, epsilon=amount, strategy=strategy, **terms)
                for amount, (strategy, _) in zip(amounts, parts, strict=True)
            ]

    def check(
        self, epsilon: Fraction, *, unit: str | None = None, period: Period | None = None, delta: Fraction = Fraction(0)
    ) -> None:
        """Raise BudgetError if a charge would be refused now; nothing is recorded."""
        self._refuse_over(self.statement(), epsilon, unit, period, delta)

    def _refuse_over(
        self, state: Statement, epsilon: Fraction, unit: str | None, period: Period | None, delta: Fraction
    ) -> None:
        if unit != state.unit:
            msg = f"{self.path} protects {_protects(state.unit)}, not {_protects(unit)}; use a separate ledger for the "
            msg += "latter"
            raise BudgetError(msg)
        wanted = composed_loss([*((c.epsilon, c.period) for c in state.standing), (epsilon, period)], unit)
        if wanted > state.total:
            raise BudgetError(_over(self.path, epsilon, state, period, wanted))
        if delta and (wanted := exact_sum([state.spent_delta, delta])) > state.total_delta:
            left = f"{state.total_delta - state.spent_delta} of {state.total_delta} is left in {self.path.name}"
            owner = f"dpcube ledger raise {shlex.quote(str(self.path))} --delta {wanted} --purpose WHY"
            msg = f"the request asks for delta {delta} but {left}; nothing was drawn. The owner may raise it: {owner}"
            raise BudgetError(msg)

    def complete(self, charge: int, digest: str) -> None:
        """Record the digest of the release that a charge paid for, once."""
        self.complete_parts([charge], digest)

    def complete_parts(self, charges: Sequence[int], digest: str) -> None:
        """Record the digest of a release with each of its charges: all of them, or none."""
        if digest == WITHDRAWN:
            msg = f"the digest of a release must be a hash, got '{digest}'"
            raise InputError(msg)
        self._close(charges, digest, "the release was made, and what it was charged stays charged")

    def withdraw(self, charge: int) -> None:
        """Give back a charge for which no noise was drawn and, as the caller ensures, none ever will be.

        A withdrawn charge passed the budget check and paid for no noise. So the noise drawn never exceeds the spent
        budget, before and after. If the process dies first, the charge stays. A withdrawal is stored as a completion
        without a digest.
        """
        self._close([charge], WITHDRAWN, "what was charged stays charged")

    def _close(self, charges: Sequence[int], digest: str, outcome: str) -> None:
        with self._transaction(outcome) as connection:
            waiting = {charge.number for charge in _statement(connection).charges if charge.is_open}
            for charge in charges:
                if charge not in waiting:
                    msg = f"{self.path} has no open charge {charge}"
                    raise LedgerError(msg)
                waiting.remove(charge)
                _append(connection, kind="completion", charge=charge, digest=digest)

    def raise_total(self, total: Fraction, *, purpose: str, delta: Fraction | None = None) -> None:
        """Raise the privacy budget, as a separate entry that stays on record; lower or equal totals are refused."""
        with self._transaction() as connection:
            state = _statement(connection)
            wanted, allowed = (total, delta or state.total_delta), (state.total, state.total_delta)
            amount = amount_text(*wanted)
            if wanted == allowed or any(one < other for one, other in zip(wanted, allowed, strict=True)):
                lower = 0 if total < state.total or delta is None else 1
                msg = (
                    f"{self.path} allows {allowed[lower]} already, and a total can only be raised, got {wanted[lower]}"
                )
                raise InputError(msg)
            _append(connection, kind="total", epsilon=amount, unit=state.unit, purpose=purpose)

    def statement(self) -> Statement:
        """Return the state of the ledger: its budget, the loss so far and the charges."""
        with self._connection() as connection:
            return _statement(connection)

    @contextmanager
    def _transaction(self, outcome: str = NOTHING_DRAWN) -> Iterator[sqlite3.Connection]:
        with self._connection(outcome) as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            connection.execute("COMMIT")

    @contextmanager
    def _connection(self, outcome: str = NOTHING_DRAWN) -> Iterator[sqlite3.Connection]:
        """Open the file, refusing anything but an intact ledger; closing rolls back what was not committed.

        Error messages end with `outcome`, the state of the charge after the error.
        """
        try:
            self._check_file()
            uri = f"{self.path.absolute().as_uri()}?mode=rw"
            with closing(sqlite3.connect(uri, uri=True, timeout=PATIENCE, isolation_level=None)) as connection:
                bound(connection)
                # EXTRA syncs the directory too, so that a deleted journal cannot come back and undo a charge.
                connection.execute("PRAGMA synchronous = EXTRA")
                check_ours(connection, self.path)
                yield connection
        except (OSError, UnicodeError, sqlite3.Error) as error:
            msg = f"cannot use the ledger {self.path}: {_reason(error)}; {outcome}"
            raise LedgerError(msg) from None
        except LedgerError as error:
            msg = f"{error}; {outcome}"
            raise LedgerError(msg) from None

    def _check_file(self) -> None:
        """Refuse a file by its metadata alone: opening it here would release SQLite's locks on it."""
        if not self.path.is_file() or self.path.stat().st_size == 0:
            msg = f"there is no ledger at {self.path}, or it is empty; restore it, or start a new one elsewhere"
            raise LedgerError(msg)
        # SQLite names its journal after the file: under another name, the journal of a crash would not be rolled back.
        if number_of_names(self.path) > 1:
            msg = f"{self.path} has a second name (a hard link), under which it could be overspent; remove one of them"
            raise LedgerError(msg)
        if self.path.stat().st_size > MAX_LEDGER_FILE:
            msg = f"{self.path} is larger than {MAX_LEDGER_FILE // 2**20} MiB, the limit for a ledger"
            raise LedgerError(msg)
        if any(self.path.with_name(f"{self.path.name}{end}").exists() for end in ("-wal", "-shm")):
            refuse_wal(self.path)


def _append(connection: sqlite3.Connection, **columns: object) -> int:
    last = connection.execute("SELECT number, seal FROM entry ORDER BY number DESC LIMIT 1").fetchone()
    number, seal = (1, "") if last is None else (last[0] + 1, last[1])
    columns |= {"number": number, "time": datetime.now(UTC).isoformat(timespec="seconds")}
    entry = [columns.get(name) for name in SEALED]
    if long := [name for name, value in columns.items() if isinstance(value, str) and len(value) > MAX_LEDGER_NOTE]:
        msg = f"the {long[0]} is longer than {MAX_LEDGER_NOTE:,} characters, the limit in a ledger; shorten it"
        raise InputError(msg)
    marks = ", ".join("?" for _ in SEALED)
    connection.execute(
        f"INSERT INTO entry ({', '.join(SEALED)}, seal) VALUES ({marks}, ?)", (*entry, _seal(seal, entry))
    )
    return number


def _seal(before: str, entry: Sequence[object]) -> str:
    return hashlib.sha256(json.dumps([before, *entry]).encode()).hexdigest()


def _entries(connection: sqlite3.Connection) -> list[sqlite3.Row]:
    """Return the entries in order; LedgerError if one is missing or was changed."""
    connection.row_factory = sqlite3.Row
    last = "(SELECT seq FROM sqlite_sequence WHERE name = 'entry')"
    # One query, so that no charge can be recorded between reading the entries and their last number.
    sql = f"SELECT {', '.join(SEALED)}, seal, {last} AS last FROM entry ORDER BY number"
    entries: list[sqlite3.Row] = []
    seal, whole = "", True
    for number, entry in enumerate(connection.execute(sql), 1):
        seal = _seal(seal, tuple(entry)[: len(SEALED)])
        whole = (entry["number"], entry["seal"]) == (number, seal)
        if not whole:  # the rest need not be read
            break
        entries.append(entry)
    if not whole or not entries or entries[-1]["last"] != len(entries):
        msg = "an entry of the ledger is damaged or missing; restore it from a copy made after its last release"
        raise LedgerError(msg)
    return entries


def _statement(connection: sqlite3.Connection) -> Statement:
    entries = _entries(connection)
    try:
        allowed = [(e["time"], parse_amount(e["epsilon"]), e["purpose"] or "") for e in entries if e["kind"] == "total"]
        digests = {e["charge"]: e["digest"] for e in entries if e["kind"] == "completion"}
        charges = tuple(_charge(e, digests.get(e["number"])) for e in entries if e["kind"] == "charge")
        unit, (total, delta) = entries[0]["unit"], allowed[-1][1]
    except (IndexError, InputError, TypeError, ValueError):
        msg = "the ledger has invalid entries; restore it from a copy made after its last release"
        raise LedgerError(msg) from None
    totals = tuple((time, amount[0], purpose) for time, amount, purpose in allowed)
    loss = composed_loss([(c.epsilon, c.period) for c in charges if not c.withdrawn], unit)
    return Statement(unit, total, loss, charges, totals, delta)


def _charge(entry: sqlite3.Row, digest: str | None) -> Charge:
    placed = [entry[name] for name in PERIOD]
    epsilon, delta = parse_amount(entry["epsilon"])
    return Charge(
        number=entry["number"],
        time=entry["time"],
        epsilon=epsilon,
        strategy=entry["strategy"] or "",
        domain=entry["domain"] or "",
        purpose=entry["purpose"] or "",
        period=None if placed[0] is None else Period.kept(*placed),
        digest=None if digest == WITHDRAWN else digest,
        delta=delta,
        withdrawn=digest == WITHDRAWN,
    )


def _over(path: Path, epsilon: Fraction, state: Statement, period: Period | None, wanted: Fraction) -> str:
    if period is None:
        over = f"but {state.remaining} of {state.total} is left in {path.name}"
    else:
        over = f"for {period.words}, which would take {path.name} to {wanted} of {state.total}"
        others = {c.period.axis for c in state.standing if c.period is not None and c.period.column == period.column}
        over += " (periods of a column that is read in different ways add up)" if others - {period.axis} else ""
    owner = f"The owner of the table may raise the total: dpcube ledger raise {shlex.quote(str(path))} --total {wanted}"
    return f"the release asks for epsilon {epsilon} {over}; nothing was drawn. {owner} --purpose WHY"


def _protects(unit: str | None) -> str:
    return "one row" if unit is None else f"one '{unit}'"


def _reason(error: Exception) -> str:
    if isinstance(error, sqlite3.Error):
        text = str(error)[:200]  # may quote the file
        return "".join(letter if letter.isprintable() else " " for letter in text)
    return getattr(error, "strerror", None) or "a name or note that was given cannot be written"
