"""Private check of a domain against its table: roughly which share of the rows is kept, clipped or dropped.

This is the one exception to the rule that nothing computed from rows leaves without noise: it finds a mistake in a
domain file without the cost of a release. Shares are given in a few words and not as numbers, so that a check shows
what is wrong with a domain and little else; but they are exact facts about rows all the same. So the command that calls
this prints them on a terminal, marked private, and nowhere else; nothing is written, charged or drawn.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from dpcube.core.domain import Attribute, Domain
from dpcube.core.domain.attribute import IRREGULAR
from dpcube.core.request import MAX_UNIT_ROWS, Bound, PrivacyUnit, Range, read_lines
from dpcube.core.seal import sealed
from dpcube.core.sources import CsvDialect, Rows, open_rows

MAX_EXAMPLES = 5
ENDS = ("kept", "clipped", "null", "unknown", "dropped")


@dataclass(frozen=True, slots=True)
class Look:
    """The shares of rows by their outcome at one attribute, in words, in the order of `ENDS`; texts of dropped rows.

    `counted` names the irregular values that are counted, and where: these are not among the texts.
    """

    attribute: str
    shares: tuple[str, ...]
    examples: tuple[str, ...] = ()
    counted: str = ""


@dataclass(frozen=True, slots=True)
class Checked:
    """The outcomes of every attribute; the share of rows that all of them keep, and of a file's lines that are no rows.

    With a period only its rows are checked, and `in_period` is their share of all rows. With a unit,
    `named` is the share of the counted rows that name one, and `kept` of those the share that a release would count.
    """

    looks: tuple[Look, ...]
    counted: str
    broken_lines: str | None
    in_period: str | None = None
    named: str | None = None
    kept: str | None = None


@sealed
def check(
    source: object,
    domain: Domain | str | Path,
    *,
    csv: CsvDialect | None = None,
    query: str | None = None,
    show_values: bool = False,
    unit: str | None = None,
    max_rows: int = 1,
    null_unit: Literal["drop", "each"] = "drop",
    period: tuple[str, Bound, Bound] | None = None,
) -> Checked:
    """Return the approximate share of rows by outcome, and with `show_values` some texts of dropped rows.

    `unit`, `max_rows`, `null_unit` and `period` are as `publish` has them, and refused as it would.
    """
    declared = domain if isinstance(domain, Domain) else Domain.load(domain)
    protected, rows_of = PrivacyUnit(unit, max_rows, null_unit), Range.from_request(period, declared, csv)
    every = open_rows(source, csv=read_lines(declared, csv), query=query)
    rows = every if rows_of is None else rows_of.select(every)
    limited = None if unit is None else rows.limit(unit, max_rows=max_rows, null=null_unit)
    found, total, counted = rows.outcomes(declared)
    looks = []
    for attribute, fates in zip(declared.attributes, found, strict=True):
        examples = _examples(rows, attribute) if show_values else ()
        shares = tuple(share(n, total) for n in _ends(attribute, fates))
        looks.append(Look(attribute.name, shares, examples, counted_all_the_same(attribute)))
    table = total if rows_of is None else every.count()
    lines = every.lines()
    broken = None if lines is None else share(lines - table, lines)
    inside = None if rows_of is None else share(total, table)
    named = kept = None
    if limited is not None:
        with_unit = rows.limit(protected.column or "", max_rows=MAX_UNIT_ROWS, null=null_unit)
        having = int(with_unit.count_cells(declared).sum())
        named, kept = share(having, counted), share(int(limited.count_cells(declared).sum()), having)
    return Checked(tuple(looks), share(counted, total), broken, inside, named, kept)


def counted_all_the_same(attribute: Attribute) -> str:
    """Return which irregular values of an attribute are counted, and where; empty if all of them are dropped.

    >>> from dpcube.core.domain import Integer
    >>> counted_all_the_same(Integer("age", 0, 99, outside="clip", null="cell"))
    'outside: in the nearest bin; null: in a cell of their own'
    """
    clipped = [kind for kind in IRREGULAR if attribute.destination(kind) == "clip"]
    places = ((clipped, "in the nearest bin"), (attribute.own_cells, "in a cell of their own"))
    return "; ".join(f"{', '.join(kinds)}: {place}" for kinds, place in places if kinds)


def _ends(attribute: Attribute, fates: dict[str, int]) -> Sequence[int]:
    """Return how many rows end in each of `ENDS`; a null that is dropped is in two of them."""
    irregular = {kind: n for kind, n in fates.items() if kind != "kept"}
    went = {
        end: sum(n for kind, n in irregular.items() if attribute.destination(kind) == end) for end in ("clip", "drop")
    }
    no_value = fates.get("unknown", 0) + fates.get("nan", 0)
    return fates["kept"], went["clip"], fates.get("null", 0), no_value, went["drop"]


@sealed
def _examples(rows: Rows, attribute: Attribute) -> tuple[str, ...]:
    return tuple(rows.dropped_texts(attribute, most=MAX_EXAMPLES))


def share(part: int, whole: int) -> str:
    """Return a share in a word or two.

    >>> [share(n, 1000) for n in (0, 9, 10, 99, 100, 499, 500, 999, 1000)]
    ['none', 'under 1%', 'under 10%', 'under 10%', 'under half', 'under half', 'most', 'most', 'all']
    """
    if part <= 0:
        return "none"
    if part >= whole:
        return "all"
    levels = ((1, "under 1%"), (10, "under 10%"), (50, "under half"))
    return next((words for percent, words in levels if 100 * part < percent * whole), "most")
