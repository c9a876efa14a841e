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
or a forgery that was sealed anew: see docs/threat-model.md.

Composition. A charge for the whole table adds to every row's loss. A charge for a period (a range of a column that the
gate itself selects by) adds only to the rows in it, so a row's loss is at most the sum of the whole-table charges plus,
for each column, the largest sum of period charges that one point of it lies in. When the unit is not a row, one unit
can have rows in several periods, and periods add up like any charge.
"""

import hashlib
import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import astuple, dataclass
from datetime import UTC, date, datetime
from fractions import Fraction
from pathlib import Path

from dpcube.errors import BudgetError, InputError, LedgerError
from dpcube.files import new_file, number_of_names
from dpcube.privacy.budget import check_positive

APPLICATION = 0x64706375  # "dpcu": marks the file as ours
FORMAT = 1
PATIENCE = 60  # seconds to wait for another process's transaction

PERIOD = ("period_column", "period_kind", "period_start", "period_stop")
SEALED = ("number", "time", "kind", "epsilon", "unit", "strategy", "domain", "purpose", *PERIOD, "charge", "digest")
SCHEMA = f"""
CREATE TABLE entry (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    time TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('total', 'charge', 'completion')),
    epsilon TEXT,
    unit TEXT,
    strategy TEXT,
    domain TEXT,
    purpose TEXT,
    period_column TEXT,
    period_kind TEXT,
    period_start INTEGER,
    period_stop INTEGER,
    charge INTEGER REFERENCES entry (number),
    digest TEXT,
    seal TEXT NOT NULL,
    CHECK ((kind = 'completion') = (charge IS NOT NULL AND digest IS NOT NULL)),
    CHECK ((kind IN ('total', 'charge')) = (epsilon IS NOT NULL))
) STRICT;
CREATE UNIQUE INDEX one_completion ON entry (charge) WHERE kind = 'completion';
CREATE TRIGGER no_update BEFORE UPDATE ON entry BEGIN SELECT raise(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER no_delete BEFORE DELETE ON entry BEGIN SELECT raise(ABORT, 'the ledger is append-only'); END;
PRAGMA application_id = {APPLICATION};
PRAGMA user_version = {FORMAT};
"""


@dataclass(frozen=True, slots=True)
class Period:
    """A range [start, stop) of a column, as whole numbers or days, that the gate itself selects rows by."""

    column: str
    kind: str
    start: int
    stop: int

    def __post_init__(self) -> None:
        # A range that holds nothing would be charged to nobody.
        if self.kind not in ("date", "integer") or not self.start < self.stop:
            msg = f"a period is a range of dates or whole numbers, got {self.kind} from {self.start} to {self.stop}"
            raise InputError(msg)

    @property
    def words(self) -> str:
        """The range with both ends included, as people write it."""
        ends = (self.start, self.stop - 1)
        first, last = (date.fromordinal(end).isoformat() if self.kind == "date" else str(end) for end in ends)
        return f"{self.column} from {first} to {last}"


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


@dataclass(frozen=True, slots=True)
class Statement:
    """The state of a ledger: what may be spent, what has been, and on what."""

    unit: str | None
    total: Fraction
    spent: Fraction
    charges: tuple[Charge, ...]
    totals: tuple[tuple[str, Fraction, str], ...]

    @property
    def remaining(self) -> Fraction:
        """What is left to spend on the whole table."""
        return self.total - self.spent


class Ledger:
    """The ledger in the file at `path`, which must be there: `Ledger.create` makes one."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.statement()

    def __repr__(self) -> str:
        return f"<Ledger {self.path.name}>"

    @classmethod
    def create(cls, path: str | Path, *, total: Fraction, unit: str | None = None, purpose: str = "") -> "Ledger":
        """Make a new ledger that allows `total`; LedgerError when there is a file at `path` already.

        The file is made under another name and linked into place whole, so nobody ever sees half a ledger.
        """
        path = Path(path)
        try:
            with new_file(path) as part, closing(sqlite3.connect(part, isolation_level=None)) as connection:
                connection.execute("PRAGMA synchronous = EXTRA")
                connection.executescript(SCHEMA)
                _append(connection, kind="total", epsilon=str(check_positive(total)), unit=unit, purpose=purpose)
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
    ) -> int:
        """Record a charge on disk and return its number, or raise BudgetError with nothing recorded."""
        check_positive(epsilon)
        with self._transaction() as connection:
            state = _statement(connection)
            if unit != state.unit:
                msg = f"{self.path} counts epsilon for {_protects(state.unit)}, not for {_protects(unit)}; keep another"
                raise BudgetError(msg)
            wanted = _spent([*((c.epsilon, c.period) for c in state.charges), (epsilon, period)], unit)
            if wanted > state.total:
                raise BudgetError(_over(self.path.name, epsilon, state, period, wanted))
            placed = {} if period is None else dict(zip(PERIOD, astuple(period), strict=True))
            return _append(
                connection,
                kind="charge",
                epsilon=str(epsilon),
                unit=unit,
                strategy=strategy,
                domain=domain,
                purpose=purpose,
                **placed,
            )

    def complete(self, charge: int, digest: str) -> None:
        """Record the digest of the release that a charge paid for, once."""
        with self._transaction() as connection:
            if charge not in (c.number for c in _statement(connection).charges if c.digest is None):
                msg = f"{self.path} has no charge {charge} that waits for its release"
                raise LedgerError(msg)
            _append(connection, kind="completion", charge=charge, digest=digest)

    def raise_total(self, total: Fraction, *, purpose: str) -> None:
        """Allow more, as an act of its own that stays on record; less than was allowed is refused."""
        with self._transaction() as connection:
            state = _statement(connection)
            if check_positive(total) <= state.total:
                msg = f"{self.path} allows {state.total} already; a total can only be raised, got {total}"
                raise InputError(msg)
            _append(connection, kind="total", epsilon=str(total), unit=state.unit, purpose=purpose)

    def statement(self) -> Statement:
        """Return what may be spent, what has been, and on what."""
        with self._connection() as connection:
            return _statement(connection)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            connection.execute("COMMIT")

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        """Open the file, refusing whatever is not a whole ledger; closing rolls back what was not committed."""
        try:
            if not self.path.is_file() or self.path.stat().st_size == 0:
                msg = f"there is no ledger at {self.path}, or it is empty; restore it, or keep a new one elsewhere"
                raise LedgerError(msg)
            # SQLite names its journal after the file: by another name nobody would roll back what a crash left.
            if number_of_names(self.path) > 1:
                msg = f"{self.path} has another name (a hard link), by which it could be overspent; remove one of them"
                raise LedgerError(msg)
            uri = f"{self.path.absolute().as_uri()}?mode=rw"
            with closing(sqlite3.connect(uri, uri=True, timeout=PATIENCE, isolation_level=None)) as connection:
                # EXTRA syncs the directory too, so that a deleted journal cannot come back and undo a charge.
                connection.execute("PRAGMA synchronous = EXTRA")
                _check_ours(connection, self.path)
                yield connection
        except (OSError, UnicodeError, sqlite3.Error) as error:
            msg = f"cannot use the ledger {self.path}: {_reason(error)}; nothing was drawn or completed"
            raise LedgerError(msg) from None


