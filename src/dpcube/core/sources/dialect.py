"""SQL dialects of the counting engines: DuckDB, PostgreSQL and Spark.

A dialect writes expressions; the binning rules that combine them are in `sql.py`. The texts that are numbers or dates
are defined in `grammar.py`: every engine matches a text before it casts it.
"""

import json
from collections.abc import Callable, Sequence
from decimal import Decimal, localcontext

import pyarrow as pa

from dpcube.core.domain.grammar import DATE, DIGITS, INFINITY, NAN, NUMBER
from dpcube.core.domain.reading import BLANKS, LOWER, UPPER
from dpcube.core.limits import MAX_COMPARED_VALUES, MAX_EXACT_WHOLE, MAX_PARSED_TEXT, MAX_SEARCHED_EDGES, MAX_TEXT
from dpcube.core.sources.zone import Offsets

FAR = 2**31 - 1  # days: outside every domain, in the direction of its sign
SECONDS_A_DAY = 86_400
UNITS_A_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def literal(text: str) -> str:
    """Return a text literal of standard SQL."""
    return "'" + text.replace("'", "''") + "'"


def binary_search(v: str, edges: Sequence[str], values: Sequence[str]) -> str:
    """Return a binary search as CASE: `values[i]` if v is from `edges[i]` up to the next edge; v >= `edges[0]`."""
    if len(values) == 1:
        return values[0]
    middle = len(values) // 2
    lower, upper = binary_search(v, edges[:middle], values[:middle]), binary_search(v, edges[middle:], values[middle:])
    return f"CASE WHEN {v} < {edges[middle]} THEN {lower} ELSE {upper} END"


