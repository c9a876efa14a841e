"""The terms of a release, validated before any row is read: privacy unit, period, and location of the ledger."""

import glob
import hashlib
import json
import os
import shlex
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from datetime import date
from enum import Enum
from fractions import Fraction
from itertools import takewhile
from os import PathLike
from pathlib import Path
from typing import Any, Literal

from dpcube.core.domain import Attribute, Date, Domain, Integer
from dpcube.core.domain.reading import KEYS as READING_KEYS
from dpcube.core.domain.reading import declared
from dpcube.core.errors import BudgetError, InputError, LedgerError, SourceError
from dpcube.core.ledger.ledger import Ledger
from dpcube.core.period import Period
from dpcube.core.sources import CsvDialect, Rows
from dpcube.core.sources.lakehouse import lakehouse_at
from dpcube.core.sources.names import File, listed
from dpcube.core.sources.open import is_address


class LedgerLocation(Enum):
    """Default location of a ledger."""

    BESIDE_TABLE = "beside the table"


Bound = int | str | date
COMPRESSED, KINDS = (".gz", ".zst"), (".csv", ".tsv", ".parquet")
PLAIN_LINES = CsvDialect()
MAX_UNIT_ROWS = 2**20
MAX_READING_LENGTH = 1000  # characters that a ledger records; of a longer one it records the digest


@dataclass(frozen=True, slots=True)
class PrivacyUnit:
    """The privacy unit: one row, or all rows of one value of `column`, of which at most `max_rows` are counted.

    A row without a unit (null in `column`) is dropped, or with `null="each"` counts as a unit of its own.
    """

    column: str | None = None
    max_rows: int = 1
    null: Literal["drop", "each"] = "drop"

    def __post_init__(self) -> None:
        if not isinstance(self.max_rows, int) or not 1 <= self.max_rows <= MAX_UNIT_ROWS:
            msg = f"max_rows must be a whole number from 1 to {MAX_UNIT_ROWS}, got {self.max_rows!r}"
            raise InputError(msg)
        if self.column is None and (self.max_rows != 1 or self.null != "drop"):
            msg = (
                "max_rows and null_unit go with a unit; name the column that holds the unit, such as unit='patient_id'"
            )
            raise InputError(msg)
        if self.null not in ("drop", "each"):
            msg = f"null_unit must be 'drop' or 'each', got {self.null!r}"
            raise InputError(msg)


@dataclass(frozen=True, slots=True)
class Range:
    """The rows whose value of a column lies from `first` to `last`, both included: dates or whole numbers.

    If the column is an attribute of the domain, `like`, its text is read as the attribute's is, in the attribute's
    zone. `lines` is how a CSV file is cut into fields, if it was said, and `query` what a database was asked for.
    """

    column: str
    first: Bound
    last: Bound
    like: Attribute | None = None
    lines: CsvDialect | None = None
    query: str | None = None

    @classmethod
    def from_request(
        cls,
        period: tuple[str, Bound, Bound] | None,
        domain: Domain,
        csv: CsvDialect | None,
        query: str | None = None,
    ) -> "Range | None":
        """Return the range that a caller asked for, as the domain says that its column is read."""
        if period is None:
            return None
        like = domain[period[0]] if period[0] in domain.names else None
        return cls(*period, like=like, lines=read_lines(domain, csv), query=query)

    def attribute(self) -> Date | Integer:
        """Return the range as one attribute all of whose bins are in it; everything else is dropped by it."""
        first, last = (_bound(end, self.column) for end in (self.first, self.last))
        if isinstance(first, date) and isinstance(last, date):
            return Date(name=self.column, start=first, end=last, every="year", **self._options(Date))
        if isinstance(first, int) and isinstance(last, int) and first <= last:
            return Integer(name=self.column, edges=(first, last + 1), **self._options(Integer))
        msg = f"a period of '{self.column}' goes from one date or whole number to a later one, got {first} to {last}"
        raise InputError(msg)

    def select(self, rows: Rows) -> Rows:
        """Return the rows in the range."""
        attribute = self.attribute()
        return rows.restrict(attribute, range(attribute.bins))

    def period(self) -> Period:
        """Return the range as the ledger keeps it."""
        attribute = self.attribute()
        edges = attribute.bin_edges()
        return Period(attribute.source_column, attribute.kind, int(edges[0]), int(edges[-1]), self._reading(attribute))

    def _options(self, kind: type[Attribute]) -> dict[str, Any]:
        """Return the options of `like` that a kind of attribute has."""
        keys = {key.name for key in fields(kind)} & set(READING_KEYS)
        return {key: getattr(self.like, key) for key in keys if hasattr(self.like, key)}

    @staticmethod
    def _text(reading: dict[str, object]) -> str:
        """Return a text that is the same for the same reading, and short."""
        text = json.dumps(reading, sort_keys=True) if reading else ""
        return text if len(text) <= MAX_READING_LENGTH else f"sha256 {hashlib.sha256(text.encode()).hexdigest()}"

    def _reading(self, attribute: Attribute) -> str:
        """Return everything that decides which value a row has, the column apart."""
        plain = asdict(PLAIN_LINES)
        lines = {} if self.lines is None else {k: v for k, v in asdict(self.lines).items() if v != plain[k]}
        queried = {} if self.query is None else {"query": query_digest(self.query)}
        return self._text({**declared(attribute), **({"csv": lines} if lines else {}), **queried})


