"""Whose rows are told apart: in every source, of every type, of values that are easily taken for one another.

Each test counts one row of each unit, and looks which were kept. Where types are declared (CSV, PostgreSQL) values that
differ are units that differ, and equal ones are one. Elsewhere `unit_names.py` says which are one, and which none.
"""

import itertools
import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Context, Decimal
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
import pandas as pd
import polars as pl
import psycopg
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from dpcube.core.domain import Category, Domain, Integer
from dpcube.core.errors import SourceError
from dpcube.core.sources import CsvDialect, open_rows
from dpcube.core.sources.objects import object_form
from dpcube.core.sources.unit import NONE, form
from unit_names import DROPPED, named, named_in_spark

RELAXED = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
FEW = settings(max_examples=3, deadline=None, suppress_health_check=RELAXED, phases=[Phase.generate], database=None)


def check(source: Callable[[], Any], keys: Sequence[Hashable], *, csv: CsvDialect | None = None) -> None:
    """Check that the rows kept are one of each key, of those without one (None) none or all, and never one dropped."""
    domain = Domain((Integer(name="v", min=0, max=max(len(keys) - 1, 1)),))
    for null, kept_nulls in (("drop", 0), ("each", keys.count(None))):
        rows = open_rows(source(), csv=csv).limit("who", max_rows=1, null=null)  # type: ignore[arg-type]
        kept = Counter(keys[i] for i in np.flatnonzero(rows.count_cells(domain)).tolist())
        assert kept == Counter(set(keys) - {None, DROPPED}) + Counter({None: kept_nulls}), null


# Arrow types: values are made of the bits they are stored in.

WORDS = [b"", b" ", b"a", b"a ", b"A", b"a\0", b"a\0b", b"?", b"\xef\xbf\xbd", b"M\xfcller", b"M\xf6ller", b"M\xc3"]
WORDS += ["caf\u00e9".encode(), "cafe\u0301".encode(), b"1", b"1.0", b"\xff", b"\xfe", b"M\xef\xbf\xbdller", b"null"]
WRITTEN = [  # texts that write a value of another type, or nearly
    *(
        b"0",
        b"-0",
        b"+1",
        b"01",
        b" 1",
        b"1 \n",
        b"1.",
        b"1e0",
        b"10e-1",
        b".1e1",
        b"2",
        b"0.5",
        b".5",
        b"5e-1",
        b"1e-1",
    ),
    *(b"9007199254740991", b"9007199254740991.0", b"9007199254740992", b"9007199254740993", b"-9007199254740991"),
    *(b"-9007199254740992", b"1e22", b"1e400", b"inf", b"-Infinity", b"nan", b"NaN", b"-nan", b"0" * 999 + b"1"),
    *(
        b"0" * 1000 + b"1",
        b"1_0",
        b"10",
        b"0x1",
        b"1\0",
        b".",
        b"-",
        b"e1",
        b"1e",
        b"1e00001",
        "\u0661".encode(),
        b"1,0",
    ),
    *(b"true", b"True", b"TRUE", b"tRuE", b"true ", b"t", b"false", b"False", b"fALSE", b"falsehood", b"yes"),
    *(b"2024-03-31", b" 2024-03-31", b"2024-03-31T00:00", b"2024-03-31t00:00:00", b"2024-03-31 00:00:00.000\t"),
    *(b"2024-03-31T00:00Z", b"2024-03-31 00:00:00z", b"2024-03-31T01:00+01:00", b"2024-03-30T23:00-01"),
    *(b"2024-03-31T02:00+0200", b"2024-03-31T08:30", b"2024-03-31 08:30:00,5", b"2024-03-31T08:30:00.500"),
    *(
        b"2024-03-31T08:30:00.50000001",
        b"2024-02-30",
        b"0000-01-01",
        b"2024-3-31",
        b"20240331",
        b"2024-03-31T",
        b"2024-03",
    ),
    *(
        b"2024-02-29",
        b"2023-02-29",
        b"2024-03-31  00:00",
        b"2024-03-31T00:00+24:00",
        b"2024-03-31T00:00 Z",
        b"2024-03-31Z",
    ),
    *(b"08:30", b"08:30:00", b" 08:30:00.000", b"08:31", b"08:30:01", b"8:30", b"24:00", b"08:60", b"08:30Z", b"08"),
]
WORDS += WRITTEN
NEAR = [
    0,
    1,
    -1,
    2**53 - 1,
    1 - 2**53,
    -(2**53),
    2**53,
    2**53 + 1,
    -(2**53) - 1,
    12 * 10**17,
    12 * 10**17 + 1,
    2**62,
    2**62 + 1,
    2**63 - 1,
    -(2**63),
]
REALS = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    2.0**53 - 1,
    2.0**53,
    1.5,
    math.nextafter(1, 2),
    0.1,
    5e-324,
    1e308,
    math.inf,
    -math.inf,
    65504.0,
    2.0**-24,
]


def text_array(keys: Sequence[bytes | None], type_: pa.DataType) -> pa.Array:
    """Text that may not be UTF-8."""
    if pa.types.is_dictionary(type_):
        return pa.DictionaryArray.from_arrays(
            pa.array([None if key is None else i for i, key in enumerate(keys)], pa.int32()),
            text_array([key or b"" for key in keys], pa.string()),
        )
    raw = pa.array(keys, pa.large_binary() if pa.types.is_large_string(type_) else pa.binary())
    if pa.types.is_string_view(type_):
        return raw.cast(pa.binary_view()).cast(type_, safe=False)
    return pa.Array.from_buffers(type_, len(raw), raw.buffers(), raw.null_count)


def bits_array(keys: Sequence[int | None], type_: pa.DataType) -> pa.Array:
    return pa.array(keys, pa.int32() if type_.bit_width == 32 else pa.int64()).view(type_)


