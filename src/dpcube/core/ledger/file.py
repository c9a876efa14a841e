"""The file of a ledger, before any of its entries is read: a connection enters, and is refused unless it is ours.

A ledger may come from elsewhere. Before an entry is read the schema must be ours to the letter, so that there is no
view, trigger or virtual table but our own to run, and SQLite stops after a bounded number of steps.
"""

import sqlite3
from contextlib import closing
from functools import cache
from itertools import count
from pathlib import Path
from typing import NoReturn

from dpcube.core.errors import LedgerError
from dpcube.core.ledger.limits import MAX_STEPS, MAX_VALUE

APPLICATION = 0x64706375  # "dpcu": marks the file as ours
FORMAT = 1
STEPS_AT_A_TIME = 10**5
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


def bound(connection: sqlite3.Connection) -> None:
    """Let the file do and cost no more than a ledger does."""
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    turns = count(1)
    connection.set_progress_handler(lambda: next(turns) * STEPS_AT_A_TIME > MAX_STEPS, STEPS_AT_A_TIME)
    connection.execute("PRAGMA trusted_schema = OFF")


def refuse_wal(path: Path) -> NoReturn:
    """Raise LedgerError for a ledger that keeps its last charges in a second file."""
    msg = (
        f"{path} is in SQLite's WAL mode, where a copy of the file lacks its last charges; close what has it open, "
        f"then: sqlite3 {path.name} 'PRAGMA journal_mode = DELETE'"
    )
    raise LedgerError(msg)


@cache
def _our_schema() -> frozenset[tuple[str, ...]]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(SCHEMA)
        return frozenset(connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema"))


def check_ours(connection: sqlite3.Connection, path: Path) -> None:
    """Raise LedgerError unless a file is a ledger by its marks and its schema, and whole as SQLite sees it."""
    if connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal":
        refuse_wal(path)
    application, version = (
        connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
    )
    if application != APPLICATION:
        msg = f"{path} is not a dpcube ledger"
        raise LedgerError(msg)
    if version != FORMAT:
        msg = f"{path} has the format {version} and this dpcube reads {FORMAT}; install a newer dpcube"
        raise LedgerError(msg)
    # Before anything else is asked of it: what it calls an entry may be a view or a virtual table.
    schema = connection.execute(f"SELECT type, name, tbl_name, sql FROM sqlite_schema LIMIT {2 * len(_our_schema())}")
    if sorted(map(repr, schema)) != sorted(map(repr, _our_schema())):
        msg = f"{path} is not a dpcube ledger: its tables are not those of one"
        raise LedgerError(msg)
    if connection.execute("PRAGMA integrity_check(1)").fetchone()[0] != "ok":
        msg = f"{path} is damaged; restore it from a copy made after its last release"
        raise LedgerError(msg)
