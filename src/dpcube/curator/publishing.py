"""`publish`: a differentially private release of a private table, in the one order of steps that is safe.

The terms are validated, including the ledger; the rows are counted; the budget is charged on disk; and only then is
noise drawn.

Privacy. Counting reads rows and outputs nothing. The strategy sees a gate that spends the job's epsilon and no more
(`core/gate.py`, `core/budget.py`); whatever follows is post-processing of the gate's output. If a noisy total comes
first, it and the strategy have parts of the epsilon that add up to it, and the transcript contains both
(`curator/total_first.py`). So each release costs its privacy unit at most its epsilon, and releases compose in the
ledger (`core/ledger/ledger.py`).
"""

import hashlib
from collections.abc import Callable
from fractions import Fraction
from os import PathLike
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpcube import __version__
from dpcube.core.domain import Domain
from dpcube.core.epsilon import parse_epsilon
from dpcube.core.errors import DpcubeError, InputError, KeptReleaseError, LedgerError, MemoryLimitError
from dpcube.core.exact import DenseCounts, ExactData, SparseRows
from dpcube.core.feasible import TOTAL_SHARE, check_drawable, check_public
from dpcube.core.gate import Gate
from dpcube.core.learnt import check_learnt
from dpcube.core.noise import check_can_draw
from dpcube.core.request import (
    Bound,
    LedgerLocation,
    PrivacyUnit,
    Range,
    check_left,
    ledger_path,
    open_ledger,
    query_digest,
    read_lines,
)
from dpcube.core.seal import sealed
from dpcube.core.sources import CsvDialect, Rows, counts_from_array, open_rows
from dpcube.core.sources.lakehouse import Snapshot
from dpcube.core.sources.open import pinned
from dpcube.curator.account import LedgerAccount
from dpcube.curator.total_first import draw_total, refuse_empty
from dpcube.measurements import Provenance, Transcript
from dpcube.measurements.file import check_domain, check_writable
from dpcube.measurements.manifest import check_parameters
from dpcube.release import Release
from dpcube.release.rescue import save_elsewhere
from dpcube.strategies import DEFAULT, FittedStrategy, Strategy, check_room, releasing_strategy
from dpcube.strategies.strategy import STARTING

ONE_ROW = PrivacyUnit()


