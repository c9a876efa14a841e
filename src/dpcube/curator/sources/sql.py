"""Attributes as SQL: a column and its type enter, an expression for the index of a row's cell leaves.

Every expression is total: it has a value for every value the column can hold, so no row can make a query fail. That is
why text is cast only if it has the one form that every engine reads alike (`grammar.py`), and why numbers are clamped
before arithmetic even where a condition leaves out those that could overflow. No name given by a user enters the SQL
(columns are called c0, c1, ...), and text only as literals. The rules are the same for every engine, down to the last
bit: a number is an integer if its column holds integers, and otherwise the nearest double. Engines differ in words.
"""

import math
from dataclasses import dataclass, replace
from datetime import date
from typing import NoReturn

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpcube.curator.sources import reading
from dpcube.curator.sources.dialect import DUCKDB, Dialect, halved
from dpcube.curator.sources.zone import Offsets, offsets_of
from dpcube.domain import Attribute
from dpcube.domain.attribute import IRREGULAR
from dpcube.errors import SourceError

MOST_LABELS = 100_000
FATES = ("kept", *IRREGULAR)


@dataclass(frozen=True, slots=True)
class Cell:
    """One attribute in SQL: `value` is computed once a row and then called v; `index` and `keep` are in terms of v.

    A row is dropped if `keep` is false or `index` is NULL; if `keep` is false, `index` may be anything, and in some
    dialects must not be computed. `parsed` says that `value` is read from text, which takes time. `text` is what
    options make of the column's text, computed before `value` and then called t; None if there are no options.
    `fate` is which of `FATES` the value is, whatever becomes of it.
    """

    value: str
    index: str
    keep: str = "true"
    parsed: bool = False
    text: str | None = None
    fate: str = "0"


def value_type(type_: pa.DataType) -> pa.DataType:
    """Return the type of a column's values, be they in a dictionary or not."""
    return type_.value_type if pa.types.is_dictionary(type_) else type_


def kind(type_: pa.DataType) -> str | None:
    """Return what a column of an Arrow type holds, None if it is nothing that can be counted."""
    types = pa.types
    tests = {
        "text": (types.is_string, types.is_large_string, types.is_string_view, types.is_null),
        "integer": (types.is_integer,),
        "real": (types.is_floating, lambda t: types.is_decimal(t) and t.bit_width <= 128),
        "boolean": (types.is_boolean,),
        "date": (types.is_date, types.is_timestamp),
    }
    return next((name for name, matches in tests.items() if any(match(value_type(type_)) for match in matches)), None)


def number(column: str, type_: pa.DataType, *, owner: str, dialect: Dialect = DUCKDB) -> tuple[str, bool]:
    """Return a column's number, NULL where its text is none, and whether the engine holds it as an integer."""
    numbers = {
        "integer": (column, True),
        "boolean": (f"CAST({column} AS INTEGER)", True),
        "real": (f"CAST({column} AS {dialect.double})", False),
        "text": (dialect.number(column), False),
    }
    held = kind(type_)
    if held not in numbers:
        _refuse(type_, "numbers, booleans or text", owner=owner)
    return numbers[held]


def cell(
    attribute: Attribute,
    column: str,
    v: str,
    type_: pa.DataType,
    *,
    t: str = "t",
    labelled: bool = False,
    dialect: Dialect = DUCKDB,
) -> Cell:
    """Return an attribute's SQL; with `labelled`, text may also be the label of a cell."""
    text = reading.read(attribute, column, kind(type_), type_, dialect=dialect)
    if text is None:
        return _cell(attribute, column, v, type_, labelled=labelled, dialect=dialect)
    made = _cell(attribute, t, v, pa.string(), labelled=False, dialect=dialect)
    if labelled and kind(type_) == "text" and (labels := _labels(attribute)):
        made = _labelled(made, column, list(map(attribute.reading.folded, labels)), dialect)
    return replace(made, text=text)


