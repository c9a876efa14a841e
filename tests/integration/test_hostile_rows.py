"""One hostile row more changes one count by at most one: not whether a run succeeds, and nothing that is printed."""

import codecs
import gzip
import logging
import math
import sys
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from functools import cache, partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pytest

from dpcube.core.domain import Category, Date, Domain, Float, Integer
from dpcube.core.errors import SourceError
from dpcube.core.sources import CsvDialect, Rows, open_rows
from dpcube.core.sources.aggregates import run_in_duckdb

SECRET = "Zebulon"
AGE = Integer(name="age", min=0, max=99, null="cell", unknown="cell", outside="cell", infinite="cell", nan="cell")
DOSE = Float(
    name="dose", min=0, max=1, width=0.1, null="cell", unknown="cell", outside="clip", infinite="clip", nan="cell"
)
WARD = Category(name="ward", values=("north", "south"), null="cell", unknown="cell")
SEEN = Date(
    name="seen",
    start=date(2025, 1, 1),
    end=date(2026, 12, 31),
    every="month",
    null="cell",
    unknown="cell",
    outside="clip",
)
KEPT = {attribute.name: attribute for attribute in (AGE, DOSE, WARD, SEEN)}  # which keep every row
DROPPED = Domain(
    (Integer(name="age", min=10, max=50), Date(name="seen", start=date(2025, 3, 1), end=date(2025, 9, 30)))
)