def query_digest(query: str) -> str:
    """Return what stands for a query where it is recorded: by another query a column may hold other values."""
    return hashlib.sha256(query.encode()).hexdigest()


def _bound(end: Bound, column: str) -> int | date:
    if isinstance(end, str):
        try:
            return int(end) if end.lstrip("+-").isdigit() else date.fromisoformat(end)
        except ValueError:
            msg = f"a period of '{column}' is bounded by dates (2026-01-31) or whole numbers, got {end!r}"
            raise InputError(msg) from None
    return end


def read_lines(domain: Domain, csv: CsvDialect | None) -> CsvDialect | None:
    """Return the dialect of CSV files, with what the domain declares of it: delimiter, encoding, breaks in quotes."""
    if domain.delimiter is None and domain.encoding is None and not domain.multiline:
        return csv
    made = csv or CsvDialect()
    told = replace(made, encoding=domain.encoding or made.encoding)
    _refuse_two("delimiter", domain.delimiter, made.delimiter, agree=made.delimiter in (None, domain.delimiter))
    _refuse_two("encoding", domain.encoding, made.encoding, agree=made.declared_encoding in (None, told.encoding))
    return replace(told, multiline=made.multiline or domain.multiline, delimiter=domain.delimiter or made.delimiter)


def _refuse_two(key: str, declared: str | None, given: str | None, *, agree: bool) -> None:
    """Refuse what a domain says in one way and the command in another."""
    if declared is not None and not agree:
        msg = (
            f"the domain says {key} = {declared!r}, and the command (--{key}, or csv in Python) {given!r}; say it once"
        )
        raise InputError(msg)


def ledger_path(ledger: str | Path | LedgerLocation | None, source: object, *, unit: str | None = None) -> Path | None:
    """Return where the ledger is: beside a file or a directory unless said otherwise; None for no ledger.

    A row must not be charged to one ledger by one name of its table, or by one command, and to another by another: a
    table for which that could be is refused (`_check_one_ledger`). With a named ledger it is refused if rows of it have
    another one for the same unit already.
    """
    if ledger is None:
        return None
    if is_address(source) or not isinstance(source, str | PathLike):
        if isinstance(ledger, LedgerLocation):
            what = "in a database" if is_address(source) else "in memory"
            msg = (
                f"a table {what} has no place for a ledger beside it; say where the ledger is (ledger, --ledger "
                "FILE), one for each table, or that none is kept (ledger=None, --no-ledger)"
            )
            raise InputError(msg)
        return Path(ledger)
    table, files = _table_and_files(source)
    if isinstance(ledger, LedgerLocation):
        if not table.name:
            msg = f"{source} is a whole file system, with no place for a ledger beside it; "
            msg += "say where it is (--ledger FILE)"
            raise InputError(msg)
        _check_only_names(table, files)
        _check_one_ledger(_beside(table), _ledgers_of(files))
        return _beside(table)
    of_unit = [found for found in _ledgers_of(files) if Ledger(found[1]).statement().unit == unit]
    _check_one_ledger(Path(ledger), of_unit)
    return Path(ledger)