def _cell(attribute: Attribute, column: str, v: str, type_: pa.DataType, *, labelled: bool, dialect: Dialect) -> Cell:
    owner = f"attribute '{attribute.name}'"
    labels = _labels(attribute) if labelled and kind(type_) == "text" else []
    if attribute.scale == "position":
        if kind(type_) in (None, "date"):
            _refuse(type_, "text, numbers or booleans", owner=owner)
        if kind(type_) == "real" and not dialect.real_categories:
            _refuse(type_, "text, whole numbers or booleans", owner=owner)
        listed = list(map(attribute.reading.folded, labels or attribute.texts()))
        code = dialect.position(f"CAST({column} AS {dialect.text})", listed)
        others = f"WHEN {column} IS NULL THEN {_own(attribute, 'null')} ELSE {_own(attribute, 'unknown')}"
        index = f"CASE WHEN {v} IS NOT NULL THEN {v} {others} END" if attribute.own_cells else v
        return Cell(code, index, fate=_fate(f"{v} IS NOT NULL", {"null": f"{column} IS NULL", "unknown": "true"}))
    if attribute.scale == "day":
        value, exact = day(column, type_, owner=owner, attribute=attribute, dialect=dialect), True
    else:
        value, exact = number(column, type_, owner=owner, dialect=dialect)
    index, keep, fate = _binned(attribute, column, v, exact=exact, dialect=dialect)
    made = Cell(value, index, keep, parsed=kind(type_) == "text", fate=fate)
    return _labelled(made, column, labels, dialect) if labels else made


def _labelled(made: Cell, column: str, labels: list[str], dialect: Dialect) -> Cell:
    """Return a cell whose column's text may also be the label of one, which no option rewrites."""
    index = f"coalesce({dialect.position(column, labels)}, CASE WHEN {made.keep} THEN {made.index} END)"
    return replace(made, index=index, keep="true")


def clamped(v: str, *, times: int = 1, over: int = 1, low: int, high: int, dialect: Dialect = DUCKDB) -> str:
    """Return v * times / over, rounded (ties away from zero) and clamped, as an integer; 0 if v is no number."""
    within = dialect.rounded(v, times=times, over=over, low=low, high=high)
    nan = dialect.is_nan(f"CAST({v} AS {dialect.double})")
    return f"CAST(CASE WHEN {v} IS NULL OR {nan} THEN 0 ELSE {within} END AS BIGINT)"


def day(
    column: str, type_: pa.DataType, *, owner: str, attribute: Attribute | None = None, dialect: Dialect = DUCKDB
) -> str:
    """Return days since 1970: of times with a time zone in UTC, or in the zone that an attribute declares."""
    if kind(type_) == "text":
        moments = attribute is not None and attribute.reading.has_offsets
        return reading.moment(column, _offsets(attribute), dialect) if moments else dialect.day(column)
    if kind(type_) != "date":
        _refuse(type_, "dates, times or text such as 2026-01-31", owner=owner)
    type_ = value_type(type_)
    moments = pa.types.is_timestamp(type_) and type_.tz is not None
    return dialect.day_of(column, type_, _offsets(attribute) if moments else None)


def _offsets(attribute: Attribute | None) -> Offsets | None:
    """Return how far clocks are from UTC in an attribute's zone, in the days that it has cells for."""
    if attribute is None or attribute.zone is None:
        return None
    first, after = attribute.bin_edges()[[0, -1]].astype(int).tolist()
    return offsets_of(attribute.zone, date.fromordinal(first), date.fromordinal(after - 1))


def _binned(attribute: Attribute, column: str, v: str, *, exact: bool, dialect: Dialect) -> tuple[str, str, str]:
    """Return SQL for the cell of a number v, for whether the row is kept, and for its fate."""
    edges = attribute.bin_edges() - attribute.origin
    # The last bin of real numbers holds its upper edge; any other ends at the double before it.
    top = edges[-1] if attribute.is_continuous else np.nextafter(edges[-1], -np.inf)
    low, high = (edges[0], top) if not exact else (math.ceil(edges[0]), math.floor(top))
    low, high = (str(end) if exact else dialect.real(end) for end in (low, high))
    inside, bin_ = f"{v} BETWEEN {low} AND {high}", _bin(attribute, edges, v, low, high, exact=exact, dialect=dialect)
    tests = {"null": f"{column} IS NULL", "unknown": f"{v} IS NULL"}
    if not exact:
        tests |= {"nan": dialect.is_nan(v), "infinite": f"abs({v}) = {dialect.real(math.inf)}"}
    tests["outside"] = "true"
    fate = _fate(inside, tests)
    if all(attribute.destination(name) == "drop" for name in tests):
        return bin_, inside, fate
    nearest = f"CASE WHEN {v} < {low} THEN 0 ELSE {attribute.bins - 1} END"
    cases = " ".join(f"WHEN {test} THEN {_own(attribute, name, nearest)}" for name, test in tests.items())
    return f"CASE WHEN {inside} THEN {bin_} {cases} END", "true", fate


