"""The form of a unit, value by value: equal values have one, others have another, and what cannot have one has none."""

import math
import time
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from datetime import time as clock
from decimal import Decimal
from fractions import Fraction
from uuid import UUID

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dpcube.curator.sources.grammar import LONGEST_TEXT
from dpcube.curator.sources.objects import MOST_DIGITS, MOST_PARTS, MOST_UNIT_BITS, NONE, UNKNOWN, object_form, text
from dpcube.curator.sources.unit import carries, form, form_type

DAYS = [date(1969, 12, 31), date(1970, 1, 1), date(2026, 1, 31)]
TIMES = [datetime(1969, 12, 31, 23), datetime(1970, 1, 1), datetime(2026, 1, 31, 12, 30)]
SPANS = [timedelta(seconds=-1), timedelta(), timedelta(days=900)]
CLOCKS = [clock(), clock(0, 0, 1), clock(23, 59, 59)]
OCTETS = [b"\0" * 16, b"\0" * 15 + b"\1", b"\xff" * 16]
TEXTS = ["", "a", "A", "a ", "\u00e4", "a\u0308"]
ARROW: dict[str, tuple[pa.DataType, list[object], pa.DataType]] = {
    "bool": (pa.bool_(), [True, False], pa.bool_()),
    "int8": (pa.int8(), [-1, 0, 1], pa.int8()),
    "uint64": (pa.uint64(), [0, 2**63, 2**64 - 1], pa.uint64()),
    "half": (pa.float16(), [np.float16(0), np.float16(0.5), np.float16(-np.inf)], pa.float64()),
    "float": (pa.float32(), [0.0, 0.5, math.inf], pa.float64()),
    "double": (pa.float64(), [0.0, 0.1, math.nextafter(0.1, 1)], pa.float64()),
    "decimal128": (pa.decimal128(20), [Decimal(1200000000000000001), Decimal(1200000000000000002)], pa.large_binary()),
    "decimal256": (pa.decimal256(60), [Decimal(10**50), Decimal(10**50 + 1), Decimal(-1)], pa.large_binary()),
    "text": (pa.string(), [*TEXTS], pa.large_binary()),
    "large text": (pa.large_string(), [*TEXTS], pa.large_binary()),
    "view of text": (pa.string_view(), [*TEXTS], pa.large_binary()),
    "binary": (pa.binary(), [b"", *OCTETS], pa.large_binary()),
    "large binary": (pa.large_binary(), [b"", *OCTETS], pa.large_binary()),
    "view of binary": (pa.binary_view(), [b"", *OCTETS], pa.large_binary()),
    "fixed binary": (pa.binary(16), [*OCTETS], pa.large_binary()),
    "uuid": (pa.uuid(), [*OCTETS], pa.large_binary()),
    "date32": (pa.date32(), [*DAYS], pa.int64()),
    "date64": (pa.date64(), [*DAYS], pa.int64()),
    "time32": (pa.time32("s"), [*CLOCKS], pa.int64()),
    "time64": (pa.time64("us"), [*CLOCKS], pa.int64()),
    "timestamp": (pa.timestamp("us"), [*TIMES], pa.int64()),
    "moment": (pa.timestamp("s", "UTC"), [*TIMES], pa.int64()),
    "duration": (pa.duration("ms"), [*SPANS], pa.int64()),
    "dictionary": (pa.dictionary(pa.int8(), pa.string()), [*TEXTS], pa.large_binary()),
}


@pytest.mark.parametrize("name", ARROW)
def test_every_type_that_names_units_tells_its_values_apart(name: str) -> None:
    type_, values, expected = ARROW[name]
    assert carries(type_)
    assert form_type(type_) == expected
    array = pa.array([*values, None, *values], type_ if name != "uuid" else pa.binary(16))
    made = form(array if name != "uuid" else pa.ExtensionArray.from_storage(type_, array))
    assert made.type == expected
    forms = made.to_pylist()
    assert forms[len(values)] is None
    assert forms[: len(values)] == forms[len(values) + 1 :]
    assert len(set(forms)) == len(values) + 1
    sliced = form(array[1:] if name != "uuid" else pa.ExtensionArray.from_storage(type_, array[1:]))
    assert sliced.to_pylist() == forms[1:]