WIDE = Context(prec=100)


def decimal_array(keys: Sequence[int | None], type_: pa.DataType) -> pa.Array:
    return pa.array([None if key is None else Decimal(key).scaleb(-type_.scale, WIDE) for key in keys], type_)


def sized(type_: pa.DataType) -> st.SearchStrategy[int]:
    top = 2 ** (type_.bit_width - 1)
    low, high = (0, 2 * top - 1) if pa.types.is_unsigned_integer(type_) else (-top, top - 1)
    return st.sampled_from(sorted({min(max(key, low), high) for key in NEAR}))


def uuid_array(keys: Sequence[int | None], type_: pa.DataType) -> pa.Array:
    raw = [None if key is None else (key % 2**128).to_bytes(16) for key in keys]
    return pa.ExtensionArray.from_storage(type_, pa.array(raw, pa.binary(16)))


def decimal_name(key: int, type_: pa.DataType) -> Hashable:
    return named(Fraction(key, 10**type_.scale))


def itself(key: int, type_: pa.DataType) -> Hashable:
    return key


class Type(NamedTuple):
    """What a column's values are made of, how, and whom they name."""

    keys: st.SearchStrategy[Any]
    build: Callable[[Any, pa.DataType], pa.Array] = pa.array
    name: Callable[[Any, pa.DataType], Hashable] = lambda key, _: named(key)


