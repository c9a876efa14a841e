"""Binning rules as SQL: the expression for a row's cell index, given an attribute and a column's type.

Every expression is total: it has a value for every value of the column, so no row can make a query fail. Therefore
text is cast only if it has the one form that every engine reads alike (`grammar.py`), and numbers are clamped before
arithmetic even where a condition leaves out those that could overflow. No name given by a user enters the SQL (columns
are called c0, c1, ...), and text only as literals. The rules are the same for every engine, down to the last bit; only
the dialects differ.

A value is read alike whatever the type of its column (`domain/written.py`), and no type is refused unless it is
declared apart from the rows (`Column.declared`): the type that a library infers may depend on one row. Lists and other
values without a scalar form are unknown. An integer and the double nearest to it lie in one bin, for no edge is beyond
2^53.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date
from typing import NamedTuple, NoReturn

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpcube.core.domain import Attribute
from dpcube.core.domain.attribute import IRREGULAR
from dpcube.core.domain.grammar import SHORTEST_MOMENT
from dpcube.core.domain.reading import is_digits
from dpcube.core.domain.scale import Scale
from dpcube.core.domain.written import TypedValues, null_values
from dpcube.core.errors import SourceError
from dpcube.core.sources import reading
from dpcube.core.sources.dialect import DUCKDB, Dialect, binary_search
from dpcube.core.sources.listed import Steps, position_of_text, position_of_typed
from dpcube.core.sources.zone import Offsets, offsets_of

OUTCOMES = ("kept", *IRREGULAR)


@dataclass(frozen=True, slots=True)
class Column:
    """Column in the SQL of a scan: its name there, its Arrow type and the engine's dialect.

    `declared` means that the type does not depend on the rows, as in a database; that of a frame may be inferred.
    """

    name: str
    type: pa.DataType
    dialect: Dialect = DUCKDB
    declared: bool = False

    @property
    def kind(self) -> str | None:
        """Kind of the column by its type; a column of an inferred type without scalar values has unknown texts.

        One row decides such a type of a column that is empty in all others, so it is not refused.
        """
        return kind(self.type) or ("text" if may_be_inferred(self.type) and not self.declared else None)

    def text(self) -> str:
        """Return SQL for each value as text: digits for whole numbers, true and false for booleans."""
        name, dialect = self.name, self.dialect
        text = f"CAST({name} AS {dialect.text})"
        if self.kind == "boolean":
            return f"CASE WHEN {name} THEN 'true' WHEN NOT {name} THEN 'false' END"
        if self.kind == "real":
            return f"coalesce(CAST({dialect.whole(name)} AS {dialect.text}), {text})"
        return text


@dataclass(frozen=True, slots=True)
class Cell:
    """Cell index of one attribute in SQL: `value` is computed once per row and called v; `index` and `keep` use v.

    A row is dropped if `keep` is false or `index` is NULL; if `keep` is false, `index` may be anything, and some
    dialects must not evaluate it. `parsed` means that `value` is parsed from text, which is expensive. `steps` are
    named expressions that are computed one after another before `value`, each in terms of those before it. `outcome` is
    the position of the value's kind in `OUTCOMES`, whatever its destination.
    """

    value: str
    index: str
    keep: str = "true"
    parsed: bool = False
    steps: Steps = ()
    outcome: str = "0"


def value_type(type_: pa.DataType) -> pa.DataType:
    """Return the type of a column's values, dictionary-encoded or not."""
    return type_.value_type if pa.types.is_dictionary(type_) else type_


def kind(type_: pa.DataType) -> str | None:
    """Return the kind of a column of an Arrow type, None if it cannot be counted."""
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
    """Return whether a type stands for a type of an engine that Arrow does not have."""
    return isinstance(type_, pa.OpaqueType) and type_.vendor_name == vendor


def may_be_inferred(type_: pa.DataType) -> bool:
    """Return whether a library may have inferred a type from rows; that of a lakehouse table is in its metadata."""
    return not is_opaque(type_, "lakehouse")


def is_long(type_: pa.DataType) -> bool:
    """Return whether a type is of decimals with more digits than the engine has, which are read as text."""
    return bool(pa.types.is_decimal256(type_))


