"""Canonical form of a privacy unit: the column `u` by which the rows of different units are distinguished.

The values that attributes read may coincide for two units: text that is not UTF-8 gets replacement characters, decimals
become doubles. If two people were one unit, the rows of one would decide which of the other's are counted. So a unit
has a form of its own, and `aggregates.py` uses only which forms are equal and which are null.

If types are declared apart from the rows (CSV files, whose fields are text, and PostgreSQL):

- two values have the same form if and only if they are equal; -0 is 0, and text is equal if its bytes are;
- a null has none, and NaN is a null here, as in pandas: it names nobody;
- a row whose form is longer than `MAX_TEXT` bytes is left out of the scan, whatever the treatment of nulls;
- a column whose type has no form is refused when the unit is given (`named` in `table.py`).

Elsewhere a library may have inferred the type from the rows: one row without a unit turns whole numbers into doubles,
one row "n/k" turns them into text. So that no row decides to whom the others belong, a value there has the same form in
columns of every type that could contain it (`domain/written.py`). 3, 3.0, "3" and "03" are one unit, and so are a day,
its midnight and the texts of either; the number of a text is the nearest double. A number names a unit if every such
type distinguishes it from its neighbours: if it is whole and below 2^53 (`MAX_EXACT_WHOLE`). A row whose unit is any
other number is left out of the scan, for no type is certain to have kept it distinct. So is a list, a structure or
another value without a form: one such row decides the type of a column that is empty but for it, so the type is not
refused.
"""

import re
from contextlib import suppress
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc

from dpcube.core.domain.grammar import BOOLEANS, NUMBER
from dpcube.core.domain.reading import BLANKS
from dpcube.core.limits import MAX_EXACT_WHOLE, MAX_PARSED_TEXT, MAX_TEXT
from dpcube.core.sources.sql import is_long, kind, value_type

NONE = b""  # stands for a value without a form
MAY_BE_TYPED = f"^[{BLANKS}]*[-+.0-9iInN]|^[tTfF]"  # start of texts that are numbers, booleans, dates or times
UNIX_EPOCH = datetime(1970, 1, 1)
_NUMBER = re.compile(NUMBER.encode())
_CLOCK = re.compile(rb"(?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:[.,][0-9]{1,9})?)?")
_MOMENT = re.compile(
    rb"([0-9]{4}-[0-9]{2}-[0-9]{2})(?:[tT ]([0-9]{2}:[0-9]{2})(?:(:[0-9]{2})(?:[.,]([0-9]{1,9}))?)?"
    rb"([zZ]|[+-][0-9]{2}(?::?[0-5][0-9])?)?)?"
)


def has_form(type_: pa.DataType) -> bool:
    """Return whether the values of an Arrow column have a form."""
    type_ = value_type(type_)
    others = pa.types.is_duration(type_) or pa.types.is_decimal(type_) or isinstance(type_, pa.UuidType)
    return kind(type_) is not None or others


def form_type(type_: pa.DataType) -> pa.DataType:
    """Return the type of the form of an Arrow column."""
    type_ = value_type(type_)
    octets = (kind(type_) == "text" and not is_long(type_)) or isinstance(type_, pa.UuidType)
    return pa.large_binary() if octets or not has_form(type_) else pa.int64()