words, near, reals = st.sampled_from(WORDS) | st.binary(max_size=3), st.sampled_from(NEAR), st.sampled_from(REALS)
few = st.integers(0, 86_399)
pairs = st.binary(min_size=2, max_size=2) | st.sampled_from([b"01", b" 1", b"1.", b"+1", b"00", b"-0", b".5", b"0."])
ARROW: dict[pa.DataType, Type] = {
    **{t: Type(words, text_array) for t in (pa.string(), pa.large_string(), pa.string_view())},
    pa.dictionary(pa.int32(), pa.string()): Type(words, text_array),
    **{t: Type(words) for t in (pa.binary(), pa.large_binary(), pa.binary_view())},
    pa.binary(2): Type(pairs),
    **{t: Type(sized(t)) for t in (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint64())},
    pa.dictionary(pa.int32(), pa.int64()): Type(near),
    pa.float16(): Type(st.sampled_from([0.0, 1.0, 0.5, 65504.0, 2.0**-24, math.inf])),
    pa.float32(): Type(st.sampled_from([0.0, 1.0, 1 + 2**-23, 2.0**-149, math.inf])),
    pa.float64(): Type(reals),
    pa.decimal128(38, 10): Type(near | st.sampled_from([10**10, 2 * 10**10, 10**10 + 1]), decimal_array, decimal_name),
    pa.decimal128(2, 1): Type(st.sampled_from([0, 10, -90, -95, 99, 1]), decimal_array, decimal_name),  # the floor of
    pa.decimal128(38, 38): Type(st.sampled_from([0, 1, -1, 2, 10**37]), decimal_array, decimal_name),  # some fits not
    pa.decimal128(38, 0): Type(near | st.sampled_from([10**37, 10**37 + 1]), decimal_array, decimal_name),
    pa.decimal256(70, 2): Type(
        near | st.sampled_from([10**60, 10**60 + 1, 100, 200, -100, 101]), decimal_array, decimal_name
    ),
    pa.bool_(): Type(st.booleans()),
    pa.uuid(): Type(near, uuid_array, itself),
    pa.date32(): Type(st.sampled_from([0, 1, -1, 2**31 - 1, -(2**31), 2**31 - 2]), bits_array, itself),
    pa.time32("s"): Type(few, bits_array, itself),
    pa.time64("ns"): Type(few, bits_array, itself),
    **{
        pa.timestamp(unit, zone): Type(near, bits_array, itself)
        for unit in ("s", "ms", "us", "ns")
        for zone in (None, "UTC")
    },
    **{pa.duration(unit): Type(near, bits_array, itself) for unit in ("s", "ns")},
    pa.null(): Type(st.none()),
}
NEVER = {  # what other libraries cannot hold, or hold otherwise
    "parquet": (pa.types.is_decimal256, lambda t: t.id == pa.timestamp("s").id and t.unit == "s"),
    "polars": (
        *(pa.types.is_decimal256, pa.types.is_date32, pa.types.is_dictionary, pa.types.is_duration),
        *(pa.types.is_timestamp, lambda t: t == pa.uuid()),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("type_", ARROW, ids=str)
def test_every_arrow_type(type_: pa.DataType, tmp_path: Path) -> None:
    @FEW
    @given(keys=st.lists(ARROW[type_].keys | st.none(), min_size=1, max_size=30))
    def holds(keys: list[Any]) -> None:
        keys = keys + keys[:5]
        names = [None if key is None else ARROW[type_].name(key, type_) for key in keys]
        table = pa.table({"who": ARROW[type_].build(keys, type_), "v": range(len(keys))})
        sources: dict[str, Callable[[], Any]] = {
            "table": lambda: table,
            "sliced": lambda: pa.concat_tables([table.slice(0, 2), table.slice(2)]),
            "stream": lambda: pa.RecordBatchReader.from_batches(table.schema, table.to_batches()),
            "dataset": lambda: pads.InMemoryDataset(table),
            "parquet": lambda: tmp_path / "t.parquet",
            "polars": lambda: pl.from_arrow(table),
        }
        for name, source in sources.items():
            if not any(never(type_) for never in NEVER.get(name, ())):
                if name == "parquet":
                    pq.write_table(table, tmp_path / "t.parquet")
                valid = name != "polars" or not any(isinstance(k, bytes) and not utf8(k) for k in keys)
                plain = name == "parquet" and pa.types.is_duration(type_)  # which Parquet holds as integers
                check(source if valid else lambda: table, [*map(named, keys)] if plain else names)

    holds()


def utf8(octets: bytes) -> bool:
    return octets.decode("utf-8", "replace").encode() == octets


@pytest.mark.parametrize("who", [[math.nan, math.nan, -0.0, 0.0, None], ["nan", "+NAN", "-0", "0", None]], ids=str)
def test_numbers_that_are_none_name_nobody(who: list[Any], tmp_path: Path) -> None:
    table = pa.table({"who": who, "v": range(5)})
    pq.write_table(table, tmp_path / "t.parquet")
    for source in (table, tmp_path / "t.parquet", pl.from_arrow(table), table.to_pandas()):
        check(lambda source=source: source, [None, None, 0, 0, None])  # type: ignore[misc]


DECIMALS = [pa.decimal128(2, 1), pa.decimal128(2, 2), pa.decimal256(60, 60), pa.decimal32(2, 1), pa.decimal64(18, 18)]


@pytest.mark.parametrize("type_", DECIMALS, ids=str)
def test_no_decimal_ends_a_run(type_: pa.DataType, tmp_path: Path) -> None:
    """The floor of -9.5 has more digits than a decimal(2, 1), and Arrow raises; one row would have decided."""
    most = 10**type_.precision - 1
    keys = [0, most, -most, 1, None, -1, 0, *([10, -10, 10] if type_.scale < type_.precision else [])]
    table = pa.table({"who": decimal_array(keys, type_), "v": range(len(keys))})
    pq.write_table(table, tmp_path / "t.parquet")
    for source in (table, tmp_path / "t.parquet"):
        check(lambda source=source: source, [None if k is None else decimal_name(k, type_) for k in keys])  # type: ignore[misc]


def test_identifiers_and_json_in_parquet_files_are_told_apart(tmp_path: Path) -> None:
    """Arrow reads both as types of its own; two identifiers whose bytes are texts of one number are two."""
    path = tmp_path / "t.parquet"
    ids = [b"1" + b" " * 15, b"01" + b" " * 14, None, b"\xff" * 16, b"\xff" * 16]
    uuids = pa.ExtensionArray.from_storage(pa.uuid(), pa.array(ids, pa.binary(16)))
    lists = pa.array([[1], None, [2], [1], []])
    pq.write_table(pa.table({"who": uuids, "v": range(5), "list": lists}), path)
    check(lambda: path, ids)
    texts = pa.array(['{"a": 1}', "3", "03", None, '{"a": 2}'])
    pq.write_table(pa.table({"who": pa.ExtensionArray.from_storage(pa.json_(), texts), "v": range(5)}), path)
    check(lambda: path, [*map(named, texts.to_pylist())])


# The same people in columns of different types.

WHOLES = [0, 1, 1, 2, -1, 3, 12, 2**53 - 1, -(2**53) + 1, 0]
LARGE = [*WHOLES, 2**53, 2**53 + 2, -(2**53)]
TRUTHS = [True, False, True]
DATES = [
    date(1969, 12, 31),
    date(1970, 1, 1),
    date(2024, 2, 29),
    date(2024, 3, 31),
    date(1969, 12, 31),
    date(2262, 1, 1),
]
STAMPS = [datetime(2024, 3, 31), datetime(1969, 12, 31, 23, 59, 59, 500_000), datetime(2024, 3, 31, 8, 30)]
STAMPS += [*STAMPS, datetime(1969, 12, 31, 23, 59, 59), datetime(2024, 3, 31, 8, 30, 0, 1)]
AWARE = [moment.replace(tzinfo=UTC) for moment in STAMPS]
CLOCKS = [time(8, 30), time(8, 30, 1), time(0), time(8, 30), time(23, 59, 59)]
TIMESTAMPS = [pa.timestamp(unit) for unit in ("us", "ns")]
SAME: dict[str, tuple[list[Any], list[Callable[[Any], str]], list[pa.DataType]]] = {
    "whole": (
        WHOLES,
        [str, "{:05d}".format, "{}.0".format, " {}\t".format, "{}e0".format, "{:+}".format],
        [*(pa.int64(), pa.float64(), pa.decimal128(20, 3), pa.decimal128(17), pa.decimal256(50, 20))],
    ),
    "large": (LARGE, [str, "{}.0".format], [pa.int64(), pa.float64(), pa.decimal128(20, 3), pa.decimal256(50, 20)]),
    "small": (
        [-3, 0, 3, 3],
        [str],
        [*(pa.int8(), pa.int16(), pa.int32(), pa.float16(), pa.float32(), pa.decimal32(4, 1), pa.decimal64(12))],
    ),
    "unsigned": ([0, 1, 2, 2, 200], [str, "0{}".format], [*(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())]),
    "fractions": ([0.5, 0.25, 1.0, 0.5, math.inf, 1e20, 3.0], [repr, str], [pa.float16(), pa.float32(), pa.float64()]),
    "booleans": (TRUTHS, [str, lambda value: str(value).lower(), lambda value: str(value).upper()], [pa.bool_()]),
    "days": (
        DATES,
        [str, "{} ".format, "{}T00:00".format, "{} 00:00:00".format, "{}t00:00:00.000000".format],
        [pa.date32(), pa.date64(), *(pa.timestamp(unit) for unit in ("s", "ms", "us", "ns"))],
    ),
    "moments": (STAMPS, [str, datetime.isoformat, lambda v: f"{v:%Y-%m-%d %H:%M:%S.%f}"], TIMESTAMPS),
    "moments of UTC": (
        AWARE,
        [
            *(str, lambda v: f"{v.replace(tzinfo=None).isoformat()}Z", lambda v: f"{v:%Y-%m-%dT%H:%M:%S,%f%z}"),
            lambda v: str(v.astimezone(timezone(timedelta(hours=-5, minutes=-30)))),
        ],
        [pa.timestamp(type_.unit, zone) for type_ in TIMESTAMPS for zone in ("UTC", "Asia/Tokyo", "-03:00")],
    ),
    "times of day": (
        CLOCKS,
        [str, "{:%H:%M:%S.000}".format, " {} ".format],
        [*(pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"))],
    ),
    "text": (["a", "b", "a", "", "1a", "n/k"], [str], [pa.string(), pa.large_string(), pa.string_view(), pa.binary()]),
}


def sources_of(table: pa.Table, path: Path) -> Iterable[Any]:
    """Yield ways to hold a table."""
    yield table
    pq.write_table(table, path)
    yield path
    if not pa.types.is_decimal256(table.schema.types[0]):
        yield pl.from_arrow(table)
    yield table.to_pandas()
    yield table.to_pandas(types_mapper=pd.ArrowDtype)


def column_of(values: Sequence[Any], type_: pa.DataType) -> pa.Array:
    days = all(type(value) is date for value in values if value is not None)
    if pa.types.is_float32(type_) or pa.types.is_float64(type_):
        values = [None if value is None else float(value) for value in values]
    return pa.array(values, pa.date32()).cast(type_) if days else pa.array(values, type_)


@pytest.mark.slow
@pytest.mark.parametrize("family", SAME)
def test_no_type_that_a_library_infers_changes_who_is_who(family: str, tmp_path: Path) -> None:
    values, writings, types = SAME[family]
    names = [*map(named, values), None]
    numbers = pa.array(range(len(names) + 1))

    def holds(who: pa.Array, *, everywhere: bool = True) -> None:
        table = pa.table({"who": who, "v": numbers[: len(who)]})
        for source in sources_of(table, tmp_path / "t.parquet") if everywhere else [table]:
            check(lambda source=source: source, [*names, named("n/k")][: len(who)])  # type: ignore[misc]

    for type_ in types:
        holds(column_of([*values, None], type_))
    for write in writings:
        texts = [*map(write, values), None]
        assert [*map(named, texts)] == names, texts
        holds(pa.array([*texts, "n/k"], pa.string()), everywhere=write == writings[0])
        for type_ in (pa.binary(), pa.string_view()):
            holds(pa.array(texts, type_), everywhere=False)
        holds(pa.array(texts).dictionary_encode(), everywhere=False)
    mixed = [*values, *(write(value) for write in writings for value in values), None, math.nan]
    for dtype in ("object", "category"):
        frame = pd.DataFrame({"who": pd.Series(mixed, dtype=object).astype(dtype), "v": range(len(mixed))})
        check(lambda frame=frame: frame, [*map(named, mixed)])  # type: ignore[misc]


def test_long_names_are_dropped(tmp_path: Path) -> None:
    table = pa.table({"who": ["x" * (2**20 - 1), "x" * 2**20, "x" * 2**20 + "y", None, "a"], "v": range(5)})
    pq.write_table(table, tmp_path / "t.parquet")
    for source in (table, tmp_path / "t.parquet", pl.from_arrow(table)):
        counts = open_rows(source).limit("who", max_rows=1, null="each").count_cells(Domain((FIVE,)))
        assert counts.tolist() == [1, 0, 0, 1, 1]


FIVE = Integer(name="v", min=0, max=4)


@pytest.mark.parametrize("type_", [pa.list_(pa.int8()), pa.struct({"a": pa.int8()}), pa.month_day_nano_interval()])
def test_types_without_a_form_are_not_refused_and_name_nobody(type_: pa.DataType) -> None:
    """One row decides such a type of a column that is empty but for it, which is not refused without that row."""
    values: dict[pa.DataType, Any] = {pa.list_(pa.int8()): [1], pa.struct({"a": pa.int8()}): {"a": 1}}
    table = pa.table({"who": pa.array([values.get(type_, (1, 2, 3)), None, None], type_), "v": [0, 1, 2]})
    check(lambda: table, [DROPPED, None, None])
    empty = table.slice(1).set_column(0, "who", pa.nulls(2))
    each = [open_rows(of).limit("who", max_rows=1, null="each").count_cells(Domain((FIVE,))) for of in (table, empty)]
    assert each[0].tolist() == each[1].tolist() == [0, 1, 1, 0, 0]


@pytest.mark.parametrize("odd", [pa.array([[1], [2]]), pa.array([{"a": 1}, {"a": 2}])], ids=["list", "struct"])
@pytest.mark.parametrize("type_", [pa.null(), pa.string(), pa.int64(), pa.list_(pa.string())], ids=str)
def test_lists_in_one_file_decide_nothing_in_another(odd: pa.Array, type_: pa.DataType, tmp_path: Path) -> None:
    held: dict[pa.DataType, list[Any]] = {pa.string(): ["3", "\ufffd", None], pa.int64(): [3, 4, None]}
    plain = held.get(type_, [None] * 3)
    pq.write_table(pa.table({"who": pa.array(plain, type_), "v": range(3)}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"who": odd, "v": [3, 4]}), tmp_path / "b.parquet")
    check(lambda: tmp_path, [*map(named, plain), DROPPED, DROPPED])
    who = Category(name="who", values=("3",), null="cell", unknown="cell")
    counts = open_rows(tmp_path).count_cells(Domain((who,))).tolist()
    threes, nulls = sum(value in (3, "3") for value in plain), plain.count(None)
    assert counts == [threes, nulls, 5 - threes - nulls]


def test_objects_of_polars_are_told_apart_by_what_they_are() -> None:
    """Polars hands them over by their place in memory."""
    people = [UUID(int=1), UUID(int=1), UUID(int=2), "2", 2, None, [1]]
    frame = pl.DataFrame({"who": pl.Series(people, dtype=pl.Object), "v": [0] * 7})
    counts = open_rows(frame).limit("who", max_rows=1, null="each").count_cells(Domain((FIVE,)))
    assert counts.tolist() == [4, 0, 0, 0, 0]  # a list names nobody


@pytest.mark.parametrize("dtype", ["timedelta64[ns]", "duration[ns][pyarrow]", "polars"])
def test_durations_are_told_apart_to_the_nanosecond(dtype: str) -> None:
    spans = [1, 1, 2, None]
    column = pl.Series(spans, dtype=pl.Duration("ns")) if dtype == "polars" else None
    if column is None:
        frame: Any = pd.DataFrame({"who": pd.Series(pd.array(spans, "Int64"))}).astype({"who": dtype})
    else:
        frame = pl.DataFrame({"who": column})
    frame = frame.assign(v=0) if dtype != "polars" else frame.with_columns(v=pl.lit(0))
    counts = open_rows(frame).limit("who", max_rows=1).count_cells(Domain((FIVE,)))
    assert counts.tolist() == [2, 0, 0, 0, 0]


# CSV: any bytes.

MARKS = st.sampled_from([*b'aM?,"\n\r\0 \\', 0xFC, 0xF6, 0xC3, 0xBC, 0xEF, 0xBF, 0xBD, 0xE2, 0x82])
PLAIN = {*b',"\n'}


@pytest.mark.slow
@pytest.mark.parametrize("multiline", [True, False])
@settings(FEW, max_examples=40)
@given(fields=st.lists(st.lists(MARKS, max_size=6).map(bytes) | st.sampled_from(WORDS), min_size=1, max_size=25))
def test_any_bytes_of_csv(multiline: bool, fields: list[bytes], tmp_path: Path) -> None:  # noqa: FBT001 (a parameter)
    path = tmp_path / "t.csv"
    fields = [field if multiline else field.replace(b"\n", b"") for field in fields] + fields[:1] * multiline
    lines = [
        b'"%s",%d\r\n' % (field.replace(b'"', b'""'), i) if PLAIN & {*field} or i % 2 else b"%s,%d\n" % (field, i)
        for i, field in enumerate(fields)
    ]
    path.write_bytes(b"who,v\n" + b"".join(lines))
    check(lambda: path, [field or None for field in fields], csv=CsvDialect(multiline=multiline))


def test_a_returned_line_is_the_same_wherever_a_block_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    r"""Two names that differ by CR alone; blocks used to turn a quoted \r\r\n into \n if one ended inside."""
    path = tmp_path / "t.csv"
    names = [b"a\r\r\nb", b"a\r\nb", b"a\nb", b"a\r\r\nb"]
    path.write_bytes(b"who,v\r\n" + b"".join(b'"%s",%d\r\n' % (name, i) for i, name in enumerate(names)))
    for block in (12, 13, 10**6):
        monkeypatch.setattr("dpcube.core.sources.csv.BLOCK", block)
        check(lambda: path, names, csv=CsvDialect(multiline=True))


def test_null_texts_are_null_beyond_ascii(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes('who,v\nfehlt-é,0\n"fehlt-é",1\né,2\n,3\n,4\n'.encode())
    check(lambda: path, [None, None, "é", "", ""], csv=CsvDialect(null_text=("fehlt-é",)))


# Objects of Python, in frames of pandas.

MOMENT = datetime(2024, 3, 31, 1, 30)
OBJECTS: list[Any] = [
    *(0, 1, 1.0, True, np.int64(1), np.float32(1), np.bool_(True), Decimal(1), Decimal("1.00"), Fraction(1)),
    *(False, -0.0, 2**53, 2.0**53, 2**53 + 1, Decimal(2**53 + 1), np.uint64(2**63), 2**63, 0.1, np.float32(0.1)),
    *(Decimal("0.1"), Fraction(1, 10), math.inf, Decimal("Infinity"), -math.inf, 10**400, Decimal("1e400"), 1e-320),
    *("", "1", "1.0", "True", "a", "a ", "a\0", "?", "\ufffd", "\udcfc", "\udcf6", np.str_("a")),
    *(b"", b"1", b"a", b"M\xfc", b"M\xf6", np.bytes_(b"a"), UUID(int=1), UUID(int=2), str(UUID(int=1))),
    *(date(2024, 3, 31), MOMENT, MOMENT.replace(second=1), MOMENT.replace(microsecond=1), pd.Timestamp(MOMENT)),
    *(pd.Timestamp(MOMENT) + pd.Timedelta(1, "ns"), MOMENT.replace(tzinfo=UTC), pd.Timestamp(MOMENT, tz="UTC")),
    *(MOMENT.replace(tzinfo=timezone(timedelta(hours=1))), (MOMENT + timedelta(hours=1)).replace(tzinfo=UTC)),
    *(pd.Timestamp(MOMENT, tz="Asia/Tokyo"), datetime(1, 1, 1), datetime(9999, 12, 31), time(1), time(1, 0, 0, 1)),
    *(timedelta(1), timedelta(1, 0, 1), pd.Timedelta(1, "D"), (), (1,), (1.0,), (1, 2), (12,), ("1", "2"), ("1:", "2")),
    *((None,), (UUID(int=1), "a"), ("a", b"a"), (date(2024, 1, 1), 1)),
    *(
        "01",
        " 1",
        "+1.0",
        "1e0",
        "1_0",
        "true",
        "TRUE",
        b"True",
        "false",
        b"FALSE",
        "t",
        "0",
        "-0.0",
        b"00",
        "0.1",
        "1e400",
    ),
    *(3, 3.0, "3", "03", b"03", Decimal(3), np.int8(3), "9007199254740991", 2**53 - 1, 1 - 2**53, str(2**53), "-inf"),
    *("2024-03-31", b"2024-03-31", datetime(2024, 3, 31), "2024-03-31T00:00", " 2024-03-31 00:00:00.000 "),
    *("2024-03-31T01:30", "2024-03-31 01:30:01", "2024-03-31T01:30:00.000001", "2024-03-31 01:30:00.000000001"),
    *(
        "2024-03-31T01:30Z",
        "2024-03-31 01:30+01:00",
        "2024-03-31T00:30:00+0000",
        "2024-03-31T02:30:00,0-00",
        "2024-03-31Z",
    ),
    *(np.datetime64("2024-03-31"), np.datetime64("2024-03-31T01:30", "m"), datetime(2024, 3, 31, tzinfo=UTC)),
    *(
        time(8, 30),
        "08:30",
        b"08:30:00",
        "08:30:00.0",
        time(8, 30, 0, 500_000),
        "8:30",
        "01:00",
        time(0),
        "24:00",
        b"\xff",
    ),
    *(("1", 2), (True,), ("true",), (date(2024, 3, 31),), (datetime(2024, 3, 31),), ("2024-03-31",), (np.int8(1), 2.0)),
]


class Liar:
    """An object that says it is any other."""

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return hash("a")

    def __str__(self) -> str:
        raise KeyError


class Word(str):
    """Text of the user's own."""

    __slots__ = ()


class Colour(StrEnum):
    """Text as well."""

    RED = "a"


class Pair(NamedTuple):
    """A tuple of the user's own."""

    a: int
    b: int


FORMLESS: list[Any] = [
    *(object(), Liar(), Word("a"), Colour.RED, Pair(1, 2), 1 + 2j, frozenset({1}), [1], {}, range(2), int, len),
    *(Decimal("1e1000000"), Decimal("-1e-1000000"), 10**5000, ((1,),), (1, [2]), (math.nan,), (object(),)),
    *(tuple(range(101)), time(1, tzinfo=UTC), np.datetime64("2024", "Y"), "x" * 2**20 + "y", ("x" * 2**19,) * 3),
    *(
        0.5,
        (0.5,),
        ("0.5",),
        (1, "inf"),
        (2**53,),
        ("nan",),
        np.float16(0.5),
        Decimal("-0.5"),
        -(2**53),
        "2e-1",
        b"1e99",
    ),
]


def test_forms_are_equal_as_names_are() -> None:
    told = [(value, object_form(value), named(value)) for value in OBJECTS]
    for (one, its_form, its_name), (other, form_of_other, name_of_other) in itertools.product(told, repeat=2):
        assert (its_form == form_of_other) == (its_name == name_of_other), (one, other)
    assert [value for value, made, _ in told if made == NONE] == [value for value, _, name in told if name is DROPPED]
    assert None not in [part for _, *parts in told for part in parts]
    assert {object_form(value) for value in FORMLESS} == {NONE}
    assert {named(value) for value in FORMLESS if value == value} == {DROPPED}


def test_forms_are_equal_as_values_are() -> None:
    """Numbers, moments, lengths of time and identifiers: what has a form is equal to Python if its form is."""
    told = [value for value in OBJECTS if object_form(value) != NONE and not isinstance(value, APART)]
    plain = [value.item() if isinstance(value, np.number) else value for value in told if type(value) is not date]
    for one, other in itertools.product(plain, repeat=2):
        assert (object_form(one) == object_form(other)) == (hash(one) == hash(other) and one == other), (one, other)


APART = (
    str,
    bytes,
    bool,
    np.bool_,
    tuple,
    np.datetime64,
)  # of which one form stands for values that Python tells apart


def test_a_boolean_is_no_number() -> None:
    assert len({object_form(value) for value in (True, np.bool_(True), "true", "TRUE", b"True", "tRuE")}) == 1
    assert len({object_form(value) for value in (True, False, 1, 0, "t")}) == 5


NUMBERS = st.integers() | st.integers(2**53 - 3, 2**53 + 3) | st.floats(allow_nan=False) | st.fractions()


@settings(deadline=None)
@given(NUMBERS, NUMBERS | st.integers().map(float))
def test_numbers_of_any_kind_have_the_form_of_their_value(one: Any, other: Any) -> None:
    kept = [number for number in (one, other) if abs(number) < 2**53 and number == int(number)]
    assert [number for number in (one, other) if object_form(number) != NONE] == kept
    assert (object_form(one) == object_form(other)) == (one == other or not kept)
    finite = abs(one) < 1e300
    assert not finite or object_form(one) == object_form(Fraction(one))
    if not isinstance(one, Fraction):
        assert object_form(one) == object_form(repr(one)) == object_form(f" {one!r}\n".encode())
        assert object_form(one) == object_form(Decimal(one))


PIECES = st.text("0123456789.eE+-:, TZtruefalsinN/_\t\u0661", max_size=12)
NINES = st.integers(0, 10**9 - 1).map("{:09}".format)
CLOCK_TEXTS = st.tuples(st.integers(0, 25), st.integers(0, 61), st.integers(0, 61)).map(
    lambda t: "{:02}:{:02}:{:02}".format(*t)
)
OFFSETS = st.sampled_from(
    ["", "Z", "z", "+00:00", "-00", "+0100", "+01", "-05:30", "+23:59", "+24:00", "+1:00", " Z", "+"]
)
DAY_TEXTS = st.sampled_from(
    ["2024-03-31", "2024-02-30", "0001-01-01", "9999-12-31", "0000-01-01", "1969-12-31", "2024-3-31"]
)
MOMENTS = st.builds(
    lambda day, mark, clock, offset: f"{day}{mark}{clock}{offset}",
    DAY_TEXTS,
    st.sampled_from(["T", "t", " ", "  ", ""]),
    CLOCK_TEXTS | CLOCK_TEXTS.map(lambda text: text[:5]) | st.builds("{}.{}".format, CLOCK_TEXTS, NINES),
    OFFSETS,
)
NUMERALS = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["", "-", "+", "00"]),
    st.integers(0, 12),
    st.sampled_from(["", ".", ".0", ".5"]),
    st.sampled_from(["", "e0", "E1", "e+01", "e-1", "e"]),
)
TEXTS_THAT_WRITE = (
    st.sampled_from([word.decode() for word in WRITTEN]) | PIECES | MOMENTS | NUMERALS | DAY_TEXTS | CLOCK_TEXTS
)


@given(st.lists(TEXTS_THAT_WRITE, min_size=1, max_size=40))
def test_texts_have_the_form_of_what_they_write(texts: list[str]) -> None:
    """One form for one name, in the text of Python and of Arrow alike."""
    names = [named(text) for text in texts]
    forms: list[Any] = [object_form(text) for text in texts]
    assert forms == [object_form(text.encode()) for text in texts]
    assert [DROPPED if made == NONE else made for made in forms] == [
        name if name in (None, DROPPED) else made for name, made in zip(names, forms, strict=True)
    ]
    assert len(set(zip(names, forms, strict=True))) == len(set(names)) == len(set(forms))
    for type_ in (pa.string(), pa.large_binary(), pa.string_view()):
        of_column, kept = form(pa.array(texts, pa.string()).cast(type_))
        assert kept.to_pylist() == [name is not DROPPED for name in names]
        assert of_column.to_pylist() == forms


def test_times_of_numpy_are_as_precise_as_they_say() -> None:
    same = [np.datetime64("2024-03-31", "D"), np.datetime64("2024-03-31", "ns"), np.datetime64("2024-03-31", "h")]
    assert {object_form(value) for value in same} == {object_form(datetime(2024, 3, 31))}
    assert (
        object_form(np.datetime64(1, "ns")) != object_form(np.datetime64(1, "ps")) != object_form(np.datetime64(0, "s"))
    )
    assert object_form(np.timedelta64(1, "D")) == object_form(timedelta(1)) != object_form(np.datetime64(1, "D"))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (time(8, 30, 0, 500_000), "08:30:00.5"),
        ("08:30:00.5", "08:30:00.50"),
        ("1.00000000000000000001", "1"),
        ("9007199254740991.4", "9007199254740991"),
        ("1e-400", "0"),
        ("2024-03-31 08:30.5", "2024-03-31 08:30:00.5"),
        ("2024-03-31T00:00+00:60", "2024-03-31T00:00+01:00"),
    ],
    ids=repr,
)
def test_what_is_nearly_written_alike(one: object, other: object) -> None:
    assert (object_form(one) == object_form(other)) == (named(one) == named(other))
    assert [object_form(value) == NONE for value in (one, other)] == [named(value) is DROPPED for value in (one, other)]