@pytest.mark.parametrize("type_", [pa.float16(), pa.float32(), pa.float64()])
def test_nan_names_nobody_and_there_is_one_zero(type_: pa.DataType) -> None:
    values = pa.array([np.float16(value) for value in (math.nan, 0.0, -0.0)], pa.float16()).cast(type_)
    assert form(values).to_pylist() == [None, 0.0, 0.0]


@pytest.mark.parametrize(
    "type_",
    [pa.list_(pa.int8()), pa.struct([("a", pa.int8())]), pa.map_(pa.int8(), pa.int8()), pa.month_day_nano_interval()],
)
def test_a_type_whose_values_have_no_form_names_no_unit(type_: pa.DataType) -> None:
    assert not carries(type_)


# Values of Python.

EQUAL: dict[str, list[object]] = {
    "zero": [0, 0.0, -0.0, False, Decimal(0), Decimal("-0.00"), Fraction(0), np.int8(0), np.float32(0), np.bool_(0)],
    "one": [1, 1.0, True, Decimal("1.0"), Fraction(1), np.uint64(1), np.float64(1), np.bool_(1)],
    "a tenth": [Decimal("0.1"), Fraction(1, 10)],
    "the double next to a tenth": [0.1, np.float64(0.1), Decimal(float("0.1"))],
    "a large number": [2**MOST_UNIT_BITS - 1],
    "infinity": [math.inf, np.float32(np.inf), Decimal("Infinity")],
    "minus infinity": [-math.inf, np.float64(-np.inf), Decimal("-Infinity")],
    "the text 1": ["1", np.str_("1")],
    "the byte 1": [b"1", np.bytes_(b"1")],
    "a day": [date(2026, 1, 31)],
    "a time": [
        datetime(2026, 1, 31),
        np.datetime64("2026-01-31"),
        pd.Timestamp("2026-01-31"),
        np.datetime64(20484, "D"),
    ],
    "a moment": [
        datetime(2026, 1, 31, tzinfo=UTC),
        datetime(2026, 1, 31, 2, tzinfo=timezone(timedelta(hours=2))),
        pd.Timestamp("2026-01-31", tz="UTC"),
    ],
    "no time at all": [timedelta(), np.timedelta64(0, "h"), pd.Timedelta(0)],
    "fifty seconds": [timedelta(seconds=50), np.timedelta64(5, ("s", 10)), np.timedelta64(50 * 10**9, "ns")],
    "fifty seconds after 1970": [datetime(1970, 1, 1, 0, 0, 50), np.datetime64(5, ("s", 10))],
    "an attosecond": [np.timedelta64(1, "as")],
    "two weeks": [
        timedelta(days=14),
        np.timedelta64(336, "h"),
        np.timedelta64(2, "W"),
        np.timedelta64(14 * 24 * 60, "m"),
    ],
    "a clock": [clock(1, 2)],
    "a uuid": [UUID(int=1)],
    "a pair": [(1, "a"), (1.0, np.str_("a"))],
    "a pair with nothing": [(1, None)],
    "most parts": [(None,) * MOST_PARTS],
    "none of them": [()],
    "most digits": [Decimal((0, (3, *[0] * (MOST_DIGITS - 1)), 1 - MOST_DIGITS)), 3],
    "greatest exponent": [Decimal((0, (0,), MOST_DIGITS)), Decimal((0, (0,), -MOST_DIGITS))],
    "least exponent": [Decimal((0, (7, *[0] * (MOST_DIGITS - 1)), -MOST_DIGITS)), Decimal("0.7")],
    "longest text": ["a" * (LONGEST_TEXT - 1)],
    "longest bytes": [b"a" * (LONGEST_TEXT - 1)],
}


class Whole(np.int64):
    """A class of the user's own."""


class Real(np.float64):
    """A class of the user's own."""


