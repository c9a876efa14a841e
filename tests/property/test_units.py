"""Values that differ are units that differ, or are dropped; equal ones are one: in every source, of every type.

Each test draws values that are easily taken for one another, counts one row of each unit, and looks which were kept.
"""

import itertools
import math
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
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

from dpcube.curator.sources import CsvDialect, open_rows
from dpcube.curator.sources.objects import NONE, object_form
from dpcube.domain import Category, Domain, Integer
from dpcube.errors import SourceError

RELAXED = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
FEW = settings(max_examples=3, deadline=None, suppress_health_check=RELAXED, phases=[Phase.generate], database=None)


def check(source: Callable[[], Any], keys: Sequence[Hashable], *, csv: CsvDialect | None = None) -> None:
    """Check that the rows kept are one of each key, and of those without one (None) none or all."""
    domain = Domain((Integer(name="v", min=0, max=max(len(keys) - 1, 1)),))
    for null, kept_nulls in (("drop", 0), ("each", keys.count(None))):
        rows = open_rows(source(), csv=csv).limit("who", max_rows=1, null=null)  # type: ignore[arg-type]
        kept = Counter(keys[i] for i in np.flatnonzero(rows.count_cells(domain)).tolist())
        assert kept == Counter(set(keys) - {None}) + Counter({None: kept_nulls}), null


# Arrow types: values are made of the bits they are stored in.

WORDS = [b"", b" ", b"a", b"a ", b"A", b"a\0", b"a\0b", b"?", b"\xef\xbf\xbd", b"M\xfcller", b"M\xf6ller", b"M\xc3"]
WORDS += ["caf\u00e9".encode(), "cafe\u0301".encode(), b"1", b"1.0", b"\xff", b"\xfe", b"M\xef\xbf\xbdller", b"null"]
NEAR = [0, 1, -1, 2**53, 2**53 + 1, -(2**53) - 1, 12 * 10**17, 12 * 10**17 + 1, 2**62, 2**62 + 1, 2**63 - 1, -(2**63)]
REALS = [0.0, 1.0, math.nextafter(1, 2), 0.1, 5e-324, 1e308, math.inf, -math.inf, 65504.0, 2.0**-24]


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


class Type(NamedTuple):
    """What a column's values are made of, and how."""

    keys: st.SearchStrategy[Any]
    build: Callable[[Any, pa.DataType], pa.Array] = pa.array


