"""Values of Python, one at a time: an object enters, the text that attributes read or the form of a unit leaves.

No object can raise, nor cost more than its size: what is not known here, such as a class of the user's own, whose
methods may raise or lie, has no text and no form. A form starts with a letter for what it is, so that the text "1" is
not the number 1; values that Python holds to be equal have one form, as 1, 1.0, True and Decimal(1) do.
"""

from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any
from uuid import UUID

import numpy as np

from dpcube.curator.sources.grammar import LONGEST_TEXT

UNKNOWN = "\N{REPLACEMENT CHARACTER}"  # a text that no attribute knows
NONE = b""  # the form of what has none
MOST_UNIT_BITS = 4096  # of a number that can name a unit, and of its denominator
MOST_DIGITS = 2000  # of a decimal before it is written as a ratio
MOST_PARTS = 100  # of a tuple
UNIX_EPOCH = datetime(1970, 1, 1)
SECONDS = {  # units of NumPy's times; those of years and months are no number of seconds
    **{"W": Fraction(604_800), "D": Fraction(86_400), "h": Fraction(3600), "m": Fraction(60)},
    **{unit: Fraction(1, 1000**i) for i, unit in enumerate(("s", "ms", "us", "ns", "ps", "fs", "as"))},
}


def text(value: object) -> str:
    """Return the text that the value would have in a column of its own type."""
    try:
        if isinstance(value, np.bool_ | np.integer):
            value = value.item()
        if isinstance(value, np.floating):
            value = float(value)
        if isinstance(value, np.datetime64):
            value = value.astype("datetime64[D]").item()
            return str(value) if isinstance(value, date) else UNKNOWN
        if isinstance(value, bytes):
            return value.decode("utf-8", "replace")
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, datetime):
            value = (value.astimezone(UTC) if value.tzinfo else value).date()
        if isinstance(value, str | int | float | Decimal | date | UUID):
            return str(value).encode("utf-8", "replace").decode("utf-8")
    except Exception:  # a number of thousands of digits, a time at the end of time, a class of the user's own
        return UNKNOWN
    return UNKNOWN


def object_form(value: object) -> bytes:
    """Return bytes that are the same for equal values and for no others, or `NONE`."""
    try:
        made = _form(value)
    except Exception:  # an infinite number, a time zone of the user's own
        return NONE
    return made if len(made) <= LONGEST_TEXT else NONE


def _form(value: Any) -> bytes:
    kind = type(value)
    if kind is str or kind is np.str_:
        return b"s" + str(value)[: LONGEST_TEXT + 1].encode("utf-8", "surrogatepass")
    if kind is bytes or kind is np.bytes_:
        return b"b" + bytes(value)[: LONGEST_TEXT + 1]
    if kind is tuple:
        return _tuple_form(value)
    if kind in FORMS:
        return FORMS[kind](value)
    if kind.__module__ == "numpy" and isinstance(value, np.bool_ | np.integer):
        return _number_form(int(value))
    if kind.__module__ == "numpy" and isinstance(value, np.floating):
        return _number_form(value)
    if kind.__module__.partition(".")[0] == "pandas" and isinstance(value, datetime | timedelta):
        aware = isinstance(value, datetime) and value.tzinfo is not None
        return _numpy_time_form(value.asm8, b"z" if aware else None)  # type: ignore[union-attr]
    return NONE


def _number_form(value: Any) -> bytes:
    if value in (float("inf"), -float("inf")):
        return b"n+" if value > 0 else b"n-"
    top, bottom = value.as_integer_ratio()
    fits = max(top.bit_length(), bottom.bit_length()) <= MOST_UNIT_BITS
    return f"n{top:x}/{bottom:x}".encode() if fits else NONE


def _decimal_form(value: Decimal) -> bytes:
    if value.is_nan() or (value.is_finite() and not _is_written_shortly(value)):
        return NONE
    return _number_form(value)


def _is_written_shortly(value: Decimal) -> bool:
    """Say whether a decimal's ratio is quickly made: 1e1000000 has few digits itself, and its ratio a million."""
    _, digits, exponent = value.as_tuple()
    return len(digits) <= MOST_DIGITS and -MOST_DIGITS <= int(exponent) <= MOST_DIGITS


def _time_form(value: datetime) -> bytes:
    if value.tzinfo is None:
        return _seconds_form(b"t", _exact(value - UNIX_EPOCH))
    return _seconds_form(b"z", _exact(value - UNIX_EPOCH.replace(tzinfo=UTC)))


def _exact(span: timedelta) -> Fraction:
    return Fraction(span // timedelta(microseconds=1), 10**6)


def _seconds_form(letter: bytes, seconds: Fraction) -> bytes:
    return letter + f"{seconds.numerator:x}/{seconds.denominator:x}".encode()


def _numpy_time_form(value: Any, letter: bytes | None = None) -> bytes:
    unit, many = np.datetime_data(value.dtype)
    if unit not in SECONDS or np.isnat(value):
        return NONE
    seconds = int(value.view(np.int64)) * many * SECONDS[unit]
    return _seconds_form(letter or (b"t" if isinstance(value, np.datetime64) else b"e"), seconds)


def _tuple_form(value: tuple[object, ...]) -> bytes:
    """Return the lengths and forms of the parts, which are no tuples themselves."""
    if len(value) > MOST_PARTS:
        return NONE
    whole = b"("
    for part in value:
        made = b"0" if part is None else NONE if type(part) is tuple else object_form(part)
        if made == NONE or len(whole) > LONGEST_TEXT:
            return NONE
        whole += f"{len(made)}:".encode() + made
    return whole


FORMS: dict[type, Callable[[Any], bytes]] = {
    bool: _number_form,
    int: _number_form,
    float: _number_form,
    Fraction: _number_form,
    Decimal: _decimal_form,
    UUID: lambda value: b"u" + value.bytes,
    date: lambda value: b"d" + value.isoformat().encode(),
    time: lambda value: b"h" + value.isoformat().encode() if value.tzinfo is None else NONE,
    datetime: _time_form,
    timedelta: lambda value: _seconds_form(b"e", _exact(value)),
    np.datetime64: _numpy_time_form,
    np.timedelta64: _numpy_time_form,
}