class Lying(datetime):
    """A time of the user's own, which says that it is another."""

    asm8 = np.datetime64("2026-01-31")


FORMLESS: dict[str, Callable[[], object]] = {
    "a whole number of another class": lambda: Whole(1),
    "a real number of another class": lambda: Real(1),
    "a time of another class": lambda: Lying(2026, 1, 31),
    "a complex number": lambda: np.complex128(1),
    "an array": lambda: np.array([1]),
    "no number": lambda: math.nan,
    "no decimal": lambda: Decimal("NaN"),
    "a number too large": lambda: 2**MOST_UNIT_BITS,
    "a ratio too fine": lambda: Fraction(1, 2**MOST_UNIT_BITS),
    "a digit too many": lambda: Decimal((0, (3, *[0] * MOST_DIGITS), -MOST_DIGITS)),
    "nothing, far below": lambda: Decimal((0, (0,), -MOST_DIGITS - 1)),
    "nothing, far above": lambda: Decimal((0, (0,), MOST_DIGITS + 1)),
    "a giant decimal": lambda: Decimal("1e100000000"),
    "a tiny decimal": lambda: Decimal("1e-100000000"),
    "no time": lambda: np.datetime64("NaT", "s"),
    "no span": lambda: np.timedelta64("NaT", "s"),
    "no time of pandas": lambda: pd.NaT,
    "a year": lambda: np.datetime64("2026", "Y"),
    "a clock in a zone": lambda: clock(1, 2, tzinfo=UTC),
    "text too long": lambda: "a" * LONGEST_TEXT,
    "bytes too long": lambda: b"a" * LONGEST_TEXT,
    "bytes far too long": lambda: b"a" * (LONGEST_TEXT + 9),
    "a part too many": lambda: (None,) * (MOST_PARTS + 1),
    "parts too long": lambda: ("a" * (LONGEST_TEXT // 2),) * 3,
    "a tuple of tuples": lambda: ((1,),),
    "a tuple of what has none": lambda: (math.nan,),
    "a list": lambda: [1],
}


def test_values_have_one_form_if_and_only_if_they_are_equal() -> None:
    forms = {name: {object_form(value) for value in values} for name, values in EQUAL.items()}
    assert {name: len(made) for name, made in forms.items()} == dict.fromkeys(EQUAL, 1)
    assert forms.pop("greatest exponent") == forms["zero"]
    assert len(set.union(*forms.values())) == len(forms)
    assert NONE not in set.union(*forms.values())


@pytest.mark.parametrize("name", FORMLESS)
def test_what_cannot_name_a_unit_has_no_form_and_costs_little(name: str) -> None:
    value = FORMLESS[name]()
    began = time.process_time()
    assert object_form(value) == NONE
    assert time.process_time() - began < 1


# The text that attributes read.


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.int64(7), "7"),
        (np.float32(0.5), "0.5"),
        (np.bool_(1), "true"),
        (False, "false"),
        (b"caf\xc3\xa9", "caf\u00e9"),
        (b"a\xff", "a\N{REPLACEMENT CHARACTER}"),
        ("\ud800", "?"),
        (Decimal("1.50"), "1.50"),
        (date(2026, 1, 31), "2026-01-31"),
        (datetime(2026, 1, 31, 23, 30), "2026-01-31"),
        (datetime(2026, 1, 31, 0, 30, tzinfo=timezone(timedelta(hours=2))), "2026-01-30"),
        (np.datetime64("2026-01-31T23:30"), "2026-01-31"),
        (np.datetime64("NaT"), UNKNOWN),
        (np.datetime64("20260-01-31"), UNKNOWN),  # after the last year that a date of Python's has
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        ([1], UNKNOWN),
        pytest.param(10**5000, UNKNOWN, id="thousands of digits"),
    ],
)
def test_an_object_has_the_text_of_a_column_of_its_type(
    value: object, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "America/Santiago")  # where this machine is must not matter
    time.tzset()
    try:
        assert text(value) == expected
    finally:
        monkeypatch.undo()
        time.tzset()
