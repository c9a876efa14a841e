"""SQLite file format of a ledger, and its verification before any entry is read.

A ledger may come from an untrusted source. Before an entry is read the schema must be exactly ours, so that no foreign
view, trigger or virtual table can run, and SQLite stops after a bounded number of steps.
"""

import sqlite3
from contextlib import closing
from functools import cache
from itertools import count
from pathlib import Path
from typing import NoReturn

from dpcube.core.errors import LedgerError
from dpcube.core.limits import MAX_LEDGER_STEPS, MAX_LEDGER_VALUE

APPLICATION = 0x64706375  # "dpcu": SQLite's application id of our files
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
    """Limit the operations and the work of a connection to those of a ledger."""
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_LEDGER_VALUE)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    turns = count(1)
    connection.set_progress_handler(lambda: next(turns) * STEPS_AT_A_TIME > MAX_LEDGER_STEPS, STEPS_AT_A_TIME)
    connection.execute("PRAGMA trusted_schema = OFF")


def refuse_wal(path: Path) -> NoReturn:
    """Raise LedgerError for a ledger that stores its last charges in a second file."""
    msg = (
        f"{path} is in SQLite's WAL mode, where a copy of the file lacks its last charges; close the programs that use "
        f"it, then run: sqlite3 {path.name} 'PRAGMA journal_mode = DELETE'"
    )
    raise LedgerError(msg)


@cache
def _our_schema() -> frozenset[tuple[str, ...]]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(SCHEMA)
        return frozenset(connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema"))


def check_ours(connection: sqlite3.Connection, path: Path) -> None:
    """Raise LedgerError unless a file is a ledger by its ids and its schema, and passes SQLite's integrity check."""
    if connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal":
        refuse_wal(path)
    application, version = (
        connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
    )
    if application != APPLICATION:
        msg = f"{path} is not a dpcube ledger"
        raise LedgerError(msg)
    if version != FORMAT:
        msg = f"{path} has ledger format {version}, but this version of dpcube reads format {FORMAT}; upgrade dpcube"
        raise LedgerError(msg)
    # Before any other query: the table `entry` of a foreign file may be a view or a virtual table.
    schema = connection.execute(f"SELECT type, name, tbl_name, sql FROM sqlite_schema LIMIT {2 * len(_our_schema())}")
    if sorted(map(repr, schema)) != sorted(map(repr, _our_schema())):
        msg = f"{path} is not a dpcube ledger: its tables differ from those of a ledger"
        raise LedgerError(msg)
    if connection.execute("PRAGMA integrity_check(1)").fetchone()[0] != "ok":
        msg = f"{path} is damaged; restore it from a copy made after its last release"
        raise LedgerError(msg)