class Dialect:
    """Dialect of DuckDB, which counts files and frames."""

    double = "DOUBLE"
    text = "VARCHAR"
    octets = "strlen"  # the number of bytes, which an engine finds without reading them
    random = "random()"
    divides_all = True  # whether division accepts every double; the bin of a value that has none may be anything
    barrier = ""  # suffix of a subquery that makes the engine compute its expressions once
    fence: tuple[str, str] | None = None  # a column and an always true condition, for the same purpose

    def literal(self, text: str) -> str:
        """Return a text literal."""
        return literal(text)

    def real(self, number: float) -> str:
        """Return a literal of a double, exact to the last bit."""
        return f"CAST('{float(number)!r}' AS {self.double})"

    def is_nan(self, v: str) -> str:
        """Return a test for NaN."""
        return f"isnan({v})"

    def readable(self, text: str) -> str:
        """Return a test that text is short enough to be matched and cast; text that matches is ASCII."""
        return f"{self.octets}({text}) <= {MAX_PARSED_TEXT}"

    def trimmed(self, text: str) -> str:
        """Return text without blanks around it."""
        return f"trim({text}, {literal(BLANKS)})"

    def matches(self, text: str, pattern: str) -> str:
        """Return a test that the whole text matches."""
        return f"regexp_full_match({text}, {literal(pattern)})"

    def group(self, text: str, pattern: str, number: int) -> str:
        """Return a capturing group of text that matches a pattern; empty or NULL if the group took no part."""
        return f"regexp_extract({text}, {self.literal(f'^(?:{pattern})$')}, {number})"

    def whole_number(self, digits: str) -> str:
        """Return a short text of digits as an integer."""
        return f"TRY_CAST({digits} AS BIGINT)"

    def nearest_double(self, column: str, type_: pa.DataType) -> str:
        """Return the double nearest to a number; the engine's cast of whole decimals beyond 64 bits gives another."""
        cast = f"CAST({column} AS {self.double})"
        if not pa.types.is_decimal(type_) or type_.precision <= 18 or type_.scale > 0:
            return cast
        small = f"{column} BETWEEN -{MAX_EXACT_WHOLE} AND {MAX_EXACT_WHOLE}"
        return f"CASE WHEN {small} THEN {cast} ELSE CAST(CAST({column} AS {self.text}) AS {self.double}) END"

    def whole(self, v: str) -> str:
        """Return a double as a 64-bit integer, NULL if it is not one."""
        return f"CASE WHEN {v} = floor({v}) THEN TRY_CAST({v} AS BIGINT) END"

    def folded(self, text: str) -> str:
        """Return text with its ASCII letters in lower case."""
        return f"translate({text}, {self.literal(UPPER)}, {self.literal(LOWER)})"

    def boolean(self, text: str) -> str:
        """Return 1 or 0 for the words true and false in any case, NULL for other text."""
        words = f"CASE {self.folded(text)} WHEN 'true' THEN 1 WHEN 'false' THEN 0 END"
        return f"CASE WHEN {self.octets}({text}) BETWEEN 4 AND 5 THEN {words} END"

    def at_midnight(self, column: str, type_: pa.DataType) -> str:
        """Return a test that a time without a zone is midnight."""
        return f"{column} % {UNITS_A_SECOND[type_.unit] * SECONDS_A_DAY} = 0"

    def one_if(self, condition: str) -> str:
        """Return 1 or 0."""
        return f"({condition})::INTEGER"

    def within(self, v: str, low: str, high: str) -> str:
        """Return v, clamped if the engine might evaluate it for rows that are left out."""
        return f"least(greatest({v}, {low}), {high})"

    def search(self, v: str, edges: Sequence[float]) -> str | None:  # noqa: ARG002 (for engines that can)
        """Return the position of the last edge that is not above v; None if the engine has no such function."""
        return None

    def whole_part(self, a: str, b: int) -> str:
        """Return the whole part of a / b for integers, a at least 0."""
        return f"{a} // {b}"

    def nearest_bin(self, a: str, width: float, last: int) -> str:
        """Return the minimum of a / width, rounded, and `last`; NULL is allowed where a is NaN or infinite."""
        # The cast rounds; of an infinite quotient it makes NULL.
        return f"least(TRY_CAST({a} / {self.real(width)} AS BIGINT), {last})"

    def cell_number(self, flat: str, cells: int) -> str:
        """Return the number of a row's cell, or `cells` if it has none."""
        # A narrow type fits the engine's perfect hash table, whatever the values are.
        type_ = next(type_ for type_, bits in (("USMALLINT", 16), ("UINTEGER", 32), ("UBIGINT", 64)) if cells < 2**bits)
        return f"coalesce(TRY_CAST({flat} AS {type_}), {cells}::{type_})"

    def position(self, text: str, values: Sequence[str]) -> str:
        """Return the position of text among values, NULL if it is not among them."""
        # An ENUM's values are looked up in a hash table.
        return f"enum_code(TRY_CAST({text} AS ENUM({', '.join(map(literal, values))})))::BIGINT"

    def number(self, text: str) -> str:
        """Return text as a double, NULL if it is not a number of the grammar."""
        # Fast paths. For texts of two bytes the engine's own cast equals the grammar (a test tries them all). For texts
        # that start with a digit, it accepts more only with an underscore or a long exponent, which is tested faster.
        digit = f"{text} >= '0' AND {text} < ':' AND NOT contains({text}, '_')"
        no_exponent = f"NOT contains({text}, 'e') AND NOT contains({text}, 'E')"
        matches = f"{self.readable(text)} AND {self.matches(text, NUMBER)}"
        short = (f"strlen({text}) <= 2", f"strlen({text}) <= 6 AND {digit}")
        fits = (*short, f"strlen({text}) <= 300 AND {digit} AND {no_exponent}", matches)
        return f"CASE {' '.join(f'WHEN {fit} THEN TRY_CAST({text} AS DOUBLE)' for fit in fits)} END"

    def day(self, text: str) -> str:
        """Return text as days since 1970, NULL if it is not a date of the grammar."""
        fits = f"{self.matches(text, DATE)} AND NOT starts_with({self.trimmed(text)}, '0000')"
        read = f"CASE WHEN {fits} THEN TRY_CAST({self.trimmed(text)} AS DATE) - DATE '1970-01-01' END"
        return f"CASE WHEN {self.readable(text)} THEN {read} END"

    def day_of(self, column: str, type_: pa.DataType, offsets: Offsets | None) -> str:
        """Return the days since 1970 of a date or time; times come as their stored integers (`table.py`)."""
        if pa.types.is_date32(type_):
            return f"{column} - DATE '1970-01-01'"
        return self.whole_days(column, UNITS_A_SECOND["ms" if pa.types.is_date64(type_) else type_.unit], offsets)

    def whole_days(self, v: str, second: int, offsets: Offsets | None) -> str:
        """Return the day, rounded down, of a time in units of 1/`second` seconds."""
        if offsets is not None:
            v = self.moved(v, offsets, lambda seconds: str(seconds * second), lambda seconds: str(seconds * second))
        units = second * SECONDS_A_DAY
        return f"({self.whole_part(v, units)} - {self.one_if(f'{v} % {units} < 0')})"

    def moved(self, v: str, offsets: Offsets, moment: Callable[[int], str], span: Callable[[int], str]) -> str:
        """Return a time shifted to local time within the range of the domain; outside it the sum might overflow."""
        edges = [moment(edge) for edge in offsets.edges]
        kept, by = (
            self.within(v, edges[0], edges[-1]),
            binary_search(v, edges, [span(offset) for offset in offsets.offsets]),
        )
        return f"(CASE WHEN {v} >= {edges[0]} AND {v} < {edges[-1]} THEN {kept} + {by} ELSE {v} END)"