def form(array: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return the form of each value, and a mask of the rows that have a form or are null."""
    if isinstance(array.type, pa.DictionaryType):
        forms, named = form(array.dictionary)
        return forms.take(array.indices), pc.fill_null(named.take(array.indices), fill_value=True)
    if not has_form(array.type):
        return pa.nulls(len(array), pa.large_binary()), array.is_null()
    if isinstance(array.type, pa.UuidType):
        return _after(b"u", array.storage.cast(pa.large_binary())), _all(array)
    if kind(array.type) == "text" and not is_long(array.type):
        return _forms_of_texts(array.cast(pa.large_binary()))
    if pa.types.is_temporal(array.type):
        return array.view(pa.int32() if array.type.bit_width == 32 else pa.int64()).cast(pa.int64()), _all(array)
    if pa.types.is_boolean(array.type):
        return array.cast(pa.int64()), _all(array)
    return _forms_of_numbers(array)


def form_of_text(text: bytes) -> bytes | None:
    """Return the form of a text: that of the number, boolean, date or time it denotes, or its own; None for NaN."""
    if len(text) <= MAX_PARSED_TEXT:
        if text.lower() in (b"true", b"false"):
            return form_of_boolean(value=BOOLEANS[text.lower().decode()])
        bare = text.strip(BLANKS.encode())
        if _NUMBER.fullmatch(text):
            number = float(bare)
            return None if number != number else form_of_whole(int(number)) if _is_whole(number) else NONE
        with suppress(ValueError, OverflowError):
            if (parts := _MOMENT.fullmatch(bare)) is not None:
                return _form_of_moment_text(*parts.groups())
        if _CLOCK.fullmatch(bare):
            return form_of_clock(bare)
    return b"s" + text if len(text) < MAX_TEXT else NONE


def form_of_whole(number: int) -> bytes:
    """Return the form of a whole number."""
    return f"n{number:d}".encode() if abs(number) <= MAX_EXACT_WHOLE else NONE


def form_of_boolean(*, value: bool) -> bytes:
    """Return the form of a boolean."""
    return b"b1" if value else b"b0"


def form_of_moment(seconds: int, fraction: str, *, aware: bool) -> bytes:
    """Return the form of seconds since 1970 and the digits of a fraction; instants differ from local times."""
    return f"{'z' if aware else 't'}{seconds}.{fraction.rstrip('0')}".encode()


def form_of_clock(text: bytes) -> bytes:
    """Return the form of a time of day, such as 08:30, 08:30:00 or 08:30:00.5."""
    seconds = text[6:8] or b"00"
    return b"c" + text[:5] + b":" + seconds + b"." + text[9:].rstrip(b"0")


def _is_whole(number: float) -> bool:
    return abs(number) <= MAX_EXACT_WHOLE and number.is_integer()


def _form_of_moment_text(
    day: bytes, clock: bytes | None, seconds: bytes | None, fraction: bytes | None, offset: bytes | None
) -> bytes:
    apart = b"+00:00" if offset in (b"z", b"Z") else offset or b""
    moment = datetime.fromisoformat((day + b"T" + (clock or b"00:00") + (seconds or b":00") + apart).decode())
    epoch = UNIX_EPOCH if moment.tzinfo is None else UNIX_EPOCH.replace(tzinfo=UTC)
    since = (moment - epoch).days * 86_400 + (moment - epoch).seconds
    return form_of_moment(since, (fraction or b"").decode(), aware=moment.tzinfo is not None)


def _forms_of_texts(texts: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return the form of each text, computed once for each distinct text."""
    encoded = texts.dictionary_encode()
    every = encoded.dictionary
    own = _after(b"s", every)
    odd = pc.or_(pc.match_substring_regex(every, MAY_BE_TYPED), pc.greater_equal(pc.binary_length(every), MAX_TEXT))
    forms = [form_of_text(text) for text in every.filter(odd).to_pylist()]
    made = pc.replace_with_mask(own, odd, pa.array(forms, pa.large_binary()))
    of_rows = made.take(encoded.indices)
    named = pc.not_equal(of_rows, pa.scalar(NONE, pa.large_binary()))
    return of_rows, pc.fill_null(named, fill_value=True)


def _after(mark: bytes, octets: pa.Array) -> pa.Array:
    """Return bytes behind a mark, by which forms of different kinds differ in a column that has several."""
    return pc.binary_join_element_wise(pa.scalar(mark, pa.large_binary()), octets, pa.scalar(b"", pa.large_binary()))


def _forms_of_numbers(numbers: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return whole numbers below 2^53, and a mask of the rows that have one or are null; NaN is null."""
    if pa.types.is_floating(numbers.type):
        numbers = numbers.cast(pa.float64())
        numbers = pc.if_else(pc.is_nan(numbers), None, numbers)
    if pa.types.is_decimal(numbers.type) and numbers.type.bit_width < 128:  # Arrow has no trunc of these
        numbers = numbers.cast(pa.decimal128(numbers.type.precision, numbers.type.scale))
    doubles = numbers.cast(pa.float64(), safe=False)
    near = pc.less_equal(pc.abs(doubles), float(MAX_EXACT_WHOLE))
    if pa.types.is_floating(numbers.type):
        near = pc.and_(near, pc.equal(pc.floor(numbers), numbers))
    elif pa.types.is_decimal(numbers.type) and numbers.type.scale > 0:
        near = pc.and_(near, _without_fraction(numbers, doubles))
    named = pc.fill_null(near, fill_value=True)
    return pc.if_else(named, doubles, None).cast(pa.int64()), named


def _without_fraction(decimals: pa.Array, doubles: pa.Array) -> pa.Array:
    """Return a mask of the whole numbers, by operations that no value makes raise.

    Arrow rounds a decimal within its own type: the floor of -9.5 has a digit too many for it, which would end the run.
    The part before the point never has more digits than the value; without any digit there, zero alone is whole.
    """
    if decimals.type.scale >= decimals.type.precision:
        return pc.equal(doubles, 0.0)
    return pc.equal(pc.trunc(decimals), decimals)


def _all(array: pa.Array) -> pa.Array:
    return pa.repeat(pa.scalar(value=True), len(array))


def short_enough(forms: pa.Array) -> pa.Array:
    """Return a mask of the forms that are not too long."""
    if not pa.types.is_large_binary(forms.type):
        return _all(forms)
    return pc.fill_null(pc.less_equal(pc.binary_length(forms), MAX_TEXT), fill_value=True)