def is_binary(type_: pa.DataType) -> bool:
    """Return whether a type is of bytes, as which libraries represent text that is not UTF-8."""
    types = pa.types
    tests = (types.is_binary, types.is_large_binary, types.is_binary_view, types.is_fixed_size_binary)
    return any(test(type_) for test in tests)


def number(column: Column, *, owner: str) -> tuple[str, bool]:
    """Return a column as numbers, NULL where a value is not a number, and whether their SQL type is an integer."""
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


def cell(attribute: Attribute, column: Column, v: str, *, t: str = "t") -> Cell:
    """Return the cell index of an attribute in SQL."""
    _refuse_ambiguous(attribute, column)
    if not attribute.has_distances:
        return _listed(attribute, column, v, t)
    steps = SCALE_SQL[attribute.scale].steps(attribute, column, t)
    if not steps:
        return _coordinate(attribute, column, v)
    return replace(_coordinate(attribute, replace(column, name=t, type=pa.string()), v), steps=steps)


class ScaleSql(NamedTuple):
    """SQL of one scale of binned values: steps that normalise a column to the text `t`, and the column's coordinate.

    There are no steps if values are read as they are. The coordinate comes with whether its SQL type is an integer.
    """

    steps: Callable[[Attribute, Column, str], Steps]
    coordinate: Callable[[Attribute, Column], tuple[str, bool]]


def _number_steps(attribute: Attribute, column: Column, t: str) -> Steps:
    if column.kind != "text" or attribute.reading.is_plain:
        return ()
    return ((t, reading.text_as_read(attribute, column.name, column.dialect)),)


def _day_steps(attribute: Attribute, column: Column, t: str) -> Steps:
    """Return steps: numbers become digits, for a format such as %Y%m%d, and a date with a time becomes `MOMENT`."""
    options, dialect, digits = attribute.reading, column.dialect, f"{t}_digits"
    if column.kind == "text" and options.is_plain:
        moment = reading.text_as_read(attribute, column.name, dialect)
        long = f"{dialect.octets}({column.name}) >= {SHORTEST_MOMENT}"
        return ((t, f"CASE WHEN {long} THEN {moment} ELSE {column.name} END"),)
    if column.kind == "text" and any(map(is_digits, options.formats)):
        whole = reading.without_fraction(column.name, dialect)  # 20260131.0 is 20260131 in a column of numbers
        return (digits, whole), (t, reading.text_as_read(attribute, digits, dialect))
    if column.kind == "text":
        return ((t, reading.text_as_read(attribute, column.name, dialect)),)
    if column.kind in ("integer", "real") and options.formats:
        return (digits, column.text()), (t, reading.text_as_read(attribute, digits, dialect))
    return ()


def _listed(attribute: Attribute, column: Column, v: str, t: str) -> Cell:
    """Return the SQL of listed values: a text is looked up as it is first, and then as the typed value it denotes."""
    owner, dialect = f"attribute '{attribute.name}'", column.dialect
    if column.kind is None:
        _refuse(column, "text, numbers, booleans or dates", owner=owner)
    if column.declared and column.kind in ("date", "time"):
        _refuse(column, "text, numbers or booleans", owner=owner)
    typed = TypedValues.from_attribute(attribute)
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
    outcome = _outcome(known, {"null": is_null, "unknown": "true"})
    return Cell(code, index, parsed=bool(steps), steps=steps, outcome=outcome)


def _coordinate(attribute: Attribute, column: Column, v: str) -> Cell:
    """Return the SQL of binned numbers or days."""
    value, exact = SCALE_SQL[attribute.scale].coordinate(attribute, column)
    index, keep, outcome = _binned(attribute, column, v, exact=exact)
    return Cell(value, index, keep, parsed=column.kind == "text", outcome=outcome)


def day(column: Column, *, owner: str, attribute: Attribute) -> str:
    """Return days since 1970; for times with a zone, in UTC or the zone that the attribute declares."""
    if column.kind == "text":
        return reading.moment(column.name, _offsets(attribute), column.dialect)
    if column.kind != "date":
        _refuse_type(column, "dates, timestamps or text such as 2026-01-31", owner=owner)
        return "CAST(NULL AS BIGINT)"
    type_ = value_type(column.type)
    moments = pa.types.is_timestamp(type_) and type_.tz is not None
    return column.dialect.day_of(column.name, type_, _offsets(attribute) if moments else None)


