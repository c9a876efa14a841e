"""Whose row a value says it is, where column types are not declared: the rule of `core/sources/unit.py` once more.

Written apart from the package, without its patterns: texts are taken apart and times are counted by hand.
"""

from collections.abc import Callable, Hashable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from typing import Any, Final
from uuid import UUID

import numpy as np
import pandas as pd

BLANKS = b" \t\n\v\f\r"
LONGEST_TYPED = 1000  # bytes of text that is read as anything else
LONGEST_NAME = 2**20 - 1  # bytes of text that names a unit
MAX_PARTS = 100  # of a tuple
NANOSECOND = Fraction(1, 10**9)
UNITS = dict(zip(("s", "ms", "us", "ns", "ps", "fs", "as"), (Fraction(1, 1000**i) for i in range(7)), strict=True))
UNITS |= {"m": Fraction(60), "h": Fraction(3600), "D": Fraction(86_400), "W": Fraction(7 * 86_400)}


class Fate(Enum):
    """What becomes of a row that names nobody and is not null."""

    DROPPED = "dropped"


DROPPED: Final = Fate.DROPPED


def named(value: Any) -> Hashable:
    """Return a name that a value shares with those of its unit alone; None for null, or `DROPPED`."""
    if value is None or value is pd.NaT or value is pd.NA:
        return None
    if isinstance(value, np.datetime64 | np.timedelta64):
        return _numpy_time(value)
    plain = value.item() if isinstance(value, np.bool_ | np.integer | np.float16 | np.float32) else value
    for types, name in NAMES:
        if type(plain) in types:
            return name(plain)
    return DROPPED


def _number(value: Any) -> Hashable:
    if value.is_nan() if isinstance(value, Decimal) else value != value:
        return None
    if isinstance(value, Decimal) and value.is_finite() and value and not -100 < value.adjusted() < 100:
        return DROPPED  # so that no giant ratio is made: far too large, or a fraction, or written with many zeros
    if value in (float("inf"), -float("inf")):
        return DROPPED
    return _whole(Fraction(int(value)) if value == int(value) else Fraction(1, 2))


def _whole(number: Fraction) -> Hashable:
    return ("number", int(number)) if number.denominator == 1 and abs(number) < 2**53 else DROPPED


def _text(octets: bytes) -> Hashable:
    if len(octets) <= LONGEST_TYPED:
        if octets.lower() in (b"true", b"false"):
            return "truth", octets.lower() == b"true"
        bare = octets.strip(BLANKS)
        for read in (_number_text, _moment_text, _clock_text):
            name: Hashable = read(bare)
            if name is not NotImplemented:
                return name
    return ("text", octets) if len(octets) <= LONGEST_NAME else DROPPED


def _number_text(bare: bytes) -> Any:
    body = bare[1:] if bare[:1] in (b"+", b"-") else bare
    if body.lower() == b"nan":
        return None
    if body.lower() in (b"inf", b"infinity"):
        return DROPPED
    mantissa, mark, power = body.lower().partition(b"e")
    whole, _, part = mantissa.partition(b".")
    digits = power[1:] if power[:1] in (b"+", b"-") else power
    if not (whole + part).isdigit() or (mark and not (digits.isdigit() and len(digits) <= 4)):
        return NotImplemented
    double = float(bare)  # as a library that takes the text for a number has it
    return DROPPED if double in (float("inf"), -float("inf")) else _whole(Fraction(double))


def _moment_text(bare: bytes) -> Any:
    """Return the moment of YYYY-MM-DD, alone or with T or a blank and a clock, and maybe an offset behind it."""
    days = _day(bare[:10])
    if days is None or (bare[10:11] not in (b"T", b"t", b" ") and bare[10:]):
        return NotImplemented
    if not bare[10:]:
        return "moment", False, Fraction(days * 86_400)
    clock, offset = bare[11:], None
    if clock[-1:] in (b"Z", b"z"):
        clock, offset = clock[:-1], 0
    elif signs := [mark for mark in (b"+", b"-") if mark in clock]:
        clock, _, behind = clock.partition(signs[0])
        apart = _pairs(behind if b":" in behind else b":".join(filter(None, (behind[:2], behind[2:]))), (24, 60))
        if apart is None:
            return NotImplemented
        offset = sum(apart) if signs[0] == b"+" else -sum(apart)
    seconds = _seconds(clock)
    if seconds is None:
        return NotImplemented
    return "moment", offset is not None, days * 86_400 + seconds - (offset or 0)


def _day(text: bytes) -> int | None:
    year, month, day = text[:4], text[5:7], text[8:]
    if len(text) != 10 or text[4:5] + text[7:8] != b"--" or not (year + month + day).isdigit():
        return None
    try:
        return (date(int(year), int(month), int(day)) - date(1970, 1, 1)).days
    except ValueError:
        return None


def _pairs(text: bytes, below: tuple[int, ...]) -> list[int] | None:
    """Return the seconds of hours, minutes and seconds, each of two digits with a colon between."""
    parts = text.split(b":")
    if len(parts) > len(below) or any(len(part) != 2 or not part.isdigit() for part in parts):
        return None
    if any(int(part) >= end for part, end in zip(parts, below, strict=False)):
        return None
    return [int(part) * unit for part, unit in zip(parts, (3600, 60, 1), strict=False)]


