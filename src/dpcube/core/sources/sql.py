"""Attributes as SQL: an expression for the index of a row's cell, given a column and its type.

Every expression is total: it has a value for every value the column can hold, so no row can make a query fail. That is
why text is cast only if it has the one form that every engine reads alike (`grammar.py`), and why numbers are clamped
before arithmetic even where a condition leaves out those that could overflow. No name given by a user enters the SQL
(columns are called c0, c1, ...), and text only as literals. The rules are the same for every engine, down to the last
bit. Engines differ in words.

A value is read alike whatever type its column has (`domain.written`), and no type is refused unless the types are
declared apart from the rows (`Column.declared`): what a library infers of a column may depend on one row. Lists and
other values that nothing is known of are unknown. An integer and the double nearest to it lie in one bin, for no edge
is beyond 2^53.
"""

import math
from dataclasses import dataclass, replace
from datetime import date
from typing import NoReturn

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpcube.core.domain import Attribute
from dpcube.core.domain.attribute import IRREGULAR
from dpcube.core.domain.grammar import SHORTEST_MOMENT
from dpcube.core.domain.reading import is_digits
from dpcube.core.domain.written import TypedValues, null_values
from dpcube.core.errors import SourceError
from dpcube.core.sources import reading
from dpcube.core.sources.dialect import DUCKDB, Dialect, halved
from dpcube.core.sources.listed import Steps, position_of_text, position_of_typed
from dpcube.core.sources.zone import Offsets, offsets_of

MOST_LABELS = 100_000
FATES = ("kept", *IRREGULAR)


@dataclass(frozen=True, slots=True)
class Column:
    """A column in the SQL of a scan: its name there, its Arrow type, the engine's words.

    `declared` says that the type is known apart from the rows, as in a database; a frame's or a file's may be inferred.
    """

    name: str
    type: pa.DataType
    dialect: Dialect = DUCKDB
    declared: bool = False

    @property
    def kind(self) -> str | None:
        """What the column holds by its type; an inferred type that nothing is known of holds texts that are unknown.

        One row makes such a type of a column that is empty in all others, so it is not refused.
        """
        return kind(self.type) or (None if self.declared or is_opaque(self.type, "lakehouse") else "text")

    def text(self) -> str:
        """Return SQL for the text of each value: of whole numbers their digits, of booleans true and false."""
        name, dialect = self.name, self.dialect
        text = f"CAST({name} AS {dialect.text})"
        if self.kind == "boolean":
            return f"CASE WHEN {name} THEN 'true' WHEN NOT {name} THEN 'false' END"
        if self.kind == "real":
            return f"coalesce(CAST({dialect.whole(name)} AS {dialect.text}), {text})"
        return text


@dataclass(frozen=True, slots=True)
class Cell:
    """One attribute in SQL: `value` is computed once a row and then called v; `index` and `keep` are in terms of v.

    A row is dropped if `keep` is false or `index` is NULL; if `keep` is false, `index` may be anything, and in some
    dialects must not be computed. `parsed` says that `value` is read from text, which takes time. `steps` are
    expressions with their names, computed one after another before `value`, each in terms of those before it. `fate` is
    which of `FATES` the value is, whatever becomes of it.
    """

    value: str
    index: str
    keep: str = "true"
    parsed: bool = False
    steps: Steps = ()
    fate: str = "0"


def value_type(type_: pa.DataType) -> pa.DataType:
    """Return the type of a column's values, be they in a dictionary or not."""
    return type_.value_type if pa.types.is_dictionary(type_) else type_


def kind(type_: pa.DataType) -> str | None:
    """Return what a column of an Arrow type holds, None if it is nothing that can be counted."""
    types = pa.types
    tests = {
        "text": (types.is_string, types.is_large_string, types.is_string_view, types.is_null, is_binary, is_long),
        "integer": (types.is_integer,),
        "real": (types.is_floating, lambda t: types.is_decimal(t) and t.bit_width <= 128),
        "boolean": (types.is_boolean,),
        "date": (types.is_date, types.is_timestamp),
        "time": (types.is_time,),
    }
    return next((name for name, matches in tests.items() if any(match(value_type(type_)) for match in matches)), None)


def is_opaque(type_: pa.DataType, vendor: str) -> bool:
    """Say whether a type stands for one of an engine's own that Arrow does not have."""
    return isinstance(type_, pa.OpaqueType) and type_.vendor_name == vendor


def is_long(type_: pa.DataType) -> bool:
    """Say whether a column holds decimals of more digits than the engine has, which are read as text."""
    return bool(pa.types.is_decimal256(type_))


def is_binary(type_: pa.DataType) -> bool:
    """Say whether a column holds bytes, which a library makes of text that is not UTF-8."""
    types = pa.types
    tests = (types.is_binary, types.is_large_binary, types.is_binary_view, types.is_fixed_size_binary)
    return any(test(type_) for test in tests)