def _fate(inside: str, tests: dict[str, str]) -> str:
    """Return SQL for the position in `FATES` of what a value is."""
    cases = " ".join(f"WHEN {test} THEN {FATES.index(name)}" for name, test in tests.items())
    return f"CASE WHEN {inside} THEN 0 {cases} END"


def _bin(
    attribute: Attribute, edges: NDArray[np.float64], v: str, low: str, high: str, *, exact: bool, dialect: Dialect
) -> str:
    (start, width, over), last = attribute.regular_bins() or (0, None, 1), len(edges) - 2
    start -= attribute.origin
    whole_bins = isinstance(start, int) and isinstance(width, int) and over == 1
    if not whole_bins and (found := dialect.search(v, _edges(edges[:-1], exact=exact))):
        return found
    if width is None:
        ends = [str(edge) if exact else dialect.real(edge) for edge in _edges(edges, exact=exact)]
        return halved(v, ends[:-1], list(map(str, range(last + 1))))
    x = dialect.within(v, low, high)
    if not whole_bins:
        x = f"CAST({v if dialect.divides_all else x} AS {dialect.double})"
        return _divide(x, start, width, over, last, dialect)
    # Between whole edges a number falls where its whole part does.
    whole = f"(CAST({x if exact else f'floor({x})'} AS BIGINT) - {start})"
    whole = dialect.whole_part(whole, int(width)) if width > 1 else whole
    return f"least({whole}, {last})" if attribute.is_continuous else whole


def _edges(edges: NDArray[np.float64], *, exact: bool) -> list[float]:
    return [math.ceil(edge) if exact else float(edge) for edge in edges]


def _divide(x: str, start: float, width: float, over: int, last: int, dialect: Dialect) -> str:
    """Divide and round, then correct against (start + j width) / over in doubles, which is how `bin_edges` has edges.

    The quotient is of x - s by w, the doubles nearest to start / over and width / over. It is off by less than 2^-20,
    since there are at most 2^31 bins. An edge is off from s + j w by less than 3 spacings of doubles: the rounding of
    the edge and that of s by half a spacing each, that of w, j times, by 2^-53 of the length of all bins at most, which
    is two spacings. A bin is at least 8 spacings wide. So the quotient of a value of bin b lies within 0.4 of b to
    b + 1: rounded, it is b or b + 1, and b + 1 just if the value lies below that edge.
    """
    first, wide = dialect.real(start), dialect.real(width)
    j = dialect.nearest_bin(f"({x} - {dialect.real(start / over)})", width / over, last)
    edge = f"{first} + {j} * {wide}" if over == 1 else f"({first} + {j} * {wide}) / {dialect.real(over)}"
    return f"CAST({j} - {dialect.one_if(f'{x} < {edge}')} AS BIGINT)"


def _own(attribute: Attribute, name: str, nearest: str = "NULL") -> str:
    """Return the destination of an irregular kind of value."""
    if attribute.destination(name) == "cell":
        return str(attribute.bins + attribute.own_cells.index(name))
    return nearest if attribute.destination(name) == "clip" else "NULL"


def _labels(attribute: Attribute) -> list[str]:
    """Return the labels of all cells, or none if they do not tell the cells apart."""
    labels = attribute.labels() if attribute.size <= MOST_LABELS else []
    return labels if len(set(map(attribute.reading.folded, labels))) == len(labels) else []


def _refuse(type_: pa.DataType, usable: str, *, owner: str) -> NoReturn:
    msg = f"{owner} needs a column of {usable}, and its column holds {type_}; cast the column, or leave it out"
    raise SourceError(msg)