words, near, reals = st.sampled_from(WORDS) | st.binary(max_size=3), st.sampled_from(NEAR), st.sampled_from(REALS)
few = st.integers(0, 86_399)
ARROW: dict[pa.DataType, Type] = {
    **{t: Type(words, text_array) for t in (pa.string(), pa.large_string(), pa.string_view())},
    pa.dictionary(pa.int32(), pa.string()): Type(words, text_array),
    **{t: Type(words) for t in (pa.binary(), pa.large_binary(), pa.binary_view())},
    pa.binary(2): Type(st.binary(min_size=2, max_size=2)),
    **{t: Type(sized(t)) for t in (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint64())},
    pa.dictionary(pa.int32(), pa.int64()): Type(near),
    pa.float16(): Type(st.sampled_from([0.0, 1.0, 0.5, 65504.0, 2.0**-24, math.inf])),
    pa.float32(): Type(st.sampled_from([0.0, 1.0, 1 + 2**-23, 2.0**-149, math.inf])),
    pa.float64(): Type(reals),
    pa.decimal128(38, 10): Type(near, decimal_array),
    pa.decimal128(38, 0): Type(near | st.sampled_from([10**37, 10**37 + 1]), decimal_array),
    pa.decimal256(70, 2): Type(near | st.sampled_from([10**60, 10**60 + 1]), decimal_array),
    pa.bool_(): Type(st.booleans()),
    pa.uuid(): Type(near, uuid_array),
    pa.date32(): Type(st.sampled_from([0, 1, -1, 2**31 - 1, -(2**31), 2**31 - 2]), bits_array),
    pa.time32("s"): Type(few, bits_array),
    pa.time64("ns"): Type(few, bits_array),
    **{pa.timestamp(unit, zone): Type(near, bits_array) for unit in ("s", "ms", "us", "ns") for zone in (None, "UTC")},
    **{pa.duration(unit): Type(near, bits_array) for unit in ("s", "ns")},
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
                check(source if valid else lambda: table, keys)

    holds()


def utf8(octets: bytes) -> bool:
    return octets.decode("utf-8", "replace").encode() == octets


def test_numbers_that_are_none_name_nobody(tmp_path: Path) -> None:
    table = pa.table({"who": [math.nan, math.nan, -0.0, 0.0, None], "v": range(5)})
    pq.write_table(table, tmp_path / "t.parquet")
    for source in (table, tmp_path / "t.parquet", pl.from_arrow(table), table.to_pandas()):
        check(lambda source=source: source, [None, None, 0, 0, None])  # type: ignore[misc]


def test_long_names_are_dropped(tmp_path: Path) -> None:
    table = pa.table({"who": ["x" * 2**20, "x" * 2**20 + "y", "x" * 2**20 + "z", None, "a"], "v": range(5)})
    pq.write_table(table, tmp_path / "t.parquet")
    for source in (table, tmp_path / "t.parquet", pl.from_arrow(table)):
        counts = open_rows(source).limit("who", max_rows=1, null="each").count_cells(Domain((FIVE,)))
        assert counts.tolist() == [1, 0, 0, 1, 1]


FIVE = Integer(name="v", min=0, max=4)


@pytest.mark.parametrize("type_", [pa.list_(pa.int8()), pa.struct({"a": pa.int8()}), pa.month_day_nano_interval()])
def test_types_without_a_form_are_refused_before_a_row_is_read(type_: pa.DataType) -> None:
    table = pa.table({"who": pa.nulls(2, type_), "v": [0, 1]})
    with pytest.raises(SourceError, match="which cannot name a unit; cast it to text"):
        open_rows(table).limit("who", max_rows=1)


def test_objects_of_polars_are_refused() -> None:
    """Polars hands them over by their place in memory."""
    frame = pl.DataFrame({"who": pl.Series([UUID(int=1), UUID(int=1)], dtype=pl.Object), "v": [0, 1]})
    with pytest.raises(SourceError, match="cannot name a unit"):
        open_rows(frame).limit("who", max_rows=1)


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
        monkeypatch.setattr("dpcube.curator.sources.csv.BLOCK", block)
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
]


def test_forms_are_equal_as_values_are() -> None:
    plain = [value.item() if isinstance(value, np.number | np.bool_) else value for value in OBJECTS]
    for (i, one), (j, other) in itertools.product(enumerate(plain), repeat=2):
        assert (object_form(OBJECTS[i]) == object_form(OBJECTS[j])) == (hash(one) == hash(other) and one == other), (
            one,
            other,
        )
    assert NONE not in map(object_form, OBJECTS)
    assert {object_form(value) for value in FORMLESS} == {NONE}


@settings(deadline=None)
@given(st.integers() | st.floats(allow_nan=False) | st.fractions(), st.integers() | st.floats(allow_nan=False))
def test_numbers_of_any_kind_have_the_form_of_their_value(one: Any, other: Any) -> None:
    assert (object_form(one) == object_form(other)) == (one == other)
    finite = abs(one) < 1e300
    assert not finite or object_form(one) == object_form(Fraction(one))


def test_times_of_numpy_are_as_precise_as_they_say() -> None:
    same = [np.datetime64("2024-03-31", "D"), np.datetime64("2024-03-31", "ns"), np.datetime64("2024-03-31", "h")]
    assert {object_form(value) for value in same} == {object_form(datetime(2024, 3, 31))}
    assert (
        object_form(np.datetime64(1, "ns")) != object_form(np.datetime64(1, "ps")) != object_form(np.datetime64(0, "s"))
    )
    assert object_form(np.timedelta64(1, "D")) == object_form(timedelta(1)) != object_form(np.datetime64(1, "D"))