class DatabaseDialect(Dialect):
    """Common dialect of the database engines, to which SQL is sent.

    Their scans convert columns to a few types: text, 64-bit integers, doubles, booleans, dates and times.
    """

    octets = "octet_length"

    def start(self, text: str) -> str:
        """Return the first `MAX_TEXT` characters of text, which are all that is read."""
        fits = f"{self.octets}({text}) <= {MAX_TEXT}"
        return f"CASE WHEN {fits} THEN {text} ELSE substring({text}, 1, {MAX_TEXT}) END"

    def whole(self, v: str) -> str:
        return f"CASE WHEN {v} = floor({v}) AND abs({v}) < {self.real(2.0**63)} THEN CAST({v} AS BIGINT) END"

    def one_if(self, condition: str) -> str:
        return f"CASE WHEN {condition} THEN 1 ELSE 0 END"

    def nearest_bin(self, a: str, width: float, last: int) -> str:
        """Return the minimum of a / width, rounded, and `last`."""
        return f"least(floor({a} / {self.real(width)} + 0.5), {last})"

    def cell_number(self, flat: str, cells: int) -> str:
        return f"coalesce({flat}, {cells})"

    def matches(self, text: str, pattern: str) -> str:
        """Return a test that the whole text matches; in Java, a dollar sign would also match before a final newline."""
        raise NotImplementedError

    def sign(self, text: str) -> str:
        """Return the sign of a text that is a number, as a double."""
        return f"CASE WHEN {self.trimmed(text)} LIKE '-%' THEN {self.real(-1)} ELSE {self.real(1)} END"

    def trimmed(self, text: str) -> str:
        return f"trim(BOTH {self.literal(BLANKS)} FROM {text})"

    def finite(self, text: str) -> str:
        """Return the double nearest to the number in text, which is `DIGITS` with a sign."""
        raise NotImplementedError

    def number(self, text: str) -> str:
        cases = {
            DIGITS: self.finite(text),
            INFINITY: f"{self.sign(text)} * {self.real(float('inf'))}",
            NAN: self.real(float("nan")),
        }
        forms = {f"[{BLANKS}]*[+-]?{form}[{BLANKS}]*": value for form, value in cases.items()}
        read = " ".join(f"WHEN {self.matches(text, form)} THEN {value}" for form, value in forms.items())
        return f"CASE WHEN {self.readable(text)} THEN CASE {read} END END"

    def day(self, text: str) -> str:
        fits = f"{self.matches(text, DATE)} AND {self.trimmed(text)} NOT LIKE '0000%'"
        read = f"CASE WHEN {fits} THEN {self.day_written(self.trimmed(text))} END"
        return f"CASE WHEN {self.readable(text)} THEN {read} END"

    def day_written(self, text: str) -> str:
        """Return the days since 1970 of text that is a date."""
        raise NotImplementedError

    def one_by_one(self, text: str, values: Sequence[str]) -> str:
        """Return the position of text among values, by comparing one after another."""
        cases = " ".join(f"WHEN {self.literal(value)} THEN {i}" for i, value in enumerate(values))
        return f"CAST(CASE {text} {cases} END AS BIGINT)"