def publish(
    source: object,
    domain: Domain | str | Path,
    *,
    epsilon: str | float | Fraction,
    strategy: str | Strategy = DEFAULT,
    ledger: str | Path | LedgerLocation | None = LedgerLocation.BESIDE_TABLE,
    total: str | float | Fraction | None = None,
    unit: str | None = None,
    max_rows: int = 1,
    null_unit: Literal["drop", "each"] = "drop",
    period: tuple[str, Bound, Bound] | None = None,
    purpose: str = "",
    csv: CsvDialect | None = None,
    query: str | None = None,
    save_to: str | Path | None = None,
    even_if_empty: bool = True,
    progress: Callable[[str], None] = lambda _: None,
) -> Release:
    """Release a private table as a differentially private cube.

    `source` is the path of CSV or Parquet files, an Arrow, pandas or Polars table, a table or a `query` in PostgreSQL
    or Spark (`sources.open_rows` says how to name one), or a NumPy array of counts in the shape of the domain. `domain`
    is a Domain or the path of a domain file. Whatever the rows are, the release costs `epsilon`, and its chance of
    failure does not depend on them. `ledger` is the file that records what is spent: by default TABLE.ledger beside a
    table of files, made by the first release with `total` (its own epsilon unless given). A table in memory and the
    address of a database need one named, the same for every release of these rows; with None the release is marked as
    unaccounted. `unit` names the column whose values are protected, each with at most `max_rows` rows, and `period`
    (column, first, last) releases only the rows of a range; if the column is an attribute, its text is read as the
    attribute's. A table of more cells than one cube can have is released as cuboids, marginals over few attributes each
    (docs/guides/wide-tables.md), and two or three attributes of very many cells as counts of boxes
    (docs/guides/coordinates.md). With `even_if_empty=False`, the default of the command, a seventeenth of the epsilon
    goes to the total first. Unless that is above its error the release stops with the rest uncharged
    (EmptyTotalError); otherwise the total is the first measurement of the release. `progress` is called with the name
    of each step, never with an amount.
    """
    domain = _declared(domain)
    amount, fitted = parse_epsilon(epsilon), releasing_strategy(strategy, domain)
    allowed = None if total is None else parse_epsilon(total)
    protected = PrivacyUnit(unit, max_rows, null_unit)
    rows_of = Range.from_request(period, domain, csv, query)
    spell = None if rows_of is None else rows_of.period()
    check_drawable(amount, protected.max_rows)
    check_public(domain)
    check_domain(domain)
    check_parameters(fitted.parameters())
    peak_bytes = fitted.peak_bytes(domain.shape)
    check_room(fitted, domain)
    if save_to is not None:
        check_writable(Path(save_to), needed=(peak_bytes - STARTING) // 4)
    place = ledger_path(ledger, source, unit=unit)
    check_learnt(domain, place)
    if place is not None:
        check_left(place, amount, total=allowed, unit=unit, period=spell)
    named = source if isinstance(source, str | PathLike) else None
    source = pinned(source)
    recorded = _recorded_purpose(purpose, source, query)
    check_can_draw()
    progress("counting the rows")
    counted: Callable[..., ExactData] = _counted_rows if fitted.store == "rows" else _counted
    exact = counted(source, domain, unit=protected, rows_of=rows_of, csv=csv, query=query)
    del source  # which may be an array of exact counts
    if fitted.store == "rows":
        _check_room_beside_rows(fitted, domain)
    progress("measuring")
    book = None if place is None else open_ledger(place, amount, total=allowed, unit=unit)
    ledger_path(ledger, named, unit=unit)  # again: of two that made ledgers for the same rows at once, one sees it
    digest = hashlib.sha256(domain.dumps().encode()).hexdigest()
    terms = {"domain": digest, "purpose": recorded, "unit": unit, "period": spell}
    account = LedgerAccount(book, fitted.name, terms)
    rest, noisy_total = _charged(account, exact, amount, even_if_empty=even_if_empty, max_rows=protected.max_rows)
    transcript = _measured(fitted, exact, rest, max_rows=protected.max_rows)
    if noisy_total is not None:
        transcript = transcript.after_total(noisy_total)
    provenance = Provenance(
        fitted.name,
        amount,
        f"dpcube {__version__}",
        fitted.parameters(),
        unit=unit,
        max_rows=protected.max_rows,
        period=None if spell is None else spell.words,
        ledger=book is not None,
        reading=None if spell is None else spell.axis_digest,
    )
    release = Release(domain, transcript, provenance)
    del exact  # writing may need the memory
    progress("writing" if save_to is not None else "finishing")
    _keep(release, account, None if save_to is None else Path(save_to))
    return release


def _recorded_purpose(purpose: str, source: object, query: str | None) -> str:
    """Return a purpose as the ledger records it: with the version of a lakehouse table, or the digest of a query.

    With a unit, releases of one ledger by different queries compose; that a column names the same units in all of them
    is asserted by its owner, and the digests document it.
    """
    read = source.words if isinstance(source, Snapshot) else f"query sha256 {query_digest(query)}" if query else ""
    return f"{purpose} ({read})".strip() if read else purpose


def _keep(release: Release, account: LedgerAccount, wanted: Path | None) -> None:
    """Write a release and record its digest; if anything fails, the measured and charged release is not lost."""
    place, faults = wanted, []
    if wanted is not None:
        try:
            release.save(wanted)
        except Exception as error:
            place = save_elsewhere(release, wanted)
            faults.append(
                str(error) if isinstance(error, DpcubeError) else f"cannot write {wanted}: {type(error).__name__}"
            )
    try:
        account.complete(release.digest)
    except LedgerError as error:
        faults.append(f"{error}; record it then: dpcube ledger complete LEDGER RELEASE")
    if faults:
        where = "in the memory of this process alone" if place is None else f"in {place}"
        msg = f"{'; '.join(faults)}. The release was made and charged for, and is {where}"
        raise KeptReleaseError(msg, release, place)


def _check_room_beside_rows(strategy: FittedStrategy, domain: Domain) -> None:
    """Refuse, before the charge, a release without enough memory beside the rows; their number is not shown."""
    try:
        check_room(strategy, domain)
    except MemoryLimitError:
        msg = (
            "with the rows in memory, less is free than the release may need; nothing was charged; use a larger machine"
        )
        raise MemoryLimitError(msg) from None


def _measured(strategy: FittedStrategy, exact: ExactData, epsilon: Fraction, *, max_rows: int) -> Transcript:
    """Run a strategy at the gate, with an epsilon that has been charged."""
    return strategy.run(Gate(exact, epsilon, max_rows=max_rows))


def _charged(
    account: LedgerAccount,
    exact: ExactData,
    amount: Fraction,
    *,
    even_if_empty: bool,
    max_rows: int,
) -> tuple[Fraction, int | None]:
    """Charge a release; return the epsilon of its strategy, and the noisy total, if one was requested.

    A release that stops at its total has the rest given back (`account.py`).
    """
    if even_if_empty:
        account.charge(amount)
        return amount, None
    first = amount * TOTAL_SHARE
    account.charge(amount - first, before=("total", first))
    with account.rest_undrawn():
        noisy_total = draw_total(exact, first, max_rows=max_rows)
        refuse_empty(noisy_total, first, amount - first, max_rows=max_rows)
    return amount - first, noisy_total


@sealed
def _counted(
    source: object,
    domain: Domain,
    *,
    unit: PrivacyUnit,
    rows_of: Range | None,
    csv: CsvDialect | None,
    query: str | None,
) -> DenseCounts:
    """Return the exact count of every cell, hidden before it leaves the seal."""
    return DenseCounts(count(source, domain, unit=unit, rows_of=rows_of, csv=csv, query=query))


@sealed
def _counted_rows(
    source: object,
    domain: Domain,
    *,
    unit: PrivacyUnit,
    rows_of: Range | None,
    csv: CsvDialect | None,
    query: str | None,
) -> SparseRows:
    """Return the exact rows of a wide table or of a fine grid, hidden before they leave the seal."""
    if isinstance(source, np.ndarray):
        counts = count(source, domain, unit=unit, rows_of=rows_of)
        occupied = np.nonzero(counts)
        return SparseRows(domain.shape, occupied, counts[occupied])
    rows = _selected_rows(open_rows(source, csv=read_lines(domain, csv), query=query), unit, rows_of)
    return SparseRows(domain.shape, *rows.count_alike(domain))


@sealed
def count(
    source: object,
    domain: Domain,
    *,
    unit: PrivacyUnit = ONE_ROW,
    rows_of: Range | None = None,
    csv: CsvDialect | None = None,
    query: str | None = None,
) -> NDArray[np.int64]:
    """Return the exact count of every cell of a public table. For private tables see `publish`."""
    if isinstance(source, np.ndarray):
        if unit.column is not None or rows_of is not None:
            msg = "an array of counts has no rows to select by unit or period; pass the table itself"
            raise InputError(msg)
        return counts_from_array(source, domain)
    return _selected_rows(open_rows(source, csv=read_lines(domain, csv), query=query), unit, rows_of).count_cells(
        domain
    )


@sealed
def explain(
    source: object,
    domain: Domain | str | Path,
    *,
    unit: str | None = None,
    max_rows: int = 1,
    null_unit: Literal["drop", "each"] = "drop",
    period: tuple[str, Bound, Bound] | None = None,
    csv: CsvDialect | None = None,
    query: str | None = None,
) -> str:
    """Return the SQL with which `publish` would count a table; no row is read, and nothing is spent.

    For files and frames it is DuckDB's, where `stream` stands for the rows that are read.
    """
    domain = _declared(domain)
    if isinstance(source, np.ndarray):
        msg = "an array of counts is taken as it is, without SQL; pass the table itself"
        raise InputError(msg)
    rows_of = Range.from_request(period, domain, csv)
    rows = open_rows(source, csv=read_lines(domain, csv), query=query)
    return _selected_rows(rows, PrivacyUnit(unit, max_rows, null_unit), rows_of).explain(domain)


def _declared(domain: Domain | str | Path) -> Domain:
    """Return the domain, read from its file if it is a path."""
    if isinstance(domain, Domain):
        return domain
    if isinstance(domain, str | Path):
        return Domain.load(domain)
    # Only the type is shown: the table itself may have been passed by mistake.
    msg = f"domain must be a Domain or the path of a domain file such as 'visits.toml', got a {type(domain).__name__}"
    raise InputError(msg)


def _selected_rows(rows: Rows, unit: PrivacyUnit, rows_of: Range | None) -> Rows:
    if rows_of is not None:
        rows = rows_of.select(rows)
    if unit.column is not None:
        rows = rows.limit(unit.column, max_rows=unit.max_rows, null=unit.null)
    return rows
