"""The form of a unit, value by value: those of one unit have one, others have another, and what names nobody has none.

Which values are one unit is said by `unit_names.py`, and of values of Python, one by one, here.
"""

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

from dpcube.core.domain.grammar import UNKNOWN
from dpcube.core.limits import MAX_TEXT, MAX_TUPLE_PARTS
from dpcube.core.sources.objects import object_form, text
from dpcube.core.sources.unit import NONE, form, form_type, has_form, short_enough
from unit_names import DROPPED, named

DAYS = [date(1969, 12, 31), date(1970, 1, 1), date(2026, 1, 31)]
TIMES = [datetime(1969, 12, 31, 23), datetime(1970, 1, 1), datetime(2026, 1, 31, 12, 30)]
SPANS = [timedelta(seconds=-1), timedelta(), timedelta(days=900)]
CLOCKS = [clock(), clock(0, 0, 1), clock(23, 59, 59)]
OCTETS = [b"\0" * 16, b"\0" * 15 + b"\1", b"\xff" * 16]
TEXTS = [
    "",
    "a",
    "A",
    "a ",
    "\u00e4",
    "a\u0308",
    "1",
    "01",
    "1.0",
    " 1",
    "0.5",
    "9007199254740992",
    "nan",
    "inf",
    "TRUE",
]
TEXTS += ["true", "false", "2026-01-31", "2026-01-31T00:00", "2026-01-31T01:00+01:00", "2026-01-31T00:00Z", "08:30"]
TEXTS += [
    "08:30:00",
    "8:30",
    "2026-02-30",
    "n/k",
    "-1",
    "-01.0",
    "1e400",
    "True",
    "t",
    "-inf",
    "-NaN",
    "9007199254740991",
]
WRITTEN = [text.encode() for text in TEXTS]
ARROW: dict[str, tuple[pa.DataType, list[object], pa.DataType]] = {
    "bool": (pa.bool_(), [True, False], pa.int64()),
    "int8": (pa.int8(), [-1, 0, 1], pa.int64()),
    "int64": (pa.int64(), [-1, 0, 1, 2**53 - 1, 1 - 2**53, 2**53, -(2**53), 2**63 - 1, -(2**63)], pa.int64()),
    "uint64": (pa.uint64(), [0, 2**63, 2**64 - 1, 2**53 - 1, 2**53, 3], pa.int64()),
    "half": (pa.float16(), [np.float16(0), np.float16(0.5), np.float16(-np.inf), np.float16(-2)], pa.int64()),
    "float": (pa.float32(), [0.0, 0.5, math.inf, -3.0, 2.0**53, 2.0**52], pa.int64()),
    "double": (pa.float64(), [0.0, 0.1, math.nextafter(0.1, 1), 2.0**53 - 1, 2.0**53, -7.0, 1e300], pa.int64()),
    "decimal32": (
        pa.decimal32(9, 2),
        [Decimal("0.01"), Decimal("2.00"), Decimal("-3"), Decimal("9999999")],
        pa.int64(),
    ),
    "decimal64": (pa.decimal64(18), [Decimal(2**53), Decimal(2**53 - 1), Decimal(0), Decimal(-1)], pa.int64()),
    "decimal128": (
        pa.decimal128(20),
        [Decimal(1200000000000000001), Decimal(1200000000000000002), Decimal(3), Decimal(2**53), Decimal(2**53 - 1)],
        pa.int64(),
    ),
    "decimal256": (pa.decimal256(60), [Decimal(10**50), Decimal(10**50 + 1), Decimal(-1), Decimal(3)], pa.int64()),
    "cents": (
        pa.decimal128(38, 2),
        [Decimal("0.01"), Decimal("2.00"), Decimal("-3"), Decimal("9007199254740991.01")],
        pa.int64(),
    ),
    "text": (pa.string(), [*TEXTS], pa.large_binary()),
    "large text": (pa.large_string(), [*TEXTS], pa.large_binary()),
    "view of text": (pa.string_view(), [*TEXTS], pa.large_binary()),
    "binary": (pa.binary(), [b"", *OCTETS, *WRITTEN], pa.large_binary()),
    "large binary": (pa.large_binary(), [b"", *OCTETS, *WRITTEN], pa.large_binary()),
    "view of binary": (pa.binary_view(), [b"", *OCTETS, *WRITTEN], pa.large_binary()),
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
    assert has_form(type_)
    assert form_type(type_) == expected
    array = pa.array([*values, None, *values], type_ if name != "uuid" else pa.binary(16))
    made, kept = form(array if name != "uuid" else pa.ExtensionArray.from_storage(type_, array))
    assert made.type == expected
    forms = made.to_pylist()
    assert forms[len(values)] is None
    assert forms[: len(values)] == forms[len(values) + 1 :]
    names = [*map(named, values)] if name != "uuid" else values
    assert kept.to_pylist() == [name is not DROPPED for name in (*names, None, *names)]
    told = [(name, made) for name, made in zip(names, forms, strict=False) if name is not DROPPED]
    assert [made is None for _, made in told] == [name is None for name, _ in told]
    assert len(set(told)) == len({name for name, _ in told}) == len({made for _, made in told})
    assert len(told) >= 2
    sliced, kept_of_slice = form(array[1:] if name != "uuid" else pa.ExtensionArray.from_storage(type_, array[1:]))
    assert sliced.to_pylist() == forms[1:]
    assert kept_of_slice.to_pylist() == kept.to_pylist()[1:]
    assert short_enough(made).to_pylist() == [True] * len(array)


@pytest.mark.parametrize("type_", [pa.string(), pa.binary(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())])
def test_a_name_has_at_most_so_many_bytes(type_: pa.DataType) -> None:
    texts = ["a" * (MAX_TEXT - 1), "a" * MAX_TEXT, "1" * MAX_TEXT, " " * MAX_TEXT, "1" * 1001, "a"]
    made, kept = form(pa.array([*texts, None], type_))
    assert kept.to_pylist() == [True, False, False, False, True, True, True]
    assert len(set(made.filter(kept).to_pylist())) == 4
    assert short_enough(made.filter(kept)).to_pylist() == [True] * 4


@pytest.mark.parametrize("type_", [pa.float16(), pa.float32(), pa.float64()])
def test_nan_names_nobody_and_there_is_one_zero(type_: pa.DataType) -> None:
    values = pa.array([np.float16(value) for value in (math.nan, 0.0, -0.0)], pa.float16()).cast(type_)
    made, kept = form(values)
    assert made.to_pylist() == [None, 0, 0]
    assert kept.to_pylist() == [True, True, True]


@pytest.mark.parametrize(
    "type_",
    [pa.list_(pa.int8()), pa.struct([("a", pa.int8())]), pa.map_(pa.int8(), pa.int8()), pa.month_day_nano_interval()],
)
def test_a_type_whose_values_have_no_form_names_no_unit(type_: pa.DataType) -> None:
    assert not has_form(type_)
    made, kept = form(pa.nulls(2, type_))
    assert made.type == form_type(type_) == pa.large_binary()
    assert (made.to_pylist(), kept.to_pylist()) == ([None, None], [True, True])


# Values of Python.

EQUAL: dict[str, list[object]] = {
    "zero": [0, 0.0, -0.0, Decimal(0), Decimal("-0.00"), Fraction(0), np.int8(0), np.float32(0), "0", "-0", b"00.0"],
    "one": [1, 1.0, Decimal("1.0"), Fraction(1), np.uint64(1), np.float64(1), "1", np.str_("1"), b"1", np.bytes_(b"1")],
    "one, written": ["01", "+1", " 1", "1.", "1e0", "10e-1", ".1e1\n", b"1.0\t", "0" * 999 + "1"],
    "true": [True, np.bool_(1), "true", "True", "TRUE", "tRuE", b"true", np.str_("TRUE")],
    "false": [False, np.bool_(0), "false", "False", "FALSE", b"fALSE"],
    "minus three": [-3, -3.0, "-3", "-03", b"-3.0", Decimal("-3.00"), np.int16(-3)],
    "the largest": [2**53 - 1, 2.0**53 - 1, "9007199254740991", Decimal(2**53 - 1), np.uint64(2**53 - 1)],
    "the least": [1 - 2**53, "-9007199254740991.0", Fraction(1 - 2**53)],
    "three": [3, Decimal((0, (3, *[0] * 1999), -1999))],
    "a word": ["a", np.str_("a"), b"a", np.bytes_(b"a")],
    "what is no word": ["true ", b"true "],
    "what is no number": ["1_0"],
    "text far too long for a number": ["0" * 1000 + "1"],
    "no UTF-8": [b"\xff"],
    "a surrogate": ["\udcff"],
    "a day": [
        date(2026, 1, 31),
        datetime(2026, 1, 31),
        *("2026-01-31", b"2026-01-31", "2026-01-31T00:00", "2026-01-31 00:00:00", " 2026-01-31t00:00:00.000\t"),
        np.datetime64("2026-01-31"),
        pd.Timestamp("2026-01-31"),
        np.datetime64(20484, "D"),
    ],
    "a moment": [
        datetime(2026, 1, 31, tzinfo=UTC),
        datetime(2026, 1, 31, 2, tzinfo=timezone(timedelta(hours=2))),
        pd.Timestamp("2026-01-31", tz="UTC"),
        *("2026-01-31T00:00Z", "2026-01-31 01:00:00+01:00", "2026-01-30T23:30-0030", b"2026-01-31t02:00:00,0+02"),
    ],
    "a nanosecond later": [pd.Timestamp("2026-01-31T00:00:00.000000001"), "2026-01-31 00:00:00.000000001"],
    "a microsecond": [datetime(2026, 1, 31, 0, 0, 0, 1), "2026-01-31T00:00:00.000001", "2026-01-31 00:00:00,0000010"],
    "no such day": ["2026-02-30"],
    "no such hour": ["2026-01-31T24:01"],
    "no time at all": [timedelta(), np.timedelta64(0, "h"), pd.Timedelta(0)],
    "fifty seconds": [timedelta(seconds=50), np.timedelta64(5, ("s", 10)), np.timedelta64(50 * 10**9, "ns")],
    "fifty seconds after 1970": [
        *(datetime(1970, 1, 1, 0, 0, 50), np.datetime64(5, ("s", 10)), "1970-01-01 00:00:50"),
    ],
    "half a second before 1970": [
        *(datetime(1969, 12, 31, 23, 59, 59, 500_000), np.datetime64(-500, "ms"), "1969-12-31T23:59:59.5"),
    ],
    "an attosecond": [np.timedelta64(1, "as")],
    "two weeks": [
        timedelta(days=14),
        np.timedelta64(336, "h"),
        np.timedelta64(2, "W"),
        np.timedelta64(14 * 24 * 60, "m"),
    ],
    "a clock": [clock(1, 2), "01:02", "01:02:00", b" 01:02:00.000 "],
    "a clock's half second": [clock(1, 2, 0, 500_000)],
    "midnight": [clock(), "00:00"],
    "no clock": ["1:02"],
    "a uuid": [UUID(int=1)],
    "the text of a uuid": [str(UUID(int=1))],
    "a pair": [(1, "a"), (1.0, np.str_("a")), ("01", b"a"), (Decimal(1), "a")],
    "another pair": [(True, "a"), ("TRUE", "a")],
    "a pair with nothing": [(1, None)],
    "most parts": [(None,) * MAX_TUPLE_PARTS],
    "none of them": [()],
    "longest text": ["a" * (MAX_TEXT - 1), b"a" * (MAX_TEXT - 1)],
    "longest bytes": [b"\xff" * (MAX_TEXT - 1)],
}
SAME = [("one", "one, written")]  # of which the lists are long


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
    "a number too large": lambda: 2**4096,
    "a number of many digits": lambda: 10**100_000,
    "a number just too large": lambda: 2**53,
    "a number just too small": lambda: -(2**53),
    "its text": lambda: "9007199254740992",
    "its bytes": lambda: b"-9007199254740992.0",
    "its double": lambda: np.float64(2**53),
    "an infinite number": lambda: math.inf,
    "an infinite number of NumPy": lambda: np.float32(-np.inf),
    "an infinite decimal": lambda: Decimal("Infinity"),
    "an infinite text": lambda: "-inf",
    "a text of infinity": lambda: "1e400",
    "a half": lambda: 0.5,
    "a half of NumPy": lambda: np.float16(0.5),
    "a tenth": lambda: Decimal("0.1"),
    "a tenth as a ratio": lambda: Fraction(1, 10),
    "a text of a tenth": lambda: " 1e-1",
    "nearly three": lambda: Decimal("2." + "9" * 5000),
    "hardly more than three": lambda: 3 + Fraction(1, 2**4096),
    "no number as text": lambda: (1, "nan"),
    "a tuple of a fraction": lambda: ("0.5", 1),
    "a ratio too fine": lambda: Fraction(1, 2**4096),
    "a giant decimal": lambda: Decimal("1e100000000"),
    "a tiny decimal": lambda: Decimal("1e-100000000"),
    "no time": lambda: np.datetime64("NaT", "s"),
    "no span": lambda: np.timedelta64("NaT", "s"),
    "no time of pandas": lambda: pd.NaT,
    "a year": lambda: np.datetime64("2026", "Y"),
    "a clock in a zone": lambda: clock(1, 2, tzinfo=UTC),
    "text too long": lambda: "a" * MAX_TEXT,
    "bytes too long": lambda: b"a" * MAX_TEXT,
    "bytes far too long": lambda: b"a" * (MAX_TEXT + 9),
    "a part too many": lambda: (None,) * (MAX_TUPLE_PARTS + 1),
    "parts too long": lambda: ("a" * (MAX_TEXT // 2),) * 3,
    "a tuple of tuples": lambda: ((1,),),
    "a tuple of what has none": lambda: (math.nan,),
    "a list": lambda: [1],
}


def test_values_have_one_form_if_and_only_if_they_are_one_unit() -> None:
    forms = {name: {object_form(value) for value in values} for name, values in EQUAL.items()}
    assert {name: len(made) for name, made in forms.items()} == dict.fromkeys(EQUAL, 1)
    for one, other in SAME:
        assert forms.pop(other) == forms[one]
    assert len(set.union(*forms.values())) == len(forms)
    assert not {made for made in set.union(*forms.values()) if not made}


def test_the_reference_says_what_is_said_here() -> None:
    names = {name: {named(value) for value in values} for name, values in EQUAL.items()}
    assert {name: len(made) for name, made in names.items()} == dict.fromkeys(EQUAL, 1)
    for one, other in SAME:
        assert names.pop(other) == names[one]
    assert len(set.union(*names.values())) == len(names)
    assert not {DROPPED, None} & set.union(*names.values())


@pytest.mark.parametrize("text", ["nan", "NaN", "+NAN", b"-nan", " nan\n"])
def test_a_text_of_no_number_is_null(text: str | bytes) -> None:
    assert object_form(text) is None
    assert named(text) is None


@pytest.mark.parametrize(
    "value",
    [
        *(Decimal((0, (0,), 2001)), Decimal((0, (0,), -2001)), Decimal((0, (0,), 10**8)), Decimal((0, (0,), -(10**8)))),
        *("0" * 1000, "0e9999", "-0e-9999", b"." + b"0" * 900 + b"e+0001"),
    ],
    ids=lambda value: str(value)[:9],
)
def test_nothing_is_zero_however_it_is_written_and_costs_little(value: object) -> None:
    began = time.process_time()
    assert object_form(value) == object_form(0)
    assert time.process_time() - began < 1


def test_a_number_of_many_digits_is_read_exactly() -> None:
    assert object_form(Decimal((0, (3, *[0] * 2000), -2000))) == object_form(3)
    assert object_form(Decimal((0, (7, *[0] * 1999), -2000))) == NONE
    assert object_form(Fraction(3 * 2**5000, 2**5000)) == object_form(3)


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
        (datetime(2026, 1, 31, 23, 30), "2026-01-31T23:30:00"),
        (datetime(2026, 1, 31, 0, 30, tzinfo=timezone(timedelta(hours=2))), "2026-01-30T22:30:00+00:00"),
        (np.datetime64("2026-01-31T23:30"), "2026-01-31T23:30:00"),
        (clock(8, 30), "08:30:00"),
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