def _check_ours(connection: sqlite3.Connection, path: Path) -> None:
    application, version = (
        connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
    )
    if application != APPLICATION:
        msg = f"{path} is not a dpcube ledger; nothing was spent"
        raise LedgerError(msg)
    if version != FORMAT:
        msg = f"{path} has the format {version} and this dpcube reads {FORMAT}; install a newer dpcube"
        raise LedgerError(msg)
    if connection.execute("PRAGMA integrity_check").fetchone()[0] != "ok":
        msg = f"{path} is damaged; restore it from a copy made after its last release"
        raise LedgerError(msg)


def _append(connection: sqlite3.Connection, **columns: object) -> int:
    last = connection.execute("SELECT number, seal FROM entry ORDER BY number DESC LIMIT 1").fetchone()
    number, seal = (1, "") if last is None else (last[0] + 1, last[1])
    columns |= {"number": number, "time": datetime.now(UTC).isoformat(timespec="seconds")}
    entry = [columns.get(name) for name in SEALED]
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
    entries = connection.execute(sql).fetchall()
    seal, whole = "", bool(entries) and entries[-1]["last"] == len(entries)
    for number, entry in enumerate(entries, 1):
        seal = _seal(seal, tuple(entry)[: len(SEALED)])
        whole = whole and (entry["number"], entry["seal"]) == (number, seal)
    if not whole:
        msg = "an entry of the ledger is damaged or missing; restore it from a copy made after its last release"
        raise LedgerError(msg)
    return entries


def _statement(connection: sqlite3.Connection) -> Statement:
    entries = _entries(connection)
    try:
        totals = tuple((e["time"], Fraction(e["epsilon"]), e["purpose"] or "") for e in entries if e["kind"] == "total")
        digests = {e["charge"]: e["digest"] for e in entries if e["kind"] == "completion"}
        charges = tuple(_charge(e, digests.get(e["number"])) for e in entries if e["kind"] == "charge")
        unit, total = entries[0]["unit"], totals[-1][1]
    except (IndexError, ValueError, ZeroDivisionError):
        msg = "the ledger's entries do not make sense; restore it from a copy made after its last release"
        raise LedgerError(msg) from None
    return Statement(unit, total, _spent([(c.epsilon, c.period) for c in charges], unit), charges, totals)


def _charge(entry: sqlite3.Row, digest: str | None) -> Charge:
    placed = [entry[name] for name in PERIOD]
    return Charge(
        number=entry["number"],
        time=entry["time"],
        epsilon=Fraction(entry["epsilon"]),
        strategy=entry["strategy"] or "",
        domain=entry["domain"] or "",
        purpose=entry["purpose"] or "",
        period=None if placed[0] is None else Period(*placed),
        digest=digest,
    )


def _spent(charges: Sequence[tuple[Fraction, Period | None]], unit: str | None) -> Fraction:
    """Return the largest loss of any unit (see Composition above)."""
    if unit is not None:
        return sum((epsilon for epsilon, _ in charges), Fraction(0))
    spent = sum((epsilon for epsilon, period in charges if period is None), Fraction(0))
    # A column read as dates and one read as numbers cannot be compared: they count as two columns.
    for column in {(period.column, period.kind) for _, period in charges if period is not None}:
        placed = [(e, p) for e, p in charges if p is not None and (p.column, p.kind) == column]
        # The largest sum is reached at the start of some period.
        spent += max(sum(e for e, p in placed if p.start <= q.start < p.stop) for _, q in placed)
    return spent


def _over(name: str, epsilon: Fraction, state: Statement, period: Period | None, wanted: Fraction) -> str:
    if period is None:
        over = f"but {state.remaining} of {state.total} is left in {name}"
    else:
        over = f"for {period.words}, which would take {name} to {wanted} of {state.total}"
    owner = "The owner of the table may raise the total: dpcube ledger raise"
    return f"the release asks for epsilon {epsilon} {over}; nothing was drawn. {owner}"


def _protects(unit: str | None) -> str:
    return "one row" if unit is None else f"one '{unit}'"


def _reason(error: Exception) -> str:
    if isinstance(error, sqlite3.Error):
        return str(error)
    return getattr(error, "strerror", None) or "a name or note that was given cannot be written"
