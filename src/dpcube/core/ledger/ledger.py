"""The ledger: what has been spent on a table, in a file that survives crashes and concurrent processes.

Enters: requests to spend. Leaves: a charge that is on disk before this module returns, or a refusal with nothing
recorded. It is an append-only SQLite file of three kinds of entry: `total` (what may be spent; the last one holds),
`charge` (spent from now on, whatever happens next) and `completion` (the digest of the release a charge paid for).

Why it cannot be overspent. A charge is decided and written inside one IMMEDIATE transaction, which SQLite grants to
one process at a time, and is synced before the transaction ends; a process killed at any point leaves either no charge
or a whole one, and noise is drawn only after. Amounts are exact rationals, kept as text and added as `Fraction`s. A
file that cannot be read, written or understood refuses. Entries are numbered without gaps, the last number is kept in a
table of SQLite's own, and each entry has a seal, the SHA-256 of the seal before it and of its own columns: a ledger in
which an entry was changed, lost or moved refuses too. What no file can notice is its own replacement by an older copy,
or a forgery that was sealed anew: see docs/threat-model.md. SQLite's WAL mode is refused, for it keeps charges in a
second file that a copy or a backup of the ledger lacks.

Why a ledger from elsewhere costs little. It is at most 16 MiB; before any entry is read its schema must be ours to the
letter, so there is no view, trigger or virtual table but our own to run; SQLite stops after a bounded number of steps;
amounts are short, and so is what they have in common, so that sums are.

What charges cost together is in `composition.py`.
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
from dpcube.core.ledger.limits import KEPT_FREE, MAX_FILE, MAX_NOTE
from dpcube.core.period import Period

PATIENCE = 60  # seconds to wait for another process's transaction
NOTHING_DRAWN = "nothing was drawn"
WITHDRAWN = "withdrawn"  # in place of a digest: the charge is not spent, for nothing was drawn for it

PERIOD = ("period_column", "period_kind", "period_start", "period_stop")
SEALED = ("number", "time", "kind", "epsilon", "unit", "strategy", "domain", "purpose", *PERIOD, "charge", "digest")


@dataclass(frozen=True, slots=True)
class Charge:
    """One charge: what it was for, and the digest of its release once there is one."""

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
    """Whether it was given back, with nothing drawn for it."""

    @property
    def is_open(self) -> bool:
        """Whether it waits for the digest of its release."""
        return self.digest is None and not self.withdrawn


@dataclass(frozen=True, slots=True)
class Statement:
    """The state of a ledger: what may be spent, what has been, and on what."""

    unit: str | None
    total: Fraction
    spent: Fraction
    charges: tuple[Charge, ...]
    totals: tuple[tuple[str, Fraction, str], ...]
    total_delta: Fraction = Fraction(0)

    @property
    def remaining(self) -> Fraction:
        """What is left to spend on the whole table."""
        return self.total - self.spent

    @property
    def spent_delta(self) -> Fraction:
        """What was spent of delta, by all charges together."""
        return exact_sum([charge.delta for charge in self.standing])

    @property
    def standing(self) -> tuple[Charge, ...]:
        """The charges that are spent: all that were not withdrawn."""
        return tuple(charge for charge in self.charges if not charge.withdrawn)


class Ledger:
    """The ledger in the file at `path`, which must be there: `Ledger.create` makes one."""

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
        """Make a new ledger that allows `total` and `delta`; LedgerError when there is a file at `path` already.

        The file is made under another name and linked into place whole, so nobody ever sees half a ledger.
        """
        path = Path(path)
        try:
            with new_file(path) as part, closing(sqlite3.connect(part, isolation_level=None)) as connection:
                connection.execute("PRAGMA synchronous = EXTRA")
                connection.executescript(SCHEMA)
                _append(connection, kind="total", epsilon=amount_text(total, delta), unit=unit, purpose=purpose)
        except FileExistsError:
            msg = f"{path} exists; a ledger is never replaced"
            raise LedgerError(msg) from None
        except (OSError, ValueError, sqlite3.Error) as error:
            msg = f"cannot make the ledger {path}: {_reason(error)}; nothing was spent"
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
        """Record the parts of one release, each as a charge of its own: all of them, or none and BudgetError.

        A part is a strategy and its epsilon; the delta goes with the first. What they cost together is compared with
        what is left in the transaction that records them, so nobody else's charge comes between two of them.
        """
        deltas = [delta, *[Fraction(0)] * (len(parts) - 1)]
        amounts = [amount_text(epsilon, of_part) for (_, epsilon), of_part in zip(parts, deltas, strict=True)]
        whole = exact_sum([epsilon for _, epsilon in parts])
        placed = {} if period is None else dict(zip(PERIOD, period.columns, strict=True))
        terms = {"kind": "charge", "unit": unit, "domain": domain, "purpose": purpose, **placed}
        with self._transaction() as connection:
            if self.path.stat().st_size > MAX_FILE - KEPT_FREE:
                msg = f"{self.path} is full: what is left of its total goes into a new one (dpcube ledger init)"
                raise LedgerError(msg)
            self._refuse_over(_statement(connection), whole, unit, period, delta)
            return [
                _append(connection, epsilon=amount, strategy=strategy, **terms)
                for amount, (strategy, _) in zip(amounts, parts, strict=True)
            ]

    def check(
        self, epsilon: Fraction, *, unit: str | None = None, period: Period | None = None, delta: Fraction = Fraction(0)
    ) -> None:
        """Raise BudgetError if a charge would be refused as things stand; nothing is recorded."""
        self._refuse_over(self.statement(), epsilon, unit, period, delta)

    def _refuse_over(
        self, state: Statement, epsilon: Fraction, unit: str | None, period: Period | None, delta: Fraction
    ) -> None:
        if unit != state.unit:
            msg = f"{self.path} counts epsilon for {_protects(state.unit)}, not for {_protects(unit)}; keep another"
            raise BudgetError(msg)
        wanted = composed_loss([*((c.epsilon, c.period) for c in state.standing), (epsilon, period)], unit)
        if wanted > state.total:
            raise BudgetError(_over(self.path, epsilon, state, period, wanted))
        if delta and (wanted := exact_sum([state.spent_delta, delta])) > state.total_delta:
            left = f"{state.total_delta - state.spent_delta} of {state.total_delta} is left in {self.path.name}"
            owner = f"dpcube ledger raise {shlex.quote(str(self.path))} --delta {wanted} --purpose WHY"
            msg = f"the request asks for delta {delta} but {left}; nothing was drawn. Its owner may raise it: {owner}"
            raise BudgetError(msg)

    def complete(self, charge: int, digest: str) -> None:
        """Record the digest of the release that a charge paid for, once."""
        self.complete_parts([charge], digest)

    def complete_parts(self, charges: Sequence[int], digest: str) -> None:
        """Record the digest of a release with each of its charges: all of them, or none."""
        if digest == WITHDRAWN:
            msg = f"a release has a digest, and '{digest}' is none"
            raise InputError(msg)
        self._close(charges, digest, "the release was made, and what it was charged stays charged")

    def withdraw(self, charge: int) -> None:
        """Give back a charge for which nothing was drawn and, as its caller ensures, nothing ever will be.

        What is withdrawn was compared with what is left and paid for no noise, so what was drawn is never more than
        what is spent, before and after. Of a process that dies first, the charge stays. It is kept as a completion
        without a digest: a dpcube that knows of none takes the charge for spent.
        """
        self._close([charge], WITHDRAWN, "what was charged stays charged")

    def _close(self, charges: Sequence[int], digest: str, outcome: str) -> None:
        with self._transaction(outcome) as connection:
            waiting = {charge.number for charge in _statement(connection).charges if charge.is_open}
            for charge in charges:
                if charge not in waiting:
                    msg = f"{self.path} has no charge {charge} that waits for its release"
                    raise LedgerError(msg)
                waiting.remove(charge)
                _append(connection, kind="completion", charge=charge, digest=digest)

    def raise_total(self, total: Fraction, *, purpose: str, delta: Fraction | None = None) -> None:
        """Allow more, as an act of its own that stays on record; less, or as much of both, is refused."""
        with self._transaction() as connection:
            state = _statement(connection)
            wanted, allowed = (total, delta or state.total_delta), (state.total, state.total_delta)
            amount = amount_text(*wanted)
            if wanted == allowed or any(one < other for one, other in zip(wanted, allowed, strict=True)):
                lower = 0 if total < state.total or delta is None else 1
                msg = f"{self.path} allows {allowed[lower]} already; a total can only be raised, got {wanted[lower]}"
                raise InputError(msg)
            _append(connection, kind="total", epsilon=amount, unit=state.unit, purpose=purpose)

    def statement(self) -> Statement:
        """Return what may be spent, what has been, and on what."""
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
        """Open the file, refusing whatever is not a whole ledger; closing rolls back what was not committed.

        Errors end in how things stand after them.
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
        """Refuse by what the file system says of a file; opening one here would let go of SQLite's locks on it."""
        if not self.path.is_file() or self.path.stat().st_size == 0:
            msg = f"there is no ledger at {self.path}, or it is empty; restore it, or keep a new one elsewhere"
            raise LedgerError(msg)
        # SQLite names its journal after the file: by another name nobody would roll back what a crash left.
        if number_of_names(self.path) > 1:
            msg = f"{self.path} has another name (a hard link), by which it could be overspent; remove one of them"
            raise LedgerError(msg)
        if self.path.stat().st_size > MAX_FILE:
            msg = f"{self.path} is larger than a ledger can be ({MAX_FILE // 2**20} MiB)"
            raise LedgerError(msg)
        if any(self.path.with_name(f"{self.path.name}{end}").exists() for end in ("-wal", "-shm")):
            refuse_wal(self.path)