@pytest.fixture(autouse=True)
def silence(capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> Any:
    """Nothing is printed or logged, by Python or by the engine."""
    caplog.set_level(logging.DEBUG)
    yield
    printed = capfd.readouterr()
    assert printed.out == ""
    assert printed.err == ""
    assert not caplog.records


def everything(rows: Rows) -> list[np.ndarray]:
    """Return the answers to every kind of question."""
    part = rows.restrict(DROPPED["age"], [0, 5, 7]).restrict(WARD, [0, 3])
    return [
        rows.count_cells(Domain((AGE, WARD))),
        rows.count_cells(Domain((DOSE, SEEN))),
        part.count_cells(DROPPED),
    ]


def check_one_more(before: list[np.ndarray], after: list[np.ndarray], *, rows: int = 1) -> None:
    for less, more in zip(before, after, strict=True):
        assert np.abs(more - less).sum() <= rows


# CSV: a line of any bytes.

LINES = [
    f"{age},{age / 100},{ward},2025-{1 + age % 12:02}-01,x" for age in range(0, 100, 3) for ward in ("north", "else")
]
HEADER = "age,dose,ward,seen,note"
HOSTILE_LINES: dict[str, bytes] = {
    "too few fields": b"1,Zebulon",
    "too many fields": b"1,0.1,north,2025-01-01,Zebulon,Zebulon,,",
    "empty": b"",
    "spaces": b"   ",
    "delimiters": b",,,,",
    "open quote": b'1,0.1,north,2025-01-01,"Zebulon',
    "open quote first": b'"1,0.1,north,2025-01-01,Zebulon',
    "only a quote": b'"',
    "three quotes": b'1,0.1,"north"",2025-01-01,Zebulon',
    "text after a quote": b'1,0.1,"north"Zebulon,2025-01-01,x',
    "quote in a field": b'1,0.1,nor"th,2025-01-01,Zebulon',
    "quotes in all fields": b'1",0.1",north",2025-01-01",Zeb"ulon',
    "backslash": b"1,0.1,north,2025-01-01,Zebulon\\",
    "not utf-8": b"1,0.1,\xff\xfe,2025-01-01,Zebulon\xc3",
    "half a character": b"1,0.1,north,2025-01-01,Zebulon\xe2\x82",
    "surrogate": b"1,0.1,\xed\xa0\x80,2025-01-01,Zebulon",
    "nul": b"1,0.1,no\0rth,2025-01-01,Zebulon\0",
    "only nul": b"\0",
    "lone cr": b"1,0.1,north\r,2025-01-01,Zebulon\rZebulon",
    "crs at the end": b"1,0.1,north,2025-01-01,Zebulon\r\r\r",
    "byte order mark": b"\xef\xbb\xbf1,0.1,north,2025-01-01,Zebulon",
    "other separators": "1,0.1,north,2025-01-01,Zebulon\u2028\u2029\x85\x0b\x0c\x1c".encode(),
    "comment": b"# Zebulon",
    "header again": HEADER.encode(),
    "long": b"1,0.1,north,2025-01-01," + b"Zebulon" * 1_500_000,
    "long in quotes": b'1,0.1,north,2025-01-01,"' + b'""' * 400_000 + b'"',
    "long of quotes": b'"' * 1_000_001,
    "many fields": b"," * 500_000,
    "huge integer": b"99999999999999999999999,0.1,north,2025-01-01,x",
    "many digits": b"9" * 100_000 + b",0.1,north,2025-01-01,x",
    "huge exponent": b"1e400,-1e99999999999999999999,north,2025-01-01,x",
    "tiny exponent": b"1e-400,1e-99999999999,north,2025-01-01,x",
    "hexadecimal": b"0x1F,0x1p-3,north,2025-01-01,x",
    "not a number": b" nan ,-NaN,north,2025-01-01,x",
    "infinity": "∞,-Infinity,north,infinity,x".encode(),
    "other digits": "\u0661,\u0660.5,north,\uff12025-01-01,x".encode(),
    "grouped digits": b"1_0,1__0,north,2025-01-01,x",
    "text for numbers": b"Zebulon,Zebulon,Zebulon,Zebulon,Zebulon",
    "day zero": b"1,0.1,north,0000-00-00,x",
    "last day": b"1,0.1,north,5874898-01-01,x",
    "no such day": b"1,0.1,north,2025-02-30,x",
    "before Christ": b"1,0.1,north,-001-01-01,x",
    "sql": b"1); DROP TABLE stream; --,0.1,'); SELECT error('Zebulon'); --,2025-01-01,x",
    "format": b"{0.__class__},%s%n,${ward},2025-01-01,x",
}


BOTH = Domain((AGE, WARD))
PLAIN_ANSWERS: dict[bytes, list[np.ndarray]] = {}


@pytest.mark.parametrize("kind", HOSTILE_LINES)
def test_a_line_of_any_bytes(kind: str, tmp_path: Path) -> None:
    number = list(HOSTILE_LINES).index(kind)
    end = (b"\n", b"\r\n")[number % 2]
    lines = [line.encode() for line in LINES]
    place = (0, 20, len(lines))[number % 3]
    hostile = [*lines[:place], HOSTILE_LINES[kind], *lines[place:]]

    def answers(lines: list[bytes]) -> list[np.ndarray]:
        (tmp_path / "t.csv").write_bytes(end.join([HEADER.encode(), *lines, b""]))
        return everything(open_rows(tmp_path / "t.csv"))

    if end not in PLAIN_ANSWERS:
        PLAIN_ANSWERS[end] = answers(lines)
    check_one_more(PLAIN_ANSWERS[end], answers(hostile))


def test_all_these_lines_at_once(tmp_path: Path) -> None:
    names = tuple(HEADER.split(","))
    short = [line for line in HOSTILE_LINES.values() if len(line) < 2**20 and not line.startswith(codecs.BOM_UTF8)]
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"\n".join(short), 1))
    one_by_one = []
    for line in short:
        (tmp_path / "one.csv").write_bytes(line)
        rows = open_rows(tmp_path / "one.csv", csv=CsvDialect(header=False, columns=names))
        one_by_one.append(rows.count_cells(BOTH))
        assert one_by_one[-1].sum() <= 1
    rows = open_rows(tmp_path / "t.csv.gz", csv=CsvDialect(header=False, columns=names))
    np.testing.assert_array_equal(rows.count_cells(Domain((AGE, WARD))), sum(one_by_one))


def test_hostile_lines_with_closed_quotes_are_one_row_when_fields_may_hold_lines(tmp_path: Path) -> None:
    hostile = [line for line in HOSTILE_LINES.values() if line.count(b'"') % 2 == 0 and len(line) < 2**20]
    dialect = CsvDialect(multiline=True)
    answers = []
    for lines in ([], hostile):
        (tmp_path / "t.csv").write_bytes(
            b"\n".join([HEADER.encode(), *map(str.encode, LINES), *lines, *map(str.encode, LINES)])
        )
        answers.append(everything(open_rows(tmp_path / "t.csv", csv=dialect)))
    check_one_more(*answers, rows=len(hostile))