@pytest.mark.parametrize("dtype", ["object", "category"])
def test_objects_of_pandas(dtype: str) -> None:
    values: list[Any] = [*OBJECTS, *OBJECTS[::-1], None, math.nan, pd.NaT, pd.NA, Decimal("NaN"), "nan", b" -NAN "]
    keys = [*map(named, values)]
    assert keys.count(None) == 7
    formless = [*FORMLESS, Decimal("sNaN")] if dtype == "object" else []
    who = pd.Series([*values, *formless], dtype=object)
    if dtype == "category":
        codes = pd.Categorical.from_codes(list(range(len(OBJECTS_APART))), OBJECTS_APART)
        who, keys = pd.Series(codes), [named(value) for value in OBJECTS_APART]
    frame = pd.DataFrame({"who": who})
    frame["v"] = range(len(frame))
    domain = Domain((Integer(name="v", min=0, max=len(frame) - 1),))
    for null, nulls in (("drop", 0), ("each", keys.count(None) + len(formless) // len(FORMLESS or [0]))):
        kept = np.flatnonzero(open_rows(frame).limit("who", max_rows=1, null=null).count_cells(domain))  # type: ignore[arg-type]
        found = Counter(keys[i] for i in kept if i < len(keys) and keys[i] is not None)
        assert found == Counter(set(keys) - {None, DROPPED})
        assert len(kept) - sum(found.values()) == (nulls if null == "each" else 0)


OBJECTS_APART: list[Any] = [*dict.fromkeys(OBJECTS), "nan"]  # no category is equal to another


def test_what_pandas_calls_text() -> None:
    for dtype in ("str", "string", object):
        names = (
            ["a", "?", "\ufffd", "\udcfc", "\udcf6", "", None, "a"] if dtype is object else ["a", "?", "", None, "a"]
        )
        frame = pd.DataFrame({"who": pd.Series(names, dtype=dtype), "v": range(len(names))})
        check(lambda frame=frame: frame, names)  # type: ignore[misc]
        names += [word.decode() for word in WRITTEN]
        frame = pd.DataFrame({"who": pd.Series(names, dtype=dtype), "v": range(len(names))})
        check(lambda frame=frame: frame, [*map(named, names)])  # type: ignore[misc]


def test_numbers_of_numpy_among_objects_are_numbers() -> None:
    values = [np.int64(1), np.uint8(2), np.float64(3), np.float32(4), np.longdouble(1), "2", 3, None]
    frame = pd.DataFrame({"v": pd.Series(values, dtype=object)})
    assert open_rows(frame).count_cells(Domain((FIVE,))).tolist() == [0, 2, 2, 2, 1]
    flags = pd.DataFrame({"v": pd.Series([np.bool_(True), True, "true", np.bool_(False)], dtype=object)})
    assert open_rows(flags).count_cells(Domain((Category(name="v", values=("true", "false")),))).tolist() == [3, 1]


# PostgreSQL and Spark.

WHOLE = [str(12 * 10**17 + i) for i in (0, 1, 2, 127)]
TEXTS = ["", " a", "a", "A", "1", "1.0", "é", "e\u0301", "?", "\ufffd", "01", "true", "TRUE", "inf", "0.5", "1e0"]
TEXTS += ["2024-03-31", "2024-03-31T00:00", "2024-03-31 00:00:00", "False", "n/k", " 1", "1d", "1.5F", "T08:30", "d"]
POSTGRES: dict[str, list[str]] = {
    **{type_: TEXTS for type_ in ("text", "varchar", 'text COLLATE "C"', "name", "unit_domain")},
    "char(4)": ["a", "A", "1", "ab", " a"],
    **{type_: WHOLE for type_ in ("numeric(20)", "numeric", "bigint")},
    "numeric(38, 10)": [*WHOLE, "0.0000000001", "0.0000000002"],
    "numeric(5, -1000)": ["1e1003", "2e1003"],
    "money": ["1.00", "1.01", "92233720368547758.07", "92233720368547758.06"],
    "double precision": ["0", "1", "1.0000000000000002", "Infinity", "-Infinity", "5e-324"],
    "real": ["0", "1", "1.0000001"],
    "uuid": [str(UUID(int=i)) for i in range(3)],
    "bytea": ["\\x", "\\x00", "\\x0000", "\\xff", "\\xfe"],
    "boolean": ["true", "false"],
    "unit_mood": ["sad", "Sad"],
    "json": ["1", "1.0", '{"a": 1}', '{"a":1}'],
    "date": ["infinity", "-infinity", "2024-01-01", "4713-01-01 BC", "5874897-12-31"],
    "timestamp": ["infinity", "-infinity", "2024-01-01", "2024-01-01 00:00:00.000001", "294276-12-31 23:59:59.999999"],
    "timestamptz": ["infinity", "-infinity", "2024-01-01", "2024-01-01 00:00:00.000001"],
    "time": ["00:00", "00:00:00.000001", "24:00"],
}


@pytest.mark.slow
def test_every_type_of_postgresql(postgres: str) -> None:
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("CREATE TYPE unit_mood AS ENUM ('sad', 'Sad'); CREATE DOMAIN unit_domain AS text")
        for type_, values in POSTGRES.items():
            connection.execute(f"DROP TABLE IF EXISTS unit_types; CREATE TABLE unit_types (who {type_}, v int)")
            keys: list[Any] = [*values, None, *values[::-1], None]
            nan = ["NaN"] if type_ in ("numeric", "real", "double precision") else []
            for i, value in enumerate([*keys, *nan]):
                connection.execute("INSERT INTO unit_types VALUES (%s, %s)", [value, i])
            check(lambda: f"{postgres}#unit_types", [*keys, *[None] * len(nan)])
        for type_ in ("jsonb", "interval", "int[]", "int4range"):
            rows = open_rows(postgres, query=f"SELECT CAST(NULL AS {type_}) AS who")
            with pytest.raises(SourceError, match="cannot name a unit"):
                rows.limit("who", max_rows=1)
        connection.execute("DROP TABLE unit_types; DROP TYPE unit_mood; DROP DOMAIN unit_domain")


SMALL = ["0", "1", "-1", "2", "9007199254740991", "-9007199254740991", "9007199254740992", "-9007199254740992"]
SPARK: dict[str, list[Any]] = {
    "decimal(20, 0)": [Decimal(value) for value in (*WHOLE, *SMALL)],
    "decimal(38, 10)": [Decimal(value) for value in (*WHOLE, *SMALL, "0.0000000001", "0.5")],
    "decimal(38, 38)": [Decimal(value) for value in ("0", "1e-38", "-1e-38", "2e-38", "0.5", "-0.5")],
    "decimal(2, 1)": [Decimal(value) for value in ("0", "1", "-9", "-9.5", "9.9", "0.1")],
    "string": TEXTS,
    "string collate UTF8_LCASE": TEXTS,
    "binary": [b"", b"\0", b"\0\0", b"\xff", b"\xfe", b"1", b"01", b"1\xff", b"TRUE", b"true", b"2024-03-31", b"0.5"],
    "bigint": [int(value) for value in (*WHOLE, *SMALL)],
    "tinyint": [0, 1, -128],
    "double": [0.0, 1.0, math.nextafter(1, 2), math.inf, -math.inf, 0.5, 2.0**53 - 1, 2.0**53, -1.0],
    "float": [0.0, 1.0, 1 + 2**-23, 0.5, 2.0**53],
    "boolean": [True, False],
    "date": [date.min, date.max, date(1970, 1, 1)],
    "timestamp": [MOMENT, MOMENT.replace(microsecond=1)],
    "timestamp_ntz": [MOMENT, MOMENT.replace(microsecond=1)],
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # PySpark leaves its sockets to be collected
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_every_type_of_spark(spark: Any, tmp_path: Path) -> None:
    for type_, values in SPARK.items():
        keys: list[Any] = [*values, None, *values[::-1]]
        nan = [math.nan] * 2 if type_ in ("float", "double") else ["nan", "NaN"] if keys[0] == "" else []
        rows = [(value, i) for i, value in enumerate([*keys, *nan])]
        frame = spark.createDataFrame(rows, f"who {type_}, v int")
        names = [*map(named_in_spark, keys), *[None] * len(nan)]
        check(lambda frame=frame: frame, names)  # type: ignore[misc]
    for nested in ("array(1)", "map(1, 2)", "struct(1)", "INTERVAL '1' DAY"):
        frame = spark.sql(f"SELECT {nested} AS who, 0 AS v UNION ALL SELECT NULL, 1")
        check(lambda frame=frame: frame, [DROPPED, None])  # type: ignore[misc]
    table = pa.table({"who": text_array(WORDS, pa.string()), "v": range(len(WORDS))})
    pq.write_table(table, tmp_path / "t.parquet")
    check(lambda: spark.read.parquet(str(tmp_path / "t.parquet")), [*map(named_in_spark, WORDS)])