def _append(connection: sqlite3.Connection, **columns: object) -> int:
    last = connection.execute("SELECT number, seal FROM entry ORDER BY number DESC LIMIT 1").fetchone()
    number, seal = (1, "") if last is None else (last[0] + 1, last[1])
    columns |= {"number": number, "time": datetime.now(UTC).isoformat(timespec="seconds")}
    entry = [columns.get(name) for name in SEALED]
    if long := [name for name, value in columns.items() if isinstance(value, str) and len(value) > MAX_NOTE]:
        msg = f"the {long[0]} is longer than the {MAX_NOTE:,} characters that a ledger keeps; shorten it"
        raise InputError(msg)
    marks = ", ".join("?" for _ in SEALED)
    connection.execute(
        f"INSERT INTO entry ({', '.join(SEALED)}, seal) VALUES ({marks}, ?)", (*entry, _seal(seal, entry))
    )
    return number


def _seal(before: str, entry: Sequence[object]) -> str:
    return hashlib.sha256(json.dumps([before, *entry]).encode()).hexdigest()


def _entries(connection: sqlite3.Connection) -> list[sqlite3.Row]:
    """Return the entries in order, or raise LedgerError unless each is there and is as it was written."""
    connection.row_factory = sqlite3.Row
    last = "(SELECT seq FROM sqlite_sequence WHERE name = 'entry')"
    # One query, so that no charge comes in between the entries and their last number.
    sql = f"SELECT {', '.join(SEALED)}, seal, {last} AS last FROM entry ORDER BY number"
    entries: list[sqlite3.Row] = []
    seal, whole = "", True
    for number, entry in enumerate(connection.execute(sql), 1):
        seal = _seal(seal, tuple(entry)[: len(SEALED)])
        whole = (entry["number"], entry["seal"]) == (number, seal)
        if not whole:  # and need not be read to its end
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
        msg = "the ledger's entries do not make sense; restore it from a copy made after its last release"
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
        said = str(error)[:200]  # which may quote the file
        return "".join(letter if letter.isprintable() else " " for letter in said)
    return getattr(error, "strerror", None) or "a name or note that was given cannot be written"