def test_what_happens_to_some_hostile_lines(tmp_path: Path) -> None:
    def cells(line: bytes, domain: Domain) -> list[list[int]]:
        (tmp_path / "t.csv").write_bytes(HEADER.encode() + b"\n" + line + b"\n")
        return np.argwhere(open_rows(tmp_path / "t.csv").count_cells(domain)).tolist()

    own = {kind: AGE.bins + i for i, kind in enumerate(AGE.own_cells)}
    assert cells(HOSTILE_LINES["too few fields"], BOTH) == []
    assert cells(HOSTILE_LINES["open quote"], BOTH) == []
    assert cells(HOSTILE_LINES["long"], BOTH) == []
    assert cells(HOSTILE_LINES["delimiters"], BOTH) == [[own["null"], 2]]
    assert cells(HOSTILE_LINES["not utf-8"], BOTH) == [[1, 3]]
    assert cells(HOSTILE_LINES["huge integer"], BOTH) == [[own["outside"], 0]]
    assert cells(HOSTILE_LINES["huge exponent"], BOTH) == [[own["infinite"], 0]]
    assert cells(HOSTILE_LINES["not a number"], BOTH) == [[own["nan"], 0]]
    assert cells(HOSTILE_LINES["hexadecimal"], BOTH) == [[own["unknown"], 0]]
    assert cells(HOSTILE_LINES["day zero"], Domain((SEEN,))) == [[25]]
    assert cells(HOSTILE_LINES["last day"], Domain((SEEN,))) == [[25]]


def test_a_line_too_long_for_memory_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpcube.core.sources.csv.BLOCK", 2**12)
    monkeypatch.setattr("dpcube.core.sources.csv.MAX_LINE", 2**10)
    for quotes in (b'""', b'"a\nb"'):
        long = b"1,0.1,north,2025-01-01," + quotes * 2**14
        content = b"\n".join([HEADER.encode(), LINES[0].encode(), long, LINES[1].encode()])
        (tmp_path / "t.csv").write_bytes(content)
        for multiline in (False, True):
            counts = open_rows(tmp_path / "t.csv", csv=CsvDialect(multiline=multiline)).count_cells(BOTH)
            assert counts.sum() == 2


def test_the_engine_s_own_reader_would_fail_and_quote_the_row(tmp_path: Path) -> None:
    """The reason for all this, and a proof that these rows are hostile."""
    (tmp_path / "t.csv").write_bytes(b"age,note\n1,x\n1,Zebulon,Zebulon\n")
    declared = "auto_detect = false, header = true, columns = {'age': 'VARCHAR', 'note': 'VARCHAR'}"
    with duckdb.connect() as connection, pytest.raises(duckdb.Error, match=SECRET):
        connection.execute(f"SELECT TRY_CAST(age AS INTEGER) FROM read_csv('{tmp_path}/t.csv', {declared})").fetchall()
    pq.write_table(pa.table({"ward": invalid_text()}), tmp_path / "t.parquet")
    with duckdb.connect() as connection, pytest.raises(duckdb.Error, match=SECRET):
        connection.execute(f"SELECT ward FROM read_parquet('{tmp_path}/t.parquet')").fetchall()


def test_the_engine_s_own_reader_would_lose_other_rows_if_told_to_pass_over_errors(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"\n".join([b"age,note", *[b"1,x"] * 20, b'1,"Zebulon', *[b"1,x"] * 30, b""]))
    lenient = (
        "auto_detect = false, header = true, ignore_errors = true, strict_mode = false, quote = '\"', escape = '\"'"
    )
    columns = "columns = {'age': 'VARCHAR', 'note': 'VARCHAR'}"
    with duckdb.connect() as connection:
        found = connection.execute(
            f"SELECT count(*) FROM read_csv('{tmp_path}/t.csv', {columns}, {lenient})"
        ).fetchall()
    assert found[0][0] < 50
    assert open_rows(tmp_path / "t.csv").count() == 50


# Arrow and Parquet: a value of any bits.


def invalid_text(type_: pa.DataType | None = None) -> pa.Array:
    raw = pa.array([b"Zebulon\xff\xfe"], pa.large_binary() if type_ == pa.large_string() else pa.binary())
    return raw.view(type_ or pa.string())


def bits(values: list[int], type_: pa.DataType) -> pa.Array:
    return pa.array(values, pa.int32() if type_ == pa.date32() else pa.int64()).view(type_)