def number(column: Column, *, owner: str) -> tuple[str, bool]:
    """Return a column's number, NULL where its value is none, and whether the engine holds it as an integer."""
    name, dialect = column.name, column.dialect
    numbers = {
        "integer": (name, True),
        "boolean": (f"CAST({name} AS INTEGER)", True),
        "real": (dialect.nearest_double(name, value_type(column.type)), False),
        "text": (f"coalesce({dialect.number(name)}, {dialect.boolean(name)})", False),
    }
    if column.kind in numbers:
        return numbers[column.kind]
    _refuse_type(column, "numbers, booleans or text", owner=owner)
    return f"CAST(NULL AS {dialect.double})", False


def cell(attribute: Attribute, column: Column, v: str, *, t: str = "t", labelled: bool = False) -> Cell:
    """Return an attribute's SQL; with `labelled`, text may also be the label of a cell."""
    _refuse_ambiguous(attribute, column)
    labels = _labels(attribute) if labelled else []
    if labels and column.kind != "text":
        column = replace(column, name=column.text(), type=pa.string())
    if attribute.scale == "position":
        return _listed(attribute, column, v, t, labels)
    steps = _reading_steps(attribute, column, t)
    if not steps:
        return _labelled(_coordinate(attribute, column, v), column, labels)
    made = _coordinate(attribute, replace(column, name=t, type=pa.string()), v)
    return replace(_labelled(made, column, list(map(attribute.reading.folded, labels))), steps=steps)


def _reading_steps(attribute: Attribute, column: Column, t: str) -> Steps:
    """Return steps to the text `t` that an attribute's options make of a column, none if values are read as they are.

    Of numbers it is their digits, for a format such as %Y%m%d; of a date with a time, where no format is declared, the
    one form in which days of moments are read.
    """
    plain, dialect = attribute.reading.is_plain, column.dialect
    if column.kind == "text" and plain and attribute.scale == "day":
        moment = reading.text_as_read(attribute, column.name, dialect)
        long = f"{dialect.octets}({column.name}) >= {SHORTEST_MOMENT}"
        return ((t, f"CASE WHEN {long} THEN {moment} ELSE {column.name} END"),)
    digits = f"{t}_digits"
    if column.kind == "text" and attribute.scale == "day" and any(map(is_digits, attribute.reading.formats)):
        whole = reading.without_fraction(column.name, dialect)  # 20260131.0 is 20260131 in a column of numbers
        return (digits, whole), (t, reading.text_as_read(attribute, digits, dialect))
    if column.kind == "text" and not plain:
        return ((t, reading.text_as_read(attribute, column.name, dialect)),)
    if column.kind in ("integer", "real") and attribute.scale == "day" and attribute.reading.formats:
        return (digits, column.text()), (t, reading.text_as_read(attribute, digits, dialect))
    return ()


def _listed(attribute: Attribute, column: Column, v: str, t: str, labels: list[str]) -> Cell:
    """Return the SQL of listed values: a text is looked up as it is first, and then as the value that it writes."""
    owner, dialect = f"attribute '{attribute.name}'", column.dialect
    if column.kind is None:
        _refuse(column, "text, numbers, booleans or dates", owner=owner)
    if column.declared and column.kind in ("date", "time"):
        _refuse(column, "text, numbers or booleans", owner=owner)
    typed = TypedValues.of(attribute)
    steps: Steps = ()
    texts, name = list(map(attribute.reading.folded, attribute.texts())), column.name
    if column.kind == "text":
        text = f"CAST({name} AS {dialect.text})"
        if not attribute.reading.is_plain:
            steps, text = ((t, reading.text_as_read(attribute, text, dialect)),), t
            name = t
        more, code = position_of_text(texts, typed, text, t, dialect)
        steps += more
    else:
        code = position_of_typed(typed, attribute.bins, name, column.kind, value_type(column.type), dialect)
    written_nulls = any(at >= attribute.bins for at in typed.positions.values())
    known = f"{v} < {attribute.bins}" if written_nulls else f"{v} IS NOT NULL"
    is_null = f"({name} IS NULL OR {v} >= {attribute.bins})" if written_nulls else f"{name} IS NULL"
    others = f"WHEN {is_null} THEN {_own(attribute, 'null')} ELSE {_own(attribute, 'unknown')}"
    index = f"CASE WHEN {known} THEN {v} {others} END" if attribute.own_cells or written_nulls else v
    fate = _fate(known, {"null": is_null, "unknown": "true"})
    made = Cell(code, index, parsed=bool(steps), steps=steps, fate=fate)
    return _labelled(made, column, list(map(attribute.reading.folded, labels)))


def _coordinate(attribute: Attribute, column: Column, v: str) -> Cell:
    """Return the SQL of a number or a day, in bins."""
    owner = f"attribute '{attribute.name}'"
    if attribute.scale == "day":
        value, exact = day(column, owner=owner, attribute=attribute), True
    else:
        value, exact = number(column, owner=owner)
    index, keep, fate = _binned(attribute, column, v, exact=exact)
    return Cell(value, index, keep, parsed=column.kind == "text", fate=fate)


def _labelled(made: Cell, column: Column, labels: list[str]) -> Cell:
    """Return a cell whose column's text may also be the label of one, which no option rewrites."""
    if not labels:
        return made
    index = f"coalesce({column.dialect.position(column.name, labels)}, CASE WHEN {made.keep} THEN {made.index} END)"
    return replace(made, index=index, keep="true")


