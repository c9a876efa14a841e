"""`learn_domain`: a domain that is learnt from a private table at a price, in the one order of steps that is safe.

The terms are validated, including the ledger; every column is counted; the epsilon is charged on disk; and only then is
noise drawn. What can be foreseen to fail comes before the charge: the rows are read once, and no part of the result
can be refused later (`learnt_columns.py`).

Privacy. The columns are public: all of the table that are not named like identifiers, or those asked for. Each has an
equal part of the epsilon, and costs that (`learnt_columns.py`), so all together cost the epsilon, by sequential
composition. With a unit, one row of each is counted, drawn anew for every query: adding or removing a unit then adds or
removes one row of each query's rows (`Rows.limit`), so it costs the same. One row is never worse than k here, for k
rows add at most k-fold to a count and exactly k-fold to its noise. Which attributes the file has, the lengths of its
lists, its comments and types are computed from noisy numbers alone.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from os import PathLike
from pathlib import Path
from typing import Literal

import numpy as np

from dpcube.core.domain import Domain
from dpcube.core.epsilon import parse_epsilon
from dpcube.core.errors import InputError, KeptReleaseError, LedgerError
from dpcube.core.feasible import check_drawable
from dpcube.core.learnt import LEARNING, stamp, stamp_digest
from dpcube.core.ledger.ledger import Ledger
from dpcube.core.limits import MAX_ATTRIBUTES
from dpcube.core.noise import check_can_draw
from dpcube.core.request import LedgerLocation, PrivacyUnit, check_left, ledger_path, open_ledger, query_digest
from dpcube.core.seal import sealed
from dpcube.core.sources import CsvDialect, Rows, open_rows
from dpcube.core.sources.open import pinned
from dpcube.core.text_code import MAX_OCTETS, TextCode
from dpcube.curator.account import LedgerAccount
from dpcube.curator.column_readings import date_grid, number_grid, readings_of
from dpcube.curator.guess import by_name
from dpcube.curator.learnt_columns import LearntColumn, PrivateColumn, counted_column, learn_column
from dpcube.curator.learnt_file import expectation, learnt_text

MAX_KNOWN = 2**20


@dataclass(frozen=True, slots=True)
class LearntDomain:
    """A learnt domain: the text of its file, what was learnt of each column, and whether a ledger has the charge.

    `domain` is None if nothing was found in any column.
    """

    text: str
    domain: Domain | None
    columns: tuple[LearntColumn, ...]
    epsilon: Fraction
    ledger: bool


def learn_domain(
    source: object,
    *,
    epsilon: str | float | Fraction,
    columns: Sequence[str] | None = None,
    known: Mapping[str, Iterable[str]] | None = None,
    ledger: str | Path | LedgerLocation | None = LedgerLocation.BESIDE_TABLE,
    total: str | float | Fraction | None = None,
    unit: str | None = None,
    null_unit: Literal["drop", "each"] = "drop",
    purpose: str = "",
    csv: CsvDialect | None = None,
    query: str | None = None,
    again: bool = False,
    progress: Callable[[str], None] = lambda _: None,
) -> LearntDomain:
    """Learn a domain from a private table: how text is read, bounds of numbers and dates, values of text.

    Parameters
    ----------
    source, unit, null_unit, purpose, csv, query, progress
        As `publish` has them. One row of each unit is counted, whatever number a release counts later.
    epsilon
        Privacy budget to spend, in equal parts on the columns.
    columns
        Columns to learn; by default all but those that are named like identifiers.
    known
        Values of a column that are publicly known to be likely. They need be neither complete nor true, and are found
        with fewer rows than others.
    ledger, total
        The ledger that is charged, as in `publish`. A release from the domain must be charged to the same one.
    again
        Learn once more from a table whose ledger has such a charge already.

    Returns
    -------
    LearntDomain
        The text of the domain file, and the domain.

    Raises
    ------
    InputError
        If the request is invalid; nothing is spent then.
    BudgetError
        If the ledger has less left; nothing is spent then.
    KeptReleaseError
        If the ledger could not record the digest; the `release` of the error is the LearntDomain.

    """
    amount, allowed = parse_epsilon(epsilon), None if total is None else parse_epsilon(total)
    protected = PrivacyUnit(unit, 1, null_unit)
    rows, chosen = _opened(source, columns, known, unit=protected, csv=csv, query=query)
    share = amount / len(chosen)
    check_drawable(share, 1)
    codes = {name: TextCode((known or {}).get(name, ())) for name in chosen}
    place = ledger_path(ledger, source, unit=unit)
    if place is not None:
        check_left(place, amount, total=allowed, unit=unit, period=None)
        _check_first(place, again=again)
    named = source if isinstance(source, str | PathLike) else None
    check_can_draw()
    _prepare(codes.values())
    del source
    progress("counting the rows")
    counted = [counted_column(rows, name, share) for name in chosen]
    progress("measuring")
    book = None if place is None else open_ledger(place, amount, total=allowed, unit=unit)
    ledger_path(ledger, named, unit=unit)  # again, as `publish` does
    noted = purpose if query is None else f"{purpose} (query sha256 {query_digest(query)})".strip()
    account = LedgerAccount(book, LEARNING, {"domain": "", "purpose": noted, "unit": unit, "period": None})
    account.charge(amount)
    learnt = _learnt(counted, share, codes)
    del counted
    result = _assembled(learnt, amount, csv, ledger=book is not None)
    try:
        account.complete(stamp_digest(() if result.domain is None else result.domain.learnt))
    except LedgerError as error:
        msg = f"{error}. The domain was learnt and charged for, and is in the memory of this process alone"
        raise KeptReleaseError(msg, result, None) from None
    return result


def explain_learning(
    source: object,
    *,
    epsilon: str | float | Fraction,
    columns: Sequence[str] | None = None,
    known: Mapping[str, Iterable[str]] | None = None,
    csv: CsvDialect | None = None,
    query: str | None = None,
) -> str:
    """Return which counts `learn_domain` would find, and how surely; no row is read, and nothing is spent."""
    rows, chosen = _opened(source, columns, known, unit=PrivacyUnit(), csv=csv, query=query)
    share = parse_epsilon(epsilon) / len(chosen)
    check_drawable(share, 1)
    readings = {name: readings_of(rows.kinds[name], declared=rows.is_declared()) for name in chosen}
    return expectation(readings, share, {name: tuple(values) for name, values in (known or {}).items()})


def _opened(
    source: object,
    columns: Sequence[str] | None,
    known: Mapping[str, Iterable[str]] | None,
    *,
    unit: PrivacyUnit,
    csv: CsvDialect | None,
    query: str | None,
) -> tuple[Rows, tuple[str, ...]]:
    """Return the rows to count, and the columns to learn: by names and declared types alone."""
    if isinstance(source, np.ndarray):
        msg = "an array of counts has no columns to learn a domain from; pass the table itself"
        raise InputError(msg)
    rows = open_rows(pinned(source), csv=csv, query=query)
    asked = [name for name in rows.columns if name != unit.column and by_name(name).kind != "identifier"]
    rows.check_columns(asked if columns is None else columns)
    rows.check_columns([*(known or {})])
    declared = rows.is_declared()
    chosen = tuple(dict.fromkeys(asked if columns is None else columns))
    usable = tuple(
        name for name in chosen if rows.is_countable(name) and readings_of(rows.kinds[name], declared=declared)
    )
    if columns is not None and (odd := [name for name in chosen if name not in usable]):
        msg = f"column '{odd[0]}' has the type {rows.types[odd[0]]}, of which no domain can be learnt; leave it out"
        raise InputError(msg)
    if not usable:
        msg = (
            "no column is left to learn; columns that are named like identifiers must be asked for (columns, --columns)"
        )
        raise InputError(msg)
    if len(usable) > MAX_ATTRIBUTES:
        msg = f"a domain has at most {MAX_ATTRIBUTES} attributes, and {len(usable)} columns would be learnt; name fewer"
        raise InputError(msg)
    for name, values in (known or {}).items():
        _check_known(name, values)
    return rows if unit.column is None else rows.limit(unit.column, max_rows=1, null=unit.null), usable


def _check_known(name: str, values: Iterable[str]) -> None:
    listed = list(values)
    if len(listed) > MAX_KNOWN or not all(isinstance(value, str) and len(value) <= MAX_OCTETS for value in listed):
        msg = f"the known values of '{name}' must be at most {MAX_KNOWN:,} texts of at most {MAX_OCTETS} characters"
        raise InputError(msg)


def _check_first(place: Path, *, again: bool) -> None:
    """Refuse to learn twice from one table, which could become a search for a lucky list."""
    if again or not place.exists():
        return
    if any(charge.strategy == LEARNING for charge in Ledger(place).statement().standing):
        msg = (
            f"{place} has a charge for learning a domain already; use its file, or learn once more with again (--again)"
        )
        raise InputError(msg)


def _prepare(codes: Iterable[TextCode]) -> None:
    """Compute what is computed once, so that reading a file of ours cannot fail after the charge."""
    number_grid()
    date_grid()
    for code in codes:
        code.codeword("any")


@sealed
def _learnt(
    counted: Sequence[PrivateColumn], share: Fraction, codes: Mapping[str, TextCode]
) -> tuple[LearntColumn, ...]:
    return tuple(learn_column(column, share, codes[column.name]) for column in counted)


def _assembled(
    learnt: tuple[LearntColumn, ...], epsilon: Fraction, csv: CsvDialect | None, *, ledger: bool
) -> LearntDomain:
    attributes = tuple(one.attribute for one in learnt if one.attribute is not None)
    lines = csv or CsvDialect()
    domain = None
    if attributes:
        domain = Domain(
            attributes, delimiter=lines.delimiter, encoding=lines.declared_encoding, learnt=stamp(attributes)
        )
    return LearntDomain(learnt_text(learnt, epsilon, domain), domain, learnt, epsilon, ledger)