EXTREMES = [2**63 - 1, -(2**63), -(2**63) + 1, 2**62, 10**15, -(10**15)]
MOMENTS = (
    pa.date64(),
    *(pa.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in (None, "Asia/Tokyo")),
)
HOSTILE_VALUES: dict[str, tuple[str, Callable[[], pa.Array]]] = {
    "text not utf-8": ("ward", invalid_text),
    "large text not utf-8": ("ward", lambda: invalid_text(pa.large_string())),
    "dictionary not utf-8": ("ward", lambda: pa.DictionaryArray.from_arrays(pa.array([0]), invalid_text())),
    "number not utf-8": ("age", invalid_text),
    "date not utf-8": ("seen", invalid_text),
    "nul in text": ("ward", lambda: pa.array(["no\0rth"])),
    "long text": ("ward", lambda: pa.array([SECRET * 1_500_000])),
    "long number": ("age", lambda: pa.array(["9" * 1_000_000])),
    "least integer": ("age", lambda: pa.array([-(2**63)])),
    "greatest integer": ("age", lambda: pa.array([2**63 - 1])),
    "greatest unsigned": ("age", lambda: pa.array([2**64 - 1], pa.uint64())),
    "nan": ("dose", lambda: pa.array([math.nan])),
    "infinity": ("dose", lambda: pa.array([-math.inf])),
    "greatest double": ("dose", lambda: pa.array([sys.float_info.max])),
    "least double": ("dose", lambda: pa.array([5e-324])),
    "nan with a load": ("dose", lambda: pa.array([-(2**52) + 5]).view(pa.float64())),
    "half a nan": ("dose", lambda: pa.array(np.array([math.nan], np.float16))),
    "wide decimal": ("age", lambda: pa.array([Decimal(10) ** 37], pa.decimal128(38, 0))),
    "decimal beyond its type": (
        "age",
        lambda: pa.Array.from_buffers(pa.decimal128(25, 2), 1, [None, pa.py_buffer(b"\xff" * 15 + b"\x7f")]),
    ),
    "days": ("seen", lambda: bits([2**31 - 1, -(2**31), -(2**31) + 1, 2**31 - 2], pa.date32())),
    **{str(type_): ("seen", partial(bits, EXTREMES, type_)) for type_ in MOMENTS},
}


def plain_table() -> pa.Table:
    ages = list(range(0, 100, 3))
    seen = [date(2025, 1 + age % 12, 1) for age in ages]
    wards = ["north", "else", "south"] * 11 + ["south"]
    return pa.table({"age": ages, "dose": [age / 100 for age in ages], "ward": wards, "seen": seen})


def with_values(column: str, values: pa.Array) -> tuple[pa.Table, pa.Table]:
    """Return the plain table, its column cast to the type of the values, without and with rows that hold them."""
    plain = plain_table()
    type_ = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
    cast = plain[column].cast(pa.string()) if pa.types.is_string(type_) else plain[column]
    cast = cast.cast(type_, safe=False)
    if pa.types.is_dictionary(values.type):
        cast = cast.dictionary_encode().cast(values.type)
    plain = plain.set_column(plain.column_names.index(column), column, cast)
    rows = plain[: len(values)].set_column(plain.column_names.index(column), column, values)
    return plain, pa.concat_tables([plain[:5], rows, plain[5:]])


def ask(source: Any, column: str) -> list[np.ndarray]:
    rows = open_rows(source)
    answers = [rows.count_cells(Domain((KEPT[column],)))]
    if not isinstance(source, pa.RecordBatchReader):
        answers.append(rows.restrict(KEPT[column], [0, 1]).count_cells(Domain((KEPT["ward"], KEPT["seen"]))))
    return answers


@pytest.mark.parametrize("kind", HOSTILE_VALUES)
def test_a_value_of_any_bits(kind: str, tmp_path: Path) -> None:
    column, make = HOSTILE_VALUES[kind]
    values = make()
    plain, hostile = with_values(column, values)
    before = ask(plain, column)
    assert before[0].sum() == len(plain)
    ways: list[Any] = [hostile, hostile.to_reader()]
    try:
        pq.write_table(hostile, tmp_path / "t.parquet")
        ways.append(tmp_path / "t.parquet")
        if not pa.types.is_dictionary(values.type):
            ways.append(pads.dataset(tmp_path / "t.parquet"))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        assert column in ("age", "seen")  # Arrow itself refuses to write some dates and decimals
    for way in ways:
        after = ask(way, column)
        check_one_more(before[: len(after)], after, rows=len(values))
        assert after[0].sum() == len(hostile)