def _table_and_files(source: str | PathLike[str]) -> tuple[Path, Sequence[File]]:
    """Return the file or directory that a table's name leads to, of a pattern the directory, and the table's files."""
    table, files = Path(source), list[File]()
    with suppress(OSError, RuntimeError, ValueError, SourceError):  # what leads nowhere is refused when it is opened
        files = listed(table.absolute())
    with suppress(OSError, RuntimeError, ValueError):
        if glob.has_magic(str(source)) and not table.exists():  # a pattern, of files that lie in a directory
            table = Path(*takewhile(lambda part: not glob.has_magic(part), table.parts))
        table = table.resolve()  # one table, one ledger, whichever link leads to it
        if (lakehouse := lakehouse_at(table)) is not None:  # also by a file of its metadata
            table = lakehouse.root
    return table, files


def _beside(table: Path) -> Path:
    """Return the ledger beside a file or a directory."""
    directory = False
    with suppress(OSError, ValueError):
        directory = table.is_dir()
    if table.suffix.lower() in COMPRESSED:
        table = table.with_suffix("")
    whole_name = directory and table.suffix.lower() not in KINDS  # such as visits-v1.2
    return table.with_name(f"{table.name}.ledger") if whole_name else table.with_suffix(".ledger")


def _check_only_names(table: Path, files: Sequence[File]) -> None:
    """Refuse a table without a named ledger of which a file has a name outside it, and by that another ledger."""
    remedy = "name the one ledger that keeps account of these rows (ledger, --ledger FILE)"
    for file in files:
        for name in file.names:
            if name != table and table not in name.parents:
                msg = f"{table} leads to {name} outside it, which could have a ledger of its own; {remedy}"
                raise InputError(msg)
        if file.elsewhere:
            msg = f"{file.path} has a name elsewhere (a hard link), where it could have another ledger; {remedy}"
            raise InputError(msg)


def _ledgers_of(files: Sequence[File]) -> list[tuple[Path, Path]]:
    """Return the ledgers that there are beside any of the files or a directory above it, each with what it is beside.

    Every table of files without a named ledger has the ledger of one of its files or of a directory above all of them.
    All names of such a file are below its table, so its ledger is one of these; and of two tables that share a file,
    the second to come finds the ledger of the first, the other way round as well.
    """
    above = sorted({path for file in files for name in file.names for path in (name, *name.parents) if path.name})
    return [(path, _beside(path)) for path in above if os.path.lexists(_beside(path))]


def _check_one_ledger(place: Path, found: Sequence[tuple[Path, Path]]) -> None:
    """Refuse a table of which a file could have been charged to a ledger other than `place`."""
    for above, other in found:
        if os.path.realpath(other) != os.path.realpath(place):
            msg = (
                f"{above} has the ledger {other}, and this release would be charged to {place}; name the one ledger "
                f"that keeps account of these rows (ledger, --ledger FILE), or move {other.name} away if it does not"
            )
            raise InputError(msg)


def check_left(
    path: Path,
    epsilon: Fraction,
    *,
    total: Fraction | None,
    unit: str | None,
    period: Period | None,
    delta: Fraction = Fraction(0),
) -> None:
    """Refuse what its ledger would not be charged for, before a row is read; nothing is recorded.

    A new ledger would allow the total and the delta that are asked, or the epsilon if no total is.
    """
    if os.path.lexists(path):
        _checked_total(Ledger(path), total).check(epsilon, unit=unit, period=period, delta=delta)
    elif total is not None and epsilon > total:
        msg = (
            f"the release asks for epsilon {epsilon}, and the new ledger {path} would allow {total}; nothing was drawn"
        )
        raise BudgetError(msg)


def open_ledger(
    path: Path, epsilon: Fraction, *, total: Fraction | None, unit: str | None, delta: Fraction = Fraction(0)
) -> Ledger:
    """Open the ledger at `path`, made anew if there is none: it then allows the total, or the epsilon if no total is.

    A total that an existing ledger does not have is refused: it would be ignored.
    """
    allowed = epsilon if total is None else total
    if not os.path.lexists(path):
        try:
            return Ledger.create(path, total=allowed, delta=delta, unit=unit, purpose="made by the first release")
        except LedgerError:
            if not os.path.lexists(path):
                raise
    return _checked_total(Ledger(path), total)


def _checked_total(ledger: Ledger, total: Fraction | None) -> Ledger:
    """Return a ledger, unless it was asked for with another total than its own."""
    allowed = ledger.statement().total
    if total is not None and total != allowed:
        msg = f"{ledger.path} allows {allowed} in all, and the total {total} was asked for; leave --total out"
        if total > allowed:
            path = shlex.quote(str(ledger.path))
            msg += f", or raise it, which stays on record: dpcube ledger raise {path} --total {total} --purpose WHY"
        raise InputError(msg)
    return ledger
