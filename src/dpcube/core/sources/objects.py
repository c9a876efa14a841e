"""Conversion of single Python objects to text for attributes, and to the canonical form of a privacy unit.

No object can raise, nor cost more than its size. Unknown types have no text and no form: the methods of a user's class
may raise or lie. Text and form equal those of the same value in a column of its own type, whatever the other objects
are: the number 1, the text "1" and Decimal(1) are one unit (`unit.py`).
"""

from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any
from uuid import UUID

import numpy as np

from dpcube.core.domain.grammar import UNKNOWN
from dpcube.core.limits import MAX_EXACT_WHOLE, MAX_TEXT, MAX_TUPLE_PARTS
from dpcube.core.sources.unit import (
    NONE,
    UNIX_EPOCH,
    form_of_boolean,
    form_of_clock,
    form_of_moment,
    form_of_text,
    form_of_whole,
)

SECONDS = {  # units of NumPy's times; years and months have no fixed number of seconds
    **{"W": Fraction(604_800), "D": Fraction(86_400), "h": Fraction(3600), "m": Fraction(60)},
    **{unit: Fraction(1, 1000**i) for i, unit in enumerate(("s", "ms", "us", "ns", "ps", "fs", "as"))},
}


def text(value: object) -> str:
    """Return the text of a value in a column of its own type; a time with a zone has its offset from UTC."""
    try:
        if isinstance(value, np.bool_ | np.integer):
            value = value.item()
        if isinstance(value, np.floating):
            value = float(value)
        if isinstance(value, np.datetime64):
            value = value.astype("datetime64[us]").item()
            return value.isoformat() if isinstance(value, datetime) else UNKNOWN
        if isinstance(value, bytes):
            return value.decode("utf-8", "replace")
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, datetime):
            return _moment_text(value)
        if isinstance(value, str | int | float | Decimal | date | time | UUID):
            return str(value).encode("utf-8", "replace").decode("utf-8")
    except Exception:  # a number of thousands of digits, a time at the end of time, a class of the user's own
        return UNKNOWN
    return UNKNOWN


def _moment_text(value: datetime) -> str:
    """Return an instant in UTC, or a local time without zone, to the microsecond."""
    bare = datetime(*value.timetuple()[:6], value.microsecond)
    if value.tzinfo is None:
        return bare.isoformat()
    return f"{(bare - value.utcoffset()).isoformat()}+00:00"  # type: ignore[operator]


def object_form(value: object) -> bytes | None:
    """Return the form of a privacy unit, `NONE` if it has none, None if it is null."""
    try:
        return _form(value)
    except Exception:  # an infinite number, a time zone of the user's own
        return NONE


def _form(value: Any) -> bytes | None:
    kind = type(value)
    if kind is str or kind is np.str_:
        return form_of_text(str(value)[: MAX_TEXT + 1].encode("utf-8", "surrogatepass"))
    if kind is bytes or kind is np.bytes_:
        return form_of_text(bytes(value)[: MAX_TEXT + 1])
    if kind is tuple:
        return _tuple_form(value)
    if kind in FORMS:
        return FORMS[kind](value)
    if kind.__module__ == "numpy" and isinstance(value, np.bool_):
        return form_of_boolean(value=bool(value))
    if kind.__module__ == "numpy" and isinstance(value, np.integer | np.floating):
        return _number_form(value.item())
    if kind.__module__.partition(".")[0] == "pandas" and isinstance(value, datetime | timedelta):
        aware = isinstance(value, datetime) and value.tzinfo is not None
        return _numpy_time_form(value.asm8, aware=aware)  # type: ignore[union-attr]
    return NONE


def _number_form(value: Any) -> bytes:
    """Return the form of a whole number below 2^53; larger numbers cost no more than a comparison."""
    near = -MAX_EXACT_WHOLE <= value <= MAX_EXACT_WHOLE
    return form_of_whole(int(value)) if near and value == int(value) else NONE


def _time_form(value: datetime) -> bytes:
    if value.tzinfo is None:
        return _moment_form(_exact(value - UNIX_EPOCH), aware=False)
    return _moment_form(_exact(value - UNIX_EPOCH.replace(tzinfo=UTC)), aware=True)


def _exact(span: timedelta) -> Fraction:
    return Fraction(span // timedelta(microseconds=1), 10**6)


def _moment_form(seconds: Fraction, *, aware: bool) -> bytes:
    whole, rest = divmod(seconds, 1)
    return form_of_moment(whole, f"{int(rest * 10**18):018}", aware=aware)


def _span_form(seconds: Fraction) -> bytes:
    return f"e{seconds.numerator:x}/{seconds.denominator:x}".encode()


def _numpy_time_form(value: Any, *, aware: bool = False) -> bytes:
    unit, many = np.datetime_data(value.dtype)
    if unit not in SECONDS or np.isnat(value):
        return NONE
    seconds = int(value.view(np.int64)) * many * SECONDS[unit]
    return _moment_form(seconds, aware=aware) if isinstance(value, np.datetime64) else _span_form(seconds)


def _tuple_form(value: tuple[object, ...]) -> bytes:
    """Return the lengths and forms of the parts, which must not be tuples themselves."""
    if len(value) > MAX_TUPLE_PARTS:
        return NONE
    whole = b"("
    for part in value:
        made = b"0" if part is None else NONE if type(part) is tuple else object_form(part)
        if not made or len(whole) > MAX_TEXT:
            return NONE
        whole += f"{len(made)}:".encode() + made
    return whole if len(whole) <= MAX_TEXT else NONE


FORMS: dict[type, Callable[[Any], bytes]] = {
    bool: lambda value: form_of_boolean(value=value),
    int: _number_form,
    float: _number_form,
    Fraction: _number_form,
    Decimal: _number_form,
    UUID: lambda value: b"u" + value.bytes,
    date: lambda value: _moment_form(Fraction((value - UNIX_EPOCH.date()).days * 86_400), aware=False),
    time: lambda value: form_of_clock(value.isoformat().encode()) if value.tzinfo is None else NONE,
    datetime: _time_form,
    timedelta: lambda value: _span_form(_exact(value)),
    np.datetime64: _numpy_time_form,
    np.timedelta64: _numpy_time_form,
}