@pytest.mark.parametrize("dtype", ["object", "category"])
def test_objects_of_pandas(dtype: str) -> None:
    values: list[Any] = [*OBJECTS, *OBJECTS[::-1], None, math.nan, pd.NaT, pd.NA, Decimal("NaN")]
    classes = {object_form(value): object_form(value) for value in OBJECTS}
    keys = [classes[object_form(value)] for value in (*OBJECTS, *OBJECTS[::-1])] + [None] * 5
    formless = [*FORMLESS, Decimal("sNaN")] if dtype == "object" else []
    who = pd.Series([*values, *formless], dtype=object)
    if dtype == "category":
        codes = pd.Categorical.from_codes(list(range(len(OBJECTS_APART))), OBJECTS_APART)
        who, keys = pd.Series(codes), [object_form(value) for value in OBJECTS_APART]
    frame = pd.DataFrame({"who": who})
    frame["v"] = range(len(frame))
    domain = Domain((Integer(name="v", min=0, max=len(frame) - 1),))
    for null, nulls in (("drop", 0), ("each", keys.count(None) + len(formless) // len(FORMLESS or [0]))):
        kept = np.flatnonzero(open_rows(frame).limit("who", max_rows=1, null=null).count_cells(domain))  # type: ignore[arg-type]
        named = Counter(keys[i] for i in kept if i < len(keys) and keys[i] is not None)
        assert named == Counter(set(keys) - {None})
        assert len(kept) - sum(named.values()) == (nulls if null == "each" else 0)


OBJECTS_APART = list({object_form(value): value for value in OBJECTS}.values())


def test_what_pandas_calls_text() -> None:
    for dtype in ("str", "string", object):
        names = (
            ["a", "?", "\ufffd", "\udcfc", "\udcf6", "", None, "a"] if dtype is object else ["a", "?", "", None, "a"]
        )
        frame = pd.DataFrame({"who": pd.Series(names, dtype=dtype), "v": range(len(names))})
        check(lambda frame=frame: frame, names)  # type: ignore[misc]


def test_numbers_of_numpy_among_objects_are_numbers() -> None:
    values = [np.int64(1), np.uint8(2), np.float64(3), np.float32(4), np.longdouble(1), "2", 3, None]
    frame = pd.DataFrame({"v": pd.Series(values, dtype=object)})
    assert open_rows(frame).count_cells(Domain((FIVE,))).tolist() == [0, 2, 2, 2, 1]
    flags = pd.DataFrame({"v": pd.Series([np.bool_(True), True, "true", np.bool_(False)], dtype=object)})
    assert open_rows(flags).count_cells(Domain((Category(name="v", values=("true", "false")),))).tolist() == [3, 1]


# PostgreSQL and Spark.

WHOLE = [str(12 * 10**17 + i) for i in (0, 1, 2, 127)]
TEXTS = ["", " a", "a", "A", "1", "1.0", "é", "e\u0301", "?", "\ufffd"]
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


SPARK: dict[str, list[Any]] = {
    "decimal(20, 0)": [Decimal(value) for value in WHOLE],
    "decimal(38, 10)": [Decimal(value) for value in (*WHOLE, "0.0000000001")],
    "string": TEXTS,
    "string collate UTF8_LCASE": TEXTS,
    "binary": [b"", b"\0", b"\0\0", b"\xff", b"\xfe"],
    "bigint": [int(value) for value in WHOLE],
    "double": [0.0, 1.0, math.nextafter(1, 2), math.inf],
    "float": [0.0, 1.0, 1 + 2**-23],
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
        nan = [math.nan] * 2 if type_ in ("float", "double") else []
        rows = [(value, i) for i, value in enumerate([*keys, *nan])]
        frame = spark.createDataFrame(rows, f"who {type_}, v int")
        check(lambda frame=frame: frame, [*keys, *[None] * len(nan)])  # type: ignore[misc]
    with pytest.raises(SourceError, match="cannot name a unit"):
        open_rows(spark.sql("SELECT array(1) AS who, 1 AS v")).limit("who", max_rows=1)
    table = pa.table({"who": text_array(WORDS, pa.string()), "v": range(len(WORDS))})
    pq.write_table(table, tmp_path / "t.parquet")
    check(lambda: spark.read.parquet(str(tmp_path / "t.parquet")), WORDS)