SCALE_SQL: dict[Scale, ScaleSql] = {
    "number": ScaleSql(_number_steps, lambda one, column: number(column, owner=f"attribute '{one.name}'")),
    "day": ScaleSql(
        _day_steps, lambda one, column: (day(column, owner=f"attribute '{one.name}'", attribute=one), True)
    ),
}
"""Scales of binned values; listed values are looked up (`_listed`)."""


def _offsets(attribute: Attribute) -> Offsets | None:
    """Return the UTC offsets of an attribute's zone during the days of its domain."""
    if attribute.zone is None:
        return None
    first, after = attribute.bin_edges()[[0, -1]].astype(int).tolist()
    return offsets_of(attribute.zone, date.fromordinal(first), date.fromordinal(after - 1))


def _binned(attribute: Attribute, column: Column, v: str, *, exact: bool) -> tuple[str, str, str]:
    """Return SQL for the cell of a number v, for whether the row is kept, and for its outcome."""
    dialect = column.dialect
    edges = attribute.bin_edges() - attribute.origin
    # The last bin of real numbers contains its upper edge; any other ends at the double before it.
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
    outcome = _outcome(inside, tests)
    if all(attribute.destination(name) == "drop" for name in tests):
        return bin_, inside, outcome
    nearest = f"CASE WHEN {v} < {low} THEN 0 ELSE {attribute.bins - 1} END"
    cases = " ".join(f"WHEN {test} THEN {_own(attribute, name, nearest)}" for name, test in tests.items())
    return f"CASE WHEN {inside} THEN {bin_} {cases} END", "true", outcome


def _null_tests(attribute: Attribute, v: str, *, exact: bool, dialect: Dialect) -> list[str]:
    """Return tests that a number or day is one that a null text denotes; each is true or false, whatever v is."""
    values = null_values(attribute)
    tests = [dialect.is_nan(v)] if not exact and any(map(math.isnan, values)) else []
    written = [
        str(int(value)) if exact else dialect.real(value)
        for value in values
        if not math.isnan(value) and (not exact or value.is_integer())
    ]
    tests += [f"{v} IN ({', '.join(written)})"] if written else []
    return [f"coalesce({test}, false)" for test in tests]


def _outcome(inside: str, tests: dict[str, str]) -> str:
    """Return SQL for the position of a value's kind in `OUTCOMES`."""
    cases = " ".join(f"WHEN {test} THEN {OUTCOMES.index(name)}" for name, test in tests.items())
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
        return binary_search(v, ends[:-1], list(map(str, range(last + 1))))
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
    """Divide and round, then correct against (start + j width) / over in doubles, as `bin_edges` computes edges.

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


def _refuse_ambiguous(attribute: Attribute, column: Column) -> None:
    """Refuse a declaration that distinguishes values which an inferred type may not, whatever these rows are."""
    if column.declared:
        return
    fault = None
    if not attribute.has_distances and (same := TypedValues.from_attribute(attribute).same):
        fault = f"'{same[0]}' and '{same[1]}' denote one value"
    elif attribute.is_numeric and attribute.reading.thousands == ".":
        fault = "with thousands = '.', 1.234 is ambiguous"
    if fault is not None:
        msg = f"attribute '{attribute.name}': {fault} in a column whose type a library inferred from its rows; "
        msg += "change the declaration, or pass the CSV file itself"
        raise SourceError(msg)


def _refuse_type(column: Column, usable: str, *, owner: str) -> None:
    """Refuse a type that an attribute cannot read, unless the type may depend on a row."""
    if column.declared or column.kind is None:
        _refuse(column, usable, owner=owner)


def _refuse(column: Column, usable: str, *, owner: str) -> NoReturn:
    msg = f"{owner} needs a column of {usable}, but its column has the type {column.type}; cast it, or leave it out"
    raise SourceError(msg)