def test_a_dataset_s_dictionary_is_refused_whatever_its_rows(tmp_path: Path) -> None:
    for table in with_values(*(part() if callable(part) else part for part in HOSTILE_VALUES["dictionary not utf-8"])):
        pq.write_table(table, tmp_path / "t.parquet")
        with pytest.raises(SourceError, match="'ward' as a dictionary, which fails on some text; pass the path"):
            open_rows(pads.dataset(tmp_path / "t.parquet")).count_cells(BOTH)


@pytest.mark.parametrize("name", ["t.parquet", "t[1].parquet"])
def test_hostile_text_beside_hostile_times_in_a_file(name: str, tmp_path: Path) -> None:
    column = pa.DictionaryArray.from_arrays(
        pa.array([0, 1, None]), pa.concat_arrays([invalid_text(), pa.array(["north"])])
    )
    table = pa.table({"ward": column, "seen": bits([2**63 - 1, 0, -(2**63)], pa.timestamp("ms"))})
    pq.write_table(table, tmp_path / name)
    counts = open_rows(tmp_path / name).count_cells(Domain((WARD, SEEN)))
    assert np.argwhere(counts).tolist() == [[0, 0], [2, 0], [3, 23]]


# pandas and Polars: an object of any kind.


class Hostile:
    """An object that fails whatever is done with it, and tells."""

    def __str__(self) -> str:
        raise RuntimeError(SECRET)

    __repr__ = __len__ = __iter__ = __float__ = __int__ = __str__


class HostileText(str):
    __slots__ = ()

    def __str__(self) -> str:
        raise RuntimeError(SECRET)


OBJECTS: dict[str, Any] = {
    "none": None,
    "nan": math.nan,
    "na": pd.NA,
    "nat": pd.NaT,
    "text": SECRET,
    "surrogate": "Zebulon\ud800",
    "bytes": b"Zebulon\xff",
    "huge integer": 10**30,
    "integer too long for text": 10**5000,
    "boolean": True,
    "complex": 1j,
    "decimal": Decimal("1e-999"),
    "signalling decimal": Decimal("Infinity"),
    "list": [SECRET],
    "array": np.array([1, 2]),
    "dict": {SECRET: SECRET},
    "first moment elsewhere": datetime.min.replace(tzinfo=timezone(timedelta(hours=14))),
    "moment": datetime(2025, 5, 5, tzinfo=UTC),
    "day": date.max,
    "hostile": Hostile(),
    "hostile text": HostileText(SECRET),
    "type": int,
}


@cache
def plain_objects() -> tuple[pd.DataFrame, list[np.ndarray]]:
    plain = plain_table().to_pandas().astype(object)
    return plain, everything(open_rows(plain))


@pytest.mark.parametrize("kind", OBJECTS)
def test_an_object_of_any_kind_in_pandas(kind: str) -> None:
    plain, before = plain_objects()
    place = 11 * (list(OBJECTS).index(kind) % 4)
    extra = pd.DataFrame({name: pd.Series([OBJECTS[kind]], dtype=object) for name in plain.columns})
    after = everything(open_rows(pd.concat([plain[:place], extra, plain[place:]])))
    check_one_more(before, after)
    assert after[0].sum() == before[0].sum() + 1


def test_a_category_of_any_kind_in_pandas() -> None:
    plain = pd.Series(["north", "south", None], dtype="category")
    mixed = pd.Series(["north", "south", None, 7, ("Zebulon",)], dtype=object).astype("category")
    for series, expected in ((plain, [1, 1, 1, 0]), (mixed, [1, 1, 1, 2])):
        assert open_rows(pd.DataFrame({"ward": series})).count_cells(Domain((WARD,))).tolist() == expected


def test_text_with_a_surrogate_in_pandas() -> None:
    series = pd.Series(pd.array(["north", None], dtype=pd.StringDtype("python")))
    hostile = pd.Series(pd.array(["north", None, "Zebulon\ud800"], dtype=pd.StringDtype("python")))
    for text, expected in ((series, [1, 0, 1, 0]), (hostile, [1, 0, 1, 1])):
        assert open_rows(pd.DataFrame({"ward": text})).count_cells(Domain((WARD,))).tolist() == expected