class PostgreSQL(DatabaseDialect):
    """Dialect of PostgreSQL, whose casts and arithmetic raise on invalid values."""

    double = "DOUBLE PRECISION"
    text = "TEXT"
    barrier = " OFFSET 0"

    def day_of(self, column: str, type_: pa.DataType, offsets: Offsets | None) -> str:
        """Return the days since 1970; dates at infinity lie outside every domain."""
        if pa.types.is_timestamp(type_):
            if offsets is not None:
                column = self.moved(column, offsets, "to_timestamp({})".format, "INTERVAL '{} seconds'".format)
            zone = "" if type_.tz is None else " AT TIME ZONE 'UTC'"
            column = f"CAST({column}{zone} AS DATE)"
        ends = f"WHEN {column} = 'infinity' THEN {FAR} WHEN {column} = '-infinity' THEN {-FAR}"
        return f"CASE {ends} ELSE {column} - DATE '1970-01-01' END"

    def at_midnight(self, column: str, type_: pa.DataType) -> str:  # noqa: ARG002 (a timestamp of one unit)
        return f"CAST(CAST({column} AS DATE) AS TIMESTAMP) = {column}"

    def literal(self, text: str) -> str:
        """Return a literal that means the same under any setting of standard_conforming_strings."""
        return f"E{literal(text.replace(chr(92), chr(92) * 2))}" if "\\" in text else literal(text)

    def is_nan(self, v: str) -> str:
        """Return a test for NaN, which equals itself in PostgreSQL."""
        return f"({v} = {self.real(float('nan'))})"

    def within(self, v: str, low: str, high: str) -> str:  # noqa: ARG002 (the bounds are not needed)
        """Return v as it is: PostgreSQL evaluates WHERE before SELECT, and CASE in its order."""
        return v

    def search(self, v: str, edges: Sequence[float]) -> str | None:
        """Return the position of the last edge that is not above v, by binary search in a sorted array."""
        if len(edges) > MAX_SEARCHED_EDGES:
            return None
        whole = all(isinstance(edge, int) for edge in edges)
        type_ = "BIGINT" if whole else self.double
        array = f"CAST('{{{','.join(map(repr, edges))}}}' AS {type_}[])"
        return f"(width_bucket(CAST({v} AS {type_}), {array}) - 1)"

    def whole_part(self, a: str, b: int) -> str:
        return f"{a} / {b}"

    def nearest_bin(self, a: str, width: float, last: int) -> str:
        """Return a / width, rounded, but 0 without a division where it is small: an underflow would raise."""
        rounded = super().nearest_bin(a, width, last)
        return f"CASE WHEN {a} < {self.real(width / 4)} THEN 0 ELSE {rounded} END"

    def position(self, text: str, values: Sequence[str]) -> str:
        """Return the position of text among values, by binary search in the keys of a JSONB object."""
        places = {value: i for i, value in enumerate(values) if "\0" not in value}  # PostgreSQL's texts have no NUL
        if len(places) <= MAX_COMPARED_VALUES and len(places) == len(values):
            return self.one_by_one(text, values)
        keys = self.literal(json.dumps(places, ensure_ascii=False))
        return f"CAST(jsonb_object_field_text(CAST({keys} AS JSONB), {text}) AS BIGINT)"

    def matches(self, text: str, pattern: str) -> str:
        return f"{text} ~ {self.literal(f'^(?:{pattern})$')}"

    def group(self, text: str, pattern: str, number: int) -> str:
        return f"(regexp_match({text}, {self.literal(f'^(?:{pattern})$')}))[{number}]"

    def whole_number(self, digits: str) -> str:
        """Return a short text of digits as an integer; it is never empty where this is evaluated."""
        return f"CAST({digits} AS BIGINT)"

    def finite(self, text: str) -> str:
        """Return the double nearest to the number in text: at most 11,000 digits, which NUMERIC represents."""
        return self.nearest(f"CAST({self.trimmed(text)} AS NUMERIC)")

    def nearest(self, numeric: str) -> str:
        """Return the double nearest to a NUMERIC, ties to even; the cast alone raises beyond the doubles' range."""
        greatest, least = f"CAST('{GREATEST}' AS NUMERIC)", f"CAST('{LEAST}' AS NUMERIC)"
        infinite = self.real(float("inf"))
        cases = (
            f"WHEN {numeric} = CAST('NaN' AS NUMERIC) THEN {self.real(float('nan'))} "
            f"WHEN {numeric} >= {greatest} THEN {infinite} WHEN {numeric} <= -{greatest} THEN -{infinite} "
            f"WHEN abs({numeric}) <= {least} THEN 0 "
        )
        return f"CASE {cases}ELSE CAST({numeric} AS {self.double}) END"

    def day_written(self, text: str) -> str:
        return f"CAST({text} AS DATE) - DATE '1970-01-01'"