def clamped(v: str, *, times: int = 1, over: int = 1, low: int, high: int, dialect: Dialect = DUCKDB) -> str:
    """Return v * times / over, rounded (ties away from zero) and clamped, as an integer; 0 if v is no number."""
    within = dialect.rounded(v, times=times, over=over, low=low, high=high)
    nan = dialect.is_nan(f"CAST({v} AS {dialect.double})")
    return f"CAST(CASE WHEN {v} IS NULL OR {nan} THEN 0 ELSE {within} END AS BIGINT)"


def day(column: Column, *, owner: str, attribute: Attribute | None = None) -> str:
    """Return days since 1970: of times with a time zone in UTC, or in the zone that an attribute declares."""
    if column.kind == "text":
        return reading.moment(column.name, _offsets(attribute), column.dialect)
    if column.kind != "date":
        _refuse_type(column, "dates, times or text such as 2026-01-31", owner=owner)
        return "CAST(NULL AS BIGINT)"
    type_ = value_type(column.type)
    moments = pa.types.is_timestamp(type_) and type_.tz is not None
    return column.dialect.day_of(column.name, type_, _offsets(attribute) if moments else None)


def _offsets(attribute: Attribute | None) -> Offsets | None:
    """Return how far clocks are from UTC in an attribute's zone, in the days that it has cells for."""
    if attribute is None or attribute.zone is None:
        return None
    first, after = attribute.bin_edges()[[0, -1]].astype(int).tolist()
    return offsets_of(attribute.zone, date.fromordinal(first), date.fromordinal(after - 1))


def _binned(attribute: Attribute, column: Column, v: str, *, exact: bool) -> tuple[str, str, str]:
    """Return SQL for the cell of a number v, for whether the row is kept, and for its fate."""
    dialect = column.dialect
    edges = attribute.bin_edges() - attribute.origin
    # The last bin of real numbers holds its upper edge; any other ends at the double before it.
    top = edges[-1] if attribute.is_continuous else np.nextafter(edges[-1], -np.inf)
    low, high = (edges[0], top) if not exact else (math.ceil(edges[0]), math.floor(top))
    low, high = (str(end) if exact else dialect.real(end) for end in (low, high))
    nulls = _null_tests(attribute, v, exact=exact, dialect=dialect)
    within = f"{v} BETWEEN {low} AND {high}"
    inside = " AND ".join([within, *(f"NOT {test}" for test in nulls)])
    bin_ = _bin(attribute, edges, v, low, high, exact=exact, dialect=dialect)
    tests = {"null": " OR ".join([f"{column.name} IS NULL", *nulls]), "unknown": f"{v} IS NULL"}
    if not exact:
        tests |= {"nan": dialect.is_nan(v), "infinite": f"abs({v}) = {dialect.real(math.inf)}"}
    tests["outside"] = "true"
    fate = _fate(inside, tests)
    if all(attribute.destination(name) == "drop" for name in tests):
        return bin_, inside, fate
    nearest = f"CASE WHEN {v} < {low} THEN 0 ELSE {attribute.bins - 1} END"
    cases = " ".join(f"WHEN {test} THEN {_own(attribute, name, nearest)}" for name, test in tests.items())
    return f"CASE WHEN {inside} THEN {bin_} {cases} END", "true", fate


def _null_tests(attribute: Attribute, v: str, *, exact: bool, dialect: Dialect) -> list[str]:
    """Return what holds of a number, or a day, that a null's text writes; each is true or false, whatever v is."""
    values = null_values(attribute)
    tests = [dialect.is_nan(v)] if not exact and any(map(math.isnan, values)) else []
    written = [
        str(int(value)) if exact else dialect.real(value)
        for value in values
        if not math.isnan(value) and (not exact or value.is_integer())
    ]
    tests += [f"{v} IN ({', '.join(written)})"] if written else []
    return [f"coalesce({test}, false)" for test in tests]


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


def _refuse_ambiguous(attribute: Attribute, column: Column) -> None:
    """Refuse a declaration that tells apart what an inferred type does not: whatever the type is of these rows."""
    if column.declared:
        return
    fault = None
    if attribute.scale == "position" and (same := TypedValues.of(attribute).same):
        fault = f"'{same[0]}' and '{same[1]}' are one value"
    elif attribute.scale == "number" and attribute.reading.thousands == ".":
        fault = "with thousands = '.', 1.234 is two numbers"
    if fault is not None:
        msg = f"attribute '{attribute.name}': {fault} in a column whose type a library infers from its rows; "
        msg += "declare it otherwise, or pass the CSV file itself"
        raise SourceError(msg)


def _refuse_type(column: Column, usable: str, *, owner: str) -> None:
    """Refuse a type that an attribute has no use for, if no row can bring it about."""
    if column.declared or column.kind is None:
        _refuse(column, usable, owner=owner)


def _refuse(column: Column, usable: str, *, owner: str) -> NoReturn:
    msg = f"{owner} needs a column of {usable}, and its column holds {column.type}; cast the column, or leave it out"
    raise SourceError(msg)