@pytest.mark.parametrize(
    ("column", "value", "dtype"),
    [
        ("age", -(2**63), pl.Int64),
        ("age", 2**64 - 1, pl.UInt64),
        ("dose", math.nan, pl.Float64),
        ("dose", math.inf, pl.Float32),
        ("ward", "no\0rth" + SECRET, pl.String),
        ("ward", SECRET * 100_000, pl.String),
        ("ward", SECRET, pl.Categorical),
        ("age", SECRET, pl.String),
        ("seen", "0000-00-00", pl.String),
        ("seen", datetime(9999, 12, 31, 23, 59, 59), pl.Datetime("us", "Asia/Tokyo")),
        ("seen", date(1, 1, 1), pl.Date),
        ("age", Decimal("9" * 30), pl.Decimal(38, 2)),
    ],
)
def test_a_value_of_any_kind_in_polars(column: str, value: Any, dtype: Any) -> None:
    plain = pl.DataFrame(pl.from_arrow(plain_table()))
    plain = plain.with_columns(plain[column].cast(dtype))
    extra = plain[:1].with_columns(pl.Series(column, [value], dtype=dtype))
    frames = (plain, pl.concat([plain[:3], extra, plain[3:]]))
    check_one_more(*(ask(frame, column) for frame in frames))


def test_a_lazy_frame_that_fails_on_a_row_fails_in_our_words() -> None:
    frame = pl.LazyFrame({"age": ["1", SECRET]}).with_columns(pl.col("age").cast(pl.Int64, strict=True))
    with pytest.raises(SourceError, match="could not be read to its end") as raised:
        open_rows(frame).count_cells(Domain((AGE,)))
    assert raised.value.__cause__ is None
    assert raised.value.__context__ is None
    assert SECRET not in str(raised.value)


# A file that is damaged fails, in words of our own.


@pytest.mark.parametrize("kind", ["parquet", "gz", "zst"])
def test_a_damaged_file_fails_without_a_word_of_its_rows(kind: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    names = [f"{SECRET}{i}" for i in rng.integers(0, 10**9, 200_000)]
    if kind == "parquet":
        path = tmp_path / "t.parquet"
        pq.write_table(pa.table({"ward": names}), path, use_dictionary=False)
    else:
        path = tmp_path / f"t.csv.{kind}"
        with pa.output_stream(str(path), compression="gzip" if kind == "gz" else "zstd") as stream:
            stream.write("\n".join(["ward", *names]).encode())
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 2000] = b"\xff" * 2000
    path.write_bytes(content)
    rows = open_rows(path)
    with pytest.raises(SourceError, match="could not be read to its end; check that it is complete") as raised:
        rows.count_cells(Domain((WARD,)))
    assert raised.value.__cause__ is None
    assert raised.value.__context__ is None
    assert SECRET not in str(raised.value)


def test_the_engine_can_open_no_other_file(tmp_path: Path) -> None:
    """A restriction that no row can lift: the connection is locked before it reads."""
    pq.write_table(pa.table({"age": [1]}), tmp_path / "t.parquet")
    pq.write_table(pa.table({"age": [1]}), tmp_path / "other.parquet")
    rows = open_rows(tmp_path / "t.parquet")
    scan = next(iter(rows._selected.table.scans([0], None)))
    assert run_in_duckdb(scan, f"SELECT count(*) AS n FROM read_parquet('{tmp_path}/t.parquet')")["n"][0] == 1
    for sql in (
        f"SELECT * FROM read_parquet('{tmp_path}/other.parquet')",
        f"SELECT * FROM read_csv('{tmp_path}/other.csv')",
        f"COPY (SELECT 1) TO '{tmp_path}/out.csv'",
        f"ATTACH '{tmp_path}/out.db'",
        "INSTALL httpfs",
        "SET enable_external_access = true",
        "SELECT * FROM rows",
    ):
        with pytest.raises(duckdb.Error):
            run_in_duckdb(scan, sql)


@pytest.mark.parametrize(
    "type_", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]
)
def test_text_of_megabytes_is_unknown(type_: pa.DataType) -> None:
    long = pa.array(["ab" * 2**20, "north", "\u00e9" * 2**20 + "x"])
    column = long.dictionary_encode().cast(type_) if pa.types.is_dictionary(type_) else long.cast(type_)
    ward = Category(name="ward", values=("north",), unknown="cell")
    assert open_rows(pa.table({"ward": column})).count_cells(Domain((ward,))).tolist() == [1, 2]
    cut = Category(name="ward", values=("\u00e9" * 2**20,), unknown="cell")
    assert open_rows(pa.table({"ward": column})).count_cells(Domain((cut,))).tolist() == [1, 2]