def _exact(base: int, power: int) -> Decimal:
    with localcontext() as context:
        context.prec = 1200
        return Decimal(base) ** power


GREATEST = str(int(_exact(2, 1024) - _exact(2, 970)))  # from here on a number is nearer to 2^1024, not a double
LEAST = str(_exact(2, -1075))  # up to here a number is nearer to 0


class Spark(DatabaseDialect):
    """Dialect of Spark, the same with and without its ANSI mode."""

    text = "STRING"
    random = "rand()"
    # Spark inlines expressions wherever conditions use their names, unless the subquery has a random column.
    fence = ("rand() AS fence", "fence >= 0")
    divides_all = False

    def day_of(self, column: str, type_: pa.DataType, offsets: Offsets | None) -> str:
        """Return the days since 1970; Spark's own cast would use the session's time zone."""
        if pa.types.is_timestamp(type_) and type_.tz is not None:
            return self.whole_days(f"unix_micros({column})", UNITS_A_SECOND["us"], offsets)
        return f"CAST(unix_date(CAST({column} AS DATE)) AS BIGINT)"

    def at_midnight(self, column: str, type_: pa.DataType) -> str:  # noqa: ARG002 (a timestamp of one unit)
        return f"CAST(CAST({column} AS DATE) AS TIMESTAMP_NTZ) = {column}"

    def literal(self, text: str) -> str:
        """Return a literal that means the same under any parser setting: hexadecimal if it has special characters."""
        plain = text.isprintable() and not set(text) & set("'\\${")
        return f"'{text}'" if plain else f"CAST(X'{text.encode().hex()}' AS STRING)"

    def whole_part(self, a: str, b: int) -> str:
        """Return the whole part of a / b for integers; a slash would divide doubles."""
        return f"{a} DIV {b}"

    def position(self, text: str, values: Sequence[str]) -> str:
        if len(values) <= MAX_COMPARED_VALUES:
            return self.one_by_one(text, values)
        keys = ", ".join(map(self.literal, values))
        places = ", ".join(f"{i}L" for i in range(len(values)))
        return f"try_element_at(map_from_arrays(array({keys}), array({places})), {text})"

    def matches(self, text: str, pattern: str) -> str:
        """Return a test that the whole text matches; a dollar sign would allow a final newline."""
        return f"{text} RLIKE {self.literal(f'(?s)^(?:{pattern})(?!.)')}"

    def finite(self, text: str) -> str:
        return f"TRY_CAST({self.trimmed(text)} AS DOUBLE)"

    def day_written(self, text: str) -> str:
        return f"CAST(unix_date(TRY_CAST({text} AS DATE)) AS BIGINT)"


DUCKDB, POSTGRESQL, SPARK = Dialect(), PostgreSQL(), Spark()