def _seconds(text: bytes) -> Fraction | None:
    """Return the seconds of HH:MM, HH:MM:SS or HH:MM:SS with one to nine digits behind a point or a comma."""
    whole, rest = text[:8], text[8:]
    parts = _pairs(whole, (24, 60, 60))
    if parts is None or len(parts) < 2 or (rest and (len(parts) < 3 or rest[:1] not in (b".", b","))):
        return None
    if rest and not (rest[1:].isdigit() and len(rest) <= 10):
        return None
    return sum(parts) + int(rest[1:].ljust(9, b"0") or b"0") * NANOSECOND


def _clock_text(bare: bytes) -> Any:
    seconds = _seconds(bare)
    return NotImplemented if seconds is None else ("clock", seconds)


def _clock(value: time) -> Hashable:
    if value.tzinfo is not None:
        return DROPPED
    whole = value.hour * 3600 + value.minute * 60 + value.second
    return "clock", whole + value.microsecond * 1000 * NANOSECOND


def _moment(value: datetime) -> Hashable:
    days = date(value.year, value.month, value.day).toordinal() - date(1970, 1, 1).toordinal()
    seconds = days * 86_400 + value.hour * 3600 + value.minute * 60 + value.second
    finer = value.microsecond * 1000 + getattr(value, "nanosecond", 0)
    offset = value.utcoffset()
    return "moment", offset is not None, seconds + finer * NANOSECOND - _length(offset or timedelta())


def _length(value: timedelta) -> Fraction:
    finer = value.microseconds * 1000 + getattr(value, "nanoseconds", 0)
    return value.days * 86_400 + value.seconds + finer * NANOSECOND


def _numpy_time(value: Any) -> Hashable:
    unit, many = np.datetime_data(value.dtype)
    if np.isnat(value):
        return None
    if unit not in UNITS:
        return DROPPED
    seconds = int(value.astype(np.int64)) * many * UNITS[unit]
    return ("moment", False, seconds) if isinstance(value, np.datetime64) else ("span", seconds)


def _tuple(value: tuple[Any, ...]) -> Hashable:
    """Return the names of the parts, if all have one or are None itself; together they are as short as a text is."""
    parts = [None if part is None or type(part) is tuple else named(part) for part in value]
    told = all(part is None or name not in (None, DROPPED) for part, name in zip(value, parts, strict=True))
    long = sum(len(part) for part in value if isinstance(part, str | bytes)) > LONGEST_NAME
    return DROPPED if not told or long or len(value) > MAX_PARTS else ("tuple", *parts)


NAMES: tuple[tuple[tuple[type, ...], Callable[[Any], Hashable]], ...] = (
    ((bool,), lambda value: ("truth", value)),
    ((int, float, Fraction, Decimal, np.float64, np.longdouble), _number),
    ((str, np.str_), lambda value: _text(str(value).encode("utf-8", "surrogatepass"))),
    ((bytes, np.bytes_), lambda value: _text(bytes(value))),
    ((UUID,), lambda value: ("uuid", value.int)),
    ((date,), lambda value: ("moment", False, Fraction((value - date(1970, 1, 1)).days * 86_400))),
    ((datetime, pd.Timestamp), _moment),
    ((time,), _clock),
    ((timedelta, pd.Timedelta), lambda value: ("span", _length(value))),
    ((tuple,), _tuple),
)


def named_in_spark(value: Any) -> Hashable:
    """Return the name in Spark, where dates and times have none, nor texts that Spark may infer another type from.

    These are texts that begin as a date or a time, and Java's doubles, such as 1d.
    """
    name = named(value)
    if isinstance(name, tuple) and name[0] in ("moment", "clock"):
        return DROPPED
    text = value.encode() if isinstance(value, str) else value if isinstance(value, bytes) else b""
    if len(text) > LONGEST_TYPED or name is None:
        return name
    bare = text.strip(BLANKS)
    return DROPPED if any(may(bare) for may in (_begins_as_date, _begins_as_clock, _is_java_double)) else name


def _begins_as_date(bare: bytes) -> bool:
    year, _, rest = (bare[1:] if bare[:1] in (b"+", b"-") else bare).partition(b"-")
    month, dash, rest = rest.partition(b"-")
    digits = len(rest) - len(rest.lstrip(b"0123456789"))
    dated = year.isdigit() and 4 <= len(year) <= 6 and month.isdigit() and len(month) <= 2
    return dated and (digits in (1, 2) if dash else True)


def _begins_as_clock(bare: bytes) -> bool:
    hours, _, rest = (bare[1:] if bare[:1] in (b"t", b"T") else bare).partition(b":")
    return hours.isdigit() and len(hours) <= 2 and rest[:1].isdigit()


def _is_java_double(bare: bytes) -> bool:
    number, mark = bare[:-1], bare[-1:].lower()
    return (
        mark in (b"d", b"f") and bool(number) and number[-1:] in b".0123456789" and not number.strip(b"-+0123456789.eE")
    )
